"""Record and replace what the modules of a shared network compute: for one call, and in its own thread only."""

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, copy_context
from types import MappingProxyType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from fresh.errors import EncoderError

Result = TypeVar("Result")
Intercepts = Mapping[nn.Module, Callable[[Tensor], Tensor]]
"""For each module, the function that its output, the first of its outputs, or each of its inputs goes through."""

# Name under which transformers knows attention whose weights can be recorded.
RECORDABLE = "fresh_recordable"

_intercepts: ContextVar[Intercepts] = ContextVar("intercepts")
_input_intercepts: ContextVar[Intercepts] = ContextVar("input_intercepts")
_recorders: ContextVar[Intercepts] = ContextVar("recorders")
_installing = threading.Lock()


def call_intercepted(
    function: Callable[[], Result], intercepts: Intercepts, inputs: Intercepts = MappingProxyType({})
) -> Result:
    """Call a function while the outputs of some modules, and the inputs of some, are replaced."""
    # Each module gets one permanent hook, which does nothing outside such a call: it finds its function in a context
    # variable that no other thread sees and that ends with the call. An interrupt at any line leaves nothing behind.
    with _installing:
        for module in intercepts:
            # `_forward_hooks` (torch 2.6 to 2.13) also has the hook of a module that was copied.
            if _hook not in module._forward_hooks.values():
                module.register_forward_hook(_hook)
        for module in inputs:
            if _pre_hook not in module._forward_pre_hooks.values():
                module.register_forward_pre_hook(_pre_hook)

    def call() -> Result:
        _intercepts.set({**_intercepts.get({}), **intercepts})
        _input_intercepts.set({**_input_intercepts.get({}), **inputs})
        return function()

    return copy_context().run(call)


def _hook(module: nn.Module, _inputs: tuple[Any, ...], output: Any) -> Any:
    change = _intercepts.get({}).get(module)
    if change is None:
        return output
    return (change(output[0]), *output[1:]) if isinstance(output, tuple) else change(output)


def _pre_hook(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    change = _input_intercepts.get({}).get(module)
    return inputs if change is None else tuple(map(change, inputs))


def make_recordable(model: PreTrainedModel) -> None:
    """Let an encoder attend with a function that can record its weights; one that attends eagerly stays as it is."""
    if model.config._attn_implementation == "sdpa":
        model.set_attn_implementation(RECORDABLE)


def call_recording(function: Callable[[], Result], layers: Sequence[nn.Module]) -> tuple[Result, list[Tensor]]:
    """Call a function that runs an encoder, and record the attention weights of some of its layers.

    :return: The result of the function, and the weights of each layer, by which outputs can be differentiated.
        Shape: (batch, heads, tokens, tokens).
    """
    recorded: dict[nn.Module, Tensor] = {}

    def record(layer: nn.Module, output: Tensor) -> Tensor:
        if output.dim() == 4 and output.shape[-1] == output.shape[-2]:
            recorded[layer] = output
        return output

    recorders = {module: functools.partial(record, layer) for layer in layers for module in layer.modules()}
    # Encoders that do not go through transformers' attention interface, such as MPNet and DeBERTa, attend eagerly:
    # their weights pass through a dropout module, which does nothing in evaluation mode.
    dropouts: Intercepts = {module: recorders[module] for module in recorders if isinstance(module, nn.Dropout)}

    def call() -> Result:
        _recorders.set(recorders)
        return call_intercepted(function, dropouts)

    result = copy_context().run(call)
    if len(recorded) < len(set(layers)):
        raise EncoderError(
            "This encoder does not expose its attention weights. Choose a scorer that reads no layer, such as "
            "integrated_gradients."
        )
    return result, [recorded[layer] for layer in layers]


def is_recorded(module: nn.Module) -> bool:
    """Whether the weights of an attention module are recorded in this call."""
    return module in _recorders.get({})


def attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **settings: Any
) -> tuple[Tensor, Tensor | None]:
    """Attend as transformers' function for SDPA does, or step by step where weights are recorded.

    :param query: Shape: (batch, heads, tokens, size); the output has the shape (batch, tokens, heads, size).
    :param attention_mask: False where a token must not attend to another. Shape: (batch, 1, tokens, tokens).
    """
    record = _recorders.get({}).get(module)
    if record is None:
        rows = query.shape[2]
        if rows > 1 and query.stride(2) == 0:
            # One row, expanded (see `Classifier._encode_start`): every row attends as the first one does.
            query = query[:, :, :1]
            attention_mask = None if attention_mask is None else attention_mask[:, :, :1]
        context, weights = AttentionInterface()["sdpa"](module, query, key, value, attention_mask, **settings)
        return context.expand(-1, rows, -1, -1), weights
    is_causal, scaling = settings.get("is_causal"), settings.get("scaling")
    if attention_mask is None and (getattr(module, "is_causal", True) if is_causal is None else is_causal):
        attention_mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()
    n_sharing = query.shape[1] // key.shape[1]  # heads that share keys and values
    key, value = key.repeat_interleave(n_sharing, 1), value.repeat_interleave(n_sharing, 1)
    scores = query @ key.mT
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))  # 16 bits would let weights of words tie
    scores = scores * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if attention_mask is not None:
        # The lowest number, not minus infinity: a row that may attend to nothing must not become NaN.
        scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
    weights = record(scores.softmax(-1))  # (batch, heads, tokens, tokens)
    context = functional.dropout(weights, settings.get("dropout", 0.0)).to(value.dtype) @ value
    return context.transpose(1, 2).contiguous(), weights


AttentionInterface.register(RECORDABLE, attend)
AttentionMaskInterface.register(RECORDABLE, sdpa_mask)

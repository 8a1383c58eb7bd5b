"""How encoders attend: with torch's fused kernel, with recorded weights, or without padding in training on a GPU."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from fresh.errors import EncoderError
from fresh.nn.device import is_out_of_memory, without_cudnn_attention
from fresh.nn.intercept import call_intercepted

Result = TypeVar("Result")

RECORDABLE = "fresh_recordable"
"""Name under which transformers knows attention whose weights can be recorded."""
UNPADDED = "fresh_unpadded"
"""Name under which transformers knows attention that spends nothing on padding."""
UNPADDED_MODELS = ("bert", "distilbert", "electra", "roberta")
"""Kinds of encoders that leave attention to a function and attend to the whole text in every layer."""

_recordings: ContextVar[Mapping[nn.Module, Callable[[Tensor], None]]] = ContextVar("recordings")
_proven: dict[tuple[torch.device, torch.dtype, int], bool] = {}
"""Whether the kernel for unpadded attention works, by device, precision and size of heads."""


def make_recordable(model: PreTrainedModel) -> None:
    """Let an encoder attend with a function that can record its weights; one that attends eagerly stays as it is."""
    if model.config._attn_implementation == "sdpa":
        model.set_attn_implementation(RECORDABLE)


def call_recording(function: Callable[[], Result], layers: Sequence[nn.Module]) -> tuple[Result, list[Tensor]]:
    """Call a function that runs an encoder, and record the attention weights of some of its layers.

    What is recorded is part of the computation, so that outputs can be differentiated by it. As with
    `call_intercepted`, only this thread records, and only during the call.

    :return: What the function returns, and the weights of each layer. Shape: (batch, heads, tokens, tokens).
    """
    recorded: dict[nn.Module, Tensor] = {}
    recordings: dict[nn.Module, Callable[[Tensor], None]] = {}
    intercepts: dict[nn.Module, Callable[[tuple[Any, ...], Any], Any]] = {}

    def record_in(layer: nn.Module) -> None:
        def record(weights: Tensor) -> None:
            recorded[layer] = weights

        def intercept(_inputs: tuple[Any, ...], output: Any) -> Any:
            if output.dim() == 4 and output.shape[-1] == output.shape[-2]:
                record(output)
            return output

        for module in layer.modules():
            recordings[module] = record
            # Encoders that do not go through transformers' attention interface, such as MPNet and DeBERTa, attend
            # eagerly: their weights pass through a dropout module, which does nothing in evaluation mode.
            if isinstance(module, nn.Dropout):
                intercepts[module] = intercept

    for layer in layers:
        record_in(layer)

    def call() -> Result:
        _recordings.set(recordings)
        return call_intercepted(function, intercepts)

    result = copy_context().run(call)
    if len(recorded) < len(set(layers)):
        raise EncoderError(
            "This encoder does not expose its attention weights. Choose a scorer that reads no layer, such as "
            "integrated_gradients."
        )
    return result, [recorded[layer] for layer in layers]


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **settings: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attend as transformers' own function for SDPA does, or step by step where weights are recorded.

    :param query: Shape: (batch, heads, tokens, size); the output has the shape (batch, tokens, heads, size).
    :param attention_mask: False where a token must not attend to another. Shape: (batch, 1, tokens, tokens).
    """
    record = _recordings.get({}).get(module)
    if record is None:
        fused = AttentionInterface()["sdpa"]
        return fused(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **settings)  # type: ignore[no-any-return]
    is_causal = settings.get("is_causal")
    if attention_mask is None and (getattr(module, "is_causal", True) if is_causal is None else is_causal):
        attention_mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()
    return _attend_explicitly(query, key, value, attention_mask, dropout, scaling, record)


def _attend_explicitly(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout: float,
    scaling: float | None,
    record: Callable[[Tensor], None],
) -> tuple[Tensor, Tensor]:
    n_sharing = query.shape[1] // key.shape[1]  # heads that share keys and values
    key, value = key.repeat_interleave(n_sharing, 1), value.repeat_interleave(n_sharing, 1)
    scores = query @ key.mT
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))  # 16 bits would let weights of words tie
    scores = scores * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if mask is not None:
        # The lowest number, not minus infinity: a row that may attend to nothing must not become NaN.
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)  # (batch, heads, tokens, tokens)
    record(weights)
    context = functional.dropout(weights, dropout).to(value.dtype) @ value
    return context.transpose(1, 2).contiguous(), weights


# Without padding: kernels that take a mask are slower than those that take none. All texts of a batch stand in one row,
# each a sequence of its own, and so is the padding after it, which keeps the shape the same for CUDA graphs.


@contextmanager
def without_padding(network: nn.Module, wanted: bool = True) -> Iterator[None]:
    """Let the encoders of a network that can do so attend without padding, for as long as the block lasts."""
    bodies = [body for body in network.modules() if wanted and isinstance(body, PreTrainedModel)]
    changed = [(body, body.config._attn_implementation) for body in bodies if _can_be_unpadded(body)]
    for body, _ in changed:
        if body.device.type == "cuda":  # now, since the kernel cannot be tried while a step is captured
            _is_proven(body.device, torch.bfloat16, body.config.hidden_size // body.config.num_attention_heads)
    try:
        for body, _ in changed:
            body.config._attn_implementation = UNPADDED
        yield
    finally:
        for body, before in changed:
            body.config._attn_implementation = before


def _can_be_unpadded(body: PreTrainedModel) -> bool:
    config = body.config
    attends_everywhere = config.model_type in UNPADDED_MODELS and not getattr(config, "is_decoder", False)
    return attends_everywhere and config._attn_implementation in ("sdpa", RECORDABLE)


def _attend_unpadded(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **_settings: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attend within each text. Shapes: (batch, heads, tokens, size) to (batch, tokens, heads, size).

    :param attention_mask: Where sequences end, as `_sequence_ends` says; None without padding.
    """
    record = _recordings.get({}).get(module)
    if record is not None:
        mask = None if attention_mask is None else _mask_of(attention_mask, query.shape[2])[:, None, None]
        return _attend_explicitly(query, key, value, mask, dropout, scaling, record)
    attend = _attend_varlen if attention_mask is not None and _has_varlen_kernel(query) else _attend_masked
    return attend(query, key, value, attention_mask, dropout, scaling), None


def _attend_varlen(
    query: Tensor, key: Tensor, value: Tensor, ends: Tensor | None, dropout: float, scaling: float | None
) -> Tensor:
    """Attend within sequences that stand in one row."""
    width = query.shape[2]
    rows = (values.transpose(1, 2).flatten(0, 1) for values in (query, key, value))
    # An operator of torch 2.6 to 2.13 that is not documented: cumulative lengths and longest sequence of queries and
    # keys, dropout, causal, debug mask. `_is_right` tries it before use.
    out: Tensor = torch.ops.aten._flash_attention_forward(
        *rows, ends, ends, width, width, dropout, False, False, scale=scaling
    )[0]
    return out.view(-1, width, *out.shape[1:])


def _attend_masked(
    query: Tensor, key: Tensor, value: Tensor, ends: Tensor | None, dropout: float, scaling: float | None
) -> Tensor:
    mask = None if ends is None else _mask_of(ends, query.shape[2])[:, None, None]
    out = functional.scaled_dot_product_attention(query, key, value, mask, dropout, scale=scaling)
    return out.transpose(1, 2).contiguous()


def _has_varlen_kernel(query: Tensor) -> bool:
    if not query.is_cuda or query.dtype not in (torch.float16, torch.bfloat16):
        return False
    return _is_proven(query.device, query.dtype, query.shape[-1])


def _is_proven(device: torch.device, dtype: torch.dtype, size: int) -> bool:
    """Whether the kernel works; it is tried once."""
    kind = device, dtype, size
    if kind not in _proven:
        _proven[kind] = size % 8 == 0 and _is_right(*kind)
    return _proven[kind]


def _is_right(device: torch.device, dtype: torch.dtype, size: int) -> bool:
    """Try the kernel on a few tokens, forward and backward: it must give what a mask gives."""
    width, mask = 8, torch.tensor([[1] * 5 + [0] * 3, [1] * 8], device=device)
    numbers = torch.linspace(-1, 1, 3 * 2 * width * size, device=device).sin().to(dtype)
    query, key, value = parts = [part.view(2, 1, width, size).requires_grad_() for part in numbers.chunk(3)]
    ends = _sequence_ends(attention_mask=mask)
    results: list[list[Tensor]] = []
    try:
        with without_cudnn_attention(), torch.enable_grad(), torch.autocast(device.type, enabled=False):
            for attend in (_attend_varlen, _attend_masked):
                out = attend(query, key, value, ends, 0.0, None).float() * mask[:, :, None, None]
                results.append([out, *torch.autograd.grad(out.square().sum(), parts)])
    except (RuntimeError, AttributeError, TypeError) as error:
        if is_out_of_memory(error):  # a full GPU says nothing about its kernels
            raise
        return False
    return all(torch.allclose(one.float(), other.float(), 0.05, 0.05) for one, other in zip(*results, strict=True))


def _sequence_ends(*_arguments: Any, attention_mask: Tensor | None = None, **_settings: Any) -> Tensor | None:
    """List where sequences end if all texts stand in one row: 0, then each text and its padding.

    :param attention_mask: 1 for tokens, which come first, and 0 for padding. Shape: (batch, tokens).
    """
    if attention_mask is None:
        return None
    n_texts, width = attention_mask.shape
    starts = torch.arange(n_texts, device=attention_mask.device) * width
    both = torch.stack([starts + attention_mask.sum(1), starts + width], 1).flatten()
    return functional.pad(both, (1, 0)).to(torch.int32)


def _mask_of(ends: Tensor, width: int) -> Tensor:
    """Turn ends of sequences back into a mask. Shape: (batch, tokens)."""
    lengths = ends[1::2] - ends[:-1:2]
    return torch.arange(width, device=ends.device) < lengths.unsqueeze(1)


AttentionInterface.register(RECORDABLE, _attend)
AttentionMaskInterface.register(RECORDABLE, sdpa_mask)
AttentionInterface.register(UNPADDED, _attend_unpadded)
AttentionMaskInterface.register(UNPADDED, _sequence_ends)

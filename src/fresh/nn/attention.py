"""How encoders attend: with torch's fused kernel, with recorded weights, or without padding in training on a GPU."""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, MPNetModel, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder, MPNetSelfAttention

from fresh.errors import EncoderError
from fresh.nn.device import is_out_of_memory, without_cudnn_attention
from fresh.nn.intercept import Intercepts, call_intercepted

Result = TypeVar("Result")

# Names under which transformers knows attention whose weights can be recorded, and attention without padding.
RECORDABLE = "fresh_recordable"
UNPADDED = "fresh_unpadded"
FUSED_MPNET = "fresh_mpnet"
# Encoders that leave attention to a function and attend to the whole text in every layer.
UNPADDED_MODELS = ("bert", "distilbert", "electra", "roberta")

_recorders: ContextVar[Intercepts] = ContextVar("recorders")


def make_recordable(model: PreTrainedModel) -> None:
    """Let an encoder attend with a function that can record its weights; one that attends eagerly stays as it is."""
    if model.config._attn_implementation == "sdpa":
        model.set_attn_implementation(RECORDABLE)
    if isinstance(model, MPNetModel):
        # transformers 5.0 to 5.22 makes the masks of eager attention with a copy from the CPU, and its 5.17 distances
        # too: a CUDA graph cannot capture either.
        model.config._attn_implementation = FUSED_MPNET
        for module in model.modules():
            # Classes are changed, not `forward` methods, so that copies and pickles work.
            if type(module) is MPNetEncoder:
                module.__class__ = _MPNetEncoder
            elif type(module) is MPNetSelfAttention:
                module.__class__ = _FusedMPNetAttention


class _MPNetEncoder(MPNetEncoder):  # type: ignore[misc]
    """MPNet's layers, with the bias of distances computed on the device of the text."""

    def compute_position_bias(self, hidden: Tensor, *_arguments: Any, **_settings: Any) -> Tensor:
        positions = torch.arange(hidden.shape[1], device=hidden.device)
        buckets = self.relative_position_bucket(positions - positions.unsqueeze(1))
        bias: Tensor = self.relative_attention_bias(buckets).permute(2, 0, 1)
        return bias.unsqueeze(0)  # (1, heads, tokens, tokens)


class _FusedMPNetAttention(MPNetSelfAttention):  # type: ignore[misc]
    """MPNet's attention in one kernel, except where its weights are recorded."""

    # Integrated gradients of MultiRC on an H200: 112 texts a second with it, 81 with eager attention.
    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_bias: Tensor | None = None,
        output_attentions: bool = False,
        **settings: Any,
    ) -> tuple[Tensor, ...]:
        """Attend.

        :param attention_mask: False for padding. Shape: (batch, 1, 1, tokens).
        """
        assert position_bias is not None
        query = self.q(hidden_states)
        bias = position_bias.to(query.dtype)
        if attention_mask is not None:
            # The lowest number, not minus infinity: a row that may attend to nothing must not become NaN.
            bias = bias.masked_fill(~attention_mask, torch.finfo(bias.dtype).min)
        if output_attentions or self.dropout in _recorders.get({}):
            return super().forward(hidden_states, None, bias, output_attentions, **settings)  # type: ignore[no-any-return]
        shape = (*hidden_states.shape[:-1], -1, self.attention_head_size)
        states = (part.view(shape).transpose(1, 2) for part in (query, self.k(hidden_states), self.v(hidden_states)))
        dropout = self.dropout.p if self.training else 0.0
        context = functional.scaled_dot_product_attention(*states, bias, dropout)
        return (self.o(context.transpose(1, 2).flatten(2)),)


def _make_padding_mask(*_arguments: Any, attention_mask: Tensor | None = None, **_settings: Any) -> Tensor | None:
    return None if attention_mask is None else attention_mask[:, None, None].bool()


def call_recording(function: Callable[[], Result], layers: Sequence[nn.Module]) -> tuple[Result, list[Tensor]]:
    """Call a function that runs an encoder, and record the attention weights of some of its layers.

    The weights are part of the computation, so outputs can be differentiated by them. As with `call_intercepted`, only
    this thread records, and only during the call.

    :return: The result of the function, and the weights of each layer. Shape: (batch, heads, tokens, tokens).
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


def _attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **settings: Any
) -> tuple[Tensor, Tensor | None]:
    """Attend as transformers' function for SDPA does, or step by step where weights are recorded.

    :param query: Shape: (batch, heads, tokens, size); the output has the shape (batch, tokens, heads, size).
    :param attention_mask: False where a token must not attend to another. Shape: (batch, 1, tokens, tokens).
    """
    record = _recorders.get({}).get(module)
    if record is None:
        return AttentionInterface()["sdpa"](module, query, key, value, attention_mask, **settings)  # type: ignore[no-any-return]
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


# Without padding. Kernels that take a mask are slower than those that take none, so all texts of a batch stand in one
# row, each a sequence of its own. So does the padding after each text, which keeps the shape the same for CUDA graphs.


@contextmanager
def without_padding(network: nn.Module, wanted: bool = True) -> Iterator[None]:
    """Let the encoders of a network attend without padding inside the block, if they can."""
    bodies = [body for body in network.modules() if wanted and isinstance(body, PreTrainedModel)]
    changed = [(body, body.config._attn_implementation) for body in bodies if _can_be_unpadded(body)]
    for body, _ in changed:
        if body.device.type == "cuda":  # now, since the kernel cannot be tried while a step is captured
            _has_varlen_kernel(body.device, torch.bfloat16, body.config.hidden_size // body.config.num_attention_heads)
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
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **settings: Any
) -> tuple[Tensor, Tensor | None]:
    """Attend within each text. Shapes: (batch, heads, tokens, size) to (batch, tokens, heads, size).

    :param attention_mask: The ends of sequences, from `_sequence_ends`; None without padding.
    """
    ends, is_half = attention_mask, query.is_cuda and query.dtype in (torch.float16, torch.bfloat16)
    is_recorded = module in _recorders.get({})
    if ends is None or is_recorded or not is_half or not _has_varlen_kernel(query.device, query.dtype, query.shape[-1]):
        mask = None if ends is None else _mask_of(ends, query.shape[2])[:, None, None]
        return _attend(module, query, key, value, mask, **{**settings, "is_causal": False})
    return _attend_varlen(query, key, value, ends, settings.get("dropout", 0.0), settings.get("scaling")), None


def _attend_varlen(
    query: Tensor, key: Tensor, value: Tensor, ends: Tensor, dropout: float = 0.0, scaling: float | None = None
) -> Tensor:
    width = query.shape[2]
    rows = (values.transpose(1, 2).flatten(0, 1) for values in (query, key, value))
    # An undocumented operator of torch 2.6 to 2.13: cumulative lengths and longest sequence of queries and of keys,
    # dropout, causal, debug mask. `_has_varlen_kernel` tries it before use.
    out: Tensor = torch.ops.aten._flash_attention_forward(
        *rows, ends, ends, width, width, dropout, False, False, scale=scaling
    )[0]
    return out.view(-1, width, *out.shape[1:])


@functools.cache  # the kernel is tried once; running out of memory raises, and is not cached
def _has_varlen_kernel(device: torch.device, dtype: torch.dtype, size: int) -> bool:
    """Try the kernel on a few tokens, forward and backward: it must compute what attention with a mask does."""
    if size % 8:
        return False
    width, mask = 8, torch.tensor([[1] * 5 + [0] * 3, [1] * 8], device=device)
    numbers = torch.linspace(-1, 1, 3 * 2 * width * size, device=device).sin().to(dtype)
    query, key, value = parts = [part.view(2, 1, width, size).requires_grad_() for part in numbers.chunk(3)]
    results: list[list[Tensor]] = []
    try:
        with without_cudnn_attention(), torch.enable_grad(), torch.autocast(device.type, enabled=False):
            unpadded = _attend_varlen(query, key, value, _sequence_ends(mask))
            masked = functional.scaled_dot_product_attention(query, key, value, mask.bool()[:, None, None])
            for output in (unpadded, masked.transpose(1, 2)):
                out = output.float() * mask[:, :, None, None]
                results.append([out, *torch.autograd.grad(out.square().sum(), parts)])
    except (RuntimeError, AttributeError, TypeError) as error:
        if is_out_of_memory(error):  # a full GPU says nothing about its kernels
            raise
        return False
    return all(torch.allclose(one.float(), other.float(), 0.05, 0.05) for one, other in zip(*results, strict=True))


def _make_unpadded_mask(*_arguments: Any, attention_mask: Tensor | None = None, **_settings: Any) -> Tensor | None:
    return None if attention_mask is None else _sequence_ends(attention_mask)


def _sequence_ends(mask: Tensor) -> Tensor:
    """List where sequences end if all texts stand in one row: 0, then each text and its padding.

    :param mask: 1 for tokens, which come first, and 0 for padding. Shape: (batch, tokens).
    """
    n_texts, width = mask.shape
    starts = torch.arange(n_texts, device=mask.device) * width
    both = torch.stack([starts + mask.sum(1), starts + width], 1).flatten()
    return functional.pad(both, (1, 0)).to(torch.int32)


def _mask_of(ends: Tensor, width: int) -> Tensor:
    """Turn ends of sequences back into a mask. Shape: (batch, tokens)."""
    lengths = ends[1::2] - ends[:-1:2]
    return torch.arange(width, device=ends.device) < lengths.unsqueeze(1)


AttentionInterface.register(RECORDABLE, _attend)
AttentionMaskInterface.register(RECORDABLE, sdpa_mask)
AttentionMaskInterface.register(FUSED_MPNET, _make_padding_mask)
AttentionInterface.register(UNPADDED, _attend_unpadded)
AttentionMaskInterface.register(UNPADDED, _make_unpadded_mask)

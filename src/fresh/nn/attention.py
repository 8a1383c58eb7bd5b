"""Attention without padding, for training with 16 bits on a GPU."""

# Kernels that take a mask are slower than those that take none, so all texts of a batch stand in one row, each a
# sequence of its own. So does the padding after each text, which keeps the shape the same for CUDA graphs.

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface

from fresh.nn.device import is_out_of_memory, without_cudnn_attention
from fresh.nn.intercept import RECORDABLE, attend, is_recorded

UNPADDED = "fresh_unpadded"
# Encoders that leave attention to a function and attend to the whole text in every layer.
UNPADDED_MODELS = ("bert", "distilbert", "electra", "roberta")


@contextmanager
def without_padding(network: nn.Module, wanted: bool = True) -> Iterator[None]:
    """Let the encoders of a network attend without padding inside the block, if they can."""
    changed = [
        (body, body.config._attn_implementation)
        for body in network.modules()
        if wanted
        and isinstance(body, PreTrainedModel)
        and body.config.model_type in UNPADDED_MODELS
        and not getattr(body.config, "is_decoder", False)
        and body.config._attn_implementation in ("sdpa", RECORDABLE)
    ]
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


def _attend_unpadded(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **settings: Any
) -> tuple[Tensor, Tensor | None]:
    """Attend within each text. Shapes: (batch, heads, tokens, size) to (batch, tokens, heads, size).

    :param attention_mask: The ends of sequences, from `_sequence_ends`; None without padding.
    """
    ends, is_half = attention_mask, query.is_cuda and query.dtype in (torch.float16, torch.bfloat16)
    if ends is None:
        return attend(module, query, key, value, None, **{**settings, "is_causal": False})
    if is_half and not is_recorded(module) and _has_varlen_kernel(query.device, query.dtype, query.shape[-1]):
        return _attend_varlen(query, key, value, ends, settings.get("dropout", 0.0), settings.get("scaling")), None
    mask = torch.arange(query.shape[2], device=ends.device) < (ends[1::2] - ends[:-1:2]).unsqueeze(1)
    return attend(module, query, key, value, mask[:, None, None], **{**settings, "is_causal": False})


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


AttentionInterface.register(UNPADDED, _attend_unpadded)
AttentionMaskInterface.register(UNPADDED, _make_unpadded_mask)

"""Attention that spends nothing on padding: each text is a sequence of its own, and so is what it is filled up with."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface

from fresh.nn.memory import is_out_of_memory, without_cudnn_attention

NAME = "fresh_ragged"
PROVEN: dict[tuple[torch.device, torch.dtype, int], bool] = {}
"""Where the kernel was tried, for which numbers and sizes of heads, and whether it can be relied upon."""
KNOWN = ("bert", "distilbert", "electra", "roberta")
"""Kinds of encoders that leave attention to a function and look at the whole text in every layer."""


def _attend(
    _module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **_others: Any,
) -> tuple[Tensor, None]:
    """Attend within each text. Shapes: (texts, heads, pieces, size) to (texts, pieces, heads, size).

    :param attention_mask: Where sequences end, as `_ends` says; None if nothing is filled up.
    """
    way = _flash if attention_mask is not None and _can_flash(query) else _masked
    return way(query, key, value, attention_mask, dropout, scaling), None


def _flash(
    query: Tensor, key: Tensor, value: Tensor, borders: Tensor | None, dropout: float, scaling: float | None
) -> Tensor:
    """Attend within sequences that stand in one row."""
    width = query.shape[2]
    rows = (values.transpose(1, 2).flatten(0, 1) for values in (query, key, value))
    given = (borders, borders, width, width, dropout, False, False)
    out: Tensor = torch.ops.aten._flash_attention_forward(*rows, *given, scale=scaling)[0]
    return out.view(-1, width, *out.shape[1:])


def _masked(
    query: Tensor, key: Tensor, value: Tensor, borders: Tensor | None, dropout: float, scaling: float | None
) -> Tensor:
    """Attend with a mask."""
    there = None if borders is None else _mask_of(borders, query.shape[2])[:, None, None]
    out = functional.scaled_dot_product_attention(query, key, value, there, dropout, scale=scaling)
    return out.transpose(1, 2).contiguous()


def _can_flash(query: Tensor) -> bool:
    """Say whether there is a kernel that reads sequences of all lengths."""
    if not query.is_cuda or query.dtype not in (torch.float16, torch.bfloat16):
        return False
    return _is_proven(query.device, query.dtype, query.shape[-1])


def _is_proven(device: torch.device, dtype: torch.dtype, size: int) -> bool:
    """Say whether the kernel can be relied upon; it is tried once."""
    kind = device, dtype, size
    if kind not in PROVEN:
        PROVEN[kind] = size % 8 == 0 and _is_right(*kind)
    return PROVEN[kind]


def _is_right(device: torch.device, dtype: torch.dtype, size: int) -> bool:
    """Try the kernel on a few pieces, there and back: it must find what a mask finds."""
    width, mask = 8, torch.tensor([[1] * 5 + [0] * 3, [1] * 8], device=device)
    numbers = torch.linspace(-1, 1, 3 * 2 * width * size, device=device).sin().to(dtype)
    query, key, value = parts = [part.view(2, 1, width, size).requires_grad_() for part in numbers.chunk(3)]
    borders = _ends(attention_mask=mask)
    found: list[list[Tensor]] = []
    try:
        with without_cudnn_attention(), torch.enable_grad(), torch.autocast(device.type, enabled=False):
            for way in (_flash, _masked):
                kept = way(query, key, value, borders, 0.0, None).float() * mask[:, :, None, None]
                found.append([kept, *torch.autograd.grad(kept.square().sum(), parts)])
    except (RuntimeError, AttributeError, TypeError) as error:
        if is_out_of_memory(error):  # a card that is full for a while says nothing of its kernels
            raise
        return False
    return all(torch.allclose(one.float(), other.float(), 0.05, 0.05) for one, other in zip(*found, strict=True))


def _ends(*_given: Any, attention_mask: Tensor | None = None, **_others: Any) -> Tensor | None:
    """Say where sequences end if all texts stand in one row: 0, then each text and what it is filled up with.

    :param attention_mask: 1 for pieces, which come first, and 0 for what they are filled up with. Shape: (texts,
        pieces).
    """
    if attention_mask is None:
        return None
    n_texts, width = attention_mask.shape
    starts = torch.arange(n_texts, device=attention_mask.device) * width
    both = torch.stack([starts + attention_mask.sum(1), starts + width], 1).flatten()
    return functional.pad(both, (1, 0)).to(torch.int32)


def _mask_of(borders: Tensor, width: int) -> Tensor:
    """Say again where there are pieces. Shape: (texts, pieces)."""
    n_pieces = borders[1::2] - borders[:-1:2]
    return torch.arange(width, device=borders.device) < n_pieces.unsqueeze(1)


@contextmanager
def without_padding(network: nn.Module, wanted: bool = True) -> Iterator[None]:
    """Have the encoders of a network attend in this way, those that can, for as long as the block lasts."""
    bodies = [body for body in network.modules() if wanted and isinstance(body, PreTrainedModel)]
    usual = [body for body in bodies if _looks_around(body) and body.config._attn_implementation == "sdpa"]
    for body in usual:
        _prove(body)
    for body in usual:
        body.config._attn_implementation = NAME
    try:
        yield
    finally:
        for body in usual:
            body.config._attn_implementation = "sdpa"


def _looks_around(body: PreTrainedModel) -> bool:
    """Say whether an encoder is known to look at whole texts, not only at what came before."""
    return body.config.model_type in KNOWN and not getattr(body.config, "is_decoder", False)


def _prove(body: PreTrainedModel) -> None:
    """Have the kernel tried now, if it may be used: it cannot be while a step is recorded."""
    if body.device.type == "cuda":
        size = body.config.hidden_size // body.config.num_attention_heads
        _is_proven(body.device, torch.bfloat16, size)


AttentionInterface.register(NAME, _attend)
AttentionMaskInterface.register(NAME, _ends)

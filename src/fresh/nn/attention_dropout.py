"""Attention that drops some of its weights in training; on a CPU a few heads at a time, and without keeping weights."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from fresh.nn.fast_layers import STEPS, drawn

ROOM = 1 << 19
"""Pairs of pieces, in all heads together, that are worked on at a time: about what a processor keeps at hand."""

LONG = 40
"""Pieces from which on a text is long enough for it to pay."""

Part = tuple[slice, slice]
"""Some texts, and some of their heads."""


def attend(
    query: Tensor, key: Tensor, value: Tensor, added: Tensor | None, dropout: float, scaling: float | None = None
) -> Tensor:
    """Attend. Shapes: (texts, heads, pieces, size).

    torch has one kernel for it where nothing is dropped. Where something is, it has none on a CPU, and keeps three
    numbers for each pair of pieces and head; here it is one byte. Whatever is given, weights have 32 bits or more.

    :param added: What is added to scores, or False where nothing may be looked at; None for nothing. It learns nothing.
        Shape: (texts, heads, pieces, pieces), or 1 where it is the same for all.
    :param dropout: Share of the weights to be dropped.
    """
    n_dropped = round(dropout * STEPS)
    if query.device.type != "cpu" or n_dropped in (0, STEPS) or key.shape[2] < LONG:
        return functional.scaled_dot_product_attention(query, key, value, added, dropout, scale=scaling)
    kept = drawn((*query.shape[:3], key.shape[2]), n_dropped)
    exact = torch.promote_types(query.dtype, torch.float32)
    with torch.autocast("cpu", enabled=False):
        with_target = query.to(exact) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
        told = value.to(exact) * (STEPS / (STEPS - n_dropped))
        out: Tensor = _Dropped.apply(with_target, key.to(exact), told, _for_heads(added, with_target), kept)  # type: ignore[no-untyped-call]
        return out.to(query.dtype)


class _Dropped(Function):
    """Attends with the weights that are kept; on the way back, weights are computed again."""

    @staticmethod
    def forward(context: Any, query: Tensor, key: Tensor, value: Tensor, added: Tensor | None, kept: Tensor) -> Tensor:
        """Mix values by the weights that are kept."""
        out = torch.empty_like(query)
        for part in _parts(kept.shape):
            out[part] = _looks(query, key, added, part).mul_(kept[part]) @ value[part]
        context.save_for_backward(query, key, value, added, kept, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        """Say how queries, keys and values should change."""
        query, key, value, added, kept, out = context.saved_tensors
        changes = torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)
        mean = (gradient * out).sum(-1, keepdim=True)  # of what a row's weights should change by
        with torch.autocast("cpu", enabled=False):
            for part in _parts(kept.shape):
                weights, wanted = _looks(query, key, added, part), gradient[part]
                changes[2][part] = (weights * kept[part]).mT @ wanted
                scores = (wanted @ value[part].mT).mul_(kept[part]).sub_(mean[part]).mul_(weights)
                changes[0][part] = scores @ key[part]
                changes[1][part] = scores.mT @ query[part]
        return *changes, None, None


def _for_heads(added: Tensor | None, query: Tensor) -> Tensor | None:
    """Make what is added to scores of what may be looked at, if need be, and have it for each text and head."""
    if added is not None and added.dtype == torch.bool:
        added = torch.zeros_like(added, dtype=query.dtype).masked_fill_(~added, torch.finfo(query.dtype).min)
    return None if added is None else added.expand(*query.shape[:2], -1, -1)


def _looks(query: Tensor, key: Tensor, added: Tensor | None, part: Part) -> Tensor:
    """Compute how much each piece looks at each. Shape: (texts, heads, pieces, pieces)."""
    scores = query[part] @ key[part].mT
    return (scores if added is None else scores.add_(added[part])).softmax(-1)


def _parts(shape: torch.Size) -> Iterator[Part]:
    """Take all texts and heads apart, so that there is room for what is compared: whole texts if they are short."""
    n_texts, n_heads, n_rows, n_pieces = shape
    at_once = max(1, ROOM // max(1, n_rows * n_pieces))
    more = max(1, at_once // n_heads)
    for text in range(0, n_texts, more):
        for head in range(0, n_heads, at_once):
            yield slice(text, text + more), slice(head, head + at_once)

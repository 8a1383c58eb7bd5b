"""Vectors of words: from those of their pieces, read in order by a recurrent layer, and weighed."""

from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from fresh.nn.batch import NO_WORD, Layout
from fresh.nn.crf import LinearChainCRF
from fresh.nn.fast_layers import QuickDropout

RECURRENT = 128
"""Width of the recurrent layer, in each direction."""
UNSEEN = -1e4
"""Stands for minus infinity where gradients must stay numbers."""


def _pool_words(hidden: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
    """Take the largest value over the pieces of each word.

    :param hidden: Vectors of pieces. Shape: (texts, pieces, wide).
    :return: Vectors of words, 0 where there is none (texts, pieces, wide), and how many words there are (texts,).
    """
    places = torch.where(layout.word_of == NO_WORD, hidden.shape[1], layout.word_of)
    pooled: Tensor = _Largest.apply(hidden, places)  # type: ignore[no-untyped-call]
    return pooled, layout.word_of.amax(1) + 1


class _Largest(torch.autograd.Function):
    """The largest values of the pieces that belong together; where several pieces have one, the first learns.

    Torch's own gradient counts them, and a GPU that is to count repeatably has to sort all values for that.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, places: Tensor) -> Tensor:
        """Take the largest values of the pieces at each place. Shape: (texts, pieces, wide).

        :param hidden: Vectors of pieces. Shape: (texts, pieces, wide).
        :param places: Where each piece belongs; at the place after the last one, what belongs nowhere.
        """
        n_texts, n_pieces, wide = hidden.shape
        where = places.unsqueeze(-1).expand_as(hidden)
        pooled = hidden.new_zeros(n_texts, n_pieces + 1, wide)
        pooled = pooled.scatter_reduce(1, where, hidden, "amax", include_self=False)
        steps = torch.arange(n_pieces, dtype=torch.int32, device=hidden.device)[:, None]
        has_it = torch.where(hidden == pooled.gather(1, where), steps, n_pieces)
        first = has_it.new_full(pooled.shape, n_pieces).scatter_reduce(1, where, has_it, "amin")
        ctx.save_for_backward(where, first.gather(1, where) == steps)
        return pooled[:, :n_pieces]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Hand the gradient of each value to the piece that it is from."""
        where, is_taken = ctx.saved_tensors
        return functional.pad(gradient, (0, 0, 0, 1)).gather(1, where) * is_taken, None


def word_mask(n_words: Tensor, width: int) -> Tensor:
    """Say where words are. Shape: (texts, width)."""
    return torch.arange(width, device=n_words.device) < n_words.unsqueeze(1)


class _Recurrent(nn.Module):
    """A bidirectional LSTM; what a text is filled up with has no influence."""

    def __init__(self, wide: int) -> None:
        super().__init__()
        self.forwards = nn.LSTM(wide, RECURRENT, batch_first=True)
        self.backwards = nn.LSTM(wide, RECURRENT, batch_first=True)

    def train(self, mode: bool = True) -> Self:
        """Stay as in training, always: nothing is dropped out here, and a GPU has no gradients of it otherwise."""
        return super().train()

    def forward(self, words: Tensor, n_words: Tensor) -> Tensor:
        """Read words in both directions. Shapes: (texts, words, wide) to (texts, words, 2 * RECURRENT)."""
        steps = torch.arange(words.shape[1], device=words.device).expand(words.shape[:2])
        mirrored = torch.where(word_mask(n_words, words.shape[1]), n_words.unsqueeze(1) - 1 - steps, steps)
        ahead, back = _read(self.forwards, words), _read(self.backwards, _reorder(words, mirrored))
        return torch.cat([ahead, _reorder(back, mirrored)], -1)


def _read(layer: nn.LSTM, words: Tensor) -> Tensor:
    """Read words in one direction; on a CPU with the digits that the layer has.

    With 16 bits by autocast, torch 2.13 has no LSTM for processors without AVX-512, and fails.
    """
    found: Tensor
    if words.is_cuda:
        found, _ = layer(words)
        return found
    with torch.autocast(words.device.type, enabled=False):
        found, _ = layer(words.to(next(layer.parameters()).dtype))
    return found


def _reorder(words: Tensor, places: Tensor) -> Tensor:
    """Put words in another order. Shape: (texts, words, wide)."""
    return words.gather(1, places.unsqueeze(-1).expand(-1, -1, words.shape[-1]))


class AttentiveHead(nn.Module):
    """Reads words in order, weighs them by additive attention and classifies their sum (the paper's Movies model)."""

    def __init__(self, wide: int, n_labels: int, dropout: float) -> None:
        super().__init__()
        self.recurrent = _Recurrent(wide)
        self.key = nn.Linear(2 * RECURRENT, RECURRENT)
        self.importance = nn.Linear(RECURRENT, 1, bias=False)
        self.middle = nn.Linear(2 * RECURRENT, RECURRENT)
        self.dropout = QuickDropout(dropout)
        self.out = nn.Linear(RECURRENT, n_labels)

    def forward(self, hidden: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Classify texts: logits (texts, labels), and the weight of each word (texts, pieces)."""
        words, n_words = _pool_words(hidden, layout)
        read = self.recurrent(words, n_words)
        there = word_mask(n_words, words.shape[1])
        scores = linear_fp32(self.importance, torch.tanh(self.key(read))).squeeze(-1).masked_fill(~there, UNSEEN)
        weights = scores.softmax(-1) * there  # without words there is nothing to weigh
        return self.classify(read, weights), weights

    def classify(self, read: Tensor, weights: Tensor) -> Tensor:
        """Sum up words by their weights and classify the sum."""
        summed = (weights.unsqueeze(-1).to(read.dtype) * read).sum(1)
        return linear_fp32(self.out, self.dropout(functional.relu(self.middle(summed))))


class TokenHead(nn.Module):
    """Says something of each word, such as how much it speaks for keeping it."""

    def __init__(
        self, wide: int, n_outputs: int, dropout: float, recurrent: bool, chain: LinearChainCRF | None = None
    ) -> None:
        super().__init__()
        self.recurrent = _Recurrent(wide) if recurrent else None
        self.dropout = QuickDropout(dropout)
        self.out = nn.Linear(2 * RECURRENT if recurrent else wide, n_outputs)
        self.chain = chain

    def forward(self, hidden: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Tag texts: what is said of each word (texts, pieces, outputs), and how many words there are (texts,)."""
        words, n_words = _pool_words(hidden, layout)
        if self.recurrent is not None:
            words = self.recurrent(words, n_words)
        return linear_fp32(self.out, self.dropout(words)), n_words


def linear_fp32(layer: nn.Linear, values: Tensor) -> Tensor:
    """Apply a layer with 32 bits at least, also where the rest is computed with 16.

    What it says of the words of a text, or of variants of it, is ranked, and what is nearly alike would tie for want of
    digits.
    """
    digits = torch.promote_types(layer.weight.dtype, torch.float32)
    bias = None if layer.bias is None else layer.bias.to(digits)
    with torch.autocast(values.device.type, enabled=False):
        return functional.linear(values.to(digits), layer.weight.to(digits), bias)

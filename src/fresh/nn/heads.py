"""Heads above an encoder: one that classifies a vector, and those that read words."""

from contextlib import nullcontext
from math import prod
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from fresh.nn.batch import NO_WORD

# Width of the recurrent layer, in each direction.
RECURRENT_WIDTH = 128
# Logarithm of a probability that is 0 in effect; finite, so that gradients stay finite.
LOG_ZERO = -1e4
# On a CPU, a dropout rate is rounded to a multiple of 1 / DROPOUT_STEPS: each number is compared in 16 bits.
DROPOUT_STEPS = 1 << 16


class FastDropout(nn.Dropout):
    """Dropout with cheaper random numbers on a CPU."""

    # torch draws one number after the other: 2.3 ms for 320,000 values, 12 % of a training step on SST. Four 16-bit
    # numbers from each 64-bit draw take 0.34 ms, and 0.9 ms with comparing and multiplying.
    def forward(self, values: Tensor) -> Tensor:
        """Set some values to 0 and scale the others up."""
        n_dropped = round(self.p * DROPOUT_STEPS)
        if not self.training or n_dropped in (0, DROPOUT_STEPS) or values.device.type != "cpu":
            return super().forward(values)
        n_values = prod(values.shape)
        draws = torch.empty(-(-n_values // 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
        kept = draws[:n_values].view(values.shape) >= n_dropped - DROPOUT_STEPS // 2
        return values * kept.to(values.dtype).mul_(DROPOUT_STEPS / (DROPOUT_STEPS - n_dropped))


def use_fast_dropout(module: nn.Module) -> None:
    """Replace all dropout inside a module."""
    for parent in list(module.modules()):
        for name, child in parent.named_children():
            if type(child) is nn.Dropout:
                setattr(parent, name, FastDropout(child.p, child.inplace))


def linear_fp32(layer: nn.Linear, values: Tensor) -> Tensor:
    """Apply a layer with at least 32 bits, also where the rest is computed with 16."""
    # The outputs rank words, or variants of a text, and with 16 bits similar ones tie: rounded to bf16, 2.1 % of the
    # words of a gate tied with `minilm` and 11 % with `mpnet`.
    dtype = torch.promote_types(layer.weight.dtype, torch.float32)
    bias = None if layer.bias is None else layer.bias.to(dtype)
    with torch.autocast(values.device.type, enabled=False):
        return functional.linear(values.to(dtype), layer.weight.to(dtype), bias)


def word_mask(n_words: Tensor, width: int) -> Tensor:
    """Return where there are words. Shape: (texts, width)."""
    return torch.arange(width, device=n_words.device) < n_words.unsqueeze(1)


class LinearHead(nn.Linear):
    """Classifies one vector per text."""

    def __init__(self, width: int, n_labels: int, dropout: float) -> None:
        super().__init__(width, n_labels)
        self.dropout = FastDropout(dropout)
        nn.init.normal_(self.weight, std=0.02)
        nn.init.zeros_(self.bias)

    def forward(self, pooled: Tensor) -> Tensor:
        """Compute logits. Shapes: (texts, width) to (texts, labels)."""
        return linear_fp32(self, self.dropout(pooled))


class AttentiveHead(nn.Module):
    """A BiLSTM over words, additive attention and a classifier of the weighted sum (the paper's Movies model)."""

    def __init__(self, width: int, n_labels: int, dropout: float) -> None:
        super().__init__()
        self.recurrent = _Recurrent(width)
        self.key = nn.Linear(2 * RECURRENT_WIDTH, RECURRENT_WIDTH)
        self.importance = nn.Linear(RECURRENT_WIDTH, 1, bias=False)
        self.middle = nn.Linear(2 * RECURRENT_WIDTH, RECURRENT_WIDTH)
        self.dropout = FastDropout(dropout)
        self.out = nn.Linear(RECURRENT_WIDTH, n_labels)

    def forward(self, hidden: Tensor, word_of: Tensor) -> tuple[Tensor, Tensor]:
        """Classify texts: logits (texts, labels), and the weight of each word (texts, tokens).

        :param word_of: The word that each token belongs to. Shape: (texts, tokens).
        """
        words, n_words = _pool_words(hidden, word_of)
        states = self.recurrent(words, n_words)
        is_word = word_mask(n_words, words.shape[1])
        scores = linear_fp32(self.importance, torch.tanh(self.key(states))).squeeze(-1).masked_fill(~is_word, LOG_ZERO)
        weights = scores.softmax(-1) * is_word  # a text without words has no weights
        summed = (weights.unsqueeze(-1).to(states.dtype) * states).sum(1)
        return linear_fp32(self.out, self.dropout(functional.relu(self.middle(summed)))), weights


class TokenHead(nn.Module):
    """Computes numbers for each word, such as the log-odds of keeping it."""

    def __init__(
        self, width: int, n_outputs: int, dropout: float, recurrent: bool, chain: "LinearChainCRF | None" = None
    ) -> None:
        super().__init__()
        self.recurrent = _Recurrent(width) if recurrent else None
        self.dropout = FastDropout(dropout)
        self.out = nn.Linear(2 * RECURRENT_WIDTH if recurrent else width, n_outputs)
        self.chain = chain

    def forward(self, hidden: Tensor, word_of: Tensor) -> tuple[Tensor, Tensor]:
        """Score words: outputs (texts, tokens, outputs), and number of words (texts,)."""
        words, n_words = _pool_words(hidden, word_of)
        if self.recurrent is not None:
            words = self.recurrent(words, n_words)
        return linear_fp32(self.out, self.dropout(words)), n_words


class _Recurrent(nn.Module):
    """A bidirectional LSTM in which padding has no influence."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.forwards = nn.LSTM(width, RECURRENT_WIDTH, batch_first=True)
        self.backwards = nn.LSTM(width, RECURRENT_WIDTH, batch_first=True)

    def train(self, mode: bool = True) -> Self:
        # Always in training mode: there is no dropout here, and cuDNN computes no gradients in evaluation mode.
        return super().train()

    def forward(self, words: Tensor, n_words: Tensor) -> Tensor:
        """Read words in both directions. Shapes: (texts, words, width) to (texts, words, 2 * RECURRENT_WIDTH)."""
        steps = torch.arange(words.shape[1], device=words.device).expand(words.shape[:2])
        # Two LSTMs, the second on reversed words: a bidirectional one would start from the padding. Both read padding
        # last, so that it cannot change the states of words.
        reverse = torch.where(word_mask(n_words, words.shape[1]), n_words.unsqueeze(1) - 1 - steps, steps)
        ahead, back = _run_lstm(self.forwards, words), _run_lstm(self.backwards, _reorder(words, reverse))
        return torch.cat([ahead, _reorder(back, reverse)], -1)


def _run_lstm(layer: nn.LSTM, words: Tensor) -> Tensor:
    if not words.is_cuda:
        words = words.to(next(layer.parameters()).dtype)
    # Under autocast to bf16, torch 2.13 has no LSTM for processors without AVX-512, and fails.
    with nullcontext() if words.is_cuda else torch.autocast(words.device.type, enabled=False):
        states: Tensor = layer(words)[0]
    return states


def _reorder(words: Tensor, places: Tensor) -> Tensor:
    return words.gather(1, places.unsqueeze(-1).expand(-1, -1, words.shape[-1]))


def _pool_words(hidden: Tensor, word_of: Tensor) -> tuple[Tensor, Tensor]:
    """Take the maximum over the tokens of each word.

    :param hidden: Vectors of tokens. Shape: (texts, tokens, width).
    :return: Vectors of words, 0 where there is none (texts, tokens, width), and number of words (texts,).
    """
    places = torch.where(word_of == NO_WORD, hidden.shape[1], word_of)
    pooled: Tensor = _WordMax.apply(hidden, places)  # type: ignore[no-untyped-call]
    return pooled, word_of.amax(1) + 1


class _WordMax(torch.autograd.Function):
    """The maximum over the tokens of each word; the first token with that value gets the gradient."""

    # torch's own gradient is shared by all tokens with that value, and a GPU sorts all values to count them repeatably.

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, places: Tensor) -> Tensor:
        """Compute the maximum. Shape: (texts, tokens, width).

        :param places: The word of each token; one beyond the last place for tokens of no word.
        """
        n_texts, n_tokens, width = hidden.shape
        index = places.unsqueeze(-1).expand_as(hidden)
        pooled = hidden.new_zeros(n_texts, n_tokens + 1, width)
        pooled = pooled.scatter_reduce(1, index, hidden, "amax", include_self=False)
        steps = torch.arange(n_tokens, dtype=torch.int32, device=hidden.device)[:, None]
        candidates = torch.where(hidden == pooled.gather(1, index), steps, n_tokens)
        first = candidates.new_full(pooled.shape, n_tokens).scatter_reduce(1, index, candidates, "amin")
        ctx.save_for_backward(index, first.gather(1, index) == steps)
        return pooled[:, :n_tokens]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        index, is_first = ctx.saved_tensors
        return functional.pad(gradient, (0, 0, 0, 1)).gather(1, index) * is_first, None


class LinearChainCRF(nn.Module):
    """A linear-chain conditional random field: whether a word is kept (1) or dropped (0) depends on its neighbors."""

    def __init__(self) -> None:
        super().__init__()
        self.begin = nn.Parameter(torch.zeros(2))
        self.change = nn.Parameter(torch.zeros(2, 2))
        """Score of the second tag (column) after the first one (row)."""
        self.end = nn.Parameter(torch.zeros(2))

    def log_likelihood(self, logits: Tensor, tags: Tensor, n_words: Tensor) -> Tensor:
        """Compute the log-probability of the tags of each text. Shape: (texts,).

        :param logits: Log-odds of keeping each word, by itself. Shape: (texts, words).
        :param tags: 0 or 1 for each word; anything where there is none. Shape: (texts, words).
        """
        tags, is_word = tags.long(), word_mask(n_words, logits.shape[1])
        one_hot = torch.stack([1 - tags, tags], -1).to(logits.dtype)  # (texts, words, 2)
        own = (logits * tags * is_word).sum(1)
        changes = ((one_hot[:, :-1] @ self.change * one_hot[:, 1:]).sum(-1) * is_word[:, 1:]).sum(1)
        last = one_hot.gather(1, (n_words - 1).clamp(min=0).view(-1, 1, 1).expand(-1, 1, 2)).squeeze(1)
        score = own + changes + one_hot[:, 0] @ self.begin + last @ self.end
        return score - self.log_total(logits, n_words)

    def log_total(self, logits: Tensor, n_words: Tensor) -> Tensor:
        """Compute the log of the partition function: the sum over all taggings of each text. Shape: (texts,)."""
        # Neighboring steps are combined in pairs: 512 words take 9 rounds, not 511. Steps beyond the last word are the
        # identity, so that texts of all lengths take the same rounds.
        n_texts, n_steps = logits.shape[0], logits.shape[1] - 1
        is_step = torch.arange(1, n_steps + 1, device=logits.device) < n_words.unsqueeze(1)
        steps = self.change + _by_tag(logits[:, 1:]).unsqueeze(2)  # (texts, words - 1, 2, 2)
        identity = LOG_ZERO * (1 - torch.eye(2, device=logits.device, dtype=logits.dtype))
        steps = torch.where(is_step[:, :, None, None], steps, identity)
        while steps.shape[1] > 1:
            if steps.shape[1] % 2:
                steps = torch.cat([steps, identity.expand(n_texts, 1, 2, 2)], 1)
            steps = _log_matmul(steps[:, 0::2], steps[:, 1::2])
        totals = (self.begin + _by_tag(logits[:, 0])).unsqueeze(1)  # (texts, 1, 2)
        if n_steps:
            totals = _log_matmul(totals, steps[:, 0])
        return (totals.squeeze(1) + self.end).logsumexp(-1)

    def marginals(self, logits: Tensor, n_words: Tensor) -> Tensor:
        """Compute the probability that each word is kept. Shape: (texts, words)."""
        # The derivative of the log-partition function by a log-odds is the probability of the tag.
        with torch.enable_grad():
            leaf = logits.detach().requires_grad_()
            [gradient] = torch.autograd.grad(self.log_total(leaf, n_words).sum(), leaf)
        return gradient.clamp(0, 1)  # rounding may exceed it a little


def _by_tag(logits: Tensor) -> Tensor:
    """Turn log-odds into scores of both tags; dropping has 0. Shape: (..., 2)."""
    return torch.stack([torch.zeros_like(logits), logits], -1)


def _log_matmul(left: Tensor, right: Tensor) -> Tensor:
    """Multiply matrices whose entries are logarithms. Shape: (..., rows, columns)."""
    return (left.unsqueeze(-1) + right.unsqueeze(-3)).logsumexp(-2)

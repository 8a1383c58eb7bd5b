"""Which texts share a batch: texts of similar length, within a budget of tokens."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from fresh.nn import device as gpu
from fresh.nn.batch import IntArray

# How far texts move in the order of lengths, so that each epoch combines other texts.
JITTER = 0.03
# Up to this length, in tokens, widths are rounded to coarser steps.
SHORT = 128
# A batch of short texts has at most this many times the batch size.
MAX_GROWTH = 4
# Tokens, and pairs of tokens, that a CPU reads at once without training: 2,048 tokens were up to a fifth faster than
# 8,192. A GPU reads more at once.
TOKENS_AT_ONCE = 2048
SQUARED_TOKENS_AT_ONCE = 4_000_000
GPU_FACTOR = 32


class BatchSpec(NamedTuple):
    """A batch of training texts."""

    numbers: IntArray
    longest: int
    """Tokens of the longest text."""
    dense: bool
    """Whether all texts are as long as the longest."""
    width: int
    """The length rounded up to one of a few, since each shape of batch is captured as a CUDA graph of its own."""
    n_texts: int
    """How many texts a full batch of this width has."""


def _round_up_length(length: int) -> int:
    """Round a length up to one of a few widths: by an eighth at most, for long texts by a thirty-second."""
    # Each width is captured as a CUDA graph of its own. With fewer widths, and one practice step per width in place of
    # three, the support model of SST trained in 4.6 s in place of 8.8 s on an H200; padding grew from .6 % to 2.9 %.
    step = 1 << max(0, (length - 1).bit_length() - (4 if length <= SHORT else 6))
    return -(-length // step) * step


def bucketed_batches(lengths: IntArray, batch_size: int, seed: int, epoch: int) -> list[BatchSpec]:
    """Sample batches of texts of similar length, each with about the same number of tokens.

    :param batch_size: Texts in a batch on average; short texts come in larger batches, long ones in smaller.
    """
    generator = np.random.default_rng((seed, epoch))
    order = np.argsort(-lengths * generator.uniform(1, 1 + JITTER, len(lengths)), kind="stable")
    # A budget of tokens, not of texts: steps take about the same time and memory, and long texts share no batch with
    # short ones, which would be mostly padding.
    budget = batch_size * lengths.mean() if len(lengths) else 0
    batches: list[BatchSpec] = []
    start = 0
    while start < len(order):
        batches.append(_next_batch(lengths, order[start:], budget, MAX_GROWTH * batch_size))
        start += len(batches[-1].numbers)
    return [batches[number] for number in generator.permutation(len(batches))]


def _next_batch(lengths: IntArray, order: IntArray, budget: float, max_texts: int) -> BatchSpec:
    width, longest = 0, _round_up_length(int(lengths[order[0]]))
    while longest > width:  # jitter may have moved a slightly longer text behind the first
        width = longest
        n_texts = min(max_texts, max(1, round(budget / width)))
        numbers = order[:n_texts]
        longest = _round_up_length(int(lengths[numbers].max()))
    own = lengths[numbers]
    return BatchSpec(numbers, int(own.max()), bool((own == own[0]).all()), width, n_texts)


def padding_share(lengths: IntArray, batches: Sequence[BatchSpec], rounded: bool) -> float:
    """Compute the share of all computed tokens that are padding.

    :param rounded: Whether batches are padded to the rounded width.
    """
    computed = sum(len(batch.numbers) * (batch.width if rounded else batch.longest) for batch in batches)
    return 1 - float(lengths.sum()) / computed if computed else 0.0


def tokens_at_once(device: torch.device) -> int:
    """Return how many tokens a device reads at once."""
    return TOKENS_AT_ONCE * (GPU_FACTOR if device.type == "cuda" else 1)


def run_batches(lengths: IntArray, device: torch.device, work: Callable[[IntArray], None], share: float = 1) -> None:
    """Process texts in batches of similar length that suit a device; where memory runs out, in smaller ones.

    :param work: Processes some texts, given by their numbers.
    :param share: Share of the usual budget.
    """
    budget = int(share * tokens_at_once(device))
    squared = budget * SQUARED_TOKENS_AT_ONCE // TOKENS_AT_ONCE
    waiting = [np.arange(len(lengths))]
    while waiting:
        rest, divisor = waiting.pop(), gpu.MEMORY_BUDGET.divisor
        batches = [rest[batch] for batch in _batches_by_budget(lengths[rest], budget // divisor, squared // divisor)]
        for place, numbers in enumerate(batches):
            try:
                with gpu.without_cudnn_attention():
                    work(numbers)
            except RuntimeError as error:
                if len(numbers) == 1 or not gpu.is_out_of_memory(error):
                    raise
                gpu.MEMORY_BUDGET.shrink()
                waiting.append(np.concatenate(batches[place:]))
                break
            # The rest is batched anew, with the larger budget.
            if gpu.MEMORY_BUDGET.grow_after_success() and place + 1 < len(batches):
                waiting.append(np.concatenate(batches[place + 1 :]))
                break


def _batches_by_budget(lengths: IntArray, budget: int, squared: int) -> Iterator[IntArray]:
    """Group texts of similar length: a batch has so many tokens, with padding, and pairs of tokens, or is one text."""
    # The longest come first: what a GPU allocates for them serves all others, and if memory is short, it shows at once.
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        longest = max(1, int(lengths[order[start]]))
        n_texts = max(1, min(budget // longest, squared // longest**2))
        yield order[start : start + n_texts]
        start += n_texts

"""Which texts share a batch: texts of similar length, within a budget of tokens."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from fresh.nn import device as gpu
from fresh.nn.batch import IntArray
from fresh.nn.encoder import Encoder

JITTER = 0.03
"""How far texts move in the order of lengths, so that each epoch combines other texts."""
SHORT = 128
"""Tokens up to which a text is short, so that padding it costs little."""
MAX_GROWTH = 4
"""A batch of short texts has at most this many times the batch size."""
TOKENS_AT_ONCE = 2048
SQUARED_TOKENS_AT_ONCE = 4_000_000
"""How many tokens, and pairs of tokens, a CPU reads at once without training: 2,048 were up to a fifth faster than
8,192."""
GPU_FACTOR = 32
"""How many times more a GPU reads at once."""
USUAL_SIZE = 6 * 384
"""Layers times width of an encoder for which this holds; for a larger one, a GPU reads fewer tokens at once."""


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


def bucketed_batches(lengths: Sequence[int] | IntArray, batch_size: int, seed: int, epoch: int) -> list[BatchSpec]:
    """Sample batches of texts of similar length, each with about the same number of tokens.

    :param batch_size: Texts in a batch on average; short texts come in larger batches, long ones in smaller.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    generator = np.random.default_rng((seed, epoch))
    order = np.argsort(-sizes * generator.uniform(1, 1 + JITTER, len(sizes)), kind="stable")
    # A budget of tokens, not of texts: steps take about the same time and memory, and long texts share no batch with
    # short ones, which would be mostly padding.
    budget = batch_size * sizes.mean() if len(sizes) else 0
    batches: list[BatchSpec] = []
    start = 0
    while start < len(order):
        batches.append(_next_batch(sizes, order[start:], budget, MAX_GROWTH * batch_size))
        start += len(batches[-1].numbers)
    return [batches[number] for number in generator.permutation(len(batches))]


def _next_batch(sizes: IntArray, order: IntArray, budget: float, max_texts: int) -> BatchSpec:
    """Take the longest texts that are left, as many as the budget allows."""
    width, longest = 0, _round_up_length(int(sizes[order[0]]))
    while longest > width:  # jitter may have moved a slightly longer text behind the first
        width = longest
        n_texts = min(max_texts, max(1, round(budget / width)))
        numbers = order[:n_texts]
        longest = _round_up_length(int(sizes[numbers].max()))
    own = sizes[numbers]
    return BatchSpec(numbers, int(own.max()), bool((own == own[0]).all()), width, n_texts)


def padding_share(lengths: Sequence[int] | IntArray, batches: Sequence[BatchSpec], rounded: bool) -> float:
    """Compute the share of padding in all that is computed.

    :param rounded: Whether batches are padded to the rounded width.
    """
    computed = sum(len(batch.numbers) * (batch.width if rounded else batch.longest) for batch in batches)
    return 1 - float(np.sum(lengths)) / computed if computed else 0.0


def tokens_at_once(device: torch.device) -> int:
    """Return how many tokens a device reads at once."""
    return TOKENS_AT_ONCE * (GPU_FACTOR if device.type == "cuda" else 1)


def budget_share(encoder: Encoder, device: torch.device) -> float:
    """Return the share of this budget that a device has memory for with a given encoder."""
    if device.type != "cuda":
        return 1.0
    n_layers = getattr(encoder.model.config, "num_hidden_layers", 1)
    return min(1.0, USUAL_SIZE / (n_layers * encoder.width))


def run_batches(lengths: IntArray, device: torch.device, work: Callable[[IntArray], None], share: float = 1) -> None:
    """Process texts in batches of similar length that suit a device; where memory runs out, in smaller ones.

    :param work: Processes some texts, given by their numbers.
    :param share: Share of the usual budget.
    """
    factor = share * tokens_at_once(device) / TOKENS_AT_ONCE
    _run_batches_within(lengths, int(TOKENS_AT_ONCE * factor), int(SQUARED_TOKENS_AT_ONCE * factor), work)


def _run_batches_within(
    lengths: Sequence[int] | IntArray, budget: int, squared: int, work: Callable[[IntArray], None]
) -> None:
    sizes = np.asarray(lengths, dtype=np.int64)
    waiting = [np.arange(len(sizes))]
    while waiting:
        rest, divisor = waiting.pop(), gpu.MEMORY_BUDGET.divisor
        batches = [rest[batch] for batch in _batches_by_budget(sizes[rest], budget // divisor, squared // divisor)]
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


def _batches_by_budget(lengths: Sequence[int] | IntArray, budget: int, squared: int) -> Iterator[IntArray]:
    """Group texts of similar length; a batch stays within two budgets, or is one text.

    :param budget: Tokens in a batch, with padding, at most.
    :param squared: The same for pairs of tokens, which attention compares.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    # The longest come first: what a GPU allocates for them serves all others, and if memory is short, it shows at once.
    order = np.argsort(-sizes, kind="stable")
    start = 0
    while start < len(order):
        longest = max(1, int(sizes[order[start]]))
        n_texts = max(1, min(budget // longest, squared // longest**2))
        yield order[start : start + n_texts]
        start += n_texts

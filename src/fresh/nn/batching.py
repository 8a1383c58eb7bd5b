"""Which texts are read together: batches by a budget of pieces over texts of like length."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from fresh.nn import memory as gpu
from fresh.nn.batch import IntArray
from fresh.nn.encoder import Encoder

JITTER = 0.03
"""How far texts move in the order of lengths, so that other texts meet in each epoch."""
SHORT = 128
"""Pieces up to which a text is short, and filling it up costs little."""
MOST_TEXTS = 4
"""Times the batch size: how many short texts make a batch at most."""
PIECES_AT_ONCE = 2048
SQUARED_PIECES_AT_ONCE = 4_000_000
"""How many pieces, and pairs of pieces, are read in one go when nothing is trained."""
GPU_FACTOR = 32
"""How many times more a GPU reads in one go."""
USUAL_SIZE = 6 * 384
"""Layers times width of an encoder for which this holds; of a larger one, a GPU has room for fewer pieces."""


class BatchSpec(NamedTuple):
    """A batch of training texts."""

    numbers: IntArray
    longest: int
    """Pieces of the longest text."""
    dense: bool
    """Whether all texts are as long as the longest."""
    width: int
    """The length rounded up to one of few, where each shape of batch costs something of its own."""
    n_texts: int
    """How many texts a full batch of this width has."""


def _round_up_length(length: int) -> int:
    """Round a length up to one of few widths: by an eighth at most, for long texts by a thirty-second."""
    step = 1 << max(0, (length - 1).bit_length() - (4 if length <= SHORT else 6))
    return -(-length // step) * step


def bucketed_batches(lengths: Sequence[int] | IntArray, batch_size: int, seed: int, epoch: int) -> list[BatchSpec]:
    """Deal texts into batches at random; texts of like length meet, and batches have about equally many pieces.

    :param batch_size: Texts in a batch on average; short texts come in larger batches, long ones in smaller.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    generator = np.random.default_rng((seed, epoch))
    order = np.argsort(-sizes * generator.uniform(1, 1 + JITTER, len(sizes)), kind="stable")
    budget = batch_size * sizes.mean() if len(sizes) else 0
    batches: list[BatchSpec] = []
    start = 0
    while start < len(order):
        batches.append(_next_batch(sizes, order[start:], budget, MOST_TEXTS * batch_size))
        start += len(batches[-1].numbers)
    return [batches[number] for number in generator.permutation(len(batches))]


def _next_batch(sizes: IntArray, order: IntArray, budget: float, most: int) -> BatchSpec:
    """Take the longest texts that are left, as many as the budget buys."""
    width, longest = 0, _round_up_length(int(sizes[order[0]]))
    while longest > width:  # a text that moved may be a little longer than the first
        width = longest
        n_texts = min(most, max(1, round(budget / width)))
        numbers = order[:n_texts]
        longest = _round_up_length(int(sizes[numbers].max()))
    found = sizes[numbers]
    return BatchSpec(numbers, int(found.max()), bool((found == found[0]).all()), width, n_texts)


def padding_share(lengths: Sequence[int] | IntArray, batches: Sequence[BatchSpec], rounded: bool) -> float:
    """Say which share of all that is computed was only filled up.

    :param rounded: Whether batches are filled up to the rounded width.
    """
    computed = sum(len(batch.numbers) * (batch.width if rounded else batch.longest) for batch in batches)
    return 1 - float(np.sum(lengths)) / computed if computed else 0.0


def _batches_by_budget(lengths: Sequence[int] | IntArray, budget: int, squared: int) -> Iterator[IntArray]:
    """Group texts of like length so that a batch stays within two budgets, or is one text.

    The longest come first: a GPU has room for all others in what it took for them, and if there is none, that shows
    at once.

    :param budget: Pieces in a batch, filled up, at most.
    :param squared: The same for pairs of pieces, which attention compares.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-sizes, kind="stable")
    start = 0
    while start < len(order):
        longest = max(1, int(sizes[order[start]]))
        n_texts = max(1, min(budget // longest, squared // longest**2))
        yield order[start : start + n_texts]
        start += n_texts


def _run_batches_within(
    lengths: Sequence[int] | IntArray, budget: int, squared: int, work: Callable[[IntArray], None]
) -> None:
    """Have texts worked on in batches within two budgets; where GPU memory runs out, these are halved for a while.

    :param work: Does what is to be done with some texts, given by their numbers.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    waiting = [np.arange(len(sizes))]
    while waiting:
        part, cut = waiting.pop(), gpu.MEMORY_BUDGET.smaller
        groups = [part[group] for group in _batches_by_budget(sizes[part], budget // cut, squared // cut)]
        for place, numbers in enumerate(groups):
            try:
                with gpu.without_cudnn_attention():
                    work(numbers)
            except RuntimeError as error:
                if len(numbers) == 1 or not gpu.is_out_of_memory(error):
                    raise
                gpu.MEMORY_BUDGET.shrink()
                waiting.append(np.concatenate(groups[place:]))
                break
            if gpu.MEMORY_BUDGET.grows() and place + 1 < len(groups):
                waiting.append(np.concatenate(groups[place + 1 :]))
                break


def pieces_at_once(device: torch.device) -> int:
    """Say how many pieces a device reads in one go."""
    return PIECES_AT_ONCE * (GPU_FACTOR if device.type == "cuda" else 1)


def part_for(encoder: Encoder, device: torch.device) -> float:
    """Say which share of that a device reads in one go with an encoder."""
    if device.type != "cuda":
        return 1.0
    n_layers = getattr(encoder.model.config, "num_hidden_layers", 1)
    return min(1.0, USUAL_SIZE / (n_layers * encoder.width))


def run_batches(lengths: IntArray, device: torch.device, work: Callable[[IntArray], None], part: float = 1) -> None:
    """Have texts worked on in batches of like length that suit a device, smaller ones where memory runs out.

    :param part: Share of the usual size of batches.
    """
    factor = part * pieces_at_once(device) / PIECES_AT_ONCE
    _run_batches_within(lengths, int(PIECES_AT_ONCE * factor), int(SQUARED_PIECES_AT_ONCE * factor), work)

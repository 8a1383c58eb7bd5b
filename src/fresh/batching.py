"""Which texts are read together: batches by a budget of pieces over texts of like length."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from fresh.pieces import Ints

JITTER = 0.03
"""How far texts move in the order of lengths, so that other texts meet in each epoch."""
SHORT = 128
"""Pieces up to which a text is short, and filling it up costs little."""
WELL = 64
"""Batches that must go well before larger ones are tried again."""
MOST_TEXTS = 4
"""Times the batch size: how many short texts make a batch at most."""


FULL = (
    "CUDA error: out of memory",
    "CUDA driver error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_NOT_INITIALIZED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_NOT_INITIALIZED",
)
"""How a card without room is told by libraries that do not ask torch for memory."""


def is_full(error: Exception) -> bool:
    """Say whether a card had no room left."""
    return isinstance(error, torch.OutOfMemoryError) or any(sign in str(error) for sign in FULL)


@contextmanager
def unplanned() -> Iterator[None]:
    """Attend without cuDNN inside the block.

    It plans each shape of batch anew, for longer than it saves, and fails without naming memory where a card is full.
    The switch is one for all threads; where blocks of several overlap, cuDNN may stay switched off.
    """
    planned = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(planned)


class Dealt(NamedTuple):
    """A batch of training texts."""

    numbers: Ints
    longest: int
    """Pieces of the longest text."""
    dense: bool
    """Whether all texts are as long as the longest."""
    width: int
    """The length rounded up to one of few, where each shape of batch costs something of its own."""
    n_texts: int
    """How many texts a full batch of this width has."""


def rung(length: int) -> int:
    """Round a length up to one of few widths: by an eighth at most, for long texts by a thirty-second."""
    step = 1 << max(0, (length - 1).bit_length() - (4 if length <= SHORT else 6))
    return -(-length // step) * step


def deal(lengths: Sequence[int] | Ints, batch_size: int, seed: int, epoch: int) -> list[Dealt]:
    """Deal texts into batches at random; texts of like length meet, and batches have about equally many pieces.

    :param batch_size: Texts in a batch on average; short texts come in larger batches, long ones in smaller.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    generator = np.random.default_rng((seed, epoch))
    order = np.argsort(-sizes * generator.uniform(1, 1 + JITTER, len(sizes)), kind="stable")
    budget = batch_size * sizes.mean() if len(sizes) else 0
    batches: list[Dealt] = []
    start = 0
    while start < len(order):
        batches.append(next_batch(sizes, order[start:], budget, MOST_TEXTS * batch_size))
        start += len(batches[-1].numbers)
    return [batches[number] for number in generator.permutation(len(batches))]


def next_batch(sizes: Ints, order: Ints, budget: float, most: int) -> Dealt:
    """Take the longest texts that are left, as many as the budget buys."""
    width, longest = 0, rung(int(sizes[order[0]]))
    while longest > width:  # a text that moved may be a little longer than the first
        width = longest
        n_texts = min(most, max(1, round(budget / width)))
        numbers = order[:n_texts]
        longest = rung(int(sizes[numbers].max()))
    found = sizes[numbers]
    return Dealt(numbers, int(found.max()), bool((found == found[0]).all()), width, n_texts)


def padding_share(lengths: Sequence[int] | Ints, batches: Sequence[Dealt], rounded: bool) -> float:
    """Say which share of all that is computed was only filled up.

    :param rounded: Whether batches are filled up to the rounded width.
    """
    computed = sum(len(batch.numbers) * (batch.width if rounded else batch.longest) for batch in batches)
    return 1 - float(np.sum(lengths)) / computed if computed else 0.0


def batches_by_budget(lengths: Sequence[int] | Ints, budget: int, squared: int) -> Iterator[Ints]:
    """Group texts of like length so that a batch stays within two budgets, or is one text.

    :param budget: Pieces in a batch, filled up, at most.
    :param squared: The same for pairs of pieces, which attention compares.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(sizes, kind="stable")
    start = 0
    for end, size in enumerate(sizes[order].tolist()):
        n_pieces = (end - start + 1) * size
        if end > start and (n_pieces > budget or n_pieces * size > squared):
            yield order[start:end]
            start = end
    if start < len(order):
        yield order[start:]


@dataclass(slots=True)
class Room:
    """How far the budgets of this process are cut since GPU memory ran out, and whether that was said.

    Memory may be short for a while only, where several processes share a card: what went well for long is doubled.
    """

    smaller: int = 1
    n_well: int = 0
    """Batches since then, or since budgets were doubled."""
    said: bool = False

    def shrink(self) -> None:
        """Halve the budgets."""
        self.smaller, self.n_well = 2 * self.smaller, 0
        self.warn()

    def grows(self) -> bool:
        """Count a batch that went well; after many of them budgets are doubled again, up to what they were."""
        self.n_well += 1
        if self.smaller == 1 or self.n_well < WELL:
            return False
        self.smaller, self.n_well = self.smaller // 2, 0
        return True

    def warn(self) -> None:
        """Say once that memory ran out."""
        if not self.said:
            self.said = True
            warnings.warn(OUT_OF_MEMORY, RuntimeWarning, stacklevel=3)


ROOM = Room()
OUT_OF_MEMORY = (
    "Out of GPU memory: fewer pieces are read at once for a while. "
    "The result is the same; a smaller batch_size would be faster in training."
)


def work_through(lengths: Sequence[int] | Ints, budget: int, squared: int, work: Callable[[Ints], None]) -> None:
    """Have texts worked on in batches within two budgets; where GPU memory runs out, these are halved for a while.

    :param work: Does what is to be done with some texts, given by their numbers.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    waiting = [np.arange(len(sizes))]
    while waiting:
        part, cut = waiting.pop(), ROOM.smaller
        groups = [part[group] for group in batches_by_budget(sizes[part], budget // cut, squared // cut)]
        for place, numbers in enumerate(groups):
            try:
                with unplanned():
                    work(numbers)
            except RuntimeError as error:
                if len(numbers) == 1 or not is_full(error):
                    raise
                ROOM.shrink()
                waiting.append(np.concatenate(groups[place:]))
                break
            if ROOM.grows() and place + 1 < len(groups):
                waiting.append(np.concatenate(groups[place + 1 :]))
                break

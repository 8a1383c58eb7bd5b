"""Windows that grow by a word at a time, while that gains enough or a common budget lasts."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fresh.selection._topk import (
    Chosen,
    Counts,
    Flags,
    Places,
    Rows,
    Scores,
    Windows,
    best_windows,
    by_length,
    choose_rows,
    mark_rows,
    parts,
    window_sums,
)

N_GROWN = 2**20
"""How many words grow together: many, since each length that some window has costs a few calls."""
N_SAMPLED = 2**11
"""How many documents are asked first how low the gains will get."""
N_TIED = 128
"""How many documents are asked first for steps that gain equally."""
NEAR = np.float32(2**-20)
"""How far apart two rough sums of windows may be, and the true ones still tie: well above six roundings of 2 ** -24."""


def _add_exactly(left: Scores, right: Scores) -> tuple[Scores, Scores]:
    """Add numbers: the rounded sums, and what rounding took from them (Knuth's two-sum)."""
    sums = left + right
    rounded = sums - left
    return sums, (left - (sums - rounded)) + (right - rounded)


@dataclass(frozen=True, slots=True)
class _Longer:
    """The longer windows of documents: where the best ones start, and what they gain."""

    windows: Windows
    rough: NDArray[np.float32]
    """The sums of the first words as parts of all scores' sizes, half as long to look at. Shape as that of the sums."""
    rests: Scores
    """What rounding took from the sums of the first words. Shape: (documents, words + 1)."""
    doubts: Scores
    """How far off these may be in the difference of two windows: nearly always not at all. Shape: (documents,)."""

    @classmethod
    def of(cls, windows: Windows) -> Self:
        """Make the sums rough, and find out what rounding took from each."""
        rough: NDArray[np.float32] = np.empty(windows.sums.shape, dtype=np.float32)
        rests, doubts = np.zeros_like(windows.sums), np.empty(len(rough))
        sizes = np.where(windows.sizes > 0, windows.sizes, 1)
        for part in parts(len(rough), rough.shape[1]):
            np.divide(windows.sums[part], sizes[part], out=rough[part], casting="same_kind")
            _, taken = _add_exactly(windows.sums[part, :-1], windows.scores[part])
            np.cumsum(taken, axis=1, out=rests[part, 1:])
            _, taken = _add_exactly(rests[part, :-1], taken)
            doubts[part] = 8 * np.abs(taken).sum(axis=1)
        doubts[windows.exponents[:, 0] != 0] = math.inf
        return cls(windows, rough, rests, doubts)

    def starts(self, rows: Places, length: int) -> Places:
        """Find where the best windows of some rows start: roughly, and closely where that leaves a doubt."""
        starts = np.empty(len(rows), dtype=np.intp)
        for part in parts(len(rows), self.rough.shape[1]):
            which = rows[part]
            sums = window_sums(self.rough[which], length)
            near = sums >= sums.max(axis=1, keepdims=True) - NEAR
            starts[part] = near.argmax(axis=1)
            if np.count_nonzero(near) > len(which):
                unsure = np.flatnonzero(np.count_nonzero(near, axis=1) > 1)
                starts[part][unsure] = self.windows.best(length, which[unsure])
        return starts

    def lower(self, levels: Scores, rows: Places, starts: Places, following: Places, length: int) -> Scores:
        """Lower levels to what some rows gain by going from their best window to the one that is a word longer.

        A gain is the exact difference, rounded once, so that equal gains are equal in whatever document they arise.
        Where the longer window holds the shorter one, it is the score of the added word.
        """
        added = self.windows.scores[rows, np.where(following == starts, starts + length, following)]
        jumped = (following != starts) & (following != starts - 1)
        lowered = np.where(jumped, levels, np.minimum(levels, added))
        jumps = np.flatnonzero(jumped)
        plus = np.stack([following[jumps] + length + 1, starts[jumps]])
        minus = np.stack([following[jumps], starts[jumps] + length])
        sizes = self.windows.sizes[rows[jumps], 0]
        gains = (self.rough[rows[jumps], plus] - self.rough[rows[jumps], minus]).sum(axis=0) * sizes
        low = (gains <= levels[jumps] + NEAR * sizes) | (self.windows.exponents[rows[jumps], 0] != 0)
        jumps, plus, minus = jumps[low], plus[:, low], minus[:, low]
        lowered[jumps] = np.minimum(levels[jumps], self.differ(rows[jumps], plus, minus))
        return lowered

    def differ(self, rows: Places, plus: Places, minus: Places) -> Scores:
        """Add and subtract the sums of the first so many words, and round once. Shape of plus and minus: (2, rows)."""
        sums, first = _add_exactly(self.windows.sums[rows, plus], -self.windows.sums[rows, minus])
        rests, second = _add_exactly(self.rests[rows, plus], -self.rests[rows, minus])
        total, last = _add_exactly(sums[0], sums[1])
        rests, third = _add_exactly(rests, first)
        rest, fourth = _add_exactly(rests[0], rests[1])
        rest, fifth = _add_exactly(rest, last)
        total, rest = _add_exactly(total, rest)
        lost = np.abs(second).sum(axis=0) + np.abs(third).sum(axis=0) + np.abs(fourth) + np.abs(fifth)
        doubts = 2 * lost + self.doubts[rows]
        reach = np.spacing(np.nextafter(np.abs(total), 0)) / 2
        for place in np.flatnonzero((np.abs(rest) + doubts >= reach) & (doubts > 0)).tolist():
            scores, (won, before), (after, lost_end) = self.windows.scores[rows[place]], plus[:, place], minus[:, place]
            total[place] = math.fsum([*scores[after:won].tolist(), *(-scores[before:lost_end]).tolist()])
        return total


@dataclass(frozen=True, slots=True)
class _Steps:
    """Words by which windows grew, those of one document in their order."""

    documents: NDArray[np.int32]
    levels: Scores
    """The lowest gain of the document's steps, up to this one."""
    starts: NDArray[np.int32]
    """Where the window starts after the step."""

    @classmethod
    def joined(cls, steps: Sequence["_Steps"]) -> Self:
        """Put steps one after the other."""
        nothing = _Steps(np.empty(0, dtype=np.int32), np.empty(0), np.empty(0, dtype=np.int32))
        steps = [nothing, *steps]
        return cls(
            np.concatenate([part.documents for part in steps]),
            np.concatenate([part.levels for part in steps]),
            np.concatenate([part.starts for part in steps]),
        )

    def lowest(self, n_steps: int) -> float:
        """Find the level down to which there are so many steps."""
        last = len(self.levels) - n_steps
        return float(np.partition(self.levels, last)[last])

    def first(self, n_steps: int) -> Flags:
        """Mark the steps that the greedy choice takes first: always the one with the largest gain.

        The earlier document wins a tie. What follows a step in its document and gains more is taken right after it, so
        the order is that of the levels, then that of the documents.
        """
        lowest = self.lowest(n_steps)
        taken: Flags = self.levels > lowest
        tied = np.flatnonzero(self.levels == lowest)
        order = np.argsort(self.documents[tied], kind="stable")
        taken[tied[order[: n_steps - np.count_nonzero(taken)]]] = True
        return taken


@dataclass(frozen=True, slots=True)
class _Growth:
    """How far the windows of documents have grown; they grow by a word at a time."""

    lengths: Counts
    starts: Places
    levels: Scores
    """The lowest gain of each document's steps, the next one included; infinite before any was looked at."""
    sizes: Scores
    exponents: Counts
    """As those of windows. Shape: (documents, 1)."""

    @classmethod
    def start(cls, rows: Rows, minima: Counts) -> Self:
        """Find the best window of minimal length in each row."""
        starts, levels = np.zeros(len(rows), dtype=np.intp), np.where(minima < rows.n_words, math.inf, -math.inf)
        sizes, exponents = np.zeros((len(rows), 1)), np.zeros((len(rows), 1), dtype=np.int64)
        for places, n_words in by_length(rows.n_words):
            for part in parts(len(places), n_words):
                which = places[part]
                windows = Windows.of(rows.stack(which))
                starts[which], sizes[which] = windows.best(int(minima[which[0]])), windows.sizes
                exponents[which] = windows.exponents
        return cls(minima.copy(), starts, levels, sizes, exponents)

    def which(self, documents: Places | slice) -> "_Growth":
        """Copy that of some documents."""
        lengths, starts, levels = self.lengths[documents], self.starts[documents], self.levels[documents]
        # Not every choice of documents makes a copy.
        return _Growth(lengths.copy(), starts.copy(), levels.copy(), self.sizes[documents], self.exponents[documents])

    def grow(self, rows: Rows, documents: Places, level: float) -> _Steps:
        """Let the windows of some rows grow down to some gain; return the steps."""
        found = []
        for places in _alike(rows.n_words[documents]):
            which = documents[places]
            grown, n_words = self.which(which), rows.n_words[which][:, None]
            windows = Windows.measured(rows.stack(which), n_words, grown.sizes, grown.exponents)
            steps = grown.grow_together(windows, level)
            self.lengths[which], self.starts[which], self.levels[which] = grown.lengths, grown.starts, grown.levels
            found.append(_Steps(which[steps.documents].astype(np.int32), steps.levels, steps.starts))
        return _Steps.joined(found)

    def grow_together(self, windows: Windows, level: float) -> _Steps:
        """Let windows grow that are looked at together; return the steps."""
        longer, n_words = _Longer.of(windows), windows.n_words[:, 0]
        steps = []
        for length in range(int(self.lengths.min()), windows.scores.shape[1]):
            rows = np.flatnonzero((self.lengths == length) & (length < n_words))  # those that stopped are shorter
            if rows.size:
                following = longer.starts(rows, length + 1)
                self.levels[rows] = longer.lower(self.levels[rows], rows, self.starts[rows], following, length)
                worth = self.levels[rows] >= level
                rows = rows[worth]
                self.starts[rows], self.lengths[rows] = following[worth], length + 1
                steps.append(_Steps(rows.astype(np.int32), self.levels[rows], self.starts[rows].astype(np.int32)))
        self.levels[self.lengths == n_words] = -math.inf
        return _Steps.joined(steps)

    def next_level(self, n_steps: int) -> float:
        """Say down to which gain to go on if so many steps are missing.

        Half of them are surely found, if there are as many documents that can grow; far more than all are unlikely.
        """
        levels = self.levels[self.levels > -math.inf]
        rank = len(levels) - (min(n_steps, len(levels)) + 1) // 2
        return float(np.partition(levels, rank)[rank])


def _alike(n_words: Counts) -> Iterator[Places]:
    """Walk through documents of nearly one length together: their places."""
    order = np.argsort(n_words, kind="stable")
    ordered, start = n_words[order], 0
    while start < len(order):
        end = int(np.searchsorted(ordered, ordered[start] * 5 // 4 + 8, side="right"))
        end = min(end, start + max(1, N_GROWN // int(ordered[end - 1])))
        yield order[start:end]
        start = end


def grow_each(rows: Rows, minima: Counts, cutoff: float) -> Chosen:
    """Mark the best window of minimal length in each row, and let it grow while the next word gains enough."""
    growth = _Growth.start(rows, minima)
    growth.grow(rows, np.flatnonzero(growth.levels > -math.inf), cutoff)
    return mark_rows(rows, growth.starts, growth.lengths)


def spend_on_windows(rows: Rows, minima: Counts, n_spare: int) -> tuple[Chosen, float | None]:
    """Mark the best window of minimal length in each row and then grow some; also return the lowest gain of these."""
    if n_spare == 0:
        return choose_rows(rows, minima, best_windows), None
    growth = _Growth.start(rows, minima)
    starts = growth.starts.copy()
    steps = _find_steps(rows, growth, n_spare, _sample_level(rows, growth, n_spare))
    taken = steps.first(n_spare)
    documents = steps.documents[taken]
    starts[documents] = steps.starts[taken]  # of several steps of a document, the last one stays
    lengths = minima + np.bincount(documents, minlength=len(rows))
    return mark_rows(rows, starts, lengths), float(steps.levels[taken].min())


def _sample_level(rows: Rows, growth: _Growth, n_steps: int) -> float:
    """Guess from some of the rows how low the gains get when all rows take so many steps; infinite without a guess."""
    every = len(rows) // N_SAMPLED
    if every < 2:
        return math.inf
    some, sample = Rows(rows.scores[::every], rows.n_words[::every]), growth.which(slice(None, None, every))
    # A little more than their share, since to go on is dearer than to have gone too far.
    n_some = min(n_steps * len(some) * 51 // (len(rows) * 50) + 1, int((some.n_words - sample.lengths).sum()))
    return _find_steps(some, sample, n_some, math.inf).lowest(n_some) if n_some else math.inf


def _find_steps(rows: Rows, growth: _Growth, n_steps: int, level: float) -> _Steps:
    """Find the steps that the greedy choice takes first, at least so many.

    :param level: A guess of the lowest gain.
    """
    found: list[_Steps] = []
    n_left = n_steps
    while n_left > 0:
        above = float(np.nextafter(level, math.inf))
        found.append(growth.grow(rows, np.flatnonzero(growth.levels >= above), above))
        n_left -= len(found[-1].levels)
        # Where gains tie, the later documents are not looked at if the earlier ones give enough.
        tied, n_together = np.flatnonzero(growth.levels >= level), N_TIED
        while n_left > 0 and tied.size:
            some, tied = np.split(tied, [min(n_left, n_together)])
            found.append(growth.grow(rows, some, level))
            n_left -= len(found[-1].levels)
            n_together *= 2
        if n_left > 0:
            level = growth.next_level(n_left)
    return _Steps.joined(found)

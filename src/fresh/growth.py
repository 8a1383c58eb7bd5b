"""Windows that grow by a word at a time, while that gains enough or a common budget lasts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fresh.choice import (
    Chosen,
    Counts,
    Flags,
    Places,
    Rows,
    Scores,
    Windows,
    by_length,
    choose_rows,
    mark,
    parts,
    window_sums,
)

N_GROWN = 2**20
"""How many words grow together: many, since each length that some window has costs a few calls."""
N_SAMPLED = 2**11
"""How many documents are asked first how low the gains will get."""
NEAR = np.float32(2**-20)
"""How far apart two rough sums of windows may be, and the true ones still tie: well above six roundings of 2 ** -24."""


def best_windows(scores: Scores, k: int, cutoff: float = math.inf) -> Flags:
    """Mark the best window of k words in each row, and let it grow while the next word gains enough.

    :param scores: Shape: (documents, words).
    :param cutoff: The gain that makes a window grow.
    :return: Shape: (documents, words).
    """
    windows = Windows.of(scores)
    growth = Growth(np.full(len(scores), k), windows.best(k), np.full(len(scores), math.inf))
    if cutoff < math.inf:
        growth.go_on(windows, cutoff)
    return mark(growth.starts, growth.lengths, scores.shape[1])


def add_exactly(left: Scores, right: Scores) -> tuple[Scores, Scores]:
    """Add numbers: the rounded sums, and what rounding took from them (Knuth's two-sum)."""
    sums = left + right
    rounded = sums - left
    return sums, (left - (sums - rounded)) + (right - rounded)


@dataclass(frozen=True, slots=True)
class Longer:
    """The longer windows of documents of one length: where the best ones start, and what they gain."""

    windows: Windows
    sizes: Scores
    """Those of the windows, or one where nothing has a size. Shape: (documents, 1)."""
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
        rests, doubts = np.zeros_like(windows.sums), np.full(len(rough), math.inf)
        sizes = np.where(windows.sizes > 0, windows.sizes, 1)
        for part in parts(len(rough), rough.shape[1]):
            np.divide(windows.sums[part], sizes[part], out=rough[part], casting="same_kind")
            if not windows.scaled:
                _, taken = add_exactly(windows.sums[part, :-1], windows.scores[part])
                np.cumsum(taken, axis=1, out=rests[part, 1:])
                _, taken = add_exactly(rests[part, :-1], taken)
                doubts[part] = 8 * np.abs(taken).sum(axis=1)
        return cls(windows, sizes, rough, rests, doubts)

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
        if not self.windows.scaled:
            gains = (self.rough[rows[jumps], plus] - self.rough[rows[jumps], minus]).sum(axis=0)
            low = gains <= levels[jumps] / self.sizes[rows[jumps], 0] + NEAR
            jumps, plus, minus = jumps[low], plus[:, low], minus[:, low]
        lowered[jumps] = np.minimum(levels[jumps], self.differ(rows[jumps], plus, minus))
        return lowered

    def differ(self, rows: Places, plus: Places, minus: Places) -> Scores:
        """Add and subtract the sums of the first so many words, and round once. Shape of plus and minus: (2, rows)."""
        sums, first = add_exactly(self.windows.sums[rows, plus], -self.windows.sums[rows, minus])
        rests, second = add_exactly(self.rests[rows, plus], -self.rests[rows, minus])
        total, last = add_exactly(sums[0], sums[1])
        rests, third = add_exactly(rests, first)
        rest, fourth = add_exactly(rests[0], rests[1])
        rest, fifth = add_exactly(rest, last)
        total, rest = add_exactly(total, rest)
        lost = np.abs(second).sum(axis=0) + np.abs(third).sum(axis=0) + np.abs(fourth) + np.abs(fifth)
        doubts = 2 * lost + self.doubts[rows]
        reach = np.spacing(np.nextafter(np.abs(total), 0)) / 2
        for place in np.flatnonzero((np.abs(rest) + doubts >= reach) & (doubts > 0)).tolist():
            scores, (won, before), (after, lost_end) = self.windows.scores[rows[place]], plus[:, place], minus[:, place]
            total[place] = math.fsum([*scores[after:won].tolist(), *(-scores[before:lost_end]).tolist()])
        return total


@dataclass(frozen=True, slots=True)
class Steps:
    """Words by which windows grew, those of one document in their order."""

    documents: NDArray[np.int32]
    levels: Scores
    """The lowest gain of the document's steps, up to this one."""
    starts: NDArray[np.int32]
    """Where the window starts after the step."""

    @classmethod
    def joined(cls, steps: Sequence["Steps"]) -> Self:
        """Put steps one after the other."""
        nothing = Steps(np.empty(0, dtype=np.int32), np.empty(0), np.empty(0, dtype=np.int32))
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
class Growth:
    """How far the windows of some documents have grown; they grow by a word at a time."""

    lengths: Counts
    starts: Places
    levels: Scores
    """The lowest gain of each document's steps, the next one included; infinite before any was looked at."""

    def go_on(self, windows: Windows, cutoff: float) -> Steps:
        """Let the windows of documents of one length grow while that gains enough; return the steps."""
        n_words = windows.scores.shape[1]
        longer = Longer.of(windows)
        steps = []
        for length in range(int(self.lengths.min(initial=n_words)), n_words):
            rows = np.flatnonzero(self.lengths == length)  # those that stopped before are shorter
            if rows.size:
                following = longer.starts(rows, length + 1)
                self.levels[rows] = longer.lower(self.levels[rows], rows, self.starts[rows], following, length)
                worth = self.levels[rows] >= cutoff
                rows = rows[worth]
                self.starts[rows], self.lengths[rows] = following[worth], length + 1
                steps.append(Steps(rows.astype(np.int32), self.levels[rows], self.starts[rows].astype(np.int32)))
        self.levels[self.lengths == n_words] = -math.inf
        return Steps.joined(steps)

    def which(self, documents: Places) -> "Growth":
        """Copy that of some documents."""
        return Growth(self.lengths[documents], self.starts[documents], self.levels[documents])

    def put(self, documents: Places, grown: "Growth") -> None:
        """Put back how far some documents' windows have grown."""
        self.lengths[documents], self.starts[documents] = grown.lengths, grown.starts
        self.levels[documents] = grown.levels

    def next_level(self, n_steps: int) -> float:
        """Say down to which gain to go on if so many steps are missing.

        Half of them are surely found, if there are as many documents that can grow; far more than all are unlikely.
        """
        levels = self.levels[self.levels > -math.inf]
        rank = len(levels) - (min(n_steps, len(levels)) + 1) // 2
        return float(np.partition(levels, rank)[rank])


def spend_on_windows(rows: Rows, minima: Counts, n_spare: int) -> tuple[Chosen, float | None]:
    """Mark the best window of minimal length in each row and then grow some; also return the lowest gain of these."""
    if n_spare == 0:
        return choose_rows(rows, minima, best_windows), None
    starts = start_all(rows, minima)
    steps = grow_all(rows, minima, starts, n_spare, sample_level(rows, minima, starts, n_spare))
    taken = steps.first(n_spare)
    documents = steps.documents[taken]
    starts[documents] = steps.starts[taken]  # of several steps of a document, the last one stays
    lengths = minima + np.bincount(documents, minlength=len(rows))
    chosen: Chosen = []
    for places, n_words in by_length(rows.n_words):
        kept = np.empty((len(places), n_words), dtype=np.bool_)
        for part in parts(len(places), n_words):
            kept[part] = mark(starts[places[part]], lengths[places[part]], n_words)
        chosen.append((places, kept))
    return chosen, float(steps.levels[taken].min())


def start_all(rows: Rows, minima: Counts) -> Places:
    """Find where the best window of minimal length starts in each row."""
    starts = np.zeros(len(rows), dtype=np.intp)
    for places, n_words in by_length(rows.n_words):
        for part in parts(len(places), n_words):
            starts[places[part]] = Windows.of(rows.stack(places[part])).best(int(minima[places[0]]))
    return starts


def sample_level(rows: Rows, minima: Counts, starts: Places, n_steps: int) -> float:
    """Guess from some of the rows how low the gains get when all rows take so many steps; infinite without a guess."""
    every = len(rows) // N_SAMPLED
    if every < 2:
        return math.inf
    some, least = Rows(rows.scores[::every], rows.n_words[::every]), minima[::every]
    # A little more than their share, since to go on is dearer than to have gone too far.
    n_some = min(n_steps * len(some) * 51 // (len(rows) * 50) + 1, int((some.n_words - least).sum()))
    return grow_all(some, least, starts[::every], n_some, math.inf).lowest(n_some) if n_some else math.inf


def grow_all(rows: Rows, minima: Counts, starts: Places, n_steps: int, level: float) -> Steps:
    """Find at least so many steps, and all that are as good.

    :param level: A guess of the lowest gain.
    """
    growth = Growth(minima.copy(), starts.copy(), np.where(minima < rows.n_words, math.inf, -math.inf))
    found = grow_to(rows, growth, level)
    n_found = sum(len(steps.levels) for steps in found)
    while n_found < n_steps:
        more = grow_to(rows, growth, growth.next_level(n_steps - n_found))
        n_found += sum(len(steps.levels) for steps in more)
        found += more
    return Steps.joined(found)


def grow_to(rows: Rows, growth: Growth, level: float) -> list[Steps]:
    """Let the windows of all rows grow down to some gain; return the steps."""
    found = []
    documents = np.flatnonzero(growth.levels >= level)
    for places, n_words in by_length(rows.n_words[documents]):
        for part in parts(len(places), n_words, N_GROWN):
            which = documents[places[part]]
            grown = growth.which(which)
            steps = grown.go_on(Windows.of(rows.stack(which)), level)
            growth.put(which, grown)
            found.append(Steps(which[steps.documents].astype(np.int32), steps.levels, steps.starts))
    return found

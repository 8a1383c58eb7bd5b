"""Windows that grow by one word at a time, while that gains enough or while a common budget lasts."""

import heapq
import math

import numpy as np

from fresh.selection._topk import Counts, Flags, Scores, ScoreTable, WindowSums


class _GrowingWindow:
    """The best window of a document, and what the best window that is one word longer gains."""

    def __init__(self, scores: Scores, length: int) -> None:
        self._scores = scores
        self._sums = WindowSums.of(scores[None])
        self.length = length
        self.start = self._best_start(length)
        self._look_ahead()

    def _best_start(self, length: int) -> int:
        return int(self._sums.best_starts(length)[0])

    def _look_ahead(self) -> None:
        """Find the best window that is one word longer, and its gain."""
        self.gain = -math.inf
        if self.length == len(self._scores):
            return
        start, length = self.start, self.length
        self._next_start = following = self._best_start(length + 1)
        # A gain is the exact difference, rounded once, so that equal gains of different documents tie. A difference of
        # rounded sums would not do: 0.1 + 0.2 - 0.1 is not 0.2. If the longer window contains the shorter one, the gain
        # is the score of the added word.
        if following == start:
            self.gain = float(self._scores[start + length])
        elif following == start - 1:
            self.gain = float(self._scores[following])
        else:
            gained, lost = self._scores[following : following + length + 1], self._scores[start : start + length]
            self.gain = math.fsum([*gained.tolist(), *(-lost).tolist()])

    def grow(self) -> None:
        """Become the best window that is one word longer."""
        self.start, self.length = self._next_start, self.length + 1
        self._look_ahead()


def grow_each(table: ScoreTable, minima: Counts, cutoff: float) -> Flags:
    """Mark the best window of minimal length in each document, and let it grow while the next word gains enough."""
    windows = _best_windows(table, minima)
    for window in windows:
        while window.gain >= cutoff:
            window.grow()
    return _mark(table, windows)


def spend_on_windows(table: ScoreTable, minima: Counts, n_spare: int) -> tuple[Flags, float | None]:
    """Mark the best window of each document and then let some grow; also return the lowest gain of the latter.

    :param minima: Number of words that each document always keeps.
    :param n_spare: Number of further words that all documents keep together.
    """
    windows = _best_windows(table, minima)
    # A heap of next gains is the greedy choice by its definition. An earlier version grew all documents together, in
    # 65 s for a million of 300 words, with four times the code; in practice, thousands share a budget.
    heap = [(-window.gain, place) for place, window in enumerate(windows)]
    heapq.heapify(heap)
    lowest: float | None = None
    for _ in range(n_spare):
        gain, place = heap[0]  # tuples compare by place next: of equal gains, the earlier document grows
        lowest = -gain if lowest is None else min(lowest, -gain)
        windows[place].grow()
        heapq.heapreplace(heap, (-windows[place].gain, place))
    return _mark(table, windows), lowest


def _best_windows(table: ScoreTable, lengths: Counts) -> list[_GrowingWindow]:
    return list(map(_GrowingWindow, np.split(table.scores, table.firsts[1:]), lengths.tolist()))


def _mark(table: ScoreTable, windows: list[_GrowingWindow]) -> Flags:
    kept = np.zeros(len(table.scores), dtype=np.bool_)
    for first, window in zip(table.firsts.tolist(), windows, strict=True):
        kept[first + window.start : first + window.start + window.length] = True
    return kept

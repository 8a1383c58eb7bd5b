"""Finds the best words or the best windows of given lengths, in many documents at once."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fresh.document import Saliency

Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]
Places = NDArray[np.intp]
Scores = NDArray[np.float64]

# Words that are cut together: they fit into a processor's cache, and the number bounds the memory in use.
N_STACKED = 2**16


class ScoreTable:
    """The scores of many documents, one document after the other."""

    def __init__(self, saliencies: Sequence[Saliency]) -> None:
        self.scores: Scores = np.concatenate([np.empty(0), *(saliency.scores for saliency in saliencies)])  # (words,)
        self.n_words: Counts = np.fromiter(map(len, saliencies), dtype=np.int64, count=len(saliencies))  # (documents,)
        self.firsts: Counts = np.cumsum(self.n_words) - self.n_words  # where each document begins: (documents,)


def choose_rows(table: ScoreTable, counts: Counts, choose: Callable[[Scores, int], Flags]) -> Flags:
    """Choose words in each document by itself. Shape: (words,).

    :param counts: Number of words to keep in each document; equal for documents of one length.
    :param choose: Marks that number of words in each row of a matrix, independently of other rows.
    """
    kept = np.zeros(len(table.scores), dtype=np.bool_)
    # Documents of one length make a matrix, so that NumPy cuts all of them at once: 15 (Contiguous) to 27 times (TopK)
    # as fast as plain Python on 100,000 documents.
    order, firsts = np.argsort(table.n_words, kind="stable"), table.firsts
    order = order[table.n_words[order] > 0]
    lengths, starts = np.unique(table.n_words[order], return_index=True)
    for n_words, group in zip(lengths.tolist(), np.split(order, starts[1:]), strict=False):
        n_together = max(1, N_STACKED // n_words)
        for stack in np.split(group, range(n_together, len(group), n_together)):
            places = firsts[stack, None] + np.arange(n_words)
            kept[places] = choose(table.scores[places], int(counts[stack[0]]))
    return kept


def top_k(scores: Scores, k: int) -> Flags:
    """Mark the k highest scores of each row, the earlier one of a tie. Shape: (documents, words)."""
    # A partition takes linear time; the order among the k best does not matter.
    last = scores.shape[1] - k
    lowest = np.partition(scores, last, axis=1)[:, last, None]
    kept: Flags = scores >= lowest
    if np.count_nonzero(kept) > k * len(scores):
        tied = np.flatnonzero(kept.sum(axis=1) > k)
        above: Flags = scores[tied] > lowest[tied]
        n_left = k - above.sum(axis=1, keepdims=True)
        ties = kept[tied] & ~above
        kept[tied] = above | (ties & (np.cumsum(ties, axis=1) <= n_left))
    return kept


class WindowSums:
    """The sums of windows of documents of one length, from scores of shape (documents, words).

    Windows tie if their sums lie within 2 (n + 1) ε Σ|score| of the best, where n is the number of words and ε the
    spacing of numbers at 1: a bound on the rounding error of the difference of two sums of n numbers.
    """

    def __init__(self, scores: Scores) -> None:
        with np.errstate(over="ignore"):
            sizes = np.abs(scores).sum(axis=1, keepdims=True)
        # Doubles range from 2**-1022 to 2**1024: near these, sums overflow or the noise underflows to 0. Dividing by a
        # power of two is exact.
        safe = (sizes == 0) | ((sizes > 2.0**-900) & (sizes < 2.0**900))
        if not safe.all():
            exponents = np.where(safe, 0, np.frexp(np.abs(scores).max(axis=1, keepdims=True))[1])
            scores = np.ldexp(scores, -exponents)
            sizes = np.abs(scores).sum(axis=1, keepdims=True)
        self.sums: Scores = np.zeros((len(scores), scores.shape[1] + 1))  # of the first 0, 1, 2, ... words
        np.cumsum(scores, axis=1, out=self.sums[:, 1:])
        # How far sums that tie may differ. Shape: (documents, 1).
        self.noise: Scores = 2 * self.sums.shape[1] * np.finfo(np.float64).eps * sizes

    def best_starts(self, length: int) -> Places:
        """Find where the best window of each row starts, the leftmost where they tie. Shape: (documents,)."""
        sums = self.sums[:, length:] - self.sums[:, : self.sums.shape[1] - length]
        ties = sums >= sums.max(axis=1, keepdims=True) - self.noise
        starts: Places = ties.argmax(axis=1)
        return starts


class GrowingWindow:
    """The best window of a document, and what the best window that is one word longer gains."""

    def __init__(self, scores: Scores, length: int) -> None:
        self._scores = scores
        self._sums = WindowSums(scores[None])
        self.length = length
        [self.start] = self._sums.best_starts(length).tolist()
        self._look_ahead()

    def _look_ahead(self) -> None:
        self.gain = -math.inf
        if self.length == len(self._scores):
            return
        start, length = self.start, self.length
        [self._next_start] = [following] = self._sums.best_starts(length + 1).tolist()
        # A gain is the exact difference, rounded once, so that equal gains of different documents tie. A difference of
        # rounded sums would not do: 0.1 + 0.2 - 0.1 is not 0.2. If the longer window contains the shorter one, the gain
        # is the score of the added word.
        if following in (start, start - 1):
            self.gain = float(self._scores[start + length if following == start else following])
        else:
            gained, lost = self._scores[following : following + length + 1], self._scores[start : start + length]
            self.gain = math.fsum([*gained.tolist(), *(-lost).tolist()])

    def grow(self) -> None:
        """Become the best window that is one word longer."""
        self.start, self.length = self._next_start, self.length + 1
        self._look_ahead()


def best_windows(table: ScoreTable, lengths: Counts) -> list[GrowingWindow]:
    """Find the best window of a length in each document."""
    return list(map(GrowingWindow, np.split(table.scores, table.firsts[1:]), lengths.tolist()))


def mark_windows(table: ScoreTable, windows: Sequence[GrowingWindow]) -> Flags:
    """Mark the words of a window in each document. Shape: (words,)."""
    kept = np.zeros(len(table.scores), dtype=np.bool_)
    for first, window in zip(table.firsts.tolist(), windows, strict=True):
        kept[first + window.start : first + window.start + window.length] = True
    return kept

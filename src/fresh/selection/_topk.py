"""Which words to keep, given how many: the best words or the best window, in many rows of scores at once."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]
Places = NDArray[np.intp]
Scores = NDArray[np.float64]
Floating = TypeVar("Floating", bound=np.floating[Any])
Chosen = list[tuple[Places, Flags]]
"""For each length of a row: the places of the rows of this length, and which of their words are kept."""

N_STACKED = 2**16
"""How many words are looked at together: they fit into a processor's cache, and bound what is held at once."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The scores of many documents."""

    scores: Sequence[Scores]
    n_words: Counts

    @classmethod
    def of(cls, scores: Sequence[Scores]) -> Self:
        """Count the words of each document."""
        return cls(scores, np.fromiter(map(len, scores), dtype=np.int64, count=len(scores)))

    def __len__(self) -> int:
        return len(self.scores)

    def stack(self, places: Places) -> Scores:
        """Make a matrix of some rows; zeros follow the shorter ones."""
        n_words = self.n_words[places]
        scores = np.frombuffer(
            b"".join([self.scores[place] for place in places.tolist()])
        )  # np.stack takes twice as long
        if n_words.min() == n_words.max():
            return scores.reshape(len(places), -1)
        matrix = np.zeros((len(places), int(n_words.max())))
        matrix[np.arange(matrix.shape[1]) < n_words[:, None]] = scores
        return matrix


def by_length(n_words: Counts) -> Iterator[tuple[Places, int]]:
    """Walk through rows of one length together: their places, and their length."""
    order = np.argsort(n_words, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(n_words[order])) + 1):
        if places.size:
            yield places, int(n_words[places[0]])


def parts(n_rows: int, n_words: int, n_together: int | None = None) -> Iterator[slice]:
    """Cut so many rows of one length into parts that can be looked at together; rows without words need no look."""
    n_rows_together = max(1, (n_together or N_STACKED) // max(1, n_words))
    for start in range(0, n_rows if n_words else 0, n_rows_together):
        yield slice(start, min(start + n_rows_together, n_rows))


def choose_rows(rows: Rows, counts: Counts, choose: Callable[[Scores, int], Flags]) -> Chosen:
    """Choose in all rows of one length at once.

    :param counts: How many words to keep in each row; rows of one length keep equally many.
    :param choose: Marks so many words in each row of a matrix, and lets no row see another.
    """
    chosen: Chosen = []
    for places, n_words in by_length(rows.n_words):
        kept = np.empty((len(places), n_words), dtype=np.bool_)
        for part in parts(*kept.shape):
            kept[part] = choose(rows.stack(places[part]), int(counts[places[0]]))
        chosen.append((places, kept))
    return chosen


def top_k(scores: Scores, k: int, cutoff: float = math.inf) -> Flags:
    """Mark the k highest scores of each row, the earlier one where they tie, and all that reach the cut-off.

    :param scores: Shape: (documents, words).
    :return: Shape: (documents, words).
    """
    if cutoff == math.inf:
        return _best_words(scores, k)
    kept: Flags = scores >= cutoff
    # Where k words or more reach the cut-off, the best k are among them; elsewhere they are among the best k.
    few = np.flatnonzero(~kept.any(axis=1) if k == 1 else kept.sum(axis=1) < k)
    kept[few] = _best_words(scores[few], k)
    return kept


def _best_words(scores: Scores, k: int) -> Flags:
    """Mark the k highest scores of each row, the earlier one where they tie. Shape: (documents, words)."""
    last = scores.shape[1] - k
    lowest = np.partition(scores, last, axis=1)[:, last, None]
    kept: Flags = scores >= lowest
    if np.count_nonzero(kept) > k * len(scores):
        tied = np.flatnonzero(kept.sum(axis=1) > k)
        above: Flags = scores[tied] > lowest[tied]
        kept[tied] = above | _first_flags(kept[tied] & ~above, k - above.sum(axis=1))
    return kept


def _first_flags(flags: Flags, counts: Counts) -> Flags:
    """Leave the first so many flags of each row. Shape: (documents, words)."""
    ranks = np.cumsum(flags, axis=1, dtype=np.int32)
    return flags & (ranks <= counts[:, None])


def best_windows(scores: Scores, k: int) -> Flags:
    """Mark the best window of k words in each row. Shape: (documents, words)."""
    return _mark(Windows.of(scores).best(k), np.full(len(scores), k), scores.shape[1])


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of documents, one document a row.

    Windows tie when their sums lie within 2 (n + 1) ε Σ|score| of the best, where n counts the document's words and ε
    is the spacing of numbers at 1: a bound on what rounding can do to the difference of two sums of n numbers.
    """

    scores: Scores
    """Zeros follow the last word. Shape: (documents, words)."""
    n_words: Counts
    """Shape: (documents, 1)."""
    sums: Scores
    """Sums of the first words, scaled; so low behind the last word that no window ends there. (documents, words + 1)"""
    sizes: Scores
    """Sums of the scores' sizes, without their signs, scaled. Shape: (documents, 1)."""
    exponents: Counts
    """Powers of two by which scores are divided, so that no sum is too large; nearly always 0. (documents, 1)"""

    @classmethod
    def of(cls, scores: Scores) -> Self:
        """Measure documents of one length, and add up their scores."""
        n_words, exponents = np.full((len(scores), 1), scores.shape[1]), np.zeros((len(scores), 1), dtype=np.int64)
        with np.errstate(over="ignore"):
            sizes = np.abs(scores).sum(axis=1, keepdims=True)
        safe = (sizes == 0) | ((sizes > 2.0**-900) & (sizes < 2.0**900))
        if not safe.all():
            exponents = np.where(safe, 0, np.frexp(np.abs(scores).max(axis=1, keepdims=True))[1]).astype(np.int64)
            sizes = np.abs(np.ldexp(scores, -exponents)).sum(axis=1, keepdims=True)
        return cls.measured(scores, n_words, sizes, exponents)

    @classmethod
    def measured(cls, scores: Scores, n_words: Counts, sizes: Scores, exponents: Counts) -> Self:
        """Add up the scores of documents that were measured before, each with others of its length."""
        # A power of two scales exactly.
        sums = _sums_of_first(np.ldexp(scores, -exponents) if exponents.any() else scores)
        if n_words.min(initial=scores.shape[1]) < scores.shape[1]:
            behind = np.arange(sums.shape[1]) - n_words
            np.copyto(sums, -4.0 * behind * np.where(sizes > 0, sizes, 1), where=behind > 0)
        return cls(scores, n_words, sums, sizes, exponents)

    def best(self, length: int, rows: Places | None = None) -> Places:
        """Find where the best window starts in each row, or in some, the leftmost where they tie."""
        n_rows = len(self.sums) if rows is None else len(rows)
        starts = np.empty(n_rows, dtype=np.intp)
        for part in parts(n_rows, self.sums.shape[1]):
            which = part if rows is None else rows[part]
            sums = window_sums(self.sums[which], length)
            noise = 2 * (self.n_words[which] + 1) * np.finfo(np.float64).eps * self.sizes[which]
            ties = sums >= sums.max(axis=1, keepdims=True) - noise
            starts[part] = ties.argmax(axis=1)
        return starts


def _sums_of_first(scores: Scores) -> Scores:
    """Add up the first words of each row: none, one, two and so on. Shape: (documents, words + 1)."""
    sums = np.empty((len(scores), scores.shape[1] + 1))
    sums[:, 0] = 0
    np.cumsum(scores, axis=1, out=sums[:, 1:])
    return sums


def window_sums(sums: NDArray[Floating], length: int) -> NDArray[Floating]:
    """Add up every window of so many words. Shape: (documents, words - length + 1)."""
    return sums[:, length:] - sums[:, : sums.shape[1] - length]


def _mark(starts: NDArray[np.integer[Any]], lengths: Counts, n_words: int) -> Flags:
    """Mark one window in each row. Shape: (documents, words)."""
    words, after = np.arange(n_words), starts + lengths
    if n_words < 2**15:  # fewer bytes take less time
        words, starts, after = words.astype(np.int16), starts.astype(np.int16), after.astype(np.int16)
    kept: Flags = (words >= starts[:, None]) & (words < after[:, None])
    return kept


def mark_rows(rows: Rows, starts: Places, lengths: Counts) -> Chosen:
    """Mark one window in each row."""
    chosen: Chosen = []
    for places, n_words in by_length(rows.n_words):
        kept = np.empty((len(places), n_words), dtype=np.bool_)
        for part in parts(*kept.shape):
            kept[part] = _mark(starts[places[part]], lengths[places[part]], n_words)
        chosen.append((places, kept))
    return chosen


def spend_on_words(rows: Rows, minima: Counts, n_spare: int) -> tuple[Chosen, float | None]:
    """Mark the minimum in each row and then the best words of all rows; also return the lowest score of the latter."""
    chosen = choose_rows(rows, minima, top_k)
    if n_spare == 0:
        return chosen, None
    left = _scores_left(rows, chosen, int(rows.n_words.sum() - minima.sum()))
    left.partition(len(left) - n_spare)
    lowest = float(left[len(left) - n_spare])
    n_above = int(np.count_nonzero(left[len(left) - n_spare :] > lowest))
    del left
    _mark_ties(rows, chosen, lowest, n_spare - n_above)
    for places, kept in chosen:
        for part in parts(*kept.shape):
            kept[part] |= rows.stack(places[part]) > lowest
    return chosen, lowest


def _scores_left(rows: Rows, chosen: Chosen, n_left: int) -> Scores:
    """Gather the scores of all words that are not kept."""
    left, end = np.empty(n_left), 0
    for places, kept in chosen:
        for part in parts(*kept.shape):
            scores = rows.stack(places[part])[~kept[part]]
            left[end : end + len(scores)] = scores
            end += len(scores)
    return left


def _mark_ties(rows: Rows, chosen: Chosen, score: float, n_more: int) -> None:
    """Mark so many more words of this very score: the earlier row's, then the earlier one."""
    n_tied = np.zeros(len(rows), dtype=np.int64)
    for places, kept in chosen:
        for part in parts(*kept.shape):
            n_tied[places[part]] = ((rows.stack(places[part]) == score) & ~kept[part]).sum(axis=1)
    counts = np.clip(n_more - (np.cumsum(n_tied) - n_tied), 0, n_tied)
    for places, kept in chosen:
        some = np.flatnonzero(counts[places])
        for part in parts(len(some), kept.shape[1]):
            which = some[part]
            tied = (rows.stack(places[which]) == score) & ~kept[which]
            kept[which] |= _first_flags(tied, counts[places[which]])

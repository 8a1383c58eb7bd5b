"""Discretizers turn scores into masks: how many words are kept, and which."""

import heapq
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from fresh.config import is_finite_number
from fresh.document import Mask, Saliency

Flags = NDArray[np.bool_]
Scores = NDArray[np.float64]

# Words that are cut together: they fit into a processor's cache, and the number bounds the memory in use.
N_STACKED = 2**16


class Discretizer(Protocol):
    """Turns scores into masks."""

    def select(self, saliencies: Sequence[Saliency]) -> list[Mask]:
        """Return one mask for each document."""


def budget(n_words: int, ratio: float) -> int:
    """Count the words that a ratio keeps: rounded up in exact decimal arithmetic, at least one, at most all."""
    # In binary floating point, 100 * 0.07 is 7.000000000000001 and would round up to 8.
    return min(n_words, max(1, math.ceil(n_words * Fraction(str(ratio)))))


# The best words and the best windows of documents


class _ScoreTable:
    """The scores of many documents, one document after the other."""

    def __init__(self, saliencies: Sequence[Saliency]) -> None:
        self.scores: Scores = np.concatenate([np.empty(0), *(saliency.scores for saliency in saliencies)])  # (words,)
        self.n_words = np.fromiter(map(len, saliencies), dtype=np.int64, count=len(saliencies))  # (documents,)
        self.firsts = np.cumsum(self.n_words) - self.n_words  # where each document begins: (documents,)

    def choose(self, ratio: float, choose: Callable[[Scores, int], Flags]) -> Flags:
        """Choose a share of each document's words; ``choose`` marks words in each row of a matrix. Shape: (words,)."""
        kept = np.zeros(len(self.scores), dtype=np.bool_)
        # Documents of one length make a matrix, so that NumPy cuts all of them at once: 15 (Contiguous) to 27 times
        # (TopK) as fast as plain Python on 100,000 documents.
        order = np.argsort(self.n_words, kind="stable")
        order = order[self.n_words[order] > 0]
        lengths, starts = np.unique(self.n_words[order], return_index=True)
        for n_words, group in zip(lengths.tolist(), np.split(order, starts[1:]), strict=False):
            k, n_together = budget(n_words, ratio), max(1, N_STACKED // n_words)
            for stack in np.split(group, range(n_together, len(group), n_together)):
                places = self.firsts[stack, None] + np.arange(n_words)
                kept[places] = choose(self.scores[places], k)
        return kept

    def grow(self, ratio: float) -> list[Iterator[tuple[slice, float]]]:
        """Let the best window of each document grow from a share of the words."""
        smallest = cache(lambda n_words: budget(n_words, ratio))  # exact fractions are slow
        rows = zip(np.split(self.scores, self.firsts[1:]), self.n_words.tolist(), strict=False)
        return [_growing_windows(scores, smallest(n_words)) for scores, n_words in rows]

    def mark(self, windows: Sequence[slice]) -> Flags:
        """Mark the words of a window in each document. Shape: (words,)."""
        kept = np.zeros(len(self.scores), dtype=np.bool_)
        for first, window in zip(self.firsts.tolist(), windows, strict=True):
            kept[first + window.start : first + window.stop] = True
        return kept


def _top_k(scores: Scores, k: int) -> Flags:
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


def _best_window(scores: Scores, k: int) -> Flags:
    """Mark the best window of k words in each row. Shape: (documents, words)."""
    # Sums of windows are differences of cumulative sums: linear in the words for any length of the window.
    starts, words = _WindowSums(scores).best_starts(k)[:, None], np.arange(scores.shape[1])
    kept: Flags = (words >= starts) & (words < starts + k)
    return kept


class _WindowSums:
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

    def best_starts(self, length: int) -> NDArray[np.intp]:
        """Find where the best window of each row starts, the leftmost where they tie. Shape: (documents,)."""
        sums = self.sums[:, length:] - self.sums[:, : self.sums.shape[1] - length]
        ties = sums >= sums.max(axis=1, keepdims=True) - self.noise
        starts: NDArray[np.intp] = ties.argmax(axis=1)
        return starts


def _growing_windows(scores: Scores, length: int) -> Iterator[tuple[slice, float]]:
    """Yield a document's best window, then the one that is a word longer, ..., each with what the next one gains."""
    sums = _WindowSums(scores[None])
    [start] = sums.best_starts(length).tolist()
    while length < len(scores):
        [following] = sums.best_starts(length + 1).tolist()
        # A gain is the exact difference, rounded once, so that equal gains of different documents tie. A difference of
        # rounded sums would not do: 0.1 + 0.2 - 0.1 is not 0.2. If the longer window contains the shorter one, the gain
        # is the score of the added word.
        if following in (start, start - 1):
            gain = float(scores[start + length if following == start else following])
        else:
            gained, lost = scores[following : following + length + 1], scores[start : start + length]
            gain = math.fsum([*gained.tolist(), *(-lost).tolist()])
        yield slice(start, start + length), gain
        start, length = following, length + 1
    yield slice(start, start + length), -math.inf


# The discretizers


@dataclass(frozen=True, slots=True)
class _Discretizer(ABC):
    def select(self, saliencies: Sequence[Saliency]) -> list[Mask]:
        """Return one mask for each document."""
        table = _ScoreTable(saliencies)
        return Mask.from_flags(self._keep(table), table.n_words)

    @abstractmethod
    def _keep(self, table: _ScoreTable) -> Flags:
        """Mark the words that are kept. Shape: (words,)."""


@dataclass(frozen=True, slots=True)
class _PerDocument(_Discretizer):
    ratio: float
    """Share of each document's words to keep, rounded up."""

    def __post_init__(self) -> None:
        _check_ratio(self.ratio)


@dataclass(frozen=True, slots=True)
class TopK(_PerDocument):
    """Keep the highest-scoring words; the earlier word wins a tie."""

    def _keep(self, table: _ScoreTable) -> Flags:
        return table.choose(self.ratio, _top_k)


@dataclass(frozen=True, slots=True)
class Contiguous(_PerDocument):
    """Keep the window of words with the largest sum; the leftmost window wins a tie."""

    def _keep(self, table: _ScoreTable) -> Flags:
        return table.choose(self.ratio, _best_window)


@dataclass(frozen=True, slots=True)
class Threshold(_Discretizer):
    """Keep the words that score high enough, and always the best word."""

    cutoff: float
    """Lowest score that is kept."""

    def __post_init__(self) -> None:
        _check_cutoff(self.cutoff)

    def _keep(self, table: _ScoreTable) -> Flags:
        return LearnedTopK(0, self.cutoff)._keep(table)


@dataclass(frozen=True, slots=True)
class _Learned(_Discretizer):
    minimum: float
    """Share of the words that each document always keeps."""
    cutoff: float | None
    """Lowest score, or gain of a word, that is kept beyond the minimum; None keeps nothing more."""

    def __post_init__(self) -> None:
        _check_minimum(self.minimum, 1)
        _check_cutoff(0 if self.cutoff is None else self.cutoff)

    @property
    def _lowest(self) -> float:
        return math.inf if self.cutoff is None else self.cutoff


@dataclass(frozen=True, slots=True)
class LearnedTopK(_Learned):
    """Keep each document's best words, and every word as good as the last that a global budget bought."""

    def _keep(self, table: _ScoreTable) -> Flags:
        def choose(scores: Scores, k: int) -> Flags:
            kept: Flags = scores >= self._lowest
            # Where k words or more reach the cut-off, the best k are among them; elsewhere they are among the best k.
            few = np.flatnonzero(~kept.any(axis=1) if k == 1 else kept.sum(axis=1) < k)
            kept[few] = _top_k(scores[few], k)
            return kept

        return table.choose(self.minimum, choose)


@dataclass(frozen=True, slots=True)
class LearnedContiguous(_Learned):
    """Keep each document's best window, one word longer while that gains as much as the last word that was bought."""

    def _keep(self, table: _ScoreTable) -> Flags:
        grown = (
            next(window for window, gain in windows if gain < self._lowest) for windows in table.grow(self.minimum)
        )
        return table.mark(list(grown))


@dataclass(frozen=True, slots=True)
class _Global(_Discretizer):
    # The minima are kept even if together they cost more than the budget.
    ratio: float
    """Share of all documents' words to keep, rounded up."""
    minimum: float | None = None
    """Share of the words that each document always keeps, at least one word; half the ratio by default."""
    _learned: ClassVar[type[LearnedTopK | LearnedContiguous]]

    def __post_init__(self) -> None:
        _check_ratio(self.ratio)
        _check_minimum(self._minimum, self.ratio)

    @property
    def _minimum(self) -> float:
        return self.ratio / 2 if self.minimum is None else self.minimum

    def learn(self, saliencies: Sequence[Saliency]) -> LearnedTopK | LearnedContiguous:
        """Find the cut-off that serves single documents: the lowest score or gain that the budget bought."""
        return self._learned(self._minimum, self._spend(_ScoreTable(saliencies))[1])

    def _keep(self, table: _ScoreTable) -> Flags:
        return self._spend(table)[0]

    @abstractmethod
    def _spend(self, table: _ScoreTable) -> tuple[Flags, float | None]:
        """Mark the best words of each document, then spare ones of all; also return the lowest score of the latter."""


@dataclass(frozen=True, slots=True)
class GlobalTopK(_Global):
    """Keep the highest-scoring words of all documents together, and a minimum in each.

    The earlier document, then the earlier word, wins a tie.
    """

    _learned = LearnedTopK

    def _spend(self, table: _ScoreTable) -> tuple[Flags, float | None]:
        kept = table.choose(self._minimum, _top_k)
        rest = table.scores[~kept]
        n_spare = budget(len(kept), self.ratio) - np.count_nonzero(kept)
        if n_spare <= 0:
            return kept, None
        lowest = float(np.partition(rest, len(rest) - n_spare)[len(rest) - n_spare])
        # Only words at the lowest score can tie; documents and words are in order, so the first ones win.
        kept |= table.scores > lowest
        n_more = n_spare - int(np.count_nonzero(rest > lowest))
        kept[np.flatnonzero((table.scores == lowest) & ~kept)[:n_more]] = True
        return kept, lowest


@dataclass(frozen=True, slots=True)
class GlobalContiguous(_Global):
    """Keep one window of words in each document, whose length depends on the gains of all documents together.

    Each document starts with its best window of minimal length. Then the document grows by a word whose best window
    gains most by it, the earlier document where they tie, until the budget is spent.
    """

    # Gains need not fall as a window grows: where the last word that the budget bought opens a better one, the learned
    # rule takes that one too.
    _learned = LearnedContiguous

    def _spend(self, table: _ScoreTable) -> tuple[Flags, float | None]:
        growing = table.grow(self._minimum)
        best = list(map(next, growing))
        # A heap of next gains is the greedy choice by its definition. An earlier version grew all documents together,
        # in 65 s for a million of 300 words, with four times the code; in practice, thousands share a budget.
        heap = [(-gain, place) for place, (_, gain) in enumerate(best)]
        heapq.heapify(heap)
        n_spare = budget(len(table.scores), self.ratio) - sum(window.stop - window.start for window, _ in best)
        lowest = math.inf
        for _ in range(n_spare):
            gain, place = heap[0]  # tuples compare by place next: of equal gains, the earlier document grows
            lowest = min(lowest, -gain)
            best[place] = next(growing[place])
            heapq.heapreplace(heap, (-best[place][1], place))
        return table.mark([window for window, _ in best]), lowest if n_spare > 0 else None


def _check_ratio(ratio: float) -> None:
    if not (is_finite_number(ratio) and 0 < ratio <= 1):
        raise ValueError(f"ratio must be in (0, 1], got {ratio!r}.")


def _check_minimum(minimum: float, highest: float) -> None:
    if not (is_finite_number(minimum) and 0 <= minimum <= highest):
        raise ValueError(f"minimum must be in [0, {highest}], got {minimum!r}.")


def _check_cutoff(cutoff: float) -> None:
    if not is_finite_number(cutoff):
        raise ValueError(f"cutoff must be a finite number, got {cutoff!r}.")


DISCRETIZERS: dict[str, type[Any]] = {
    "top_k": TopK,
    "contiguous": Contiguous,
    "global_top_k": GlobalTopK,
    "global_contiguous": GlobalContiguous,
    "threshold": Threshold,
}
"""Discretizers that a user can choose, by name."""
_KINDS: dict[str, type[Any]] = {**DISCRETIZERS, "learned_top_k": LearnedTopK, "learned_contiguous": LearnedContiguous}


def discretizer_to_dict(discretizer: Discretizer) -> dict[str, Any]:
    """Return the name and the settings of a discretizer, ready for JSON."""
    kind: type[Any] = type(discretizer)
    names = {kind: name for name, kind in _KINDS.items()}
    if kind not in names:
        raise TypeError(f"{kind.__name__} cannot be saved. There are: {', '.join(_KINDS)}.")
    return {"name": names[kind]} | {field.name: getattr(discretizer, field.name) for field in fields(kind)}


def discretizer_from_dict(record: Mapping[str, Any]) -> Discretizer:
    """Make the discretizer that :func:`discretizer_to_dict` described."""
    discretizer: Discretizer = _KINDS[record["name"]](**{key: record[key] for key in record.keys() - {"name"}})
    return discretizer

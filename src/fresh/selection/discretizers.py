"""Discretizers turn scores into masks: how many words are kept, and which."""

import heapq
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np

from fresh.config import is_finite_number
from fresh.document import Mask, Saliency
from fresh.selection._topk import (
    Counts,
    Flags,
    Scores,
    ScoreTable,
    WindowSums,
    best_windows,
    choose_rows,
    mark_windows,
    top_k,
)


class Discretizer(Protocol):
    """Turns scores into masks."""

    def select(self, saliencies: Sequence[Saliency]) -> list[Mask]:
        """Return one mask for each document."""


def budget(n_words: int, ratio: float) -> int:
    """Count the words that a ratio keeps: rounded up in exact decimal arithmetic, at least one, at most all."""
    # In binary floating point, 100 * 0.07 is 7.000000000000001 and would round up to 8.
    return min(n_words, max(1, math.ceil(n_words * Fraction(str(ratio)))))


def _budgets(n_words: Counts, ratio: float) -> Counts:
    # Exact fractions are slow, so each length is computed once.
    lengths, places = np.unique(n_words, return_inverse=True)
    return np.array([budget(length, ratio) for length in lengths.tolist()], dtype=np.int64)[places]


@dataclass(frozen=True, slots=True)
class _PerDocument(ABC):
    ratio: float
    """Share of each document's words to keep, rounded up."""

    def __post_init__(self) -> None:
        _check_ratio(self.ratio)

    def select(self, saliencies: Sequence[Saliency]) -> list[Mask]:
        """Return one mask for each document."""
        table = ScoreTable(saliencies)
        kept = choose_rows(table, _budgets(table.n_words, self.ratio), self._choose)
        return Mask.from_flags(kept, table.n_words)

    @abstractmethod
    def _choose(self, scores: Scores, k: int) -> Flags:
        """Mark k words in each row of scores."""


@dataclass(frozen=True, slots=True)
class TopK(_PerDocument):
    """Keep the highest-scoring words; the earlier word wins a tie."""

    def _choose(self, scores: Scores, k: int) -> Flags:
        return top_k(scores, k)


@dataclass(frozen=True, slots=True)
class Contiguous(_PerDocument):
    """Keep the window of words with the largest sum; the leftmost window wins a tie."""

    def _choose(self, scores: Scores, k: int) -> Flags:
        # Sums of windows are differences of cumulative sums: linear in the words for any length of the window.
        starts, words = WindowSums(scores).best_starts(k)[:, None], np.arange(scores.shape[1])
        kept: Flags = (words >= starts) & (words < starts + k)
        return kept


@dataclass(frozen=True, slots=True)
class Threshold:
    """Keep the words that score high enough, and always the best word."""

    cutoff: float
    """Lowest score that is kept."""

    def __post_init__(self) -> None:
        _check_cutoff(self.cutoff)

    def select(self, saliencies: Sequence[Saliency]) -> list[Mask]:
        """Return one mask for each document."""
        return LearnedTopK(0, self.cutoff).select(saliencies)


@dataclass(frozen=True, slots=True)
class _Learned(ABC):
    minimum: float
    """Share of the words that each document always keeps."""
    cutoff: float | None
    """Lowest score, or gain of a word, that is kept beyond the minimum; None keeps nothing more."""

    def __post_init__(self) -> None:
        _check_minimum(self.minimum, 1)
        _check_cutoff(0 if self.cutoff is None else self.cutoff)

    def select(self, saliencies: Sequence[Saliency]) -> list[Mask]:
        """Return one mask for each document."""
        table = ScoreTable(saliencies)
        cutoff = math.inf if self.cutoff is None else self.cutoff
        return Mask.from_flags(self._keep(table, _budgets(table.n_words, self.minimum), cutoff), table.n_words)

    @abstractmethod
    def _keep(self, table: ScoreTable, minima: Counts, cutoff: float) -> Flags:
        """Mark the best words of each document, and further ones that reach the cut-off."""


@dataclass(frozen=True, slots=True)
class LearnedTopK(_Learned):
    """Keep each document's best words, and every word as good as the last that a global budget bought."""

    def _keep(self, table: ScoreTable, minima: Counts, cutoff: float) -> Flags:
        def choose(scores: Scores, k: int) -> Flags:
            kept: Flags = scores >= cutoff
            # Where k words or more reach the cut-off, the best k are among them; elsewhere they are among the best k.
            few = np.flatnonzero(~kept.any(axis=1) if k == 1 else kept.sum(axis=1) < k)
            kept[few] = top_k(scores[few], k)
            return kept

        return choose_rows(table, minima, choose)


@dataclass(frozen=True, slots=True)
class LearnedContiguous(_Learned):
    """Keep each document's best window, one word longer while that gains as much as the last word that was bought."""

    def _keep(self, table: ScoreTable, minima: Counts, cutoff: float) -> Flags:
        windows = best_windows(table, minima)
        for window in windows:
            while window.gain >= cutoff:
                window.grow()
        return mark_windows(table, windows)


@dataclass(frozen=True, slots=True)
class _Global(ABC):
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

    def select(self, saliencies: Sequence[Saliency]) -> list[Mask]:
        """Return one mask for each document, which depends on all documents."""
        return self._select(saliencies)[0]

    def learn(self, saliencies: Sequence[Saliency]) -> LearnedTopK | LearnedContiguous:
        """Find the cut-off that serves single documents: the lowest score or gain that the budget bought."""
        return self._learned(self._minimum, self._select(saliencies)[1])

    def _select(self, saliencies: Sequence[Saliency]) -> tuple[list[Mask], float | None]:
        table = ScoreTable(saliencies)
        minima = _budgets(table.n_words, self._minimum)
        n_spare = budget(int(table.n_words.sum()), self.ratio) - int(minima.sum())
        kept, lowest = self._spend(table, minima, max(0, n_spare))
        return Mask.from_flags(kept, table.n_words), lowest

    @abstractmethod
    def _spend(self, table: ScoreTable, minima: Counts, n_spare: int) -> tuple[Flags, float | None]:
        """Mark the best words of each document, then spare ones of all; also return the lowest score of the latter."""


@dataclass(frozen=True, slots=True)
class GlobalTopK(_Global):
    """Keep the highest-scoring words of all documents together, and a minimum in each.

    The earlier document, then the earlier word, wins a tie.
    """

    _learned = LearnedTopK

    def _spend(self, table: ScoreTable, minima: Counts, n_spare: int) -> tuple[Flags, float | None]:
        kept = choose_rows(table, minima, top_k)
        if n_spare == 0:
            return kept, None
        rest = table.scores[~kept]
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

    def _spend(self, table: ScoreTable, minima: Counts, n_spare: int) -> tuple[Flags, float | None]:
        windows = best_windows(table, minima)
        # A heap of next gains is the greedy choice by its definition. An earlier version grew all documents together,
        # in 65 s for a million of 300 words, with four times the code; in practice, thousands share a budget.
        heap = [(-window.gain, place) for place, window in enumerate(windows)]
        heapq.heapify(heap)
        lowest = math.inf
        for _ in range(n_spare):
            gain, place = heap[0]  # tuples compare by place next: of equal gains, the earlier document grows
            lowest = min(lowest, -gain)
            windows[place].grow()
            heapq.heapreplace(heap, (-windows[place].gain, place))
        return mark_windows(table, windows), lowest if n_spare else None


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

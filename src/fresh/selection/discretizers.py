"""Discretizers turn scores into masks: how many words are kept, and which."""

import math
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
    best_windows,
    choose_rows,
    keep_from,
    spend_on_words,
    top_k,
)
from fresh.selection.global_budget import grow_each, spend_on_windows


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
class _PerDocument:
    ratio: float
    """Share of each document's words to keep, rounded up."""
    _choose: ClassVar["staticmethod[[Scores, int], Flags]"]

    def __post_init__(self) -> None:
        _check_ratio(self.ratio)

    def select(self, saliencies: Sequence[Saliency]) -> list[Mask]:
        """Return one mask for each document."""
        table = ScoreTable.of(saliencies)
        return table.to_masks(choose_rows(table, _budgets(table.n_words, self.ratio), self._choose))


@dataclass(frozen=True, slots=True)
class TopK(_PerDocument):
    """Keep the highest-scoring words; the earlier word wins a tie."""

    _choose = staticmethod(top_k)


@dataclass(frozen=True, slots=True)
class Contiguous(_PerDocument):
    """Keep the window of words with the largest sum; the leftmost window wins a tie."""

    _choose = staticmethod(best_windows)


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
class _Learned:
    minimum: float
    """Share of the words that each document always keeps."""
    cutoff: float | None
    """Lowest score, or gain of a word, that is kept beyond the minimum; None keeps nothing more."""
    _keep: ClassVar["staticmethod[[ScoreTable, Counts, float], Flags]"]

    def __post_init__(self) -> None:
        _check_minimum(self.minimum, 1)
        _check_cutoff(0 if self.cutoff is None else self.cutoff)

    def select(self, saliencies: Sequence[Saliency]) -> list[Mask]:
        """Return one mask for each document."""
        table = ScoreTable.of(saliencies)
        cutoff = math.inf if self.cutoff is None else self.cutoff
        return table.to_masks(self._keep(table, _budgets(table.n_words, self.minimum), cutoff))


@dataclass(frozen=True, slots=True)
class LearnedTopK(_Learned):
    """Keep each document's best words, and every word as good as the last that a global budget bought."""

    _keep = staticmethod(keep_from)


@dataclass(frozen=True, slots=True)
class LearnedContiguous(_Learned):
    """Keep each document's best window, one word longer while that gains as much as the last word that was bought."""

    _keep = staticmethod(grow_each)


@dataclass(frozen=True, slots=True)
class _Global:
    # The minima are kept even if together they cost more than the budget.
    ratio: float
    """Share of all documents' words to keep, rounded up."""
    minimum: float | None = None
    """Share of the words that each document always keeps, at least one word; half the ratio by default."""
    _spend: ClassVar["staticmethod[[ScoreTable, Counts, int], tuple[Flags, float | None]]"]
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
        table = ScoreTable.of(saliencies)
        minima = _budgets(table.n_words, self._minimum)
        n_spare = budget(int(table.n_words.sum()), self.ratio) - int(minima.sum())
        kept, lowest = self._spend(table, minima, max(0, n_spare))
        return table.to_masks(kept), lowest


@dataclass(frozen=True, slots=True)
class GlobalTopK(_Global):
    """Keep the highest-scoring words of all documents together, and a minimum in each.

    The earlier document, then the earlier word, wins a tie.
    """

    _spend = staticmethod(spend_on_words)
    _learned = LearnedTopK


@dataclass(frozen=True, slots=True)
class GlobalContiguous(_Global):
    """Keep one window of words in each document, whose length depends on the gains of all documents together.

    Each document starts with its best window of minimal length. Then the document grows by a word whose best window
    gains most by it, the earlier document where they tie, until the budget is spent.
    """

    _spend = staticmethod(spend_on_windows)
    # Gains need not fall as a window grows: where the last word that the budget bought opens a better one, the learned
    # rule takes that one too.
    _learned = LearnedContiguous


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
_KINDS = {**DISCRETIZERS, "learned_top_k": LearnedTopK, "learned_contiguous": LearnedContiguous}


def discretizer_to_dict(discretizer: Discretizer) -> dict[str, Any]:
    """Return the name and the settings of a discretizer, ready for JSON."""
    kind: type[Any] = type(discretizer)
    name = next((name for name, other in _KINDS.items() if other is kind), None)
    if name is None:
        raise TypeError(f"{kind.__name__} cannot be saved. There are: {', '.join(_KINDS)}.")
    return {"name": name} | {field.name: getattr(discretizer, field.name) for field in fields(kind)}


def discretizer_from_dict(record: Mapping[str, Any]) -> Discretizer:
    """Make the discretizer that :func:`discretizer_to_dict` described."""
    discretizer: Discretizer = _KINDS[record["name"]](**{key: record[key] for key in record.keys() - {"name"}})
    return discretizer

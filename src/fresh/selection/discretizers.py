"""Scores to masks: how many words are kept, and which."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from fresh.config import suggest
from fresh.document import Mask, Saliency
from fresh.selection._topk import Chosen, Counts, Flags, Rows, Scores, best_windows, choose_rows, spend_on_words, top_k
from fresh.selection.global_budget import grow_each, spend_on_windows


class Discretizer(Protocol):
    """Turns scores into masks."""

    def select(self, saliencies: Sequence[Saliency]) -> list[Mask]:
        """Return one mask a document."""
        ...


def budget(n_words: int, ratio: float) -> int:
    """Count the words that a ratio buys: rounded up in exact decimal arithmetic, at least one, at most all."""
    return min(n_words, max(1, math.ceil(n_words * Fraction(str(ratio)))))


def _budgets(n_words: Counts, ratio: float) -> Counts:
    """Count the words that a ratio buys in each of many documents."""
    lengths, places = np.unique(n_words, return_inverse=True)
    return np.array([budget(length, ratio) for length in lengths.tolist()], dtype=np.int64)[places]


def _as_masks(chosen: Chosen) -> list[Mask]:
    """Make the mask of each document."""
    if len(chosen) == 1:
        return Mask.from_rows(chosen[0][1])
    masks: dict[int, Mask] = {}
    for places, kept in chosen:
        masks.update(zip(places.tolist(), Mask.from_rows(kept), strict=True))
    return [masks[place] for place in range(len(masks))]


def _select_each(saliencies: Sequence[Saliency], ratio: float, choose: Callable[[Scores, int], Flags]) -> list[Mask]:
    """Choose in each document by itself."""
    rows = Rows.of([saliency.scores for saliency in saliencies])
    return _as_masks(choose_rows(rows, _budgets(rows.n_words, ratio), choose))


def _select_together(
    saliencies: Sequence[Saliency],
    ratio: float,
    minimum: float,
    spend: Callable[[Rows, Counts, int], tuple[Chosen, float | None]],
) -> tuple[list[Mask], float | None]:
    """Choose in all documents with a common budget; also return the lowest gain beyond the minima, if any."""
    rows = Rows.of([saliency.scores for saliency in saliencies])
    minima = _budgets(rows.n_words, minimum)
    n_spare = budget(int(rows.n_words.sum()), ratio) - int(minima.sum())
    chosen, lowest = spend(rows, minima, max(0, n_spare))
    return _as_masks(chosen), lowest


@dataclass(frozen=True, slots=True)
class TopK:
    """Keep the highest-scoring words; the earlier word wins a tie."""

    ratio: float
    """Share of each document's words to keep, rounded up."""

    def __post_init__(self) -> None:
        _check_ratio(self.ratio)

    def select(self, saliencies: Sequence[Saliency]) -> list[Mask]:
        """Return one mask a document."""
        return _select_each(saliencies, self.ratio, top_k)


@dataclass(frozen=True, slots=True)
class Contiguous:
    """Keep the run of words with the largest sum; the leftmost run wins a tie."""

    ratio: float
    """Share of each document's words to keep, rounded up."""

    def __post_init__(self) -> None:
        _check_ratio(self.ratio)

    def select(self, saliencies: Sequence[Saliency]) -> list[Mask]:
        """Return one mask a document."""
        return _select_each(saliencies, self.ratio, best_windows)


@dataclass(frozen=True, slots=True)
class LearnedTopK:
    """Keep each document's best words, and every word as good as the last that a common budget bought."""

    minimum: float
    """Share of the words that each document surely keeps."""
    cutoff: float | None
    """Lowest score that is kept beyond the minimum; none keeps nothing more."""

    def __post_init__(self) -> None:
        _check_minimum(self.minimum, 1)
        _check_cutoff(0 if self.cutoff is None else self.cutoff)

    def select(self, saliencies: Sequence[Saliency]) -> list[Mask]:
        """Return one mask a document."""
        cutoff = math.inf if self.cutoff is None else self.cutoff
        return _select_each(saliencies, self.minimum, functools.partial(top_k, cutoff=cutoff))


@dataclass(frozen=True, slots=True)
class LearnedContiguous:
    """Keep each document's best run, longer by a word while that gains as much as the last that a budget bought."""

    minimum: float
    """Share of the words that each document surely keeps."""
    cutoff: float | None
    """Lowest gain for which a run grows beyond the minimum; none keeps nothing more."""

    def __post_init__(self) -> None:
        _check_minimum(self.minimum, 1)
        _check_cutoff(0 if self.cutoff is None else self.cutoff)

    def select(self, saliencies: Sequence[Saliency]) -> list[Mask]:
        """Return one mask a document."""
        if self.cutoff is None:
            return _select_each(saliencies, self.minimum, best_windows)
        rows = Rows.of([saliency.scores for saliency in saliencies])
        return _as_masks(grow_each(rows, _budgets(rows.n_words, self.minimum), self.cutoff))


@dataclass(frozen=True, slots=True)
class GlobalTopK:
    """Keep the highest-scoring words of all documents together, and a minimum in each.

    The earlier document, then the earlier word, wins a tie. Minima that cost more than the budget are kept all the
    same.
    """

    ratio: float
    """Share of all documents' words to keep, rounded up."""
    minimum: float | None = None
    """Share of the words that each document surely keeps, at least one word; half the ratio if not given."""

    def __post_init__(self) -> None:
        _check_ratio(self.ratio)
        _check_minimum(_least(self), self.ratio)

    def select(self, saliencies: Sequence[Saliency]) -> list[Mask]:
        """Return one mask a document; it depends on all the documents given."""
        return _select_together(saliencies, self.ratio, _least(self), spend_on_words)[0]

    def learn(self, saliencies: Sequence[Saliency]) -> LearnedTopK:
        """Find the cut-off that serves single documents."""
        return LearnedTopK(_least(self), _select_together(saliencies, self.ratio, _least(self), spend_on_words)[1])


@dataclass(frozen=True, slots=True)
class GlobalContiguous:
    """Keep one run of words in each document, as long as the gains of all documents together make it.

    Each document starts with its best run of minimal length. Then the document grows by a word whose best run gains
    most by it, the earlier document where they tie, until the budget is used. Minima that cost more than the budget
    are kept all the same.
    """

    ratio: float
    """Share of all documents' words to keep, rounded up."""
    minimum: float | None = None
    """Share of the words that each document surely keeps, at least one word; half the ratio if not given."""

    def __post_init__(self) -> None:
        _check_ratio(self.ratio)
        _check_minimum(_least(self), self.ratio)

    def select(self, saliencies: Sequence[Saliency]) -> list[Mask]:
        """Return one mask a document; it depends on all the documents given."""
        return _select_together(saliencies, self.ratio, _least(self), spend_on_windows)[0]

    def learn(self, saliencies: Sequence[Saliency]) -> LearnedContiguous:
        """Find the cut-off that serves single documents.

        Gains need not fall as a run grows. Where the last step that the budget bought opens a better one, the learned
        rule takes that too.
        """
        return LearnedContiguous(
            _least(self), _select_together(saliencies, self.ratio, _least(self), spend_on_windows)[1]
        )


@dataclass(frozen=True, slots=True)
class Threshold:
    """Keep the words that score high enough, and the best word in any case."""

    cutoff: float
    """Lowest score that is kept."""

    def __post_init__(self) -> None:
        _check_cutoff(self.cutoff)

    def select(self, saliencies: Sequence[Saliency]) -> list[Mask]:
        """Return one mask a document."""
        return LearnedTopK(0, self.cutoff).select(saliencies)


def _least(discretizer: GlobalTopK | GlobalContiguous) -> float:
    """Share of the words that each document surely keeps."""
    return discretizer.ratio / 2 if discretizer.minimum is None else discretizer.minimum


def is_finite_number(value: object) -> bool:
    """Tell a finite number from anything else that a settings file may hold."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _check_ratio(ratio: float) -> None:
    """Refuse a share of no words or of more than all."""
    if not (is_finite_number(ratio) and 0 < ratio <= 1):
        raise ValueError(f"ratio must be above 0 and at most 1, got {ratio!r}.")


def _check_minimum(minimum: float, most: float) -> None:
    """Refuse a minimum that the budget could never hold."""
    if not (is_finite_number(minimum) and 0 <= minimum <= most):
        raise ValueError(f"minimum must be at least 0 and at most {most}, got {minimum!r}.")


def _check_cutoff(cutoff: float) -> None:
    """Refuse a cut-off that no score can be compared with."""
    if not is_finite_number(cutoff):
        raise ValueError(f"cutoff must be a finite number, got {cutoff!r}.")


def discretizer_to_dict(discretizer: Discretizer) -> dict[str, Any]:
    """Write down name and settings, ready for JSON."""
    names = {kind: name for name, kind in KINDS.items()}
    kind: type[Any] = type(discretizer)
    if kind not in names:
        raise TypeError(f"{kind.__name__} cannot be written down. There are: {', '.join(KINDS)}.")
    return {"name": names[kind]} | {field.name: getattr(discretizer, field.name) for field in fields(kind)}


def discretizer_from_dict(record: Mapping[str, Any]) -> Discretizer:
    """Make the discretizer that was written down."""
    settings = {key: value for key, value in record.items() if key != "name"}
    name = str(record.get("name"))
    if name not in KINDS:
        raise ValueError(suggest(name, "a discretizer", KINDS))
    needed = {field.name: field.default is MISSING for field in fields(KINDS[name])}
    mistakes = [suggest(key, f"a setting of {name}", needed) for key in settings if key not in needed]
    mistakes += [f"{name} needs {key}." for key in needed if needed[key] and key not in settings]
    if mistakes:
        raise ValueError("\n".join(mistakes))
    discretizer: Discretizer = KINDS[name](**settings)
    return discretizer


DISCRETIZERS: dict[str, type[Any]] = {
    "top_k": TopK,
    "contiguous": Contiguous,
    "global_top_k": GlobalTopK,
    "global_contiguous": GlobalContiguous,
    "threshold": Threshold,
}
# The learned ones are found, not chosen.
KINDS = {**DISCRETIZERS, "learned_top_k": LearnedTopK, "learned_contiguous": LearnedContiguous}

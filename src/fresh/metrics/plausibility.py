"""How far rationales agree with what people marked, as the scorer of the ERASER benchmark counts it.

DeYoung et al. (2020); the definitions are those of its scorer, which the paper only sketches. An instance is one text
of one example: an example that was joined from several texts is as many instances.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fresh.document import Example, Explanation, Mask, non_empty_spans
from fresh.text import Spans

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_IOU = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class _Instance:
    """What people and a model marked in one text."""

    marked: Spans
    """People's own spans, in words; those of no words count as spans too."""
    kept: Flags
    """The words that the model kept. Shape: (words,)."""
    scores: Floats | None = None
    """How much each word mattered to the model. Shape: (words,)."""
    example: int = 0
    """Number of the example that it belongs to."""


@dataclass(frozen=True, slots=True, eq=False)
class _Tally:
    """What was counted in each instance: all that is needed to work out the figures again, also of a resample.

    All shapes: (instances,).
    """

    example: Ints
    """Number of the example that the instance belongs to."""
    words_marked: Ints
    """Words that people marked."""
    words_kept: Ints
    """Words that the model kept."""
    words_both: Ints
    """Words that people marked and the model kept."""
    spans_marked: Ints
    """People's own spans."""
    spans_kept: Ints
    """Runs of words that the model kept."""
    spans_matched: Ints
    """Runs of kept words that match one of people's spans."""
    auprc: Floats | None = None
    """Area under the precision-recall curve of the scores; nan where people marked no word."""

    def __len__(self) -> int:
        return len(self.example)

    def take(self, rows: Ints) -> "_Tally":
        """Draw instances, for a resample."""
        columns = {item.name: getattr(self, item.name) for item in fields(self)}
        drawn: dict[str, Any] = {name: column if column is None else column[rows] for name, column in columns.items()}
        return _Tally(**drawn)

    @property
    def token_precision(self) -> Floats:
        """Share of the kept words that people marked, by instance; 0 where none was kept."""
        return _share(self.words_both, self.words_kept)

    @property
    def token_recall(self) -> Floats:
        """Share of the words people marked that was kept, by instance; 0 where they marked none."""
        return _share(self.words_both, self.words_marked)

    @property
    def token_f1(self) -> Floats:
        """Harmonic mean of the two, by instance; 0 where no word is in both."""
        return _f1_of(self.words_marked, self.words_kept, self.words_both)


@dataclass(frozen=True, slots=True)
class _Score:
    """Precision, recall and F1."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """How far rationales agree with people; figures without anything to count are 0."""

    token_macro: _Score
    """Of words: means over the instances in which people or the model marked a word."""
    token_micro: _Score
    """Of words, all instances counted as one."""
    iou_macro: _Score
    """Of spans: precision is a mean over the instances with a kept word, recall over those with a span of people, and
    F1 is that of the two means. Recall can exceed 1, as in ERASER: it counts the model's spans that match."""
    iou_micro: _Score
    """Of spans, all instances counted as one."""
    auprc: float | None
    """Mean area under the precision-recall curve over the instances in which people marked a word; nothing without
    scores, or where people marked no word at all."""
    tally: _Tally
    """What the figures were made from."""


def compare(examples: Sequence[Example], explanations: Sequence[Explanation], least: float = LEAST_IOU) -> Agreement:
    """Compare rationales with those of people, where these are known.

    :param explanations: One for each example, in the same order.
    :param least: Intersection over union from which on two spans match.
    """
    if len(examples) != len(explanations):
        raise ValueError(f"There are {len(examples)} examples but {len(explanations)} explanations. Give one each.")
    instances: list[_Instance] = []
    for number, (example, explanation) in enumerate(zip(examples, explanations, strict=True)):
        if example.document.words != explanation.document.words:
            raise ValueError(
                f"Example {example.document.id!r} was paired with an explanation of document "
                f"{explanation.document.id!r}, which has other words. Give both in the same order."
            )
        instances += _instances_of(example, explanation, number)
    if not instances:
        raise ValueError(
            f"None of the {len(examples)} documents has a human rationale to compare with. "
            "Give some that people marked."
        )
    return agreement(_tally(instances, least))


def _instances_of(example: Example, explanation: Explanation, number: int) -> Iterator[_Instance]:
    """Take an example apart into the texts it was joined from; nothing if nobody said what people marked."""
    if example.human_spans is None:
        return
    scores = None if explanation.saliency is None else explanation.saliency.scores
    for first, after in example.document.part_ranges:
        part = slice(first, after)
        marked = tuple(_spans_within(example.human_spans, first, after))
        yield _Instance(marked, explanation.mask.kept[part], None if scores is None else scores[part], number)


def _spans_within(spans: Spans, first: int, after: int) -> Iterator[tuple[int, int]]:
    """Cut spans to a range of words and count from its start."""
    for start, end in spans:
        low, high = max(start, first), min(end, after)
        if low < high or first <= start == end < after:
            yield low - first, high - first


def _tally(instances: Sequence[_Instance], least: float = LEAST_IOU) -> _Tally:
    """Count in each instance what the figures are made of.

    :param least: Intersection over union from which on two spans match.
    """
    if not 0 < least <= 1:
        raise ValueError(f"least must lie above 0 and be at most 1, got {least}.")
    scored = [instance.scores is not None for instance in instances]
    if any(scored) and not all(scored):
        raise ValueError(
            f"{scored.count(False)} of {len(scored)} texts have no scores. Give scores for all or for none."
        )
    counts = np.array([count(instance, least) for instance in instances], dtype=np.int64).reshape(-1, 6)
    examples = np.array([instance.example for instance in instances], dtype=np.int64)
    areas = [_area(_flags_of(item), item.scores) for item in instances if item.scores is not None]
    marked, kept, both, own, spans, matched = counts.T
    return _Tally(examples, marked, kept, both, own, spans, matched, np.array(areas) if areas else None)


def count(instance: _Instance, least: float) -> tuple[int, int, int, int, int, int]:
    """Count words and spans in one text, in the order of a tally."""
    marked, spans, own = _flags_of(instance), Mask(instance.kept).spans, tuple(set(instance.marked))
    words = int(marked.sum()), int(instance.kept.sum()), int((marked & instance.kept).sum())
    return *words, len(own), len(spans), _matches(spans, own, least)


def _flags_of(instance: _Instance) -> Flags:
    """Flag the words that people marked. Shape: (words,)."""
    return Mask.from_spans(non_empty_spans(instance.marked), len(instance.kept)).kept


def _matches(spans: Spans, own: Spans, least: float) -> int:
    """Count the spans that share enough words with one of people's own: intersection over union at least so much."""
    if not spans or not own:
        return 0
    starts, ends = np.array(spans).T[:, :, None]  # (spans, 1)
    firsts, afters = np.array(own).T  # (own,)
    both = np.maximum(np.minimum(ends, afters) - np.maximum(starts, firsts), 0)  # (spans, own)
    either = (ends - starts) + (afters - firsts) - both
    return int((both / either >= least).any(axis=1).sum())


def _area(marked: Flags, scores: Floats) -> float:
    """Area under the precision-recall curve, by trapezoids from precision 1 at recall 0; nan where nothing is marked.

    Words of equal scores are found together. A straight line between two points is more than can be reached (Davis and
    Goadrich, 2006), but it is what ERASER reports.
    """
    if not marked.any():
        return float("nan")
    order = np.argsort(-scores, kind="stable")
    last = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))  # of each run of equal scores
    found = np.cumsum(marked[order])[last]
    precision, recall = found / (last + 1), found / found[-1]
    return float(np.trapezoid(np.append(1, precision), np.append(0, recall)))


def agreement(tally: _Tally) -> Agreement:
    """Work out the figures from what was counted."""
    there = (tally.words_marked > 0) | (tally.words_kept > 0)
    words = tally.words_both, tally.words_kept, tally.words_marked
    spans = tally.spans_matched, tally.spans_kept, tally.spans_marked
    token = _Score(*(mean(each[there]) for each in (tally.token_precision, tally.token_recall, tally.token_f1)))
    iou = _score(
        mean(_share(tally.spans_matched, tally.spans_kept)[tally.spans_kept > 0]),
        mean(_share(tally.spans_matched, tally.spans_marked)[tally.spans_marked > 0]),
    )
    areas = np.empty(0) if tally.auprc is None else tally.auprc[~np.isnan(tally.auprc)]
    return Agreement(token, _micro(*words), iou, _micro(*spans), mean(areas) if len(areas) else None, tally)


def _micro(both: Ints, kept: Ints, marked: Ints) -> _Score:
    """Score all instances as one."""
    n_both, n_kept, n_marked = int(both.sum()), int(kept.sum()), int(marked.sum())
    return _score(n_both / n_kept if n_kept else 0.0, n_both / n_marked if n_marked else 0.0)


def _score(precision: float, recall: float) -> _Score:
    """Put precision and recall together; F1 is 0 where one of them is."""
    return _Score(precision, recall, 2 * precision * recall / (precision + recall) if precision and recall else 0.0)


def _f1_of(marked: Ints, kept: Ints, both: Ints) -> Floats:
    """Harmonic mean of precision and recall, from counts; 0 where no word is in both."""
    return _share(2 * both, marked + kept)


def _share(counts: Ints, of: Ints) -> Floats:
    """Divide counts; 0 where there is nothing to divide by."""
    return np.divide(counts, of, out=np.zeros(len(counts)), where=of > 0)


def mean(values: Floats) -> float:
    """Plain mean; 0 of nothing."""
    return float(values.mean()) if len(values) else 0.0


def token_f1(wanted: Sequence[Flags], found: Sequence[Flags]) -> float:
    """Mean over texts of the F1 of kept words, as in `Agreement.token_macro`.

    Texts in which no word was wanted and none was found are left out, as in ERASER; 0 if that leaves none.
    """
    if not len(wanted):
        raise ValueError("There are no masks to compare. Give at least one document.")
    counts = [(gold.sum(), kept.sum(), (gold & kept).sum()) for gold, kept in zip(wanted, found, strict=True)]
    n_wanted, n_found, n_both = np.array(counts, dtype=np.int64).T
    return mean(_f1_of(n_wanted, n_found, n_both)[n_wanted + n_found > 0])

"""Plausibility: agreement of rationales with people, as the scorer of the ERASER benchmark computes it.

DeYoung et al. (2020); the definitions are those of its scorer, which the paper only sketches. An instance is one text
of one example: an example that was joined from several texts is as many instances.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fresh.document import Example, Explanation, Mask, non_empty_spans
from fresh.metrics.bootstrap import Flags, Floats, Ints
from fresh.text import Spans

MIN_IOU = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class _Instance:
    """What people and a model marked in one text."""

    marked: Spans
    """People's spans, in words; empty ones count as spans too."""
    kept: Flags
    """The words that the model kept. Shape: (words,)."""
    scores: Floats | None = None
    """The model's score of each word. Shape: (words,)."""
    example: int = 0
    """Number of the example that it belongs to."""


@dataclass(frozen=True, slots=True, eq=False)
class AgreementCounts:
    """Counts of each instance, from which all figures follow, also those of a resample. All shapes: (instances,)."""

    example: Ints
    """Number of the example that the instance belongs to."""
    words_marked: Ints
    """Words that people marked."""
    words_kept: Ints
    """Words that the model kept."""
    words_both: Ints
    """Words that people marked and the model kept."""
    spans_marked: Ints
    """People's spans."""
    spans_kept: Ints
    """Runs of words that the model kept."""
    spans_matched: Ints
    """Runs of kept words that match one of people's spans."""
    auprc: Floats | None = None
    """Area under the precision-recall curve of the scores; NaN where people marked no word."""

    def __len__(self) -> int:
        return len(self.example)

    def take(self, rows: Ints) -> "AgreementCounts":
        """Select instances, for a resample."""
        columns = {item.name: getattr(self, item.name) for item in fields(self)}
        taken: dict[str, Any] = {name: column if column is None else column[rows] for name, column in columns.items()}
        return AgreementCounts(**taken)

    @property
    def token_precision(self) -> Floats:
        """Share of the kept words that people marked, by instance; 0 if none was kept."""
        return _divide(self.words_both, self.words_kept)

    @property
    def token_recall(self) -> Floats:
        """Share of the words people marked that was kept, by instance; 0 if they marked none."""
        return _divide(self.words_both, self.words_marked)

    @property
    def token_f1(self) -> Floats:
        """Harmonic mean of the two, by instance; 0 if no word is in both."""
        return _divide(2 * self.words_both, self.words_marked + self.words_kept)


@dataclass(frozen=True, slots=True)
class Score:
    """Precision, recall and F1."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """Agreement of rationales with people; figures without anything to count are 0."""

    token_macro: Score
    """Of words: means over the instances in which people or the model marked a word."""
    token_micro: Score
    """Of words, all instances counted as one."""
    iou_macro: Score
    """Of spans: precision is a mean over the instances with a kept word, recall over those with a span of people, and
    F1 is that of the two means. Recall can exceed 1, as in ERASER: it counts the model's spans that match."""
    iou_micro: Score
    """Of spans, all instances counted as one."""
    auprc: float | None
    """Mean area under the precision-recall curve over the instances in which people marked a word; None without
    scores, or if people marked no word at all."""
    counts: AgreementCounts
    """The counts behind the figures."""


def measure_agreement(
    examples: Sequence[Example], explanations: Sequence[Explanation], min_iou: float = MIN_IOU
) -> Agreement:
    """Compare rationales with human ones, where there are any.

    :param explanations: One for each example, in the same order.
    :param min_iou: Intersection over union from which on two spans match.
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
        instances += _split_example(example, explanation, number)
    if not instances:
        raise ValueError(
            f"None of the {len(examples)} documents has a human rationale to compare with. "
            "Give some that people marked."
        )
    return score_agreement(_count(instances, min_iou))


def _split_example(example: Example, explanation: Explanation, number: int) -> Iterator[_Instance]:
    """Split an example into the texts it was joined from; nothing if it has no human rationale."""
    if example.human_spans is None:
        return
    scores = None if explanation.saliency is None else explanation.saliency.scores
    for first, after in example.document.part_ranges:
        part = slice(first, after)
        marked = tuple(_clip_spans(example.human_spans, first, after))
        yield _Instance(marked, explanation.mask.kept[part], None if scores is None else scores[part], number)


def _clip_spans(spans: Spans, first: int, after: int) -> Iterator[tuple[int, int]]:
    """Clip spans to a range of words, and count from its start."""
    for start, end in spans:
        low, high = max(start, first), min(end, after)
        # An empty span belongs to the text that it lies in.
        if low < high or first <= start == end < after:
            yield low - first, high - first


def _count(instances: Sequence[_Instance], min_iou: float = MIN_IOU) -> AgreementCounts:
    if not 0 < min_iou <= 1:
        raise ValueError(f"min_iou must be in (0, 1], got {min_iou}.")
    scored = [instance.scores is not None for instance in instances]
    if any(scored) and not all(scored):
        raise ValueError(
            f"{scored.count(False)} of {len(scored)} texts have no scores. Give scores for all or for none."
        )
    rows: list[tuple[int, ...]] = []
    areas: list[float] = []
    for instance in instances:
        flags = Mask.from_spans(non_empty_spans(instance.marked), len(instance.kept)).kept
        words = int(flags.sum()), int(instance.kept.sum()), int((flags & instance.kept).sum())
        runs, distinct = Mask(instance.kept).spans, tuple(set(instance.marked))
        rows.append((instance.example, *words, len(distinct), len(runs), _count_matches(runs, distinct, min_iou)))
        if instance.scores is not None:
            areas.append(_auprc(flags, instance.scores))
    example, marked, kept, both, own, spans, matched = np.array(rows, dtype=np.int64).reshape(-1, 7).T
    return AgreementCounts(example, marked, kept, both, own, spans, matched, np.array(areas) if areas else None)


def _count_matches(spans: Spans, own: Spans, min_iou: float) -> int:
    """Count the spans whose intersection over union with one of people's spans is large enough."""
    if not spans or not own:
        return 0
    starts, ends = np.array(spans).T[:, :, None]  # (spans, 1)
    firsts, afters = np.array(own).T  # (own,)
    both = np.maximum(np.minimum(ends, afters) - np.maximum(starts, firsts), 0)  # (spans, own)
    either = (ends - starts) + (afters - firsts) - both
    return int((both / either >= min_iou).any(axis=1).sum())


def _auprc(marked: Flags, scores: Floats) -> float:
    """Compute the area under the precision-recall curve by trapezoids; NaN if nothing is marked."""
    if not marked.any():
        return float("nan")
    # A straight line between two points is more than can be reached (Davis and Goadrich, 2006), but ERASER reports it.
    # scikit-learn gives the same, but takes 22 times as long for a text of 300 words; MultiRC tests on 4,848.
    order = np.argsort(-scores, kind="stable")
    last = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))  # of each run of equal scores
    n_right = np.cumsum(marked[order])[last]
    precision, recall = n_right / (last + 1), n_right / n_right[-1]
    return float(np.trapezoid(np.append(1, precision), np.append(0, recall)))


def score_agreement(counts: AgreementCounts) -> Agreement:
    """Compute the figures from counts."""
    # As in ERASER, an instance without a word on either side is left out, not perfect.
    some = (counts.words_marked > 0) | (counts.words_kept > 0)
    token = Score(*(_mean(each[some]) for each in (counts.token_precision, counts.token_recall, counts.token_f1)))
    iou = _score(
        _mean(_divide(counts.spans_matched, counts.spans_kept)[counts.spans_kept > 0]),
        _mean(_divide(counts.spans_matched, counts.spans_marked)[counts.spans_marked > 0]),
    )
    areas = np.empty(0) if counts.auprc is None else counts.auprc[~np.isnan(counts.auprc)]
    return Agreement(
        token,
        _micro(counts.words_both, counts.words_kept, counts.words_marked),
        iou,
        _micro(counts.spans_matched, counts.spans_kept, counts.spans_marked),
        _mean(areas) if len(areas) else None,
        counts,
    )


def _micro(both: Ints, kept: Ints, marked: Ints) -> Score:
    n_both, n_kept, n_marked = int(both.sum()), int(kept.sum()), int(marked.sum())
    return _score(n_both / n_kept if n_kept else 0.0, n_both / n_marked if n_marked else 0.0)


def _score(precision: float, recall: float) -> Score:
    return Score(precision, recall, 2 * precision * recall / (precision + recall) if precision and recall else 0.0)


def _divide(counts: Ints, of: Ints) -> Floats:
    """Divide counts; 0 where the divisor is 0."""
    return np.divide(counts, of, out=np.zeros(len(counts)), where=of > 0)


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


def token_f1(gold: Sequence[Flags], kept: Sequence[Flags]) -> float:
    """Compute the mean over texts of the F1 of kept words, as in `Agreement.token_macro`.

    Texts without a word in either mask are left out, as in ERASER; 0 if that leaves none.
    """
    if not len(gold):
        raise ValueError("There are no masks to compare. Give at least one document.")
    counts = [(mask.sum(), own.sum(), (mask & own).sum()) for mask, own in zip(gold, kept, strict=True)]
    n_gold, n_kept, n_both = np.array(counts, dtype=np.int64).T
    return _mean(_divide(2 * n_both, n_gold + n_kept)[n_gold + n_kept > 0])

"""Plausibility: agreement of rationales with people, as in the ERASER benchmark (DeYoung et al., 2020).

The definitions are those of ERASER's scorer, which the paper only sketches. An instance is one text of one example: an
example that joins several texts counts as several instances.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from fresh.document import Example, Explanation, Mask
from fresh.metrics.bootstrap import Flags, Floats, Ints

MIN_IOU = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class AgreementCounts:
    """The counts of each instance, which give the figures of any resample. All shapes: (instances,)."""

    example: Ints
    auprc: Floats
    """Area under the precision-recall curve of the scores; NaN without scores or marked words."""
    words_marked: Ints
    words_kept: Ints
    words_both: Ints
    spans_marked: Ints
    spans_kept: Ints
    """Runs of kept words."""
    spans_matched: Ints
    """Runs of kept words that match a marked span."""

    def take(self, rows: Ints) -> "AgreementCounts":
        """Select instances, for a resample."""
        return AgreementCounts(*(getattr(self, item.name)[rows] for item in fields(self)))

    @property
    def has_words(self) -> Flags:
        """Whether there is a marked or kept word; if not, ERASER leaves the instance out instead of calling it 1."""
        return (self.words_marked > 0) | (self.words_kept > 0)

    @property
    def token_f1(self) -> Floats:
        """F1 of the kept words; 0 if no marked word was kept."""
        return _divide(2 * self.words_both, self.words_marked + self.words_kept)


@dataclass(frozen=True, slots=True)
class Score:
    """Precision, recall and F1."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """Agreement of rationales with people; 0 where there is nothing to count. Micro: all instances counted as one."""

    token_macro: Score
    """For words: means over the instances with a marked or kept word."""
    token_micro: Score
    iou_macro: Score
    """For spans: mean precision over instances with a kept word, mean recall over those with a marked span, F1 of both
    means."""
    iou_micro: Score
    auprc: float | None
    """Mean area under the precision-recall curve over the instances with scores and a marked word, if any."""
    counts: AgreementCounts


def measure_agreement(
    examples: Sequence[Example], explanations: Sequence[Explanation], min_iou: float = MIN_IOU
) -> Agreement:
    """Compare rationales with human rationales, where there are any.

    :param min_iou: Smallest intersection over union at which two spans match.
    """
    if not 0 < min_iou <= 1:
        raise ValueError(f"min_iou must be in (0, 1], got {min_iou}.")
    rows: list[tuple[float, ...]] = []
    for number, (example, explanation) in enumerate(zip(examples, explanations, strict=True)):
        if example.document.words != explanation.document.words:
            other = f"document {explanation.document.id!r}, which has other words"
            raise ValueError(f"Example {example.document.id!r} is paired with an explanation of {other}.")
        if example.human_spans is None:
            continue
        for first, after in example.document.part_ranges:
            # Clipped to the text and counted from its start; an empty span belongs to the text that contains it.
            marked = {
                (max(start, first) - first, min(end, after) - first)
                for start, end in example.human_spans
                if max(start, first) < min(end, after) or first <= start == end < after
            }
            scores = None if explanation.saliency is None else explanation.saliency.scores[first:after]
            rows.append((number, *_count(marked, explanation.mask.kept[first:after], scores, min_iou)))
    if not rows:
        raise ValueError("None of the documents has a human rationale to compare with.")
    return score_agreement(AgreementCounts(*map(np.array, zip(*rows, strict=True))))


def _count(marked: set[tuple[int, int]], kept: Flags, scores: Floats | None, min_iou: float) -> tuple[float, ...]:
    """Compute the fields of `AgreementCounts` after the example."""
    flags = Mask.from_spans([(start, end) for start, end in marked if start < end], len(kept)).kept
    # An empty span counts as a span that nothing can match, as in ERASER.
    runs, n_matched = Mask(kept).spans, 0
    if runs and marked:
        starts, ends = np.array(runs).T[:, :, None]  # (kept, 1)
        firsts, afters = np.array(list(marked)).T  # (marked,)
        both = np.maximum(np.minimum(ends, afters) - np.maximum(starts, firsts), 0)  # (kept, marked)
        either = (ends - starts) + (afters - firsts) - both
        n_matched = int((both / either >= min_iou).any(axis=1).sum())
    area = float("nan") if scores is None or not flags.any() else _auprc(flags, scores)
    n_words = (int(words.sum()) for words in (flags, kept, flags & kept))
    return (area, *n_words, len(marked), len(runs), n_matched)


def _auprc(marked: Flags, scores: Floats) -> float:
    # Trapezoids promise more than can be reached (Davis and Goadrich, 2006), but ERASER reports them.
    # scikit-learn gives the same but takes 22 times as long for a text of 300 words; MultiRC tests on 4,848.
    order = np.argsort(-scores, kind="stable")
    last = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))  # of each run of equal scores
    n_right = np.cumsum(marked[order])[last]
    precision, recall = n_right / (last + 1), n_right / n_right[-1]
    return float(np.trapezoid(np.append(1, precision), np.append(0, recall)))


def score_agreement(counts: AgreementCounts) -> Agreement:
    """Compute the figures from counts."""
    precision, recall = (_divide(counts.words_both, of) for of in (counts.words_kept, counts.words_marked))
    token = Score(*(_mean(each[counts.has_words]) for each in (precision, recall, counts.token_f1)))
    # Recall can exceed 1, as in ERASER: it counts the kept spans that match, and several can match one marked span.
    iou = _score(
        _mean(_divide(counts.spans_matched, counts.spans_kept)[counts.spans_kept > 0]),
        _mean(_divide(counts.spans_matched, counts.spans_marked)[counts.spans_marked > 0]),
    )
    token_micro = _micro(counts.words_both, counts.words_kept, counts.words_marked)
    iou_micro = _micro(counts.spans_matched, counts.spans_kept, counts.spans_marked)
    areas = counts.auprc[~np.isnan(counts.auprc)]
    return Agreement(token, token_micro, iou, iou_micro, _mean(areas) if len(areas) else None, counts)


def _micro(both: Ints, kept: Ints, marked: Ints) -> Score:
    n_both, *totals = (int(counts.sum()) for counts in (both, kept, marked))
    return _score(*(n_both / total if total else 0.0 for total in totals))


def _score(precision: float, recall: float) -> Score:
    return Score(precision, recall, 2 * precision * recall / (precision + recall) if precision and recall else 0.0)


def _divide(counts: Ints, of: Ints) -> Floats:
    """Divide counts; 0 where the divisor is 0."""
    return np.divide(counts, of, out=np.zeros(len(counts)), where=of > 0)


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


def token_f1(gold: Sequence[Flags], kept: Sequence[Flags]) -> float:
    """Compute the mean F1 of kept words over texts, as in `Agreement.token_macro`; 0 if no text has a word."""
    if not len(gold):
        raise ValueError("There are no masks to compare. Give at least one document.")
    counts = [(mask.sum(), own.sum(), (mask & own).sum()) for mask, own in zip(gold, kept, strict=True)]
    n_gold, n_kept, n_both = np.array(counts, dtype=np.int64).T
    return _mean(_divide(2 * n_both, n_gold + n_kept)[n_gold + n_kept > 0])

"""Plausibility: agreement of rationales with people, as in the ERASER benchmark (DeYoung et al., 2020).

The definitions are those of ERASER's scorer, which the paper only sketches. An instance is one text of one example: an
example that joins several texts counts as several instances.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np

from fresh.document import Example, Explanation, Mask
from fresh.metrics.bootstrap import Flags, Floats, Ints
from fresh.text import Spans

MIN_IOU = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class AgreementCounts:
    """The counts of each instance, which give the figures of any resample. All shapes: (instances,)."""

    example: Ints
    """Index of the example that the instance belongs to."""
    auprc: Floats
    """Area under the precision-recall curve of the scores; NaN without scores or marked words."""
    words_marked: Ints
    words_kept: Ints
    words_both: Ints
    """Words that people marked and the model kept."""
    spans_marked: Ints
    spans_kept: Ints
    """Runs of kept words."""
    spans_matched: Ints
    """Runs of kept words that match a marked span."""

    def __len__(self) -> int:
        return len(self.example)

    def take(self, rows: Ints) -> "AgreementCounts":
        """Select instances, for a resample."""
        return AgreementCounts(*(getattr(self, item.name)[rows] for item in fields(self)))

    @property
    def token_precision(self) -> Floats:
        """Share of the kept words that people marked; 0 if none was kept."""
        return _divide(self.words_both, self.words_kept)

    @property
    def token_recall(self) -> Floats:
        """Share of the marked words that the model kept; 0 if none was marked."""
        return _divide(self.words_both, self.words_marked)

    @property
    def token_f1(self) -> Floats:
        """Harmonic mean of precision and recall; 0 if no marked word was kept."""
        return _divide(2 * self.words_both, self.words_marked + self.words_kept)


@dataclass(frozen=True, slots=True)
class Score:
    """Precision, recall and F1."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """Agreement of rationales with people; 0 where there is nothing to count."""

    token_macro: Score
    """For words: means over the instances with a marked or kept word."""
    token_micro: Score
    """For words, with all instances counted as one."""
    iou_macro: Score
    """For spans: mean precision over the instances with a kept word, mean recall over those with a marked span, and
    the F1 of both means."""
    iou_micro: Score
    """For spans, with all instances counted as one."""
    auprc: float | None
    """Mean area under the precision-recall curve over the instances with a marked word; None without scores or marked
    words."""
    counts: AgreementCounts


def measure_agreement(
    examples: Sequence[Example], explanations: Sequence[Explanation], min_iou: float = MIN_IOU
) -> Agreement:
    """Compare rationales with human rationales, where there are any.

    :param explanations: One for each example, in the same order.
    :param min_iou: Smallest intersection over union at which two spans match.
    """
    if not 0 < min_iou <= 1:
        raise ValueError(f"min_iou must be in (0, 1], got {min_iou}.")
    rows: list[tuple[float, ...]] = []
    for number, (example, explanation) in enumerate(zip(examples, explanations, strict=True)):
        if example.document.words != explanation.document.words:
            raise ValueError(
                f"Example {example.document.id!r} is paired with an explanation of document "
                f"{explanation.document.id!r}, which has other words. Give both in the same order."
            )
        scores = None if explanation.saliency is None else explanation.saliency.scores
        for first, after in () if example.human_spans is None else example.document.part_ranges:
            part = slice(first, after)
            marked = tuple(_clip_spans(example.human_spans or (), first, after))
            counted = _count(marked, explanation.mask.kept[part], None if scores is None else scores[part], min_iou)
            rows.append((number, *counted))
    if not rows:
        raise ValueError("None of the documents has a human rationale to compare with. Give some that people marked.")
    example, auprc, *counts = np.array(rows, dtype=np.float64).T
    return score_agreement(AgreementCounts(example.astype(np.int64), auprc, *(n.astype(np.int64) for n in counts)))


def _clip_spans(spans: Spans, first: int, after: int) -> Iterator[tuple[int, int]]:
    """Clip spans to a range of words, and count words from its start."""
    for start, end in spans:
        low, high = max(start, first), min(end, after)
        # An empty span belongs to the text that contains it.
        if low < high or first <= start == end < after:
            yield low - first, high - first


def _count(marked: Spans, kept: Flags, scores: Floats | None, min_iou: float) -> tuple[float, ...]:
    """Compute the fields of `AgreementCounts` after the example."""
    flags = Mask.from_spans([(start, end) for start, end in marked if start < end], len(kept)).kept
    # An empty span counts as a span that nothing can match, as in ERASER.
    distinct, runs = tuple(set(marked)), Mask(kept).spans
    return (
        float("nan") if scores is None or not flags.any() else _auprc(flags, scores),
        int(flags.sum()),
        int(kept.sum()),
        int((flags & kept).sum()),
        len(distinct),
        len(runs),
        _count_matches(runs, distinct, min_iou),
    )


def _count_matches(kept: Spans, marked: Spans, min_iou: float) -> int:
    """Count the kept spans whose intersection over union with a marked span is large enough."""
    if not kept or not marked:
        return 0
    starts, ends = np.array(kept).T[:, :, None]  # (kept, 1)
    firsts, afters = np.array(marked).T  # (marked,)
    both = np.maximum(np.minimum(ends, afters) - np.maximum(starts, firsts), 0)  # (kept, marked)
    either = (ends - starts) + (afters - firsts) - both
    return int((both / either >= min_iou).any(axis=1).sum())


def _auprc(marked: Flags, scores: Floats) -> float:
    """Compute the area under the precision-recall curve by trapezoids."""
    # Trapezoids promise more than can be reached (Davis and Goadrich, 2006), but ERASER reports them.
    # scikit-learn gives the same but takes 22 times as long for a text of 300 words; MultiRC tests on 4,848.
    order = np.argsort(-scores, kind="stable")
    last = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))  # of each run of equal scores
    n_right = np.cumsum(marked[order])[last]
    precision, recall = n_right / (last + 1), n_right / n_right[-1]
    return float(np.trapezoid(np.append(1, precision), np.append(0, recall)))


def score_agreement(counts: AgreementCounts) -> Agreement:
    """Compute the figures from counts."""
    # As in ERASER, an instance without a marked or kept word is left out; it does not count as perfect.
    some = (counts.words_marked > 0) | (counts.words_kept > 0)
    token = Score(*(_mean(each[some]) for each in (counts.token_precision, counts.token_recall, counts.token_f1)))
    # Recall can exceed 1, as in ERASER: it counts the kept spans that match, and several can match one marked span.
    iou = _score(
        _mean(_divide(counts.spans_matched, counts.spans_kept)[counts.spans_kept > 0]),
        _mean(_divide(counts.spans_matched, counts.spans_marked)[counts.spans_marked > 0]),
    )
    areas = counts.auprc[~np.isnan(counts.auprc)]
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
    """Compute the mean F1 of kept words over texts, as in `Agreement.token_macro`.

    Texts without a word in either mask are left out, as in ERASER; 0 if no text remains.
    """
    if not len(gold):
        raise ValueError("There are no masks to compare. Give at least one document.")
    counts = [(mask.sum(), own.sum(), (mask & own).sum()) for mask, own in zip(gold, kept, strict=True)]
    n_gold, n_kept, n_both = np.array(counts, dtype=np.int64).T
    return _mean(_divide(2 * n_both, n_gold + n_kept)[n_gold + n_kept > 0])

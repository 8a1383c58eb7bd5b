"""How far a figure may be off: bootstrap intervals over the documents it was measured on."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fresh.metrics.estimate import Interval
from fresh.metrics.resampling import (
    ClassCounts,
    Kinds,
    Numbers,
    Values,
    check_sizes,
    draw_rows,
    resampled,
    shared,
    sum_by_text,
)

N_RESAMPLES = 2_000
"""How often documents are drawn anew."""
LEVEL = 0.95
"""Share of the resamples that an interval holds."""


def bootstrap(
    statistic: Callable[[Numbers], float],
    n_instances: int,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
    texts: ArrayLike | None = None,
) -> Interval:
    """Compute the percentile interval of any figure.

    :param statistic: The figure over the instances with these numbers, which may come more than once.
    :param texts: Number of the text of each instance, where several have one text; then whole texts are drawn.
    """
    check_sizes(n_instances, n_resamples)
    draws = [statistic(rows) for rows in draw_rows(n_instances, n_resamples, seed, texts)]
    return interval(statistic(np.arange(n_instances)), np.array(draws, dtype=np.float64))


def mean_interval(
    values: ArrayLike, n_resamples: int = N_RESAMPLES, seed: int = 0, texts: ArrayLike | None = None
) -> Interval:
    """Compute the interval of the mean of one value for each instance.

    :param texts: Number of the text of each instance, where several have one text; then whole texts are drawn.
    """
    row = np.asarray(values, dtype=np.float64)
    if row.ndim != 1:
        raise ValueError(f"Give one value for each instance, got an array of shape {row.shape}.")
    check_sizes(len(row), n_resamples)
    if not np.isfinite(row).all():
        raise ValueError(f"Value {np.flatnonzero(~np.isfinite(row))[0]} is not a finite number. Leave it out.")
    if shared(texts, len(row)) is not None:
        return ratio_interval(row, np.ones(len(row)), n_resamples, seed, texts)
    distinct, counts = np.unique(row, return_counts=True)
    if len(distinct) > len(row) / 8:  # then counting kinds takes longer than drawing instances
        return bootstrap(lambda rows: float(row[rows].mean()), len(row), n_resamples, seed)
    means = [draws @ distinct / len(row) for draws in resampled(counts, n_resamples, seed)]
    return interval(float(row.mean()), np.concatenate(means))


def ratio_interval(
    parts: ArrayLike,
    wholes: ArrayLike,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
    texts: ArrayLike | None = None,
) -> Interval:
    """Compute the interval of one sum over another, such as words kept over all words, from both for each instance.

    0 where the wholes add up to nothing.

    :param texts: Number of the text of each instance, where several have one text; then whole texts are drawn.
    """
    above, below = (np.asarray(column, dtype=np.float64) for column in (parts, wholes))
    if above.ndim != 1 or above.shape != below.shape:
        raise ValueError(
            f"Give one part and one whole for each instance, got arrays of shapes {above.shape} and {below.shape}."
        )
    given = shared(texts, len(above))
    if given is not None:
        above, below = sum_by_text(above, given), sum_by_text(below, given)

    def ratio(rows: Numbers) -> float:
        total = float(below[rows].sum())
        return float(above[rows].sum()) / total if total else 0.0

    return bootstrap(ratio, len(above), n_resamples, seed)


def accuracy_interval(
    gold: ArrayLike,
    predicted: ArrayLike,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
    texts: ArrayLike | None = None,
) -> Interval:
    """Compute the interval of the share of right answers, from numbered labels.

    :param texts: Number of the text of each instance, where several have one text; then whole texts are drawn.
    """
    wanted, given = check_numbered(gold, predicted)
    return mean_interval(wanted == given, n_resamples, seed, texts)


def macro_f1_interval(
    gold: ArrayLike,
    predicted: ArrayLike,
    n_classes: int,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
    texts: ArrayLike | None = None,
) -> Interval:
    """Compute the interval of the macro-F1, from numbered labels.

    :param n_classes: The mean is taken over the classes below this number; others count only against them.
    :param texts: Number of the text of each instance, where several have one text; then whole texts are drawn.
    """
    measured, drawn = _count_draws(gold, predicted, n_classes, n_resamples, seed, texts)
    return interval(float(measured.macro_f1[0]), np.concatenate([one.macro_f1 for one in drawn]))


class _ClassIntervals(NamedTuple):
    """How far the scores of one class may be off."""

    precision: Interval
    recall: Interval
    f1: Interval


def class_intervals(
    gold: ArrayLike,
    predicted: ArrayLike,
    n_classes: int,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
    texts: ArrayLike | None = None,
) -> list[_ClassIntervals]:
    """Compute the intervals of precision, recall and F1 of each class, from numbered labels.

    :param n_classes: Only classes below this number are scored.
    :param texts: Number of the text of each instance, where several have one text; then whole texts are drawn.
    """
    measured, drawn = _count_draws(gold, predicted, n_classes, n_resamples, seed, texts)
    columns = [
        intervals(getattr(measured, name)[0], np.concatenate([getattr(block, name) for block in drawn]))
        for name in _ClassIntervals._fields
    ]
    return [_ClassIntervals(*scores) for scores in zip(*columns, strict=True)]


def _count_draws(
    gold: ArrayLike, predicted: ArrayLike, n_classes: int, n_resamples: int, seed: int, texts: ArrayLike | None
) -> tuple[ClassCounts, list[ClassCounts]]:
    """Count what the scores of classes are made of, as measured and in all resamples."""
    check_sizes(len(np.atleast_1d(gold)), n_resamples)
    check_classes(n_classes)
    kinds = Kinds.of(*check_numbered(gold, predicted), texts=texts)
    counts = kinds.count_classes(n_classes)
    return counts.times(kinds.counts[None]), [counts.times(block) for block in kinds.draw(n_resamples, seed)]


def numbered(given: Sequence[str], labels: Sequence[str]) -> Numbers:
    """Turn labels into their places among the classes; any other label gets the number after the last."""
    places = {label: place for place, label in enumerate(labels)}
    return np.array([places.get(label, len(labels)) for label in given], dtype=np.int64)


def interval(value: float, draws: Values) -> Interval:
    """Take the middle 95 % of some resamples."""
    [found] = intervals(np.array([value]), draws[:, None])
    return found


def intervals(values: Values, draws: Values) -> list[Interval]:
    """Take the middle 95 % of the resamples of several figures, leaving out those in which one could not be measured.

    :param draws: Each figure in each resample; nan where it could not be measured. Shape: (resamples, figures).
    """
    tail = 100 * (1 - LEVEL) / 2
    percentile = np.nanpercentile if np.isnan(draws).any() else np.percentile
    lows, highs = percentile(draws, (tail, 100 - tail), axis=0).tolist()
    return [Interval(*ends) for ends in zip(values.tolist(), lows, highs, strict=True)]


def check_classes(n_classes: int) -> None:
    """Refuse a mean over nothing."""
    if n_classes < 1:
        raise ValueError(f"n_classes must be at least 1, got {n_classes}.")


def check_numbered(*columns: ArrayLike) -> list[Numbers]:
    """Refuse labels that are not numbers from 0, or not one for each instance."""
    arrays = [np.asarray(column) for column in columns]
    for array in arrays:
        if array.ndim != 1 or (array.size and (array.dtype.kind not in "iu" or array.min() < 0)):
            raise ValueError(
                "Labels must be one row of whole numbers from 0. Make them with numbered(labels, classes)."
            )
    sizes = [len(array) for array in arrays]
    if len(set(sizes)) > 1:
        other = next(size for size in sizes if size != sizes[0])
        raise ValueError(f"There are {sizes[0]} gold labels but {other} answers. Give one each.")
    return [array.astype(np.int64) for array in arrays]

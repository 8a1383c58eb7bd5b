"""How far a figure may be off: bootstrap intervals over the documents it was measured on."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.int64]
Values = NDArray[np.float64]

N_RESAMPLES = 2_000
"""How often documents are drawn anew."""
LEVEL = 0.95
"""Share of the resamples that an interval holds."""
BLOCK = 4_000_000
"""Numbers that are drawn at one time, so that memory stays small."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure and the range that holds 95 % of its bootstrap resamples."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, (self.value, self.low, self.high))):
            raise ValueError(f"An interval needs finite numbers, got {self.value}, {self.low} and {self.high}.")
        if self.low > self.high:
            raise ValueError(f"The low end {self.low} of an interval is above its high end {self.high}.")

    def __str__(self) -> str:
        between = " to " if self.low < 0 else "–"
        return f"{short(self.value)} ({short(self.low)}{between}{short(self.high)})"


def short(value: float) -> str:
    """Write a figure with three places and without the zero before the point."""
    text = f"{value:.3f}"
    if float(text) == 0:
        return ".000"
    return text.replace("0.", ".", 1) if abs(float(text)) < 1 else text


def bootstrap(
    statistic: Callable[[Numbers], float], n_instances: int, n_resamples: int = N_RESAMPLES, seed: int = 0
) -> Interval:
    """Compute the percentile interval of any figure.

    :param statistic: The figure over the instances with these numbers, which may come more than once.
    """
    check_sizes(n_instances, n_resamples)
    generator = np.random.default_rng(seed)
    draws = [statistic(generator.integers(n_instances, size=n_instances)) for _ in range(n_resamples)]
    return interval(statistic(np.arange(n_instances)), np.array(draws, dtype=np.float64))


def mean_interval(values: ArrayLike, n_resamples: int = N_RESAMPLES, seed: int = 0) -> Interval:
    """Compute the interval of the mean of one value for each instance."""
    row = np.asarray(values, dtype=np.float64)
    if row.ndim != 1:
        raise ValueError(f"Give one value for each instance, got an array of shape {row.shape}.")
    check_sizes(len(row), n_resamples)
    if not np.isfinite(row).all():
        raise ValueError(f"Value {np.flatnonzero(~np.isfinite(row))[0]} is not a finite number. Leave it out.")
    distinct, counts = np.unique(row, return_counts=True)
    if len(distinct) > len(row) / 8:  # then counting kinds takes longer than drawing instances
        return bootstrap(lambda rows: float(row[rows].mean()), len(row), n_resamples, seed)
    means = [draws @ distinct / len(row) for draws in resampled(counts, n_resamples, seed)]
    return interval(float(row.mean()), np.concatenate(means))


def ratio_interval(parts: ArrayLike, wholes: ArrayLike, n_resamples: int = N_RESAMPLES, seed: int = 0) -> Interval:
    """Compute the interval of one sum over another, such as words kept over all words, from both for each instance.

    0 where the wholes add up to nothing.
    """
    above, below = (np.asarray(column, dtype=np.float64) for column in (parts, wholes))
    if above.ndim != 1 or above.shape != below.shape:
        raise ValueError(
            f"Give one part and one whole for each instance, got arrays of shapes {above.shape} and {below.shape}."
        )

    def ratio(rows: Numbers) -> float:
        total = float(below[rows].sum())
        return float(above[rows].sum()) / total if total else 0.0

    return bootstrap(ratio, len(above), n_resamples, seed)


def accuracy_interval(gold: ArrayLike, predicted: ArrayLike, n_resamples: int = N_RESAMPLES, seed: int = 0) -> Interval:
    """Compute the interval of the share of right answers, from numbered labels."""
    wanted, given = check_numbered(gold, predicted)
    return mean_interval(wanted == given, n_resamples, seed)


def macro_f1_interval(
    gold: ArrayLike, predicted: ArrayLike, n_classes: int, n_resamples: int = N_RESAMPLES, seed: int = 0
) -> Interval:
    """Compute the interval of the macro-F1, from numbered labels.

    :param n_classes: The mean is taken over the classes below this number; others count only against them.
    """
    check_sizes(len(np.atleast_1d(gold)), n_resamples)
    check_classes(n_classes)
    cells, counts = count_cells(*check_numbered(gold, predicted))
    draws = [macro_f1_of(block, cells[:, 0], cells[:, 1], n_classes) for block in resampled(counts, n_resamples, seed)]
    [value] = macro_f1_of(counts[None], cells[:, 0], cells[:, 1], n_classes)
    return interval(float(value), np.concatenate(draws))


def numbered(given: Sequence[str], labels: Sequence[str]) -> Numbers:
    """Turn labels into their places among the classes; any other label gets the number after the last."""
    places = {label: place for place, label in enumerate(labels)}
    return np.array([places.get(label, len(labels)) for label in given], dtype=np.int64)


def count_cells(*columns: Numbers) -> tuple[Numbers, Numbers]:
    """Count how often each combination of numbers occurs, say of gold and predicted labels.

    :return: The combinations, one a row, and their counts.
    """
    cells, counts = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
    return cells, counts.astype(np.int64)


def resampled(counts: Numbers, n_resamples: int, seed: int) -> Iterator[Numbers]:
    """Draw as many instances as there are, with replacement, and count those of each kind.

    Counts of a resample follow a multinomial distribution, so that instances need not be drawn one by one.

    :return: Blocks of resamples. Shape: (resamples, kinds).
    """
    generator = np.random.default_rng(seed)
    n_instances = int(counts.sum())
    step = max(1, BLOCK // len(counts))
    for start in range(0, n_resamples, step):
        yield generator.multinomial(n_instances, counts / n_instances, size=min(step, n_resamples - start))


def macro_f1_of(draws: Numbers | Values, gold: Numbers, predicted: Numbers, n_classes: int) -> Values:
    """Compute the macro-F1 of each resample.

    :param draws: How often each cell of the confusion matrix was drawn. Shape: (resamples, cells).
    :param gold: The gold class of each cell.
    :param predicted: The predicted class of each cell.
    """
    classes = np.arange(n_classes)
    wanted, given = gold[:, None] == classes, predicted[:, None] == classes  # (cells, classes)
    weights = draws.astype(np.float64)
    return macro_f1_from_counts(weights @ (wanted & given), weights @ wanted + weights @ given)


def macro_f1_from_counts(found: Values, either: Values) -> Values:
    """Take the mean F1 over classes.

    :param found: Right answers of each class. Shape: (resamples, classes).
    :param either: Gold labels and predicted labels of each class, added. Shape: (resamples, classes).
    """
    scores: Values = (2 * found / np.maximum(either, 1)).mean(axis=1)
    return scores


def interval(value: float, draws: Values) -> Interval:
    """Take the middle 95 % of some resamples."""
    tail = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(draws, (tail, 100 - tail))
    return Interval(float(value), float(low), float(high))


def check_sizes(n_instances: int, n_resamples: int) -> None:
    """Refuse what cannot be drawn from."""
    if n_instances < 1:
        raise ValueError("There are no instances to draw from. Give at least one.")
    if n_resamples < 1:
        raise ValueError(f"n_resamples must be at least 1, got {n_resamples}.")


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

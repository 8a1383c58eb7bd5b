"""Figures with their bootstrap intervals: documents, or whole texts, are resampled with replacement."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fresh.rationale import Words

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Bounds = tuple[float, float]
"""The two ends of an interval."""

Texts = ArrayLike | None
"""Number of the text of each instance, where several share one; then whole texts are drawn."""

N_RESAMPLES = 2_000
LEVEL = 0.95
"""Share of the resamples inside an interval."""
BLOCK_SIZE = 4_000_000
"""Numbers drawn at a time, which bounds the memory."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and, if it is known, the interval around it."""

    value: float
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise ValueError(f"An interval has two ends, got {self.low} and {self.high}. Give both or neither.")
        numbers = [number for number in (self.low, self.value, self.high) if number is not None]
        if not all(map(math.isfinite, numbers)):
            raise ValueError(f"A figure and its interval must be finite, got {numbers}. Leave out what is not known.")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"An interval runs from low to high, got {self.low} to {self.high}.")

    @classmethod
    def of(cls, value: float, bounds: Bounds | None) -> "Estimate":
        """Join a figure with the ends of its interval, if they are known."""
        return Estimate(value, *(bounds or ()))

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return short(self.value)
        dash = " to " if self.low < 0 else "–"
        return f"{short(self.value)} ({short(self.low)}{dash}{short(self.high)})"


@dataclass(frozen=True, slots=True)
class Interval(Estimate):
    """A figure and the interval that holds 95 % of its bootstrap resamples."""

    low: float
    high: float

    @property
    def bounds(self) -> Bounds:
        """Both ends."""
        return self.low, self.high


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure with its name."""

    name: str
    figure: Interval


@dataclass(frozen=True, slots=True)
class LengthScore:
    """The macro-F1 of a predictor with rationales of one length."""

    ratio: float
    macro_f1: Interval


def short(value: float) -> str:
    """Format a figure with three decimals and without the leading zero."""
    text = f"{value:.3f}"
    if float(text) == 0:
        return ".000"
    return text.replace("0.", ".", 1) if abs(float(text)) < 1 else text


# Why not scipy.stats.bootstrap: it cannot draw whole texts. And drawing the counts of a confusion matrix at once is the
# same as drawing documents, and far faster.


def bootstrap_interval(
    statistic: Callable[[Ints], float],
    n_instances: int,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
    texts: Texts = None,
) -> Interval:
    """Compute the percentile interval of any figure.

    :param statistic: The figure over the instances with these numbers, which may be repeated.
    """
    check_sizes(n_instances, n_resamples)
    draws = [statistic(rows) for rows in draw_rows(n_instances, n_resamples, seed, texts)]
    return percentile_interval(statistic(np.arange(n_instances)), np.array(draws, dtype=np.float64))


def mean_interval(values: ArrayLike, n_resamples: int = N_RESAMPLES, seed: int = 0, texts: Texts = None) -> Interval:
    """Compute the interval of the mean of one value for each instance."""
    row = np.asarray(values, dtype=np.float64)
    if row.ndim != 1:
        raise ValueError(f"Give one value for each instance, got an array of shape {row.shape}.")
    check_sizes(len(row), n_resamples)
    if not np.isfinite(row).all():
        raise ValueError(f"Value {np.flatnonzero(~np.isfinite(row))[0]} is not a finite number. Leave it out.")
    if check_texts(texts, len(row)) is not None:
        return ratio_interval(row, np.ones(len(row)), n_resamples, seed, texts)
    distinct, counts = np.unique(row, return_counts=True)
    # With many distinct values, drawing their counts is slower than drawing instances.
    if len(distinct) > len(row) / 8:
        return bootstrap_interval(lambda rows: float(row[rows].mean()), len(row), n_resamples, seed)
    means = [draws @ distinct / len(row) for draws in resample_counts(counts, n_resamples, seed)]
    return percentile_interval(float(row.mean()), np.concatenate(means))


def ratio_interval(
    parts: ArrayLike, wholes: ArrayLike, n_resamples: int = N_RESAMPLES, seed: int = 0, texts: Texts = None
) -> Interval:
    """Compute the interval of one sum over another, such as kept words over all words; 0 if the second sum is 0.

    :param parts: One value for each instance.
    :param wholes: One value for each instance.
    """
    above, below = (np.asarray(column, dtype=np.float64) for column in (parts, wholes))
    if above.ndim != 1 or above.shape != below.shape:
        raise ValueError(
            f"Give one part and one whole for each instance, got arrays of shapes {above.shape} and {below.shape}."
        )
    numbers = check_texts(texts, len(above))
    if numbers is not None:
        above, below = sum_by_text(above, numbers), sum_by_text(below, numbers)

    def ratio(rows: Ints) -> float:
        total = float(below[rows].sum())
        return float(above[rows].sum()) / total if total else 0.0

    return bootstrap_interval(ratio, len(above), n_resamples, seed)


def accuracy_interval(
    gold: ArrayLike, predicted: ArrayLike, n_resamples: int = N_RESAMPLES, seed: int = 0, texts: Texts = None
) -> Interval:
    """Compute the interval of the accuracy, from numbered labels."""
    labels, answers = check_labels(gold, predicted)
    return mean_interval(labels == answers, n_resamples, seed, texts)


def macro_f1_interval(
    gold: ArrayLike,
    predicted: ArrayLike,
    n_classes: int,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
    texts: Texts = None,
) -> Interval:
    """Compute the interval of the macro-F1, from numbered labels.

    :param n_classes: The classes below this number are averaged; others count only against them.
    """
    whole, draws = _draw_class_counts(gold, predicted, n_classes, n_resamples, seed, texts)
    return percentile_interval(float(whole.macro_f1[0]), np.concatenate([block.macro_f1 for block in draws]))


class ClassIntervals(NamedTuple):
    """The intervals of the scores of one class."""

    precision: Interval
    recall: Interval
    f1: Interval


def class_intervals(
    gold: ArrayLike,
    predicted: ArrayLike,
    n_classes: int,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
    texts: Texts = None,
) -> list[ClassIntervals]:
    """Compute the intervals of precision, recall and F1 of each class, from numbered labels.

    :param n_classes: Only classes below this number are scored.
    """
    whole, draws = _draw_class_counts(gold, predicted, n_classes, n_resamples, seed, texts)
    columns = [
        percentile_intervals(getattr(whole, name)[0], np.concatenate([getattr(block, name) for block in draws]))
        for name in ClassIntervals._fields
    ]
    return [ClassIntervals(*scores) for scores in zip(*columns, strict=True)]


def _draw_class_counts(
    gold: ArrayLike, predicted: ArrayLike, n_classes: int, n_resamples: int, seed: int, texts: Texts
) -> tuple["ClassCounts", list["ClassCounts"]]:
    """Count correct, gold and predicted instances of each class, in the whole sample and in all resamples."""
    check_sizes(len(np.atleast_1d(gold)), n_resamples)
    check_classes(n_classes)
    kinds = Kinds.of(*check_labels(gold, predicted), texts=texts)
    counts = kinds.count_classes(n_classes)
    return counts.total(kinds.counts[None]), [counts.total(block) for block in kinds.draw(n_resamples, seed)]


def percentile_interval(value: float, draws: Floats) -> Interval:
    """Take the middle 95 % of some resamples."""
    [interval] = percentile_intervals(np.array([value]), draws[:, None])
    return interval


def percentile_intervals(values: Floats, draws: Floats) -> list[Interval]:
    """Take the middle 95 % of the resamples of several figures.

    :param draws: Each figure in each resample; NaN, which is left out, where it is undefined. Shape: (resamples,
        figures).
    """
    # nanpercentile is far slower, and most draws have no NaN.
    tail = 100 * (1 - LEVEL) / 2
    percentile = np.nanpercentile if np.isnan(draws).any() else np.percentile
    lows, highs = percentile(draws, (tail, 100 - tail), axis=0).tolist()
    return [Interval(*ends) for ends in zip(values.tolist(), lows, highs, strict=True)]


def number_labels(names: Sequence[str], labels: Sequence[str]) -> Ints:
    """Convert labels to their number among the classes; unknown labels get the number after the last."""
    places = {label: place for place, label in enumerate(labels)}
    return np.array([places.get(name, len(labels)) for name in names], dtype=np.int64)


def number_texts(texts: Iterable[Words]) -> Ints | None:
    """Assign numbers to texts, equal ones the same, independently of the order of the documents.

    :return: One number a document; None if no text is repeated, so that documents can be drawn one by one.
    """
    all_texts = list(texts)
    places = {text: place for place, text in enumerate(sorted(set(all_texts)))}
    return None if len(places) == len(all_texts) else np.array([places[text] for text in all_texts], dtype=np.int64)


def describe_shared_texts(n_documents: int, n_texts: int) -> str:
    """Say how many texts documents share."""
    return f"{n_documents:,} documents share {n_texts:,} text{'' if n_texts == 1 else 's'}"


def draw_rows(n_instances: int, n_resamples: int, seed: int, texts: Texts = None) -> Iterator[Ints]:
    """Draw as many texts as there are, with replacement, and list their instances, for each resample.

    :param texts: Number of the text of each instance; each instance is a text of its own by default.
    """
    numbers = check_texts(texts, n_instances)
    groups = _Groups.of(np.arange(n_instances) if numbers is None else numbers)
    generator = np.random.default_rng(seed)
    for _ in range(n_resamples):
        yield groups.take(generator.integers(len(groups.sizes), size=len(groups.sizes)))


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """The instances of each text."""

    rows: Ints
    """All instances, text by text. Shape: (instances,)."""
    sizes: Ints
    """Number of instances of each text. Shape: (texts,)."""

    @classmethod
    def of(cls, texts: Ints) -> "_Groups":
        return cls(np.argsort(texts, kind="stable"), np.unique(texts, return_counts=True)[1])

    def take(self, texts: Ints) -> Ints:
        """List the instances of some texts, one text after the other."""
        if len(self.sizes) == len(self.rows):
            return self.rows[texts]
        sizes = self.sizes[texts]
        starts = np.cumsum(self.sizes)[texts] - sizes
        # Each text's range of rows, without a loop over texts.
        shifts = np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
        return self.rows[shifts + np.arange(len(shifts))]


def sum_by_text(values: Floats, texts: Ints) -> Floats:
    """Sum the values of each text. Shape: (texts,)."""
    _, places = np.unique(texts, return_inverse=True)
    return np.bincount(places, weights=values).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """Groups of texts whose instances have the same labels and predictions, so that only their number matters."""

    cells: Ints
    """Gold label and predictions of each instance of one text of each kind. Shape: (instances, columns)."""
    kind: Ints
    """The kind of each of these instances. Shape: (instances,)."""
    counts: Ints
    """Number of texts of each kind. Shape: (kinds,)."""

    @classmethod
    def of(cls, *columns: Ints, texts: Texts = None) -> "Kinds":
        """Group texts, independently of the order of the instances and of the numbers of the texts."""
        rows = np.stack(columns, axis=1)
        # Sorted, so that equal samples give equal intervals whatever their order.
        cells, places, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
        numbers = check_texts(texts, len(rows))
        if numbers is None:
            return cls(cells, np.arange(len(cells)), counts.astype(np.int64))
        order = np.lexsort((places.reshape(-1), numbers))
        ends = np.flatnonzero(np.diff(numbers[order])) + 1
        n_texts = Counter(tuple(part.tolist()) for part in np.split(places.reshape(-1)[order], ends))
        kinds = sorted(n_texts)
        members = np.array([cell for kind in kinds for cell in kind], dtype=np.int64)
        kind = np.repeat(np.arange(len(kinds)), [len(kind) for kind in kinds])
        return cls(cells[members], kind, np.array([n_texts[kind] for kind in kinds], dtype=np.int64))

    def draw(self, n_resamples: int, seed: int) -> Iterator[Ints]:
        """Draw as many texts as there are, with replacement, and count those of each kind.

        :return: Blocks of resamples. Shape: (resamples, kinds).
        """
        return resample_counts(self.counts, n_resamples, seed)

    def count_classes(self, n_classes: int, answer: int = 1) -> "ClassCounts":
        """Count correct, gold and predicted instances of each class in one text of each kind.

        :param n_classes: Labels from this number on belong to no class.
        :param answer: The column of the predictions.
        """
        gold, predicted = self.cells[:, 0], self.cells[:, answer]
        size = len(self.counts) * n_classes

        def count(label: Ints, flags: Flags) -> Floats:
            places = self.kind[flags] * n_classes + label[flags]
            return np.bincount(places, minlength=size).astype(np.float64).reshape(-1, n_classes)

        # A label outside of the classes counts as an error, but not as a class.
        known = gold < n_classes
        return ClassCounts(
            count(gold, known & (gold == predicted)), count(gold, known), count(predicted, predicted < n_classes)
        )


@dataclass(frozen=True, slots=True, eq=False)
class ClassCounts:
    """The counts that give the scores of each class. All shapes: (resamples, classes).

    As in scikit-learn, for all resamples at once.
    """

    correct: Floats
    gold: Floats
    predicted: Floats

    def total(self, draws: Ints | Floats) -> "ClassCounts":
        """Add up the counts over kinds of texts.

        :param draws: How often each kind was drawn. Shape: (resamples, kinds).
        """
        weights = draws.astype(np.float64)
        return ClassCounts(weights @ self.correct, weights @ self.gold, weights @ self.predicted)

    @property
    def precision(self) -> Floats:
        """Share of the predictions of a class that are right; 0 if there are none."""
        return np.asarray(self.correct / np.maximum(self.predicted, 1))

    @property
    def recall(self) -> Floats:
        """Share of the gold labels of a class that were predicted; 0 if there are none."""
        return np.asarray(self.correct / np.maximum(self.gold, 1))

    @property
    def f1(self) -> Floats:
        """Harmonic mean of the two; 0 if nothing was predicted right."""
        return np.asarray(2 * self.correct / np.maximum(self.gold + self.predicted, 1))

    @property
    def macro_f1(self) -> Floats:
        """Mean F1 over classes. Shape: (resamples,)."""
        return np.asarray(self.f1.mean(axis=1))


def resample_counts(counts: Ints, n_resamples: int, seed: int) -> Iterator[Ints]:
    """Draw as many texts as there are, with replacement, and count those of each kind.

    :return: Blocks of resamples. Shape: (resamples, kinds).
    """
    # The counts of a resample follow a multinomial distribution, so texts need not be drawn one by one.
    generator = np.random.default_rng(seed)
    n_texts = int(counts.sum())
    step = max(1, BLOCK_SIZE // len(counts))
    for start in range(0, n_resamples, step):
        yield generator.multinomial(n_texts, counts / n_texts, size=min(step, n_resamples - start))


def check_sizes(n_instances: int, n_resamples: int) -> None:
    """Refuse to draw from nothing, or to draw nothing."""
    if n_instances < 1:
        raise ValueError("There are no instances to draw from. Give at least one.")
    if n_resamples < 1:
        raise ValueError(f"n_resamples must be at least 1, got {n_resamples}.")


def check_classes(n_classes: int) -> None:
    """Refuse a mean over no classes."""
    if n_classes < 1:
        raise ValueError(f"n_classes must be at least 1, got {n_classes}.")


def check_labels(*columns: ArrayLike) -> list[Ints]:
    """Refuse labels that are not numbers from 0, or columns of different lengths."""
    arrays = [np.asarray(column) for column in columns]
    for array in arrays:
        if array.ndim != 1 or (array.size and (array.dtype.kind not in "iu" or array.min() < 0)):
            raise ValueError(
                "Labels must be one row of whole numbers from 0. Make them with number_labels(labels, classes)."
            )
    sizes = [len(array) for array in arrays]
    if len(set(sizes)) > 1:
        other = next(size for size in sizes if size != sizes[0])
        raise ValueError(f"There are {sizes[0]} gold labels but {other} answers. Give one each.")
    return [array.astype(np.int64) for array in arrays]


def check_texts(texts: Texts, n_instances: int) -> Ints | None:
    """Refuse texts that are not numbered, or not one for each instance.

    :return: The numbers; None if each instance is a text of its own.
    """
    if texts is None:
        return None
    numbers = np.asarray(texts)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise ValueError("Texts must be one row of whole numbers. Make them with number_texts(texts).")
    if len(numbers) != n_instances:
        raise ValueError(f"There are {n_instances} instances but {len(numbers)} texts. Give one each.")
    return None if len(np.unique(numbers)) == n_instances else numbers.astype(np.int64)

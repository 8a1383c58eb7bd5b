"""Percentile bootstrap intervals (Efron and Tibshirani, 1993) over documents, or over whole texts.

Several documents may share a text: MultiRC asks 4,848 questions about 83 texts. Their predictions depend on each other,
and intervals that resample them one by one are too narrow; `texts` resamples all documents of a text together.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fresh.rationale import Words
from fresh.text import plural

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Bounds = tuple[float, float]
Labels = ArrayLike
"""The number of each instance's label, as `number_labels` makes."""
Texts = ArrayLike | None
"""The number of each instance's text, where several share one."""

N_RESAMPLES = 2_000
LEVEL = 0.95
# Counts drawn at a time: 32 MB.
BLOCK_SIZE = 4_000_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and, if known, the interval around it."""

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
        """Join a figure with the ends of its interval, if known."""
        return Estimate(value, *(bounds or ()))

    def __str__(self) -> str:
        return self.show(short)

    def show(self, form: Callable[[float], str]) -> str:
        """Format the figure and, in parentheses, the ends of its interval."""
        if self.low is None or self.high is None:
            return form(self.value)
        dash = " to " if form(self.low).startswith(("-", "+")) else "–"
        return f"{form(self.value)} ({form(self.low)}{dash}{form(self.high)})"


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
    """A named figure."""

    name: str
    figure: Interval


@dataclass(frozen=True, slots=True)
class LengthScore:
    """The macro-F1 of a predictor that reads rationales of one length."""

    ratio: float
    macro_f1: Interval


def short(value: float) -> str:
    """Format a figure with three decimals and without the leading zero."""
    text = f"{value:.3f}"
    if float(text) == 0:
        return ".000"
    return text.replace("0.", ".", 1) if abs(float(text)) < 1 else text


# Not scipy.stats.bootstrap: it cannot resample whole texts, and it draws every instance, where one draw from a
# multinomial distribution gives all the counts that accuracy and F1 need.


def bootstrap_interval(
    statistic: Callable[[Ints], float],
    n_instances: int,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
    texts: Texts = None,
) -> Interval:
    """Compute the percentile interval of any figure, given as a function of the indices of a resample."""
    figures = [statistic(rows) for rows in draw_rows(n_instances, n_resamples, seed, texts)]
    return percentile_interval(np.array(figures, dtype=np.float64))


def mean_interval(values: ArrayLike, n_resamples: int = N_RESAMPLES, seed: int = 0, texts: Texts = None) -> Interval:
    """Compute the interval of a mean over instances."""
    row = np.asarray(values, dtype=np.float64)
    if check_texts(texts, len(row)) is not None:
        return ratio_interval(row, np.ones(len(row)), n_resamples, seed, texts)
    distinct, counts = np.unique(row, return_counts=True)
    # With many distinct values, drawing their counts is slower than drawing instances.
    if len(distinct) > len(row) / 8:
        return bootstrap_interval(lambda rows: float(row[rows].mean()), len(row), n_resamples, seed)
    means = np.concatenate([draws @ distinct / len(row) for draws in resample_counts(counts, n_resamples, seed)])
    return percentile_interval(np.append(row.mean(), means[1:]))


def ratio_interval(
    parts: ArrayLike, wholes: ArrayLike, n_resamples: int = N_RESAMPLES, seed: int = 0, texts: Texts = None
) -> Interval:
    """Compute the interval of one sum over another, such as kept words over all words; 0 if the second sum is 0."""
    above, below = (np.asarray(column, dtype=np.float64) for column in (parts, wholes))
    if above.shape != below.shape:
        raise ValueError(f"parts and wholes must have one shape, got {above.shape} and {below.shape}.")
    numbers = check_texts(texts, len(above))
    if numbers is not None:
        above, below = sum_by_text(above, numbers), sum_by_text(below, numbers)

    def ratio(rows: Ints) -> float:
        total = float(below[rows].sum())
        return float(above[rows].sum()) / total if total else 0.0

    return bootstrap_interval(ratio, len(above), n_resamples, seed)


def accuracy_interval(
    gold: Labels, predicted: Labels, n_resamples: int = N_RESAMPLES, seed: int = 0, texts: Texts = None
) -> Interval:
    """Compute the interval of the accuracy from numbered labels."""
    labels, answers = check_labels(gold, predicted)
    return mean_interval(labels == answers, n_resamples, seed, texts)


def macro_f1_interval(
    gold: Labels, predicted: Labels, n_classes: int, n_resamples: int = N_RESAMPLES, seed: int = 0, texts: Texts = None
) -> Interval:
    """Compute the interval of the macro-F1 from numbered labels.

    :param n_classes: Averages the classes below this number; other labels count as errors only.
    """
    draws = _draw_class_counts(gold, predicted, n_classes, n_resamples, seed, texts)
    return percentile_interval(np.concatenate([block.macro_f1 for block in draws]))


class ClassIntervals(NamedTuple):
    """The intervals of the scores of one class."""

    precision: Interval
    recall: Interval
    f1: Interval


def class_intervals(
    gold: Labels, predicted: Labels, n_classes: int, n_resamples: int = N_RESAMPLES, seed: int = 0, texts: Texts = None
) -> list[ClassIntervals]:
    """Compute the intervals of precision, recall and F1 of each class, as `macro_f1_interval` does."""
    draws = _draw_class_counts(gold, predicted, n_classes, n_resamples, seed, texts)
    scores = (np.concatenate([getattr(block, name) for block in draws]) for name in ClassIntervals._fields)
    return [ClassIntervals(*row) for row in zip(*map(percentile_intervals, scores), strict=True)]


def _draw_class_counts(
    gold: Labels, predicted: Labels, n_classes: int, n_resamples: int, seed: int, texts: Texts
) -> list["ClassCounts"]:
    """Count correct, gold and predicted instances of each class in the sample and in all resamples."""
    kinds = Kinds.of(*check_labels(gold, predicted), texts=texts)
    counts = kinds.count_classes(n_classes)
    return [counts.total(block) for block in resample_counts(kinds.counts, n_resamples, seed)]


def percentile_interval(draws: Floats) -> Interval:
    """Take the figure of the sample, which comes first, and the middle 95 % of those of its resamples."""
    return percentile_intervals(draws[:, None])[0]


def percentile_intervals(draws: Floats) -> list[Interval]:
    """Do the same for several figures.

    :param draws: NaN where a resample leaves a figure undefined. Shape: (1 + resamples, figures).
    """
    tail = 100 * (1 - LEVEL) / 2
    # nanpercentile is far slower, and most draws have no NaN.
    percentile = np.nanpercentile if np.isnan(draws).any() else np.percentile
    lows, highs = percentile(draws[1:], (tail, 100 - tail), axis=0).tolist()
    return [Interval(*ends) for ends in zip(draws[0].tolist(), lows, highs, strict=True)]


def number_labels(names: Sequence[str], labels: Sequence[str]) -> Ints:
    """Convert labels to their indices among the classes; unknown labels get the index after the last."""
    places = {label: place for place, label in enumerate(labels)}
    return np.array([places.get(name, len(labels)) for name in names], dtype=np.int64)


def number_texts(texts: Iterable[Words]) -> Ints | None:
    """Assign one number to equal texts, whatever the order of the documents; None if no text repeats."""
    all_texts = list(texts)
    places = {text: place for place, text in enumerate(sorted(set(all_texts)))}
    return None if len(places) == len(all_texts) else np.array([places[text] for text in all_texts], dtype=np.int64)


def describe_shared_texts(n_documents: int, n_texts: int) -> str:
    """Describe how many texts the documents share."""
    return f"{plural(n_documents, 'document')} share {plural(n_texts, 'text')}"


def draw_rows(n_instances: int, n_resamples: int, seed: int, texts: Texts = None) -> Iterator[Ints]:
    """Yield the indices of all instances, then of those of each resample: texts are drawn with replacement."""
    numbers = check_texts(texts, n_instances)
    numbers = np.arange(n_instances) if numbers is None else numbers
    by_text = np.argsort(numbers, kind="stable")
    _, sizes = np.unique(numbers, return_counts=True)
    starts = np.cumsum(sizes) - sizes
    generator = np.random.default_rng(seed)
    yield np.arange(n_instances)
    for _ in range(n_resamples):
        drawn = generator.integers(len(sizes), size=len(sizes))
        # Expand each drawn text to its range of instances without a loop over texts.
        n_drawn = sizes[drawn]
        shifts = np.repeat(starts[drawn] - np.cumsum(n_drawn) + n_drawn, n_drawn)
        yield by_text[shifts + np.arange(len(shifts))]


def sum_by_text(values: Floats, texts: Ints) -> Floats:
    """Sum the values of each text. Shape: (texts,)."""
    _, places = np.unique(texts, return_inverse=True)
    return np.bincount(places, weights=values).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """Groups of texts whose instances have the same labels and predictions: only their number matters."""

    cells: Ints  # gold label and predictions of each instance of one text of each kind: (instances, columns)
    kind: Ints  # the kind of each of these instances
    counts: Ints  # number of texts of each kind

    @classmethod
    def of(cls, *columns: Ints, texts: Texts = None) -> "Kinds":
        """Group texts, independently of the order of the instances and of the numbers of the texts."""
        numbers = check_texts(texts, len(columns[0]))
        numbers = np.arange(len(columns[0])) if numbers is None else numbers
        by_text: dict[int, list[tuple[int, ...]]] = defaultdict(list)
        for number, *cell in zip(*(column.tolist() for column in (numbers, *columns)), strict=True):
            by_text[number].append(tuple(cell))
        # Sorted, so that equal samples give equal intervals whatever their order.
        n_texts = sorted(Counter(tuple(sorted(cells)) for cells in by_text.values()).items())
        kind = np.repeat(np.arange(len(n_texts)), [len(cells) for cells, _ in n_texts])
        return cls(np.array([cell for cells, _ in n_texts for cell in cells]), kind, np.array([n for _, n in n_texts]))

    def count_classes(self, n_classes: int, answer: int = 1) -> "ClassCounts":
        """Count correct, gold and predicted instances of each class in one text of each kind.

        :param answer: The column of the predictions.
        """
        # A label outside the classes equals none of them: an error of the other label's class only.
        gold, predicted = (self.cells[:, column, None] == np.arange(n_classes) for column in (0, answer))
        starts = np.flatnonzero(np.diff(self.kind, prepend=-1))
        flags = (gold & predicted, gold, predicted)  # (instances, classes) each
        return ClassCounts(*(np.add.reduceat(each.astype(np.float64), starts) for each in flags))


@dataclass(frozen=True, slots=True, eq=False)
class ClassCounts:
    """The counts behind the scores of each class, for all resamples at once. Shapes: (resamples, classes)."""

    correct: Floats
    gold: Floats
    predicted: Floats

    def total(self, draws: Ints | Floats) -> "ClassCounts":
        """Sum the counts over texts, given their number of each kind in each resample. Shape: (resamples, kinds)."""
        weights = draws.astype(np.float64)  # NumPy multiplies matrices of integers without BLAS
        return ClassCounts(weights @ self.correct, weights @ self.gold, weights @ self.predicted)

    @property
    def precision(self) -> Floats:
        """0 for a class that was never predicted."""
        return np.asarray(self.correct / np.maximum(self.predicted, 1))

    @property
    def recall(self) -> Floats:
        """0 for a class without gold labels."""
        return np.asarray(self.correct / np.maximum(self.gold, 1))

    @property
    def f1(self) -> Floats:
        """0 for a class without a correct prediction."""
        # Where the divisor is 0, so is what it divides: 1 in its place gives 0.
        return np.asarray(2 * self.correct / np.maximum(self.gold + self.predicted, 1))

    @property
    def macro_f1(self) -> Floats:
        """Mean F1 over classes. Shape: (resamples,)."""
        return np.asarray(self.f1.mean(axis=1))


def resample_counts(counts: Ints, n_resamples: int, seed: int) -> Iterator[Ints]:
    """Yield these counts, then those of resamples of the texts, in blocks. Shapes: (1, kinds), (resamples, kinds)."""
    # The counts of a resample follow a multinomial distribution: there is no need to draw texts one by one.
    generator = np.random.default_rng(seed)
    n_texts = int(counts.sum())
    step = max(1, BLOCK_SIZE // len(counts))
    yield counts[None]
    for start in range(0, n_resamples, step):
        yield generator.multinomial(n_texts, counts / n_texts, size=min(step, n_resamples - start))


def check_labels(*columns: Labels) -> list[Ints]:
    """Refuse labels that are not indices of classes, or columns of different lengths."""
    arrays = [np.asarray(column) for column in columns]
    for array in arrays:
        if array.ndim != 1 or (array.size and (array.dtype.kind not in "iu" or array.min() < 0)):
            raise ValueError("Labels must be a row of whole numbers from 0, as number_labels(labels, classes) makes.")
        if len(array) != len(arrays[0]):
            raise ValueError(f"Give one prediction for each gold label, got {len(array)} for {len(arrays[0])}.")
    return [array.astype(np.int64) for array in arrays]


def check_texts(texts: Texts, n_instances: int) -> Ints | None:
    """Refuse to resample nothing, or numbers of texts that do not fit; return None if no instances share a text."""
    if not n_instances:
        raise ValueError("There are no instances to resample. Give at least one.")
    if texts is None:
        return None
    numbers = np.asarray(texts)
    if numbers.shape != (n_instances,) or numbers.dtype.kind not in "iu":
        raise ValueError(f"texts must be {n_instances} whole numbers, one an instance. Use number_texts(texts).")
    return None if len(np.unique(numbers)) == n_instances else numbers.astype(np.int64)

"""Classification metrics: scores of classes, confusion matrix, calibration and Brier score."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fresh.metrics.bootstrap import Bounds, Flags, Floats, Ints
from fresh.rationale import Prediction

# As in Guo et al. (2017).
N_BINS = 15


@dataclass(frozen=True, slots=True)
class ClassScore:
    """Precision, recall and F1 of one class."""

    label: str
    precision: float
    """Share of the predictions of this class that are correct; 0 if there are none."""
    recall: float
    """Share of the examples of this class that were predicted as it; 0 if there are none."""
    f1: float
    """Harmonic mean of precision and recall; 0 if both are 0."""
    support: int
    """Number of examples of this class."""
    precision_between: Bounds | None = None
    recall_between: Bounds | None = None
    f1_between: Bounds | None = None


@dataclass(frozen=True, slots=True)
class Bin:
    """Predictions with similar probabilities."""

    low: float
    high: float
    """The bin holds probabilities above low and up to high; the first bin also holds 0."""
    count: int
    confidence: float | None
    """Mean probability of the predictions; None if there are none."""
    accuracy: float | None
    """Share of the predictions that are correct; None if there are none."""
    accuracy_between: Bounds | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """How far the probabilities of predictions are from their accuracy."""

    error: float
    """Expected calibration error: the gap between confidence and accuracy of a bin, averaged over predictions."""
    bins: tuple[Bin, ...]
    """The bins of a reliability diagram."""


def accuracy(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Compute the share of correct predictions."""
    # Not with NumPy, which drops null characters at the end of strings.
    _check_pairs(gold, predicted)
    return sum(label == answer for label, answer in zip(gold, predicted, strict=True)) / len(gold)


def macro_f1(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> float:
    """Compute the mean F1 over classes, including classes that do not occur.

    :param labels: The classes to average over; other labels count as errors only.
    """
    return sum(score.f1 for score in class_scores(gold, predicted, labels)) / len(labels)


def class_scores(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> list[ClassScore]:
    """Compute precision, recall and F1 of each class, in the order of the labels."""
    from sklearn import metrics

    _check_pairs(gold, predicted)
    _check_classes(labels)
    # As numbers, because NumPy drops null characters at the end of strings.
    numbers = {label: number for number, label in enumerate(dict.fromkeys((*labels, *gold, *predicted)))}
    columns = metrics.precision_recall_fscore_support(
        [numbers[label] for label in gold],
        [numbers[label] for label in predicted],
        labels=range(len(labels)),
        zero_division=0.0,
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [ClassScore(label, *scores) for label, scores in zip(labels, rows, strict=True)]


def confusion_matrix(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> Ints:
    """Count the examples of each gold and predicted label. Shape: (gold labels, predicted labels)."""
    from sklearn import metrics

    _check_pairs(gold, predicted)
    _check_classes(labels)
    numbers = {label: number for number, label in enumerate(labels)}
    unknown = sorted({*gold, *predicted} - numbers.keys())
    if unknown:
        raise ValueError(
            f"The confusion matrix has no row for: {', '.join(unknown)}. It has: {', '.join(labels)}. "
            "Add these labels, or leave their examples out."
        )
    rows, columns = ([numbers[label] for label in part] for part in (gold, predicted))
    return np.asarray(metrics.confusion_matrix(rows, columns, labels=range(len(labels))))


def calibration(gold: Sequence[str], predictions: Sequence[Prediction], n_bins: int = N_BINS) -> Calibration:
    """Compare the probabilities of predictions with their accuracy in bins of equal width (Guo et al., 2017)."""
    places, confidences, correct = assign_bins(gold, predictions, n_bins)
    edges = (np.arange(n_bins + 1) / n_bins).tolist()
    bins: list[Bin] = []
    for place, (low, high) in enumerate(pairwise(edges)):
        inside = places == place
        count = int(inside.sum())
        confidence, share = (float(values[inside].mean()) if count else None for values in (confidences, correct))
        bins.append(Bin(low, high, count, confidence, share))
    return Calibration(calibration_error(places, confidences - correct), tuple(bins))


def assign_bins(
    gold: Sequence[str], predictions: Sequence[Prediction], n_bins: int = N_BINS
) -> tuple[Ints, Floats, Flags]:
    """Compute the bin and the probability of each prediction, and whether it is correct."""
    answers = [prediction.label for prediction in predictions]
    _check_pairs(gold, answers)
    confidences = np.array([prediction.probability for prediction in predictions])
    correct = np.array([label == answer for label, answer in zip(gold, answers, strict=True)])
    # A confidence on an edge belongs to the bin below it.
    return np.searchsorted(np.arange(1, n_bins) / n_bins, confidences), confidences, correct


def calibration_error(places: Ints, gaps: Floats) -> float:
    """Compute the mean gap between confidence and accuracy, weighting each bin by its number of predictions.

    :param gaps: The probability of each prediction, minus 1 if it is correct. Shape: (predictions,).
    """
    return float(np.abs(np.bincount(places, weights=gaps)).sum() / len(gaps))


def brier_scores(gold: Sequence[str], predictions: Sequence[Prediction]) -> Floats:
    """Compute the squared distance of each prediction from its gold label: 0 is best, 2 is worst (Brier, 1950).

    :return: Shape: (examples,).
    """
    _check_pairs(gold, [prediction.label for prediction in predictions])
    scores: list[float] = []
    for label, prediction in zip(gold, predictions, strict=True):
        probabilities = {label: 0.0, **prediction.probabilities}  # 0 for a gold label that the model does not know
        scores.append(sum((share - (name == label)) ** 2 for name, share in probabilities.items()))
    return np.array(scores)


def _check_pairs(gold: Sequence[str], predicted: Sequence[str]) -> None:
    if len(gold) != len(predicted):
        raise ValueError(f"Give one predicted label for each gold one, got {len(predicted)} for {len(gold)}.")
    if not len(gold):
        raise ValueError("There are no labels to score. Give at least one example.")


def _check_classes(labels: Sequence[str]) -> None:
    if not labels or len(set(labels)) < len(labels):
        raise ValueError(f"labels must name each class once, got: {', '.join(labels)}.")

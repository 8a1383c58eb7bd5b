"""Classification metrics: scores of classes, confusion matrix, calibration and Brier score."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fresh.metrics.bootstrap import Bounds, Flags, Floats, Ints, number_labels
from fresh.rationale import Prediction

# As in Guo et al. (2017).
N_BINS = 15


@dataclass(frozen=True, slots=True)
class ClassScore:
    """Precision, recall and F1 of one class; 0 where there is nothing to divide by."""

    label: str
    precision: float
    recall: float
    f1: float
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
    """Mean probability of the predictions, if there are any."""
    accuracy: float | None
    """Share of the predictions that are correct, if there are any."""
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

    numbers = _number_both(gold, predicted, labels)
    columns = metrics.precision_recall_fscore_support(*numbers, labels=range(len(labels)), zero_division=0.0)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [ClassScore(label, *scores) for label, scores in zip(labels, rows, strict=True)]


def confusion_matrix(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> Ints:
    """Count the examples of each gold and predicted label. Shape: (gold labels, predicted labels)."""
    from sklearn import metrics

    numbers = _number_both(gold, predicted, labels)
    unknown = sorted({*gold, *predicted} - set(labels))
    if unknown:
        raise ValueError(f"labels must hold every label: add {', '.join(unknown)} to {', '.join(labels)}.")
    return np.asarray(metrics.confusion_matrix(*numbers, labels=range(len(labels))))


def calibration(gold: Sequence[str], predictions: Sequence[Prediction], n_bins: int = N_BINS) -> Calibration:
    """Compare the probabilities of predictions with their accuracy in bins of equal width (Guo et al., 2017)."""
    places, confidences, correct = assign_bins(gold, predictions, n_bins)
    bins: list[Bin] = []
    for place in range(n_bins):
        inside = places == place
        count = int(inside.sum())
        confidence, share = (float(values[inside].mean()) if count else None for values in (confidences, correct))
        bins.append(Bin(place / n_bins, (place + 1) / n_bins, count, confidence, share))
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
    # A gold label that the model does not know has probability 0.
    pairs = ((label, {label: 0.0, **answer.probabilities}) for label, answer in zip(gold, predictions, strict=True))
    return np.array([sum((share - (name == label)) ** 2 for name, share in shares.items()) for label, shares in pairs])


def _check_pairs(gold: Sequence[str], predicted: Sequence[str]) -> None:
    if len(gold) != len(predicted):
        raise ValueError(f"Give one predicted label for each gold one, got {len(predicted)} for {len(gold)}.")
    if not len(gold):
        raise ValueError("There are no labels to score. Give at least one example.")


def _number_both(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> tuple[Ints, Ints]:
    _check_pairs(gold, predicted)
    if not labels or len(set(labels)) < len(labels):
        raise ValueError(f"labels must name each class once, got: {', '.join(labels)}.")
    # scikit-learn gets numbers, because NumPy drops null characters at the end of strings.
    return number_labels(gold, labels), number_labels(predicted, labels)

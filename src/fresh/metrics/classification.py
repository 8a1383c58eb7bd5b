"""Classification metrics: scores of classes, confusion matrix, calibration and Brier score."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fresh.metrics.bootstrap import Bounds, Flags, Floats, Ints
from fresh.rationale import Prediction

N_BINS = 15
# Probabilities of networks in single precision may leave [0, 1] by this much.
ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class ClassScore:
    """Precision, recall and F1 of one class."""

    label: str
    precision: float
    """Share of the predictions of this class that are right; 0 if there are none."""
    recall: float
    """Share of the examples of this class that were predicted; 0 if there are none."""
    f1: float
    """Harmonic mean of precision and recall; 0 if no example was predicted right."""
    support: int
    """Number of examples of this class."""
    precision_between: Bounds | None = None
    recall_between: Bounds | None = None
    f1_between: Bounds | None = None


@dataclass(frozen=True, slots=True)
class Bin:
    """The predictions of about the same probability."""

    low: float
    high: float
    """Confidences above low, up to high; the first bin holds 0 too."""
    count: int
    confidence: float | None
    """Mean probability of its predictions; None if there are none."""
    accuracy: float | None
    """Share of its predictions that are right; None if there are none."""
    accuracy_between: Bounds | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """The gap between the probabilities of predictions and the share of right ones."""

    error: float
    """Expected calibration error: mean over predictions of the gap between confidence and accuracy of their bin."""
    bins: tuple[Bin, ...]
    """The bins of a reliability diagram."""


def accuracy(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Compute the share of the examples that were predicted right."""
    # Not numpy: it drops the null characters at the end of strings.
    _check_pairs(gold, predicted)
    return sum(label == answer for label, answer in zip(gold, predicted, strict=True)) / len(gold)


def macro_f1(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> float:
    """Compute the mean of the F1 of each class, whether or not the class occurs.

    :param labels: The classes to average over. Other labels count only against these.
    """
    return sum(score.f1 for score in class_scores(gold, predicted, labels)) / len(labels)


def class_scores(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> list[ClassScore]:
    """Score each class by itself, in the order of the labels."""
    from sklearn import metrics

    _check_pairs(gold, predicted)
    _check_classes(labels)
    # As numbers: numpy would drop the null characters at the end of strings.
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
    """Count how often each class was predicted as each. Shape: (gold labels, predicted labels), in the given order."""
    from sklearn import metrics

    _check_pairs(gold, predicted)
    _check_classes(labels)
    numbers = {label: number for number, label in enumerate(labels)}
    unknown = sorted({*gold, *predicted} - numbers.keys())
    if unknown:
        raise ValueError(
            f"These labels have no place in the confusion matrix: {', '.join(unknown)}. It has: {', '.join(labels)}. "
            "Add them, or leave their examples out."
        )
    rows, columns = ([numbers[label] for label in part] for part in (gold, predicted))
    return np.asarray(metrics.confusion_matrix(rows, columns, labels=range(len(labels))))


def calibration(gold: Sequence[str], predictions: Sequence[Prediction], n_bins: int = N_BINS) -> Calibration:
    """Compare the probability of each prediction with how often such predictions are right.

    Expected calibration error over bins of equal width (Guo et al., 2017).
    """
    places, confidences, correct = assign_bins(gold, predictions, n_bins)
    edges = (np.arange(n_bins + 1) / n_bins).tolist()
    bins: list[Bin] = []
    for place, (low, high) in enumerate(pairwise(edges)):
        here = places == place
        count = int(here.sum())
        confidence, share = (float(part[here].mean()) if count else None for part in (confidences, correct))
        bins.append(Bin(low, high, count, confidence, share))
    return Calibration(calibration_error(places, confidences - correct), tuple(bins))


def assign_bins(
    gold: Sequence[str], predictions: Sequence[Prediction], n_bins: int = N_BINS
) -> tuple[Ints, Floats, Flags]:
    """Compute the bin, the probability and the correctness of each prediction."""
    answers = [prediction.label for prediction in predictions]
    _check_pairs(gold, answers)
    _check_probabilities(predictions)
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1, got {n_bins}.")
    confidences = np.array([prediction.probability for prediction in predictions])
    correct = np.array([label == answer for label, answer in zip(gold, answers, strict=True)])
    edges = np.arange(n_bins + 1) / n_bins
    # A confidence on an edge is in the bin below it.
    return np.searchsorted(edges[1:-1], confidences), confidences, correct


def calibration_error(places: Ints, gaps: Floats) -> float:
    """Compute the mean gap between confidence and accuracy, each bin weighted by its predictions.

    :param gaps: Probability less 1 for a right prediction, or less 0 for a wrong one. Shape: (predictions,).
    """
    return float(np.abs(np.bincount(places, weights=gaps)).sum() / len(gaps))


def brier_scores(gold: Sequence[str], predictions: Sequence[Prediction]) -> Floats:
    """Compute the squared distance of each prediction to its gold label: 0 is best, 2 is worst (Brier, 1950).

    A gold label that the prediction does not know has probability 0 in it.

    :return: One value an example. Shape: (examples,).
    """
    _check_pairs(gold, [prediction.label for prediction in predictions])
    _check_probabilities(predictions)
    scores: list[float] = []
    for label, prediction in zip(gold, predictions, strict=True):
        probabilities = {label: 0.0, **prediction.probabilities}
        scores.append(sum((share - (name == label)) ** 2 for name, share in probabilities.items()))
    return np.array(scores)


def _check_pairs(gold: Sequence[str], predicted: Sequence[str]) -> None:
    if len(gold) != len(predicted):
        raise ValueError(f"There are {len(gold)} gold labels but {len(predicted)} predicted ones. Give one each.")
    if not len(gold):
        raise ValueError("There are no labels to score. Give at least one example.")


def _check_classes(labels: Sequence[str]) -> None:
    if not len(labels):
        raise ValueError("There are no classes to score. Give the labels of the corpus.")
    repeated = [label for label, count in Counter(labels).items() if count > 1]
    if repeated:
        raise ValueError(f"Each class counts once, but these labels are repeated: {', '.join(repeated)}.")


def _check_probabilities(predictions: Sequence[Prediction]) -> None:
    for number, prediction in enumerate(predictions):
        for label, share in prediction.probabilities.items():
            if not -ROUNDING <= share <= 1 + ROUNDING:
                raise ValueError(
                    f"Prediction {number} gives {label!r} the probability {share}. "
                    "Probabilities must be in [0, 1]: fix the predictor."
                )

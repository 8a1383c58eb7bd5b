"""How well predicted labels agree with the gold ones, and how far their probabilities can be relied on."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fresh.metrics.estimate import Bounds
from fresh.rationale import Prediction

Floats = NDArray[np.float64]
N_BINS = 15
ROUNDING = 1e-6  # how far single precision may lead out of 0 to 1


@dataclass(frozen=True, slots=True)
class ClassScore:
    """How well one class was found."""

    label: str
    precision: float
    """Share of the predictions of this class that is right; 0 when there is none."""
    recall: float
    """Share of the examples of this class that was found; 0 when there is none."""
    f1: float
    """Harmonic mean of precision and recall; 0 when no example was found."""
    support: int
    """Number of examples of this class."""
    precision_between: Bounds | None = None
    recall_between: Bounds | None = None
    f1_between: Bounds | None = None


@dataclass(frozen=True, slots=True)
class Bin:
    """The answers of which about the same probability was claimed."""

    low: float
    high: float
    """Confidences above low, up to high; the first bin holds 0 too."""
    count: int
    confidence: float | None
    """Mean probability of the answers in it; nothing if there are none."""
    accuracy: float | None
    """Share of the answers in it that are right; nothing if there are none."""
    accuracy_between: Bounds | None = None


@dataclass(frozen=True, slots=True)
class _Calibration:
    """How far claimed probabilities are from the share of right answers."""

    error: float
    """Expected calibration error: mean over all answers of the gap between confidence and accuracy of their bin."""
    bins: tuple[Bin, ...]
    """What a reliability diagram shows."""


def accuracy(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Share of the examples that were given their gold label."""
    _check_pairs(gold, predicted)
    return sum(right == answer for right, answer in zip(gold, predicted, strict=True)) / len(gold)


def macro_f1(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> float:
    """Plain mean of the F1 of each class, whether or not the class occurs.

    :param labels: The classes to take the mean over. A label that is not among them counts only against them.
    """
    return sum(score.f1 for score in class_scores(gold, predicted, labels)) / len(labels)


def class_scores(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> list[ClassScore]:
    """Score each class by itself, in the order of the labels."""
    _check_pairs(gold, predicted)
    _check_label_set(labels)
    support, answers = Counter(gold), Counter(predicted)
    found = Counter(right for right, answer in zip(gold, predicted, strict=True) if right == answer)
    return [_class_score(label, found[label], support[label], answers[label]) for label in labels]


def _class_score(label: str, n_found: int, n_gold: int, n_predicted: int) -> ClassScore:
    """Score one class from its counts."""
    return ClassScore(
        label=label,
        precision=n_found / n_predicted if n_predicted else 0.0,
        recall=n_found / n_gold if n_gold else 0.0,
        f1=2 * n_found / (n_gold + n_predicted) if n_found else 0.0,
        support=n_gold,
    )


def confusion(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> NDArray[np.int64]:
    """Count how often each class was answered by each. Shape: (gold labels, predicted labels), in the given order."""
    _check_pairs(gold, predicted)
    _check_label_set(labels)
    places = {label: place for place, label in enumerate(labels)}
    unknown = sorted({*gold, *predicted} - places.keys())
    if unknown:
        raise ValueError(
            f"These labels have no place in the confusion matrix: {', '.join(unknown)}. It has: {', '.join(labels)}. "
            "Add them, or leave their examples out."
        )
    table = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(table, ([places[label] for label in gold], [places[label] for label in predicted]), 1)
    return table


def calibration(gold: Sequence[str], predictions: Sequence[Prediction], n_bins: int = N_BINS) -> _Calibration:
    """Compare the probability of each answer with how often such answers are right.

    Expected calibration error over bins of equal width (Guo et al., 2017).
    """
    places, confidences, right = binned(gold, predictions, n_bins)
    edges = (np.arange(n_bins + 1) / n_bins).tolist()
    bins: list[Bin] = []
    for place, (low, high) in enumerate(pairwise(edges)):
        here = places == place
        n_here = int(here.sum())
        claimed, reached = (float(part[here].mean()) if n_here else None for part in (confidences, right))
        bins.append(Bin(low, high, n_here, claimed, reached))
    return _Calibration(calibration_error(places, confidences - right), tuple(bins))


def binned(
    gold: Sequence[str], predictions: Sequence[Prediction], n_bins: int = N_BINS
) -> tuple[NDArray[np.int64], Floats, NDArray[np.bool_]]:
    """Say of each answer in which bin it is, how sure it was, and whether it is right."""
    answers = [prediction.label for prediction in predictions]
    _check_pairs(gold, answers)
    _check_probabilities(predictions)
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1, got {n_bins}.")
    confidences = np.array([prediction.probability for prediction in predictions])
    right = np.array([label == answer for label, answer in zip(gold, answers, strict=True)])
    edges = np.arange(n_bins + 1) / n_bins
    return np.searchsorted(edges[1:-1], confidences), confidences, right  # one on an edge is in the bin below it


def calibration_error(places: NDArray[np.int64], gaps: Floats) -> float:
    """Compute the mean gap between confidence and share of right answers, each bin counted by its answers.

    :param gaps: Confidence less 1 for a right answer, or less 0 for a wrong one. Shape: (answers,).
    """
    return float(np.abs(np.bincount(places, weights=gaps)).sum() / len(gaps))


def _brier_score(gold: Sequence[str], predictions: Sequence[Prediction]) -> float:
    """Mean squared distance between probabilities and the gold label: 0 is best, 2 is worst (Brier, 1950)."""
    return float(brier_scores(gold, predictions).mean())


def brier_scores(gold: Sequence[str], predictions: Sequence[Prediction]) -> Floats:
    """Square the distance of each prediction to its gold label, which has probability 1 and all others 0.

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
    """Refuse labels that cannot be compared one by one."""
    if len(gold) != len(predicted):
        raise ValueError(f"There are {len(gold)} gold labels but {len(predicted)} predicted ones. Give one each.")
    if not len(gold):
        raise ValueError("There are no labels to score. Give at least one example.")


def _check_label_set(labels: Sequence[str]) -> None:
    """Refuse classes over which there is no mean."""
    if not len(labels):
        raise ValueError("There are no classes to score. Give the labels of the corpus.")
    twice = [label for label, count in Counter(labels).items() if count > 1]
    if twice:
        raise ValueError(f"Each class counts once, but these labels come twice: {', '.join(twice)}.")


def _check_probabilities(predictions: Sequence[Prediction]) -> None:
    """Refuse what is no probability."""
    for number, prediction in enumerate(predictions):
        for label, share in prediction.probabilities.items():
            if not -ROUNDING <= share <= 1 + ROUNDING:
                raise ValueError(
                    f"Prediction {number} gives {label!r} the probability {share}. "
                    "Probabilities lie between 0 and 1: mend the predictor."
                )

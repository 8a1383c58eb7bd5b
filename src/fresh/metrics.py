"""How well predicted labels agree with the gold ones."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]


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


def accuracy(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Share of the examples that were given their gold label."""
    check_pairs(gold, predicted)
    return sum(right == answer for right, answer in zip(gold, predicted, strict=True)) / len(gold)


def macro_f1(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> float:
    """Plain mean of the F1 of each class, whether or not the class occurs.

    :param labels: The classes to take the mean over. A label that is not among them counts only against them.
    """
    return sum(score.f1 for score in class_scores(gold, predicted, labels)) / len(labels)


def class_scores(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> list[ClassScore]:
    """Score each class by itself, in the order of the labels."""
    check_pairs(gold, predicted)
    check_labels(labels)
    support, answers = Counter(gold), Counter(predicted)
    found = Counter(right for right, answer in zip(gold, predicted, strict=True) if right == answer)
    return [class_score(label, found[label], support[label], answers[label]) for label in labels]


def class_score(label: str, n_found: int, n_gold: int, n_predicted: int) -> ClassScore:
    """Score one class from its counts."""
    return ClassScore(
        label=label,
        precision=n_found / n_predicted if n_predicted else 0.0,
        recall=n_found / n_gold if n_gold else 0.0,
        f1=2 * n_found / (n_gold + n_predicted) if n_found else 0.0,
        support=n_gold,
    )


def token_f1(wanted: Sequence[Flags], found: Sequence[Flags]) -> float:
    """Mean over documents of the F1 of kept words; 1 where none was wanted and none was found."""
    if not len(wanted):
        raise ValueError("There are no masks to compare. Give at least one document.")
    scores: list[float] = []
    for gold, kept in zip(wanted, found, strict=True):
        both, either = int((gold & kept).sum()), int(gold.sum() + kept.sum())
        scores.append(2 * both / either if either else 1.0)
    return float(np.mean(scores))


def check_pairs(gold: Sequence[str], predicted: Sequence[str]) -> None:
    """Refuse labels that cannot be compared one by one."""
    if len(gold) != len(predicted):
        raise ValueError(f"There are {len(gold)} gold labels but {len(predicted)} predicted ones. Give one each.")
    if not len(gold):
        raise ValueError("There are no labels to score. Give at least one example.")


def check_labels(labels: Sequence[str]) -> None:
    """Refuse classes over which there is no mean."""
    if not len(labels):
        raise ValueError("There are no classes to score. Give the labels of the corpus.")
    twice = [label for label, count in Counter(labels).items() if count > 1]
    if twice:
        raise ValueError(f"Each class counts once, but these labels come twice: {', '.join(twice)}.")

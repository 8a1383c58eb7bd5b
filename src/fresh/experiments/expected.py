"""Expected validation performance: how good the best of a search is after so many trials (Dodge et al., 2019)."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


def _expected_best(scores: Sequence[float], n_trials: int) -> float:
    """Compute the mean of the best of so many trials, each drawn, with replacement, from those that were made.

    :param scores: The dev scores of all trials that were made.
    """
    values, chances = _best_chances(scores, n_trials)
    return float(values @ chances)


def expected_curve(scores: Sequence[float]) -> list[float]:
    """Compute the same for one trial, for two, and so on, up to as many as were made."""
    return [_expected_best(scores, n_trials) for n_trials in range(1, len(scores) + 1)]


def _best_chances(scores: Sequence[float], n_trials: int) -> tuple[Values, Values]:
    """Compute how probable it is that each score is the best of so many that are drawn.

    The best of n draws is at most a score as often as all n are, which is the share of such scores to the power of n.

    :return: The scores in order, each once, and the probability of each. Shapes: (scores,), (scores,).
    """
    if not len(scores):
        raise ValueError("There are no scores to draw from. Give those of at least one trial.")
    if n_trials < 1:
        raise ValueError(f"A search has at least one trial, got {n_trials}.")
    if not all(map(math.isfinite, scores)):
        raise ValueError("Scores must be finite numbers. Leave failed trials out.")
    values, counts = np.unique(np.asarray(scores, dtype=np.float64), return_counts=True)
    at_most = (np.cumsum(counts) / len(scores)) ** n_trials
    return values, np.diff(at_most, prepend=0.0)

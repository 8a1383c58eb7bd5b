"""How much an answer loses when a model reads the rationale alone, or all but the rationale.

Sufficiency and comprehensiveness of the ERASER benchmark (DeYoung et al., 2020), from probabilities alone: who reads
what, and whether it was trained for it, is the caller's choice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fresh.rationale import Prediction

Floats = NDArray[np.float64]

AOPC_RATIOS = (0.01, 0.05, 0.1, 0.2, 0.5)
"""Lengths of rationales over which ERASER takes the mean."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Predictions for the same documents, read in three ways."""

    full: Sequence[Prediction]
    """All words; its labels are the ones whose probability is followed."""
    rationales: Sequence[Prediction]
    """The rationale alone."""
    complements: Sequence[Prediction]
    """All words but the rationale."""

    def __post_init__(self) -> None:
        sizes = len(self.full), len(self.rationales), len(self.complements)
        if len(set(sizes)) > 1:
            counts = "{} full texts, {} rationales and {} complements".format(*sizes)
            raise ValueError(f"There are predictions for {counts}. Give one of each for every document.")
        if not self.full:
            raise ValueError("There are no predictions to compare. Give at least one document.")


@dataclass(frozen=True, slots=True, eq=False)
class _Faithfulness:
    """How much less probable the answer to the full text becomes, by document."""

    sufficiency: Floats
    """When the rationale alone is read: near 0 where it is enough. Shape: (documents,)."""
    comprehensiveness: Floats
    """When all but the rationale is read: high where it holds all that matters. Shape: (documents,)."""

    @property
    def mean_sufficiency(self) -> float:
        """Mean over documents."""
        return float(self.sufficiency.mean())

    @property
    def mean_comprehensiveness(self) -> float:
        """Mean over documents."""
        return float(self.comprehensiveness.mean())


@dataclass(frozen=True, slots=True, eq=False)
class _Aopc:
    """Faithfulness at several lengths of rationales: the area over the perturbation curve."""

    at: Mapping[float, _Faithfulness]
    """Faithfulness by ratio, shortest first."""

    @property
    def overall(self) -> _Faithfulness:
        """Mean over the lengths, by document.

        The mean is plain, as in ERASER's scorer; its paper writes a sum that has one term more, that of no words.
        """
        each = list(self.at.values())
        return _Faithfulness(
            np.mean([one.sufficiency for one in each], axis=0), np.mean([one.comprehensiveness for one in each], axis=0)
        )


def _faithfulness(readings: Readings) -> _Faithfulness:
    """Measure sufficiency and comprehensiveness at one length."""
    return _Faithfulness(drops(readings.full, readings.rationales), drops(readings.full, readings.complements))


def aopc(by_ratio: Mapping[float, Readings]) -> _Aopc:
    """Measure sufficiency and comprehensiveness at several lengths.

    :param by_ratio: Readings of the same documents, by the share of the words that a rationale has.
    """
    if not by_ratio:
        raise ValueError("There are no lengths to take the mean over. Give at least one ratio.")
    sizes = {ratio: len(readings.full) for ratio, readings in by_ratio.items()}
    if len(set(sizes.values())) > 1:
        counts = ", ".join(f"{size} at {ratio:g}" for ratio, size in sizes.items())
        raise ValueError(f"Each ratio needs the same documents, but there are {counts}.")
    return _Aopc({ratio: _faithfulness(by_ratio[ratio]) for ratio in sorted(by_ratio)})


def drops(full: Sequence[Prediction], other: Sequence[Prediction]) -> Floats:
    """Subtract the probabilities of the full texts' labels in another reading. Shape: (documents,)."""
    return np.array(
        [answer.probability - _lookup(read, answer.label) for answer, read in zip(full, other, strict=True)]
    )


def _lookup(prediction: Prediction, label: str) -> float:
    """Find how probable a label is."""
    if label not in prediction.probabilities:
        raise ValueError(
            f"The full text was given the label {label!r}, which the other reading does not know; "
            f"it has: {', '.join(prediction.probabilities)}. Compare models of the same labels."
        )
    return prediction.probabilities[label]

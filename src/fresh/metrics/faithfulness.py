"""Faithfulness as in the ERASER benchmark: sufficiency and comprehensiveness (DeYoung et al., 2020).

They compare probabilities only: which model reads what is the caller's choice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fresh.metrics.bootstrap import Floats
from fresh.rationale import Prediction

AOPC_RATIOS = (0.01, 0.05, 0.1, 0.2, 0.5)
"""Lengths of rationales that ERASER averages over."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Predictions for the same documents from full text, rationale and complement."""

    full: Sequence[Prediction]
    """From all words; the probabilities of these labels are compared."""
    rationales: Sequence[Prediction]
    """From the rationale alone."""
    complements: Sequence[Prediction]
    """From all words but the rationale."""

    def __post_init__(self) -> None:
        sizes = len(self.full), len(self.rationales), len(self.complements)
        if len(set(sizes)) > 1:
            counts = "{} full texts, {} rationales and {} complements".format(*sizes)
            raise ValueError(f"There are predictions for {counts}. Give one of each for every document.")
        if not self.full:
            raise ValueError("There are no predictions to compare. Give at least one document.")


@dataclass(frozen=True, slots=True, eq=False)
class Faithfulness:
    """How much less probable the label of the full text becomes, by document."""

    sufficiency: Floats
    """From the rationale alone: near 0 if it is enough. Shape: (documents,)."""
    comprehensiveness: Floats
    """From the complement: high if the rationale holds all that matters. Shape: (documents,)."""


@dataclass(frozen=True, slots=True, eq=False)
class Aopc:
    """Faithfulness at several lengths of rationales: the area over the perturbation curve."""

    at: Mapping[float, Faithfulness]
    """Faithfulness by ratio, shortest first."""

    @property
    def overall(self) -> Faithfulness:
        """Mean over the lengths, by document."""
        # A plain mean, as in ERASER's scorer. Its paper has a sum with one more term, that of no words.
        each = list(self.at.values())
        return Faithfulness(
            np.mean([one.sufficiency for one in each], axis=0), np.mean([one.comprehensiveness for one in each], axis=0)
        )


def measure_faithfulness(readings: Readings) -> Faithfulness:
    """Measure sufficiency and comprehensiveness at one length."""
    return Faithfulness(drops(readings.full, readings.rationales), drops(readings.full, readings.complements))


def aopc(by_ratio: Mapping[float, Readings]) -> Aopc:
    """Measure sufficiency and comprehensiveness at several lengths.

    :param by_ratio: Readings of the same documents, by the share of the words in the rationale.
    """
    if not by_ratio:
        raise ValueError("There are no lengths to average over. Give at least one ratio.")
    sizes = {ratio: len(readings.full) for ratio, readings in by_ratio.items()}
    if len(set(sizes.values())) > 1:
        counts = ", ".join(f"{size} at {ratio:g}" for ratio, size in sizes.items())
        raise ValueError(f"Each ratio needs the same documents, but there are {counts}.")
    return Aopc({ratio: measure_faithfulness(by_ratio[ratio]) for ratio in sorted(by_ratio)})


def drops(full: Sequence[Prediction], other: Sequence[Prediction]) -> Floats:
    """Subtract the probabilities of the full texts' labels in another reading. Shape: (documents,)."""
    return np.array(
        [answer.probability - _probability_of(read, answer.label) for answer, read in zip(full, other, strict=True)]
    )


def _probability_of(prediction: Prediction, label: str) -> float:
    if label not in prediction.probabilities:
        raise ValueError(
            f"The label of the full text is {label!r}, which the other reading does not know; "
            f"it has: {', '.join(prediction.probabilities)}. Compare models of the same labels."
        )
    return prediction.probabilities[label]

"""Faithfulness as in the ERASER benchmark: sufficiency and comprehensiveness (DeYoung et al., 2020).

Both compare probabilities only; the caller chooses which model reads what.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fresh.metrics.bootstrap import Floats
from fresh.rationale import Prediction

AOPC_RATIOS = (0.01, 0.05, 0.1, 0.2, 0.5)
"""The lengths of rationales that ERASER averages over."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Predictions for the same documents; the labels of those from the full text are compared."""

    full: Sequence[Prediction]
    rationales: Sequence[Prediction]
    complements: Sequence[Prediction]
    """From all words outside the rationale."""

    def __post_init__(self) -> None:
        if not len(self.full) == len(self.rationales) == len(self.complements) > 0:
            sizes = f"{len(self.full)}, {len(self.rationales)} and {len(self.complements)}"
            raise ValueError(f"Full texts, rationales and complements need one prediction a document, got {sizes}.")


@dataclass(frozen=True, slots=True, eq=False)
class Faithfulness:
    """How much the probability of the full text's label drops in each document. Shapes: (documents,)."""

    sufficiency: Floats
    """With the rationale only: near 0 if the rationale suffices."""
    comprehensiveness: Floats
    """With the complement only: high if the rationale holds all that matters."""


@dataclass(frozen=True, slots=True, eq=False)
class Aopc:
    """Faithfulness at several lengths of rationales: the area over the perturbation curve."""

    at: Mapping[float, Faithfulness]
    """Faithfulness by ratio, shortest first."""

    @property
    def overall(self) -> Faithfulness:
        """Mean over the lengths for each document."""
        # A plain mean, as in ERASER's scorer; the paper's sum has one more term, for a rationale of no words.
        return Faithfulness(*np.mean([(one.sufficiency, one.comprehensiveness) for one in self.at.values()], axis=0))


def measure_faithfulness(readings: Readings) -> Faithfulness:
    """Measure sufficiency and comprehensiveness at one length."""
    return Faithfulness(drops(readings.full, readings.rationales), drops(readings.full, readings.complements))


def aopc(by_ratio: Mapping[float, Readings]) -> Aopc:
    """Measure both at several lengths, from readings of the same documents by the share of words in the rationale."""
    return Aopc({ratio: measure_faithfulness(by_ratio[ratio]) for ratio in sorted(by_ratio)})


def drops(full: Sequence[Prediction], other: Sequence[Prediction]) -> Floats:
    """Compute how much less probable each full text's label is in another reading. Shape: (documents,)."""
    pairs = zip(full, other, strict=True)
    return np.array([answer.probability - read.probabilities[answer.label] for answer, read in pairs])

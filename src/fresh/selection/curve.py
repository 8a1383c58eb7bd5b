"""Answers along growing rationales of one document."""

from dataclasses import dataclass

import numpy as np

from fresh.document import Explanation
from fresh.selection.discretizers import budget

MOST_POINTS = 50


@dataclass(frozen=True, slots=True)
class Curve:
    """Explanations of one document, from its shortest rationale to its longest."""

    points: tuple[Explanation, ...]

    @property
    def minimal(self) -> Explanation:
        """The shortest rationale from which on every longer one has the answer of the longest: all that is needed."""
        label = self.points[-1].prediction.label
        differing = [place for place, point in enumerate(self.points) if point.prediction.label != label]
        return self.points[differing[-1] + 1 if differing else 0]

    def __len__(self) -> int:
        return len(self.points)


def ratios_of(n_words: int, low: float, high: float, most: int = MOST_POINTS) -> list[float]:
    """List ratios that keep one word more each, or, beyond so many points, some more."""
    first, last = budget(n_words, low), budget(n_words, high)
    counts = np.unique(np.linspace(first, last, min(most, last - first + 1)).round().astype(np.int64))
    return [(count - 0.5) / n_words for count in counts.tolist()]  # a ratio's words are rounded up

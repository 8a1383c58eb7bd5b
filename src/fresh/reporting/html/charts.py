"""The axes of the drawings on the page: where values stand, and which numbers are written beside them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fresh.metrics.bootstrap import Estimate, LengthScore
from fresh.metrics.classification import Bin

TICK_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
MAX_TICKS = 6
# The edges of a chart, on a picture of 520 x 290.
LEFT, RIGHT, TOP, BOTTOM = 56, 492, 12, 238


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of values, and the places on a drawing that it is spread over."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the place of a value; one outside goes to the edge."""
        inside = min(max(value, self.low), self.high)
        return round(self.start + (inside - self.low) / (self.high - self.low) * (self.end - self.start), 1)

    @property
    def ticks(self) -> list[float]:
        """At most seven round numbers on the axis."""
        width = self.high - self.low
        step = next((step for step in TICK_STEPS if width / step <= MAX_TICKS + 0.001), width)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(n * step, 4) for n in range(first, last + 1)]


Chart = tuple[Axis, Axis]
"""The axes across and up."""


def tenths_around(values: Iterable[float]) -> tuple[float, float]:
    """Find the nearest tenths below and above all values, at least a tenth apart."""
    # Rounded, because 0.3 * 10 is more than 3 in floating point.
    tenths = [round(value * 10, 9) for value in values]
    low, high = math.floor(min(tenths)), math.ceil(max(tenths))
    if low == high:
        low, high = (low - 1, high) if low == 10 else (low, high + 1)
    return low / 10, high / 10


def whisker_axis(estimates: Iterable[Estimate], *values: float) -> Axis:
    """Make the axis of a column of whiskers."""
    return Axis(*tenths_around([*_ends(estimates), *values]), 6, 194)


def length_chart(lengths: Sequence[LengthScore], full_text: float | None) -> Chart:
    """Make the axes of macro-F1 against the share of words read."""
    scores = [*_ends(point.macro_f1 for point in lengths), *([] if full_text is None else [full_text])]
    x = Axis(0.0, tenths_around(point.ratio for point in lengths)[1], LEFT, RIGHT)
    return x, Axis(*tenths_around(scores), BOTTOM, TOP)


def calibration_chart(bins: Sequence[Bin]) -> Chart:
    """Make the axes of how often the model is right against the probability of its predictions."""
    shares = [share for one in bins for share in (one.confidence, one.accuracy) if share is not None]
    low, _ = tenths_around([0.9, *shares])
    return Axis(low, 1.0, LEFT, RIGHT), Axis(low, 1.0, BOTTOM, TOP)


def _ends(estimates: Iterable[Estimate]) -> list[float]:
    return [number for one in estimates for number in (one.low, one.value, one.high) if number is not None]

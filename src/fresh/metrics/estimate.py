"""Figures with the ranges around them."""

import math
from dataclasses import dataclass

Bounds = tuple[float, float]
"""The two ends of a range."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and, where it is known, the range around it."""

    value: float
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise ValueError(f"An interval has two ends, got {self.low} and {self.high}. Give both or neither.")
        given = [number for number in (self.low, self.value, self.high) if number is not None]
        if not all(map(math.isfinite, given)):
            raise ValueError(f"A figure and its interval must be finite, got {given}. Leave out what is not known.")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"An interval runs from low to high, got {self.low} to {self.high}.")

    @classmethod
    def of(cls, value: float, bounds: Bounds | None) -> "Estimate":
        """Take the ends together, if they are known."""
        return Estimate(value, *(bounds or ()))

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return short(self.value)
        between = " to " if self.low < 0 else "–"
        return f"{short(self.value)} ({short(self.low)}{between}{short(self.high)})"


@dataclass(frozen=True, slots=True)
class Interval(Estimate):
    """A figure and the range that holds 95 % of its bootstrap resamples."""

    low: float
    high: float

    @property
    def bounds(self) -> Bounds:
        """Both ends."""
        return self.low, self.high


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure with its name."""

    name: str
    figure: Interval


@dataclass(frozen=True, slots=True)
class LengthScore:
    """How well the same predictor does with rationales of one length."""

    ratio: float
    macro_f1: Interval


def short(value: float) -> str:
    """Write a figure with three places and without the zero before the point."""
    text = f"{value:.3f}"
    if float(text) == 0:
        return ".000"
    return text.replace("0.", ".", 1) if abs(float(text)) < 1 else text

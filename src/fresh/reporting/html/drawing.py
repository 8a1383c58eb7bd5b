"""Small drawings, as SVG without colours of its own: the page's style sheet knows light and dark."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fresh.metrics.classification import Bin
from fresh.metrics.estimate import Estimate
from fresh.reporting.html.view import LengthCurve

STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
WIDTH, HEIGHT = 520, 290
LEFT, RIGHT, TOP, BOTTOM = 56, 492, 12, 238


@dataclass(frozen=True, slots=True)
class _Axis:
    """Where values stand on a drawing."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Find the place of a value; one outside goes to the edge."""
        inside = min(max(value, self.low), self.high)
        return round(self.start + (inside - self.low) / (self.high - self.low) * (self.end - self.start), 1)


def bounds(values: Iterable[float]) -> tuple[float, float]:
    """Find the tenths around some shares; where all are the same tenth, the next one too."""
    given = list(values)
    low, high = math.floor(round(min(given) * 10, 9)), math.ceil(round(max(given) * 10, 9))
    if low == high:
        low, high = (low - 1, high) if low == 10 else (low, high + 1)
    return low / 10, high / 10


def _ticks(low: float, high: float) -> list[float]:
    """Choose at most seven round numbers from low to high."""
    step = next((step for step in STEPS if (high - low) / step <= 6.001), high - low)
    first = math.ceil(low / step - 1e-9)
    return [round(n * step, 4) for n in range(first, math.floor(high / step + 1e-9) + 1)]


def ends(estimates: Iterable[Estimate]) -> list[float]:
    """List all values that must fit on an axis."""
    return [number for one in estimates for number in (one.low, one.value, one.high) if number is not None]


def whisker(estimate: Estimate, between: tuple[float, float], line: float | None = None) -> str:
    """Draw a figure as a dot and its interval as a line, beside a hairline to compare with."""
    axis = _Axis(*between, 6, 194)
    parts = ['<line class="track" x1="6" x2="194" y1="10" y2="10"/>']
    if line is not None:
        parts.append(f'<line class="hair" x1="{axis.at(line)}" x2="{axis.at(line)}" y1="0" y2="20"/>')
    if estimate.low is not None and estimate.high is not None:
        first, last = axis.at(estimate.low), axis.at(estimate.high)
        parts.append(f'<path class="interval" d="M{first} 10H{last}M{first} 6V14M{last} 6V14"/>')
    parts.append(f'<circle class="dot" cx="{axis.at(estimate.value)}" cy="10" r="4"/>')
    return f'<svg class="whisker" viewBox="0 0 200 20" aria-hidden="true">{"".join(parts)}</svg>'


def draw_curve(curve: LengthCurve) -> str:
    """Draw macro-F1 against length, with a band for the interval."""
    points = sorted(curve.points, key=lambda point: point.ratio)
    values = ends(point.macro_f1 for point in points)
    y = _Axis(*bounds([*values, *([curve.full_text] if curve.full_text is not None else [])]), BOTTOM, TOP)
    x = _Axis(0.0, bounds([point.ratio for point in points])[1], LEFT, RIGHT)
    parts = [_frame(x, y, "share of the words read", "macro-F1")]
    if len(points) > 1:
        upper = [f"{x.at(point.ratio)},{y.at(point.macro_f1.high)}" for point in points]
        lower = [f"{x.at(point.ratio)},{y.at(point.macro_f1.low)}" for point in reversed(points)]
        parts.append(f'<polygon class="band" points="{" ".join((*upper, *lower))}"/>')
    if curve.full_text is not None:
        height = y.at(curve.full_text)
        parts.append(f'<line class="reference" x1="{LEFT}" x2="{RIGHT}" y1="{height}" y2="{height}"/>')
        below = height + 14 if height < TOP + 14 else height - 5
        parts.append(f'<text class="muted" x="{RIGHT - 4}" y="{below}" text-anchor="end">full text</text>')
    path = " ".join(f"{x.at(point.ratio)},{y.at(point.macro_f1.value)}" for point in points)
    parts.append(f'<polyline class="curve" points="{path}"/>')
    parts += [_dot(x.at(point.ratio), y.at(point.macro_f1.value), 4) for point in points]
    return _picture("Macro-F1 against the share of the words read; the figures are in the table below.", parts)


def filled(bins: Iterable[Bin]) -> Iterator[tuple[Bin, float, float]]:
    """Leave out bins of no answers; give how sure the model was in each, and how often it was right."""
    for one in bins:
        if one.confidence is not None and one.accuracy is not None:
            yield one, one.confidence, one.accuracy


def draw_calibration(bins: Sequence[Bin]) -> str:
    """Draw how often the model is right against how sure it is; larger dots are more documents."""
    points = list(filled(bins))
    low = bounds([0.9, *(share for _, *shares in points for share in shares)])[0]
    x, y = _Axis(low, 1.0, LEFT, RIGHT), _Axis(low, 1.0, BOTTOM, TOP)
    most = max((one.count for one, _, _ in points), default=1)
    parts = [
        _frame(x, y, "how sure: probability of the answer", "how often right"),
        f'<line class="reference" x1="{LEFT}" y1="{BOTTOM}" x2="{RIGHT}" y2="{TOP}"/>',
    ]
    for one, sure, right in points:
        place = x.at(sure)
        parts.append(f'<line class="miss" x1="{place}" x2="{place}" y1="{y.at(sure)}" y2="{y.at(right)}"/>')
        parts.append(_dot(place, y.at(right), round(3 + 7 * math.sqrt(one.count / most), 1)))
    return _picture("How often the model is right against how sure it is; the figures are in the table below.", parts)


def _frame(x: _Axis, y: _Axis, across: str, up: str) -> str:
    """Draw the axes with their numbers and names."""
    parts: list[str] = []
    for value in _ticks(y.low, y.high):
        height = y.at(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{height}" y2="{height}"/>')
        parts.append(f'<text class="muted" x="{LEFT - 8}" y="{height + 4}" text-anchor="end">{value:g}</text>')
    parts += [
        f'<text class="muted" x="{x.at(value)}" y="{BOTTOM + 20}" text-anchor="middle">{value:.0%}</text>'
        for value in _ticks(x.low, x.high)
    ]
    middle = (LEFT + RIGHT) / 2
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{RIGHT}" y1="{BOTTOM}" y2="{BOTTOM}"/>')
    parts.append(f'<text class="muted" x="{middle}" y="{BOTTOM + 44}" text-anchor="middle">{across}</text>')
    turn = f'transform="translate(14 {(TOP + BOTTOM) / 2}) rotate(-90)"'
    parts.append(f'<text class="muted" {turn} text-anchor="middle">{up}</text>')
    return "".join(parts)


def _dot(x: float, y: float, radius: float) -> str:
    """Draw a point."""
    return f'<circle class="dot" cx="{x}" cy="{y}" r="{radius}"/>'


def _picture(name: str, parts: Sequence[str]) -> str:
    """Put a drawing together, with words for those who cannot see it."""
    return f'<svg class="picture" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{name}">{"".join(parts)}</svg>'

"""Places in a text: Python counts code points, JavaScript counts UTF-16 code units."""

import itertools
from collections.abc import Iterable

from fresh.text import Spans

LAST_OF_ONE_UNIT = "\uffff"


def to_utf16(text: str, spans: Iterable[tuple[int, int]]) -> Spans:
    """Turn places in code points into places in UTF-16 code units."""
    if text.isascii():
        return tuple(spans)
    starts = list(itertools.accumulate((_width(character) for character in text), initial=0))
    return tuple((starts[start], starts[end]) for start, end in spans)


def from_utf16(text: str, spans: Iterable[tuple[int, int]]) -> list[tuple[int, int] | None]:
    """Turn places in UTF-16 code units into places in code points; none for one that cuts a character."""
    starts = itertools.accumulate((_width(character) for character in text), initial=0)
    points = {unit: point for point, unit in enumerate(starts)}
    return [
        (points[start], points[end]) if start in points and end in points and start < end else None
        for start, end in spans
    ]


def _width(character: str) -> int:
    """Count the UTF-16 code units of a character."""
    return 1 if character <= LAST_OF_ONE_UNIT else 2

"""Which of some names was most likely meant by one that is none of them."""

import difflib
import re
from collections.abc import Iterable

PARTS = re.compile(r"[^a-z0-9]+")
"""What stands between the words of a name."""


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Find the name that was most likely meant, if there is one that is near enough to be."""
    nearness = {other: _similarity(name.lower(), other.lower()) for other in known}
    found = max(nearness, key=lambda other: nearness[other], default=None)
    return found if found is not None and nearness[found] else None


def _similarity(name: str, other: str) -> float:
    """Compare two names: 1 if they are the same, 0 if they differ in more than a slip, and one is no part of the other.

    A beginning or a whole word of a name stands for it, as full does for full_text; a few letters more do no harm.
    """
    ratio = difflib.SequenceMatcher(None, name, other).ratio()
    is_part = len(name) > 2 and (other.startswith(name) or name in PARTS.split(other))
    is_more = other in PARTS.split(name) and len(other) >= 0.6 * len(name)
    least = 0.75 if len(name) > 3 else 0.65  # letters that change places weigh more in short names
    return ratio if is_part or is_more or ratio >= least else 0.0

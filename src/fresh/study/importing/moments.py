"""Points in time, as other tools write them."""

from datetime import UTC, datetime
from email.utils import mktime_tz, parsedate_tz
from typing import Any

LATEST = 253_402_300_799_999
"""The last millisecond of the year 9999."""


def moment(written: Any) -> int | None:
    """Read when something was done, in milliseconds since 1970; nothing if that cannot be told.

    Label Studio writes ISO 8601, Mechanical Turk "Mon Mar 09 22:16:08 PDT 2026", Potato seconds since 1970.
    """
    try:
        seconds = float(written) if isinstance(written, int | float) else _seconds_of(str(written).strip())
        return round(seconds * 1000) if 0 < seconds <= LATEST / 1000 else None
    except (ValueError, OverflowError, TypeError, IndexError):
        return None


def _seconds_of(text: str) -> float:
    """Read a date; one that names no zone is taken for UTC."""
    if text[:1].isdigit():
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    parts = parsedate_tz(text)
    if parts is None:
        raise ValueError(text)
    return mktime_tz(parts)

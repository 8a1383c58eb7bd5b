"""How far a task has come, told in a small file, so that whoever watches sees it wherever the worker is."""

import contextlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fresh._io import write_text
from fresh.progress import Advance

EVERY = 2.0
"""Seconds between two times that it is written, at least."""

SLACK = 1.0
"""Seconds by which the clock of files may be behind."""


class _Heartbeat:
    """A progress that is written to a file now and then."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.written = 0.0

    def say(self, line: str) -> None:
        """Keep it to oneself."""

    @contextmanager
    def task(self, name: str, total: int | None) -> Iterator[Advance]:
        """Begin a piece of work, and write how much of it is done."""
        n_done = 0

        def told() -> str:
            return f"{name} {n_done / total:.0%}" if total else name

        def advance(steps: int, _note: str) -> None:
            nonlocal n_done
            n_done += steps
            if time.monotonic() - self.written >= EVERY:
                self.write(told())

        self.write(told())
        yield advance

    def write(self, told: str) -> None:
        """Write it down; a disk that is full, or gone, is not a reason to stop."""
        self.written = time.monotonic()
        with contextlib.suppress(OSError):
            self.place.parent.mkdir(exist_ok=True)
            write_text(self.place, told)


@contextmanager
def heartbeat(place: Path) -> Iterator[_Heartbeat]:
    """Have a task's progress in a file for as long as the task lasts."""
    drop_pulse(place)
    try:
        yield _Heartbeat(place)
    finally:
        drop_pulse(place)


def drop_pulse(place: Path) -> None:
    """Remove what is told of a task, perhaps by somebody who was killed; if that cannot be done, nothing is lost."""
    with contextlib.suppress(OSError):
        place.unlink(missing_ok=True)


def read_pulse(place: Path, since: float = 0.0) -> str:
    """Read how far a task has come; nothing where that is not told.

    :param since: When it was begun; what is older was told by somebody who was killed.
    """
    try:
        return place.read_text(encoding="utf-8") if place.stat().st_mtime >= since - SLACK else ""
    except (OSError, ValueError):
        return ""

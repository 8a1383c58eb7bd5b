"""How far a task has come, told in a small file, so that whoever watches sees it wherever the worker is."""

import contextlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fresh.progress import Advance
from fresh.whole_file import write_text

EVERY = 2.0
"""Seconds between two times that it is written, at least."""


class Pulse:
    """A progress that is written to a file now and then."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.written = -EVERY

    def say(self, line: str) -> None:
        """Keep it to oneself."""

    @contextmanager
    def task(self, name: str, total: int | None) -> Iterator[Advance]:
        """Begin a piece of work, and write how much of it is done."""
        n_done = 0

        def advance(steps: int, _note: str) -> None:
            nonlocal n_done
            n_done += steps
            self.write(f"{name} {n_done / total:.0%}" if total else name)

        advance(0, "")
        yield advance

    def write(self, told: str) -> None:
        """Write it down unless that was done just now; a disk that is full, or gone, is not a reason to stop."""
        now = time.monotonic()
        if now - self.written >= EVERY:
            self.written = now
            with contextlib.suppress(OSError):
                self.place.parent.mkdir(exist_ok=True)
                write_text(self.place, told)


@contextmanager
def pulsing(place: Path) -> Iterator[Pulse]:
    """Have a task's progress in a file for as long as the task lasts."""
    place.unlink(missing_ok=True)  # of somebody who was killed
    try:
        yield Pulse(place)
    finally:
        place.unlink(missing_ok=True)


def read_pulse(place: Path) -> str:
    """Read how far a task has come; nothing where that is not told."""
    try:
        return place.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""

"""The progress of a running task, in a file where other processes and machines see it."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from fresh._io import write_text
from fresh.progress import Advance

HEARTBEAT_SECONDS = 2.0  # minimum number of seconds between two heartbeats
CLOCK_SLACK = 1.0  # seconds by which the clock of the file system may be slow


class Heartbeat:
    """Shows progress in a file, which exists only while the block lasts."""

    def __init__(self, path: Path) -> None:
        self.path, self.last = path, 0.0

    def __enter__(self) -> Self:
        self.remove()
        return self

    def __exit__(self, *_error: object) -> None:
        self.remove()

    def say(self, line: str) -> None:
        """Ignore a message."""

    @contextlib.contextmanager
    def task(self, name: str, total: int | None) -> Iterator[Advance]:
        """Start a piece of work, and report how much of it is done."""
        n_done = 0

        def advance(steps: int, _note: str) -> None:
            nonlocal n_done
            n_done += steps
            if time.monotonic() - self.last >= HEARTBEAT_SECONDS:
                self._write(f"{name} {n_done / total:.0%}" if total else name)

        self._write(f"{name} 0%" if total else name)
        yield advance

    def _write(self, text: str) -> None:
        self.last = time.monotonic()
        with contextlib.suppress(OSError):  # a full disk must not stop the task
            self.path.parent.mkdir(exist_ok=True)
            write_text(self.path, text)

    def remove(self) -> None:
        """Delete the file, perhaps that of a worker that was killed."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)

    def read(self, since: float = 0.0) -> str:
        """Read the progress; empty if there is none since the task started, as after a worker was killed."""
        try:
            return self.path.read_text(encoding="utf-8") if self.path.stat().st_mtime >= since - CLOCK_SLACK else ""
        except (OSError, ValueError):
            return ""

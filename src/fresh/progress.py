"""Progress of long work, shown or not."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from fresh.highlight import CONTROL_PICTURES

Advance = Callable[[int, str], None]
"""Called with how many more are done and a short note on how it goes."""

PERIOD = 3600
"""Seconds back from now by which the time left is reckoned: steps on long texts may take minutes."""


class Progress(Protocol):
    """Shows how far a piece of work has come."""

    def say(self, line: str) -> None:
        """Tell something worth knowing."""
        ...

    def task(self, name: str, total: int | None) -> AbstractContextManager[Advance]:
        """Begin a piece of work with so many steps, if that is known."""
        ...


class _Silent:
    """Shows nothing."""

    def say(self, line: str) -> None:
        """Keep it to oneself."""

    @contextmanager
    def task(self, name: str, total: int | None) -> Iterator[Advance]:
        """Begin a piece of work that nobody watches."""
        yield lambda _steps, _note: None


class Terminal:
    """Shows a bar for each piece of work, on standard error."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)

    def say(self, line: str) -> None:
        """Print a line, in which nothing can steer the terminal."""
        self.console.print(line.translate(CONTROL_PICTURES), highlight=False, markup=False)

    @contextmanager
    def task(self, name: str, total: int | None) -> Iterator[Advance]:
        """Begin a piece of work and draw its bar until it ends."""
        columns = (
            TextColumn("{task.description:<23}"),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[note]}"),
        )
        with Bars(*columns, console=self.console, speed_estimate_period=PERIOD) as bars:
            bar = bars.add_task(name, total=total, note="")
            bars.advance(bar, 0)  # so that the time of the first step counts

            def advance(steps: int, note: str) -> None:
                if note:
                    bars.update(bar, note=note)
                bars.advance(bar, steps)

            yield advance


SILENT = _Silent()

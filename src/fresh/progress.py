"""Progress of long work, shown in the terminal or not at all."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from fresh.highlight import CONTROL_PICTURES

Advance = Callable[[int, str], None]
"""Called with the number of steps just completed, and a short note."""


class Progress(Protocol):
    """Shows the progress of long work."""

    def say(self, line: str) -> None:
        """Show a line."""

    def task(self, name: str, total: int | None) -> AbstractContextManager[Advance]:
        """Start a task with a known or unknown number of steps."""


class _Silent:
    def say(self, line: str) -> None:
        pass

    def task(self, name: str, total: int | None) -> AbstractContextManager[Advance]:
        return nullcontext(lambda _steps, _note: None)


class Terminal:
    """Shows a bar for each task on standard error."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)

    def say(self, line: str) -> None:
        """Print a line, in which nothing can control the terminal."""
        self.console.print(line.translate(CONTROL_PICTURES), highlight=False, markup=False)

    @contextmanager
    def task(self, name: str, total: int | None) -> Iterator[Advance]:
        """Show a bar until the task ends."""
        columns = (
            TextColumn("{task.description:<23}"),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[note]}"),
        )
        # A step on long texts takes minutes. By default, rich looks back 30 seconds and would show no time left.
        with Bars(*columns, console=self.console, speed_estimate_period=3600) as bars:
            bar = bars.add_task(name, total=total, note="")
            bars.advance(bar, 0)  # rich estimates the speed from advances, so this one starts the clock

            def advance(steps: int, note: str) -> None:
                if note and note != bars.tasks[0].fields["note"]:
                    bars.update(bar, note=note)
                    if not (self.console.is_terminal or self.console.is_jupyter):  # a log shows no bars
                        self.say(f"{name}: {note}")
                bars.advance(bar, steps)

            yield advance


SILENT = _Silent()
"""Shows no progress."""

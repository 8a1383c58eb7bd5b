"""Who does the tasks of a grid, and who shows how far they have come: what an engine is, and a view."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from fresh.experiments.plan import Task
from fresh.experiments.worker import Outcome


class TaskEnd(NamedTuple):
    """A task, and how it ended; None if its worker died."""

    task: Task
    outcome: Outcome | None


class Executor(Protocol):
    """Has workers that do tasks."""

    @property
    def n_workers(self) -> int:
        """How many tasks it does at once."""
        ...

    def get_ready(self, n_tasks: int) -> None:
        """Have workers begin now, where that takes a while, since so many tasks will come at most."""
        ...

    def start(self, task: Task) -> None:
        """Have a task done by a worker that is free."""
        ...

    def wait(self) -> TaskEnd:
        """Wait until one of the tasks that were started ends."""
        ...

    def make_room(self) -> None:
        """Let go of workers that have nothing to do, and so of what they hold; one may stay."""
        ...

    def close(self) -> None:
        """Let the workers go; what they are at is broken off."""
        ...


class ProgressView(Protocol):
    """Shows how far a grid has come."""

    def expect(self, tasks: Sequence[Task]) -> None:
        """Take note of the tasks that are to be done; all others are done, or failed before."""
        ...

    def started(self, task: Task) -> None:
        """Take note that a worker has begun a task."""
        ...

    def put_off(self, task: Task) -> None:
        """Take note that a task waits again, since somebody else is at it."""
        ...

    def crowded(self, task: Task, at_last: bool) -> None:
        """Take note that a task waits again, since it found no room on a card.

        :param at_last: Whether it waits until no other task is left.
        """
        ...

    def died(self, task: Task) -> None:
        """Take note that a task waits again, since its worker died."""
        ...

    def ended(self, task: Task, outcome: Outcome) -> None:
        """Take note that a task is done, or failed."""
        ...

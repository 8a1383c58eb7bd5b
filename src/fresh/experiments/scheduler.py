"""The order in which the tasks of a grid are given to workers, and what happens to tasks that fail."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from fresh.experiments.artifacts import has_scores
from fresh.experiments.plan import Task
from fresh.experiments.store import RunStore
from fresh.experiments.worker import Outcome

MAX_DEATHS = 3
"""How many workers may die on one task before it fails."""
MAX_CROWDED = 3
"""How often a task may run out of GPU memory beside others before it waits until it can run alone."""
N_DONE_PER_STEP = 2
"""Times the current limit: tasks that must be done until the limit rises by one after a GPU was full."""
PAUSE = 0.2
"""Seconds until another look at what other processes work on."""


class TaskEnd(NamedTuple):
    """A task and its outcome; None if its worker died."""

    task: Task
    outcome: Outcome | None


class Executor(Protocol):
    """Runs tasks on workers."""

    @property
    def n_workers(self) -> int:
        """Number of tasks that it runs at once."""
        ...

    def prepare(self, n_tasks: int) -> None:
        """Start workers in advance if that takes a while.

        :param n_tasks: Maximum number of tasks to come.
        """
        ...

    def start(self, task: Task) -> None:
        """Start a task on a free worker."""
        ...

    def wait(self) -> TaskEnd:
        """Wait until one of the started tasks ends."""
        ...

    def release_idle(self) -> None:
        """End all idle workers but one, and so free the memory that they hold."""
        ...

    def close(self) -> None:
        """End all workers; unfinished tasks are stopped."""
        ...


class ProgressView(Protocol):
    """Shows the progress of a grid."""

    def set_tasks(self, tasks: Sequence[Task]) -> None:
        """Set the tasks to do; all others are done, or failed before."""
        ...

    def on_start(self, task: Task) -> None:
        """Handle a task that was given to a worker."""
        ...

    def on_busy(self, task: Task) -> None:
        """Handle a task that waits because another process works on it."""
        ...

    def on_crowded(self, task: Task, is_last: bool) -> None:
        """Handle a task that waits because the GPU was full.

        :param is_last: Whether it waits until it can run alone.
        """
        ...

    def on_death(self, task: Task) -> None:
        """Handle a task that waits because its worker died."""
        ...

    def on_end(self, task: Task, outcome: Outcome) -> None:
        """Handle a task that is done or failed."""
        ...


@dataclass(slots=True)
class Scheduler:
    """Gives tasks to an executor as soon as what they need is done."""

    store: RunStore
    executor: Executor
    view: ProgressView
    experiments: Sequence[str] = ()
    """Experiments whose plans must remain in the folder of runs."""
    pending: list[Task] = field(default_factory=list)
    running: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    """Why each failed task failed."""
    n_deaths: Counter[str] = field(default_factory=Counter)
    n_crowded: Counter[str] = field(default_factory=Counter)
    """How often each task ran out of GPU memory beside others."""
    limit: int | None = None
    """Number of tasks at once since a GPU was full; None if none ever was."""
    n_done_at_limit: int = 0
    retry_after: dict[str, int] = field(default_factory=dict)
    """How many tasks must have ended until one that ran out of memory is tried again."""
    retry_alone: list[Task] = field(default_factory=list)
    """Tasks that ran out of memory too often, and are tried again alone, in the end."""
    is_alone: bool = False
    """Whether the running task is one of these."""

    @property
    def n_ended(self) -> int:
        """Number of tasks that are done or failed."""
        return len(self.done) + len(self.failed)

    def run(self, tasks: Sequence[Task]) -> dict[str, str]:
        """Do all tasks; a failure affects only the tasks that need the failed one.

        :param tasks: Each after the tasks that it needs.
        :return: Why each failed task failed, by its key.
        :raises StoreDeletedError: If the folder of runs is deleted meanwhile.
        """
        assert {need for task in tasks for need in task.needs} <= {task.key for task in tasks}
        self.pending = self._unfinished(tasks)
        self.view.set_tasks(self.pending)
        while self.pending or self.retry_alone or self.running:
            self._start_ready()
            if not self.running and self.retry_after:
                self.retry_after.clear()  # there is no other task left to wait for
            elif not self.running and self.retry_alone:
                self.is_alone = True
                self.executor.release_idle()
                self._start(self.retry_alone.pop(0))
            if self.running:
                end = self.executor.wait()
                self.store.check_plans(self.experiments)
                self._handle(end)
        return self.failed

    def _unfinished(self, tasks: Sequence[Task]) -> list[Task]:
        """Leave out runs that are done or failed, and what only they need; stored scores need no support model."""
        runs = [task for task in tasks if task.kind == "run"]
        self.done |= {task.key for task in runs if self.store.read_report(task.key) is not None}
        for task in runs:
            reason = None if task.key in self.done else self.store.read_failure(task.key)
            if reason is not None:
                self.failed[task.key] = reason
        # Backwards, since each task comes after those that it needs: one pass is enough.
        needed = {task.key for task in runs} - self.done - self.failed.keys()
        for task in reversed(tasks):
            if task.key in needed and not (task.kind == "scores" and has_scores(self.store.shared_folder(task.key))):
                needed |= set(task.needs)
        self.done |= {task.key for task in tasks} - needed - self.failed.keys()
        return [task for task in tasks if task.key in needed]

    def _start_ready(self) -> None:
        """Start tasks, in their order, until all workers are busy or no task is ready."""
        for task in list(self.pending):
            if len(self.running) >= min(self.executor.n_workers, self.limit or self.executor.n_workers):
                return
            lost = next((need for need in task.needs if need in self.failed), None)
            if lost is not None:
                self.pending.remove(task)
                self._fail(task, self.failed[lost])
            elif self.done.issuperset(task.needs) and self.n_ended >= self.retry_after.get(task.key, 0):
                self.pending.remove(task)
                self._start(task)

    def _start(self, task: Task) -> None:
        self.running.add(task.key)
        self.retry_after.pop(task.key, None)
        self.view.on_start(task)
        self.executor.start(task)

    def _handle(self, end: TaskEnd) -> None:
        task, outcome = end
        was_alone, self.is_alone = self.is_alone, False
        queue = self.retry_alone if was_alone else self.pending
        self.running.discard(task.key)
        if outcome is None:
            self.n_deaths[task.key] += 1
            if self.n_deaths[task.key] < MAX_DEATHS:
                queue.insert(0, task)
                self.view.on_death(task)
            else:
                self._fail(task, f"Its worker died {MAX_DEATHS} times, perhaps because memory ran out.", f"{task}: ")
        elif outcome.status == "busy":
            queue.append(task)
            self.view.on_busy(task)
            if not self.running:
                self.retry_after.clear()  # the other process may work on it for long
            time.sleep(PAUSE)
        elif outcome.status == "crowded" and not was_alone:
            self._defer(task)
        elif outcome.status == "done":
            self.done.add(task.key)
            self._raise_limit()
            self.view.on_end(task, outcome)
        else:
            also = " (Even when it ran alone.)" if was_alone else ""
            self._fail(task, outcome.error + also, f"{task}: ", outcome.where)

    def _defer(self, task: Task) -> None:
        """Lower the limit, and retry a task after as many others have ended as are running; in the end, alone."""
        self.n_crowded[task.key] += 1
        is_last = self.n_crowded[task.key] == MAX_CROWDED
        # When such tasks waited for the end at once, five were left over and ran one after the other. So a task is
        # first retried with fewer others.
        if is_last:
            self.retry_alone.append(task)
        else:
            # Before all others, since these may need it; after deferred ones, which keep their order.
            self.pending.insert(len(self.retry_after), task)
            self.limit, self.n_done_at_limit = max(1, len(self.running)), 0
            self.retry_after[task.key] = self.n_ended + self.limit
        if not self.running:
            self.executor.release_idle()
        self.view.on_crowded(task, is_last)

    def _raise_limit(self) -> None:
        """Try one more task at once after enough tasks were done at the current limit."""
        self.n_done_at_limit += 1
        if self.limit is not None and self.n_done_at_limit >= N_DONE_PER_STEP * self.limit:
            self.limit, self.n_done_at_limit = self.limit + 1, 0

    def _fail(self, task: Task, error: str, name: str = "", where: str = "") -> None:
        """Give up a task, and so the tasks that need it.

        :param name: What these put in front of the error.
        :param where: The traceback, if it was not written yet.
        """
        self.failed[task.key] = error if task.kind == "run" else name + error
        if task.kind == "run" and self.store.read_failure(task.key) is None:
            try:
                self.store.save_failure(task.key, error, where)
            except OSError as problem:
                self.failed[task.key] += f" (This could not be written to disk: {problem.strerror}.)"
        self.view.on_end(task, Outcome("failed", error))

"""The scheduler: starts tasks in their order, and retries those whose worker died or whose GPU was full."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from fresh.experiments.artifacts import SCORES_FILE
from fresh.experiments.live_view import LiveView
from fresh.experiments.plan import Task
from fresh.experiments.store import RunStore
from fresh.experiments.worker import Outcome

MAX_DEATHS = 3  # workers that may die on one task before it fails
MAX_CROWDED = 3  # how often a task may run out of GPU memory beside others before it waits until it can run alone
N_DONE_PER_STEP = 2  # after a GPU was full, the limit rises by one whenever this many times the limit of tasks are done
PAUSE = 0.2  # seconds until a task that another process works on is tried again


class TaskEnd(NamedTuple):
    """A task and its outcome; None if its worker died."""

    task: Task
    outcome: Outcome | None


class Executor(Protocol):
    """Runs tasks on workers."""

    @property
    def n_workers(self) -> int:
        """Maximum number of tasks at once."""

    def prepare(self, n_tasks: int) -> None:
        """Start workers in advance, for at most so many tasks."""

    def start(self, task: Task) -> None:
        """Start a task on an idle worker."""

    def wait(self) -> TaskEnd:
        """Wait until one of the started tasks ends."""

    def release_idle(self) -> None:
        """End all idle workers but one, to free the memory that they hold."""

    def close(self) -> None:
        """End all workers; unfinished tasks are stopped."""


@dataclass(slots=True)
class Scheduler:
    """Starts each task when the tasks that it needs are done."""

    store: RunStore
    executor: Executor
    view: LiveView
    experiments: Sequence[str] = ()  # experiments whose plans must remain in the folder of runs
    pending: list[Task] = field(default_factory=list)
    running: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)  # why each failed task failed
    n_deaths: Counter[str] = field(default_factory=Counter)
    n_crowded: Counter[str] = field(default_factory=Counter)  # how often each task ran out of GPU memory beside others
    limit: int | None = None  # maximum number of tasks at once; None until a GPU is full
    n_done_at_limit: int = 0
    retry_after: dict[str, int] = field(default_factory=dict)
    """Number of tasks that must have ended before a task that ran out of memory is tried again."""
    retry_alone: list[Task] = field(default_factory=list)
    """Tasks that ran out of memory too often, which run alone when all others are done."""

    def run(self, tasks: Sequence[Task]) -> dict[str, str]:
        """Do all tasks, each of which comes after those that it needs, and return why each failed task failed.

        :raises StoreDeletedError: If the folder of runs is deleted meanwhile.
        """
        self.pending = self._unfinished(tasks)
        self.view.set_tasks(self.pending)
        while self.pending or self.retry_alone or self.running:
            self._start_ready()
            if not self.running and self.retry_after:
                self.retry_after.clear()  # there is no other task left to wait for
            elif not self.running and self.retry_alone:
                self.executor.release_idle()
                self._start(self.retry_alone.pop(0))
            if self.running:
                end = self.executor.wait()
                # Workers create the folders that they need, and would fill a deleted folder of runs anew.
                self.store.check_plans(self.experiments)
                self._handle(end)
        return self.failed

    def _unfinished(self, tasks: Sequence[Task]) -> list[Task]:
        # Without runs that are done or failed, and what only they need; stored scores need no support model.
        runs = [task for task in tasks if task.kind == "run"]
        self.done |= {task.key for task in runs if self.store.read_report(task.key) is not None}
        failures = {task.key: self.store.read_failure(task.key) for task in runs if task.key not in self.done}
        self.failed |= {key: reason for key, reason in failures.items() if reason is not None}
        # One pass backwards is enough, since each task comes after the tasks that it needs.
        needed = {task.key for task in runs} - self.done - self.failed.keys()
        for task in reversed(tasks):
            if task.key in needed and not (self.store.shared_folder(task.key) / SCORES_FILE).is_file():
                needed |= set(task.needs)
        self.done |= {task.key for task in tasks} - needed - self.failed.keys()
        return [task for task in tasks if task.key in needed]

    def _start_ready(self) -> None:
        for task in list(self.pending):
            if len(self.running) >= min(self.executor.n_workers, self.limit or self.executor.n_workers):
                return
            lost = next((need for need in task.needs if need in self.failed), None)
            is_due = len(self.done) + len(self.failed) >= self.retry_after.get(task.key, 0)
            if lost is not None:
                self.pending.remove(task)
                self._fail(task, self.failed[lost])
            elif is_due and self.done.issuperset(task.needs):
                self.pending.remove(task)
                self._start(task)

    def _start(self, task: Task) -> None:
        self.running.add(task.key)
        self.retry_after.pop(task.key, None)
        self.view.on_start(task)
        self.executor.start(task)

    def _handle(self, end: TaskEnd) -> None:
        task, outcome = end
        was_alone = self.n_crowded[task.key] == MAX_CROWDED
        queue = self.retry_alone if was_alone else self.pending
        self.running.discard(task.key)
        if outcome is None:
            self.n_deaths[task.key] += 1
            if self.n_deaths[task.key] < MAX_DEATHS:
                queue.insert(0, task)  # first, since others may need it
                self.view.on_death(task)
            else:
                self._fail(task, f"Its worker died {MAX_DEATHS} times, perhaps because memory ran out.", f"{task}: ")
        elif outcome.status == "busy":
            queue.append(task)
            self.view.on_busy(task)
            if not self.running:
                self.retry_after.clear()  # else nothing runs here until the other process is done
            time.sleep(PAUSE)
        elif outcome.status == "crowded" and not was_alone:
            self._defer(task)
        elif outcome.status == "done":
            self.done.add(task.key)
            self.n_done_at_limit += 1
            if self.limit is not None and self.n_done_at_limit >= N_DONE_PER_STEP * self.limit:
                self.limit, self.n_done_at_limit = self.limit + 1, 0
            self.view.on_end(task, outcome)
        else:
            also = " (Even when it ran alone.)" if was_alone else ""
            self._fail(task, outcome.error + also, f"{task}: ", outcome.where)

    def _defer(self, task: Task) -> None:
        # Retried when as many others have ended as are running now, and at last alone. Beside fewer others first: when
        # such tasks waited for the end at once, five were left to run one by one.
        self.n_crowded[task.key] += 1
        is_last = self.n_crowded[task.key] == MAX_CROWDED
        if is_last:
            self.retry_alone.append(task)
        else:
            # At the front, because others may need it, but behind tasks that were deferred before.
            self.pending.insert(len(self.retry_after), task)
            self.limit, self.n_done_at_limit = max(1, len(self.running)), 0
            self.retry_after[task.key] = len(self.done) + len(self.failed) + self.limit
        if not self.running:
            self.executor.release_idle()
        self.view.on_crowded(task, is_last)

    def _fail(self, task: Task, error: str, name: str = "", where: str = "") -> None:
        # `name` is what the errors of the tasks that need it start with; `where` a traceback that is not written yet.
        self.failed[task.key] = error if task.kind == "run" else name + error
        if task.kind == "run" and self.store.read_failure(task.key) is None:
            try:
                self.store.save_failure(task.key, error, where)
            except OSError as problem:
                self.failed[task.key] += f" (This could not be written to disk: {problem.strerror}.)"
        self.view.on_end(task, Outcome("failed", error))

"""In which order the tasks of a grid are given to an engine, and what becomes of those that fail."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from fresh.experiments.artifacts import is_kept
from fresh.experiments.executor import Executor, ProgressView, TaskEnd
from fresh.experiments.plan import Task
from fresh.experiments.store import RunStore
from fresh.experiments.worker import Outcome

N_TRIES = 3
"""How often a task is begun whose worker dies under it."""
N_CROWDED = 3
"""How often a task may find no room beside others before it waits until no other is left."""
WELL = 2
"""Times the number of tasks at once: how many must be done until one more is tried after a card was full."""
PAUSE = 0.2
"""Seconds until the next look at what others work on."""


@dataclass(slots=True)
class Dispatcher:
    """Gives tasks to an engine as soon as what they need is there."""

    runs: RunStore
    engine: Executor
    view: ProgressView
    plans: Sequence[str] = ()
    """Experiments whose plans must stay in the folder of runs for as long as tasks are done."""
    waiting: list[Task] = field(default_factory=list)
    most: int | None = None
    """How many tasks are done at once since a card was full; as many as there are workers if it never was."""
    n_well: int = 0
    """Tasks done since then, or since one more was tried."""
    n_crowded: Counter[str] = field(default_factory=Counter)
    """How often each task found no room on a card, but for when it was tried alone, in the end."""
    due: dict[str, int] = field(default_factory=dict)
    """How many tasks must be over until one that found no room is tried again."""
    crowded: list[Task] = field(default_factory=list)
    """Tasks that found none too often, which are tried again alone, in the end."""
    alone: bool = False
    """Whether what is running was put off, and has no other task beside it now."""
    running: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    """Why each task that failed did."""
    tries: dict[str, int] = field(default_factory=dict)

    @property
    def n_over(self) -> int:
        """How many tasks are done, or failed."""
        return len(self.done) + len(self.failed)

    def carry_out(self, tasks: Sequence[Task]) -> dict[str, str]:
        """Do all tasks; one that fails takes only those with it that need it.

        :param tasks: What is needed stands before what needs it.
        :return: Why each task that failed did, by its key.
        :raises GoneError: If the folder of runs is deleted meanwhile.
        """
        assert {need for task in tasks for need in task.needs} <= {task.key for task in tasks}
        self.waiting = self.left(tasks)
        self.view.expect(self.waiting)
        while self.waiting or self.crowded or self.running:
            self.start_ready()
            if not self.running and self.due:
                self.due.clear()  # no other is left whose end they could wait for
            elif not self.running and self.crowded:
                self.start_alone()
            if self.running:
                ended = self.engine.wait()
                self.runs.check_there(self.plans)
                self.note(ended)
        return self.failed

    def left(self, tasks: Sequence[Task]) -> list[Task]:
        """Leave out runs that are done or have failed, and what only they need; scores that are kept need nothing."""
        runs = [task for task in tasks if task.kind == "run"]
        self.done |= {task.key for task in runs if self.runs.report(task.key) is not None}
        open_runs = [task for task in runs if task.key not in self.done]
        for task in open_runs:
            reason = self.runs.failure(task.key)
            if reason is not None:
                self.failed[task.key] = reason
        needed = {task.key for task in open_runs if task.key not in self.failed}
        for task in reversed(tasks):
            if task.key in needed and not (task.kind == "scores" and is_kept(self.runs.shared(task.key))):
                needed |= set(task.needs)
        self.done |= {task.key for task in tasks} - needed - self.failed.keys()
        return [task for task in tasks if task.key in needed]

    def start_ready(self) -> None:
        """Give work to all workers that are free, as far as there is any that can be done now, in its order."""
        for task in list(self.waiting):
            if len(self.running) >= min(self.engine.n_workers, self.most or self.engine.n_workers):
                return
            lost = next((need for need in task.needs if need in self.failed), None)
            if lost is not None:
                self.waiting.remove(task)
                self.give_up(task, self.failed[lost])
            elif self.done.issuperset(task.needs) and self.n_over >= self.due.get(task.key, 0):
                self.waiting.remove(task)
                self.start(task)

    def start_alone(self) -> None:
        """Try a task again that found no room, now that nothing else can be done without it."""
        self.alone = True
        self.engine.make_room()
        self.start(self.crowded.pop(0))

    def start(self, task: Task) -> None:
        """Give a task to a worker."""
        self.running.add(task.key)
        self.due.pop(task.key, None)
        self.view.started(task)
        self.engine.start(task)

    def note(self, ended: TaskEnd) -> None:
        """Take note of how a task ended."""
        task, outcome = ended
        alone, self.alone = self.alone, False
        waiting = self.crowded if alone else self.waiting
        self.running.discard(task.key)
        if outcome is None:
            self.tries[task.key] = self.tries.get(task.key, 0) + 1
            if self.tries[task.key] < N_TRIES:
                waiting.insert(0, task)
                self.view.died(task)
            else:
                self.give_up(task, f"Its worker died {N_TRIES} times, perhaps for want of memory.", f"{task}: ")
        elif outcome.status == "busy":
            waiting.append(task)
            self.view.put_off(task)
            if not self.running:
                self.due.clear()  # whoever else is at it may be at it for long
            time.sleep(PAUSE)
        elif outcome.status == "crowded" and not alone:
            self.put_off_crowded(task)
        elif outcome.status == "done":
            self.done.add(task.key)
            self.try_more()
            self.view.ended(task, outcome)
        else:
            also = " (Also with no other task beside it.)" if alone else ""
            self.give_up(task, outcome.error + also, f"{task}: ", outcome.where)

    def put_off_crowded(self, task: Task) -> None:
        """Have a task wait that found no room, until as many are over as are running; in the end, until all are.

        Then it comes first, since others may need it, and fewer are running beside it.
        """
        self.n_crowded[task.key] += 1
        at_last = self.n_crowded[task.key] == N_CROWDED
        if at_last:
            self.crowded.append(task)
        else:
            self.waiting.insert(len(self.due), task)  # after others of its kind
            self.most, self.n_well = max(1, len(self.running)), 0
            self.due[task.key] = self.n_over + self.most
        if not self.running:
            self.engine.make_room()
        self.view.crowded(task, at_last)

    def try_more(self) -> None:
        """Count a task that is done; after some of them, one more is done at once than since a card was full."""
        self.n_well += 1
        if self.most is not None and self.n_well >= WELL * self.most:
            self.most, self.n_well = self.most + 1, 0

    def give_up(self, task: Task, error: str, whose: str = "", where: str = "") -> None:
        """Leave a task, and so those that need it, undone.

        :param whose: What those that need it are to hear before the error.
        :param where: Where it broke, if that is not written down yet.
        """
        self.failed[task.key] = error if task.kind == "run" else whose + error
        if task.kind == "run" and self.runs.failure(task.key) is None:
            try:
                self.runs.fail(task.key, error, where)
            except OSError as problem:
                self.failed[task.key] += f" (This could not be written down: {problem.strerror}.)"
        self.view.ended(task, Outcome("failed", error))

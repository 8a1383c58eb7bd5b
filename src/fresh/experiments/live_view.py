"""How far a grid has come, live in a terminal: what is done, what is being done, the time left, the table so far."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fresh.experiments.heartbeat import drop_pulse, read_pulse
from fresh.experiments.plan import Task
from fresh.experiments.results import MAIN, Result, grouped, read_results, values_of
from fresh.experiments.store import RunStore
from fresh.experiments.worker import Outcome
from fresh.metrics.bootstrap import short

N_FAILURES = 5
"""Failures that are shown; all are told in the end."""
LATE = 1.0
"""Times the usual length of tasks by which one may be late until nothing is said of the time left."""
MOST_CUT = 3
"""Rows of the table that are there however small a terminal is; what does not fit is cut off at its end."""
QUIET = 60.0
"""Seconds without a line, where there is no terminal, until one says what is being done."""


@dataclass(slots=True)
class _Pace:
    """How long tasks take, and so how long the rest will."""

    n_workers: int
    seconds: dict[tuple[str, str, str], tuple[float, ...]] = field(default_factory=dict)

    def note(self, task: Task, seconds: float) -> None:
        """Learn from a task that is done, unless others had done it."""
        if seconds:
            kind = _kind_of(task)
            # Made anew each time: somebody who draws may be reading the old ones.
            self.seconds = {**self.seconds, kind: (*self.seconds.get(kind, ()), seconds)}

    def left(self, tasks: Sequence[Task], spent: Mapping[str, float] | None = None) -> float | None:
        """Guess how many seconds some tasks will take; None as long as nothing is done, or a guess proves wrong.

        :param spent: Seconds since those were begun that are being done, by their keys.
        """
        found = self.seconds
        known = [value for values in found.values() for value in values]
        if not known:
            return None
        usual = sum(known) / len(known)
        means = {kind: sum(values) / len(values) for kind, values in found.items()}
        each = [means.get(_kind_of(task), usual) - (spent or {}).get(task.key, 0.0) for task in tasks]
        if any(rest < -LATE * usual for rest in each):
            return None
        each = [max(0.0, rest) for rest in each]
        return max(sum(each) / self.n_workers, max(each, default=0.0))


def _kind_of(task: Task) -> tuple[str, str, str]:
    """Say which tasks take about as long."""
    return task.cell.corpus, task.kind, task.cell.method


class _Begun(NamedTuple):
    """A task that is being done, and since when."""

    task: Task
    at: float
    """By the clock that only goes forwards."""
    since: float
    """By the clock that files have."""

    @property
    def spent(self) -> float:
        """For how many seconds it has been done."""
        return time.monotonic() - self.at


class _Patient(Console):
    """A console that is silent when nobody listens any more; others end the program then."""

    def on_broken_pipe(self) -> None:
        """Write no more."""
        self.quiet = True


class LiveView:
    """Shows grids while they are done: a table that fills up, or a line for each run where there is no terminal."""

    def __init__(self, runs: RunStore, experiments: Sequence[str], n_tasks: int, n_workers: int) -> None:
        self.console: Console = _Patient(stderr=True)
        self.runs, self.experiments = runs, experiments
        self.left: dict[str, Task] = {}
        self.n_tasks, self.pace = n_tasks, _Pace(n_workers)
        self.begun: dict[str, _Begun] = {}
        self.elsewhere: dict[str, Task] = {}
        self.failures: list[str] = []
        self.results = {result.key: result for name in experiments for result in read_results(runs, name)}
        self.live = Live(console=self.console, refresh_per_second=2, get_renderable=self.render)
        self.said, self.over = time.monotonic(), threading.Event()
        self.reminder = threading.Thread(target=self.remind, daemon=True)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.console.is_terminal:
            self.live.stop()
        for key in self.begun:  # broken off
            drop_pulse(self.runs.pulse(key))
        self.over.set()
        if self.reminder.is_alive():
            self.reminder.join()

    def expect(self, tasks: Sequence[Task]) -> None:
        """Take note of the tasks that are to be done; all others are done, or failed before."""
        self.left = {task.key: task for task in tasks}
        if tasks and not self.console.is_terminal:
            n_runs, n_at_once = sum(task.kind == "run" for task in tasks), min(len(tasks), self.pace.n_workers)
            told = f"{n_runs} of {len(self.results)} runs to do ({len(tasks)} of {self.n_tasks} tasks)"
            self.say(f"{', '.join(self.experiments)}: {told}, {n_at_once} at a time.")
            self.reminder.start()

    def started(self, task: Task) -> None:
        """Take note that a worker has begun a task."""
        self.begun[task.key] = _Begun(task, time.monotonic(), time.time())

    def put_off(self, task: Task) -> None:
        """Take note that a task waits again, since somebody else is at it."""
        self.begun.pop(task.key, None)
        self.elsewhere[task.key] = task

    def crowded(self, task: Task, at_last: bool) -> None:
        """Take note that a task waits again, since it found no room on a card, and say so."""
        self.begun.pop(task.key, None)
        self.say(f"The card was full while at {task}. It is tried again{' in the end, alone' if at_last else ''}.")

    def died(self, task: Task) -> None:
        """Take note that a task waits again, since its worker died, and say so; in a terminal, above the table."""
        self.begun.pop(task.key, None)
        drop_pulse(self.runs.pulse(task.key))
        self.say(f"A worker died while at {task}. It is tried again.")

    def ended(self, task: Task, outcome: Outcome) -> None:
        """Take note that a task is done, or failed."""
        self.begun.pop(task.key, None)
        self.left.pop(task.key, None)
        self.elsewhere.pop(task.key, None)
        if outcome.status == "failed":
            self.failures.append(f"{task}: {outcome.error}")
            told = f"failed: {outcome.error}"
        else:
            self.pace.note(task, outcome.seconds)
            told = self.reread(task)
        if not self.console.is_terminal:
            self.say(f"{self.counted()} {task}: {told}")

    def say(self, told: str) -> None:
        """Write a line that stays."""
        self.said = time.monotonic()
        self.console.print(told, highlight=False, markup=False, soft_wrap=True)

    def remind(self) -> None:
        """Say now and then what is being done, if nothing else is said, until it is over."""
        while not self.over.wait(max(0.0, self.said + QUIET - time.monotonic())):
            if time.monotonic() - self.said >= QUIET:
                self.say("\n".join([self.standing(), *self.at_work()]))

    def reread(self, task: Task) -> str:
        """Look up what came out of a run, and say it."""
        if task.kind != "run":
            return "done"
        report = self.runs.report(task.key) or {"figures": {}}
        old = self.results[task.key]
        self.results[task.key] = Result(old.key, old.row, old.corpus, old.seed, old.settings, report["figures"])
        return f"{MAIN} {short(report['figures'][MAIN])}" if MAIN in report["figures"] else "done"

    def counted(self) -> str:
        """Say how many tasks are done."""
        return f"[{self.n_tasks - len(self.left)}/{self.n_tasks}]"

    def standing(self) -> str:
        """Say how much is done, and how long the rest may take."""
        spent = {begun.task.key: begun.spent for begun in list(self.begun.values())}
        seconds = self.pace.left(list(self.left.values()), spent)
        left = "" if not seconds else f", about {_duration(seconds)} left"
        return f"{', '.join(self.experiments)}: {self.counted()[1:-1]} tasks done{left}"

    def at_work(self) -> list[str]:
        """Say what is being done, for how long, and how far it has come; also by others who share the folder."""
        begun = list(self.begun.values())
        told = [(one.task, _duration(one.spent), read_pulse(self.runs.pulse(one.task.key), one.since)) for one in begun]
        others = [task for key, task in list(self.elsewhere.items()) if key not in self.begun]
        told += [(task, "somebody else", read_pulse(self.runs.pulse(task.key))) for task in others]
        return [f"  {task} ({', '.join(filter(None, about))})" for task, *about in told]

    def render(self) -> Group:
        """Draw it all; where there is little room, the table gives way."""
        lines = [Text(self.standing(), style="bold"), *(Text(line, style="dim") for line in self.at_work())]
        lines += [Text(f"  failed: {told}", style="red") for told in self.failures[-N_FAILURES:]]
        return Group(*lines, self.table(self.console.height - len(lines)))

    def table(self, n_lines: int) -> Table:
        """Draw the table so far: the mean over the seeds that are there.

        :param n_lines: How many lines there are for it.
        """
        results = list(self.results.values())
        corpora = list(grouped(results, lambda result: result.corpus))
        drawn = Table("", *corpora, box=None)
        rows = grouped(results, lambda result: result.row)
        most = max(MOST_CUT, n_lines - 3)  # less the heads, the line on other rows, and the last of the screen
        for name, row in list(rows.items())[:most]:
            cells = grouped(row, lambda result: result.corpus)
            drawn.add_row(name, *(_so_far(cells.get(corpus, [])) for corpus in corpora))
        if len(rows) > most:
            drawn.add_row(f"and {len(rows) - most} more rows")
        return drawn


def _so_far(results: Sequence[Result]) -> str:
    """Write the mean of the runs that are done, and how many are if not all."""
    values = values_of(results, MAIN)
    if not results or not values:
        return "·" * bool(results)
    mean = short(sum(values) / len(values))
    return mean if len(values) == len(results) else f"{mean} {len(values)}/{len(results)}"


def _duration(seconds: float) -> str:
    """Write a time for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"

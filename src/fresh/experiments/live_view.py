"""The progress of a grid, live in a terminal: finished and running tasks, the time left, and the table so far."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fresh.experiments.plan import Task
from fresh.experiments.results import MAIN_METRIC, RunResult, group_by, metric_values, read_results
from fresh.experiments.store import RunStore
from fresh.experiments.worker import Outcome
from fresh.metrics.bootstrap import short
from fresh.text import plural

N_FAILURES = 5  # failures that are shown; all are listed at the end
MIN_ROWS = 3  # minimum number of rows of the table, even in a small terminal
QUIET_SECONDS = 60.0  # without a terminal, seconds without a line until the running tasks are listed


@dataclass(slots=True)
class _TimeEstimate:
    n_workers: int
    seconds: dict[tuple[str, str, str], tuple[float, ...]] = field(default_factory=dict)

    def add(self, task: Task, seconds: float) -> None:
        if seconds:  # 0 if another process did it
            kind = _similar(task)
            # Replaced by one assignment: the thread that draws may be reading the old durations.
            self.seconds = {**self.seconds, kind: (*self.seconds.get(kind, ()), seconds)}

    def remaining(self, tasks: Sequence[Task], elapsed: Mapping[str, float]) -> float | None:
        # `elapsed`: seconds since each running task was started, by key. None before the first task is done.
        durations = self.seconds
        known = [value for values in durations.values() for value in values]
        if not known:
            return None
        usual = sum(known) / len(known)
        means = {kind: sum(values) / len(values) for kind, values in durations.items()}
        each = [max(0.0, means.get(_similar(task), usual) - elapsed.get(task.key, 0.0)) for task in tasks]
        # Workers share the tasks, but a single task is never divided.
        return max(sum(each) / self.n_workers, max(each, default=0.0))


def _similar(task: Task) -> tuple[str, str, str]:
    # Tasks with these in common take about the same time.
    return task.spec.corpus, task.kind, task.spec.method


class _Console(Console):
    # rich's own console exits when its pipe is closed, which would end the experiment.
    def on_broken_pipe(self) -> None:
        self.quiet = True


class LiveView:
    """Shows running grids: a table that fills up or, without a terminal, a line for each task."""

    def __init__(self, store: RunStore, experiments: Sequence[str], n_tasks: int, n_workers: int) -> None:
        self.console: Console = _Console(stderr=True)
        self.store, self.title = store, ", ".join(experiments)
        self.left: dict[str, Task] = {}
        self.n_tasks, self.estimate = n_tasks, _TimeEstimate(n_workers)
        # With the times when they were started; None for tasks of other processes.
        self.running: dict[str, tuple[Task, float | None]] = {}
        self.failures: list[str] = []
        self.results = {result.key: result for name in experiments for result in read_results(store, name)}
        self._live = Live(console=self.console, refresh_per_second=2, get_renderable=self.render)
        self._last_line, self._closed = time.monotonic(), threading.Event()
        self.reminder = threading.Thread(target=self._remind, daemon=True)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self.console.is_terminal:
            self._live.stop()
        # After an interrupt, workers are ended before they can delete their heartbeats.
        for key in self._own():
            self.store.heartbeat(key).remove()
        self._closed.set()
        if self.reminder.is_alive():
            self.reminder.join()

    def set_tasks(self, tasks: Sequence[Task]) -> None:
        """Set the tasks to do; all others are done, or have failed before."""
        self.left = {task.key: task for task in tasks}
        if tasks and not self.console.is_terminal:
            n_runs, n_at_once = sum(task.kind == "run" for task in tasks), min(len(tasks), self.estimate.n_workers)
            runs = f"{n_runs} of {plural(len(self.results), 'run')} to do"
            counts = f"{runs} ({len(tasks)} of {plural(self.n_tasks, 'task')})"
            self.say(f"{self.title}: {counts}, {n_at_once} at a time.")
            self.reminder.start()

    def on_start(self, task: Task) -> None:
        """Show a task as running."""
        self.running[task.key] = task, time.time()

    def on_busy(self, task: Task) -> None:
        """Show a task as running in another process."""
        self.running[task.key] = task, None

    def on_crowded(self, task: Task, is_last: bool) -> None:
        """Report that a GPU was full, and whether the task now waits until it can run alone."""
        self.running.pop(task.key, None)
        self.say(f"The GPU was full during {task}. It will be tried again{', alone, at the end' if is_last else ''}.")

    def on_death(self, task: Task) -> None:
        """Report that a worker died."""
        self.running.pop(task.key, None)
        self.store.heartbeat(task.key).remove()
        self.say(f"A worker died during {task}. It will be tried again.")

    def on_end(self, task: Task, outcome: Outcome) -> None:
        """Show the result of a task."""
        self.running.pop(task.key, None)
        self.left.pop(task.key, None)
        if outcome.status == "failed":
            self.failures.append(f"{task}: {outcome.error}")
            result = f"failed: {outcome.error}"
        else:
            self.estimate.add(task, outcome.seconds)
            metrics = (self.store.read_report(task.key) or {"figures": {}})["figures"]  # empty for shared work
            if task.kind == "run":
                self.results[task.key] = replace(self.results[task.key], metrics=metrics)
            result = f"{MAIN_METRIC} {short(metrics[MAIN_METRIC])}" if MAIN_METRIC in metrics else "done"
        if not self.console.is_terminal:
            self.say(f"[{self.n_tasks - len(self.left)}/{self.n_tasks}] {task}: {result}")

    def say(self, line: str) -> None:
        """Print a line that stays."""
        self._last_line = time.monotonic()
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _remind(self) -> None:
        while not self._closed.wait(max(0.0, self._last_line + QUIET_SECONDS - time.monotonic())):
            if time.monotonic() - self._last_line >= QUIET_SECONDS:
                self.say("\n".join([self._status(), *self.in_progress()]))

    def _own(self) -> dict[str, float]:
        # When the running tasks of this process were started.
        return {key: started for key, (_, started) in list(self.running.items()) if started is not None}

    def _status(self) -> str:
        elapsed = {key: time.time() - started for key, started in self._own().items()}
        seconds = self.estimate.remaining(list(self.left.values()), elapsed)
        left = "" if not seconds else f", about {_format_duration(seconds)} left"
        return f"{self.title}: {self.n_tasks - len(self.left)}/{plural(self.n_tasks, 'task')} done{left}"

    def in_progress(self) -> list[str]:
        """List the running tasks with their durations and progress, those of other processes at the end."""
        lines: list[str] = []
        for task, started in sorted(self.running.values(), key=lambda pair: pair[1] is None):
            what = "another process" if started is None else _format_duration(time.time() - started)
            progress = self.store.heartbeat(task.key).read(started or 0.0)
            lines.append(f"  {task} ({', '.join(filter(None, (what, progress)))})")
        return lines

    def render(self) -> Group:
        """Draw everything; in a small terminal, the table is cut."""
        lines = [Text(self._status(), style="bold"), *(Text(line, style="dim") for line in self.in_progress())]
        lines += [Text(f"  failed: {failure}", style="red") for failure in self.failures[-N_FAILURES:]]
        return Group(*lines, self._table(self.console.height - len(lines)))

    def _table(self, n_lines: int) -> Table:
        # Means over finished seeds, in so many lines of the terminal.
        results = list(self.results.values())
        corpora = list(dict.fromkeys(result.corpus for result in results))
        table = Table("", *corpora, box=None)
        rows = group_by(results, lambda result: result.row)
        n_rows = max(MIN_ROWS, n_lines - 3)  # without the header, the line about more rows, and the cursor's line
        for name, row in list(rows.items())[:n_rows]:
            cells = group_by(row, lambda result: result.corpus)
            table.add_row(name, *(_format_cell(cells.get(corpus, [])) for corpus in corpora))
        if len(rows) > n_rows:
            table.add_row(f"and {len(rows) - n_rows} more rows")
        return table


def _format_cell(results: Sequence[RunResult]) -> str:
    values = metric_values(results, MAIN_METRIC)
    if not values:
        return "·" * bool(results)
    mean = short(sum(values) / len(values))
    return mean if len(values) == len(results) else f"{mean} {len(values)}/{len(results)}"


def _format_duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"

"""Runs that find the memory of a GPU full."""

import contextlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import torch

from experiments import tasks_of
from fresh.experiments.grid import RunSpec
from fresh.experiments.live_view import LiveView
from fresh.experiments.plan import Task
from fresh.experiments.scheduler import MAX_CROWDED, Scheduler
from fresh.experiments.store import RunStore
from fresh.pipeline import RunSettings

FULL_ALONE = "OutOfMemoryError: full (Even when it ran alone.)"


@dataclass(frozen=True, slots=True)
class Crowded(RunSpec):
    """A run that fails with a full GPU a given number of times."""

    n_times: int = 1
    tries: Path = Path("tries")  # a file that is one character longer with each time it was tried

    def resolve(self, data_dir: Path | None) -> RunSettings:
        with self.tries.open("a+", encoding="utf-8") as file:
            file.write("x")
        if len(self.tries.read_text(encoding="utf-8")) <= self.n_times:
            raise torch.OutOfMemoryError("full")
        return RunSpec.resolve(self, data_dir)


def crowd(task: Task, n_times: int, tries: Path) -> Task:
    spec = task.spec
    same = (spec.row, spec.corpus, spec.settings, spec.reads, spec.documents, spec.data)
    return replace(task, spec=Crowded(*same, n_times=n_times, tries=tries))


def check_retries(executor: Any, path: Path, out: Path) -> None:
    """Check that an executor of two workers retries runs that ran out of memory, at last alone."""
    first, second, other = tasks_of(path)
    once, always = out / "once", out / "always"
    out.mkdir(exist_ok=True)
    with contextlib.closing(executor):
        scheduler = Scheduler(RunStore(out), executor, Mock(LiveView))
        failed = scheduler.run([crowd(first, 1, once), crowd(second, 9, always), other])
    assert failed == {second.key: FULL_ALONE}
    assert [len(tries.read_text(encoding="utf-8")) for tries in (once, always)] == [2, MAX_CROWDED + 1]
    is_done = [RunStore(out).read_report(task.key) is not None for task in (first, second, other)]
    assert is_done == [True, False, True]


def check_releases_idle(executor: Any, path: Path) -> None:
    """Check that an executor ends all idle workers but one."""
    tasks = tasks_of(path)
    with contextlib.closing(executor):
        for task in tasks[:2]:
            executor.start(task)
        workers = list(executor.workers)
        executor.release_idle()
        assert executor.workers == workers
        for _ in workers:
            assert executor.wait().outcome is not None
        executor.release_idle()
        assert executor.workers == workers[:1]
        executor.start(tasks[2])
        end = executor.wait()
        assert end.outcome is not None
        assert end.outcome.status == "done"

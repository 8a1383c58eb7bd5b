"""An experiment from its grid file: what `fresh run` does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fresh.experiment.engine import Engine, Schedule
from fresh.experiment.folder import Runs
from fresh.experiment.grid_file import read_grid
from fresh.experiment.local import Local
from fresh.experiment.plan import Task, plan
from fresh.experiment.view import LiveView


class Done(NamedTuple):
    """How an experiment ended."""

    name: str
    n_runs: int
    failures: dict[str, str]
    """Why each run that failed did, by what it is."""


def run_grid(
    path: Path,
    out: Path,
    *,
    data_dir: Path | None = None,
    engine: Engine | None = None,
    retry: bool = False,
    documents: int | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Done:
    """Do all runs of a grid that are not done yet.

    :param path: The grid file.
    :param out: Folder of runs, which several experiments may share; runs that are there are not done again.
    :param data_dir: Folder with the files of the paper's corpora.
    :param engine: Who does the work; processes on this machine, as many as suit it, if not given.
    :param retry: Try again what failed before.
    :param documents: How many documents of each split to use, at most.
    :param overrides: Settings that go before those of the file.
    """
    grid, runs = read_grid(path, overrides, documents), Runs(out)
    tasks = plan(grid, data_dir, runs)
    if retry:
        for task in tasks:
            runs.forget_failure(task.key)
    workers = engine or Local(out, data_dir)
    try:
        with LiveView(runs, grid.name, len(tasks), workers.n_workers) as view:
            failed = Schedule(runs, workers, view).carry_out(tasks)
    finally:
        workers.close()
    by_key: dict[str, Task] = {task.key: task for task in tasks if task.kind == "run"}
    told = {str(by_key[key]): reason for key, reason in failed.items() if key in by_key}
    return Done(grid.name, len(by_key), told)

"""Runs experiments from their grid files, as `fresh run` does."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fresh.errors import ConfigError
from fresh.experiments.grid import Grid, check_grid
from fresh.experiments.grid_file import read_grid
from fresh.experiments.live_view import LiveView
from fresh.experiments.local import LocalExecutor
from fresh.experiments.plan import label_tasks, plan_all
from fresh.experiments.scheduler import Executor, Scheduler
from fresh.experiments.store import RunStore
from fresh.methods.config import RATIO_DISCRETIZERS


class GridResult(NamedTuple):
    """The outcome of an experiment."""

    name: str
    n_runs: int
    failures: dict[str, str]  # why each failed run failed, by its label
    n_dropped: int = 0  # finished runs that are in the previous plan of this name but not in the current one


def run_grids(
    paths: Sequence[Path],
    out: Path,
    *,
    data_dir: Path | None = None,
    executor: Executor | None = None,
    retry: bool = False,
    documents: int | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> list[GridResult]:
    """Do all unfinished runs of several grids; work that they share is done once.

    :param paths: The grid files.
    :param out: Folder of runs, which several experiments may share; finished runs in it are not repeated.
    :param data_dir: Folder with the files of the paper's corpora.
    :param executor: Runs the tasks; by default, as many processes as fit on this machine.
    :param retry: Repeat runs that failed before.
    :param documents: Maximum number of documents of each split.
    :param overrides: Settings that override those of the files.
    """
    grids, store = _read_grids(paths, overrides, documents), RunStore(out)
    checked = [check_grid(grid, data_dir) for grid in grids]
    workers = executor or LocalExecutor(out, data_dir)
    try:
        if not any(grid.errors for grid in checked):  # otherwise `plan_all` refuses the grids
            workers.prepare(sum(len(grid.specs) for grid in grids))
        # Read before they are overwritten, to report runs that are no longer planned.
        earlier = {grid.name: store.planned_keys(grid.name) for grid in grids}
        plans = plan_all(checked, data_dir, store)
        tasks = label_tasks(list({task.key: task for plan in plans.values() for task in plan}.values()))
        if retry:
            for task in tasks:
                store.clear_failure(task.key)
        with LiveView(store, list(plans), len(tasks), workers.n_workers) as view:
            failed = Scheduler(store, workers, view, list(plans)).run(tasks)
    finally:
        workers.close()
    # Gates may be left when a worker was killed after the last run that needed them. If a grid cuts a gate in one way
    # only, it stays for the other way, which a later grid may need.
    for gate in (task for task in tasks if task.kind == "gate" and store.shared_folder(task.key).exists()):
        is_done = [store.read_report(task.key) is not None for task in tasks if gate.key in task.needs]
        if is_done == [True] * len(RATIO_DISCRETIZERS):
            store.remove_shared(gate.key)
    results: list[GridResult] = []
    for name, plan in plans.items():
        runs = [task for task in plan if task.kind == "run"]
        dropped = earlier[name] - {task.key for task in plan}
        n_dropped = sum(store.read_report(key) is not None for key in dropped)
        failures = {str(task): failed[task.key] for task in runs if task.key in failed}
        results.append(GridResult(name, len(runs), failures, n_dropped))
    return results


def _read_grids(paths: Sequence[Path], overrides: Mapping[str, Any] | None, documents: int | None) -> list[Grid]:
    grids: dict[str, tuple[Grid, Path]] = {}
    problems: list[str] = []
    for path in paths:
        try:
            grid = read_grid(path, overrides, documents)
            if grid.name in grids:
                raise ConfigError(f"{grids[grid.name][1]} and {path} are both called {grid.name!r}. Rename one.")
            grids[grid.name] = grid, path
        except ConfigError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError("\n".join(dict.fromkeys(problems)))
    return [grid for grid, _ in grids.values()]

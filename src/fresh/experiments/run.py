"""Experiments from their grid files: what `fresh run` does."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fresh.errors import ConfigError
from fresh.experiments.artifacts import drop_shared
from fresh.experiments.executor import Executor
from fresh.experiments.grid import Grid, checked
from fresh.experiments.grid_file import read_grid
from fresh.experiments.live_view import LiveView
from fresh.experiments.local import LocalExecutor
from fresh.experiments.plan import Task, plan_all, tell_apart
from fresh.experiments.scheduler import Dispatcher
from fresh.experiments.store import RunStore
from fresh.methods.config import RATIO_DISCRETIZERS


class _Done(NamedTuple):
    """How an experiment ended."""

    name: str
    n_runs: int
    failures: dict[str, str]
    """Why each run that failed did, by what it is."""
    n_dropped: int = 0
    """Runs that are done and were in an earlier plan of that name, but are not in this one."""


def _run_grid(path: Path, out: Path, **how: Any) -> _Done:
    """Do all runs of a grid that are not done yet; ``how`` as for several grids."""
    [done] = run_grids([path], out, **how)
    return done


def run_grids(
    paths: Sequence[Path],
    out: Path,
    *,
    data_dir: Path | None = None,
    engine: Executor | None = None,
    retry: bool = False,
    documents: int | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> list[_Done]:
    """Do all runs of some grids that are not done yet, by the same workers, and what several need once.

    :param paths: The grid files.
    :param out: Folder of runs, which several experiments may share; runs that are there are not done again.
    :param data_dir: Folder with the files of the paper's corpora.
    :param engine: Who does the work; processes on this machine, as many as suit it, if not given.
    :param retry: Try again what failed before.
    :param documents: How many documents of each split to use, at most.
    :param overrides: Settings that go before those of the files.
    """
    grids, runs = _read_all(paths, overrides, documents), RunStore(out)
    _check_names(grids, paths)
    found = [checked(grid, data_dir) for grid in grids]
    workers = engine or LocalExecutor(out, data_dir)
    try:
        if not any(one.wrong for one in found):  # else nothing will be done
            workers.get_ready(sum(len(grid.cells) for grid in grids))
        earlier = {grid.name: runs.planned(grid.name) for grid in grids}
        plans = plan_all(found, data_dir, runs)
        tasks = tell_apart(list({task.key: task for planned in plans.values() for task in planned}.values()))
        if retry:
            for task in tasks:
                runs.forget_failure(task.key)
        with LiveView(runs, list(plans), len(tasks), workers.n_workers) as view:
            failed = Dispatcher(runs, workers, view, list(plans)).carry_out(tasks)
    finally:
        workers.close()
    _drop_gates(tasks, runs)
    dropped = {name: keys - {task.key for task in plans[name]} for name, keys in earlier.items()}
    n_dropped = {name: sum(runs.report(key) is not None for key in keys) for name, keys in dropped.items()}
    return [_done_of(name, planned, failed, n_dropped[name]) for name, planned in plans.items()]


def _drop_gates(tasks: Sequence[Task], runs: RunStore) -> None:
    """Remove the gates that workers left, who were killed after the last run that needs them."""
    for gate in (task for task in tasks if task.kind == "gate" and runs.shared(task.key).exists()):
        cut = [runs.report(task.key) is not None for task in tasks if gate.key in task.needs]
        if cut == [True] * len(RATIO_DISCRETIZERS):
            drop_shared(runs, gate.key)


def _read_all(paths: Sequence[Path], overrides: Mapping[str, Any] | None, documents: int | None) -> list[Grid]:
    """Read grid files, and say what is wrong with any of them."""
    grids: list[Grid] = []
    problems: list[str] = []
    for path in paths:
        try:
            grids.append(read_grid(path, overrides, documents))
        except ConfigError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError("\n".join(dict.fromkeys(problems)))
    return grids


def _check_names(grids: Sequence[Grid], paths: Sequence[Path]) -> None:
    """Refuse two experiments of one name: the second would take the place of the first."""
    named: dict[str, Path] = {}
    for grid, path in zip(grids, paths, strict=True):
        if grid.name in named:
            raise ConfigError(
                f"{named[grid.name]} and {path} are both called {grid.name!r}. Give one of them another name."
            )
        named[grid.name] = path


def _done_of(name: str, tasks: Sequence[Task], failed: Mapping[str, str], n_dropped: int) -> _Done:
    """Say how one experiment ended."""
    runs = [task for task in tasks if task.kind == "run"]
    return _Done(name, len(runs), {str(task): failed[task.key] for task in runs if task.key in failed}, n_dropped)

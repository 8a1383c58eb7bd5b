import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments import plan, toy_grid
from fresh.data.splits import Splits
from fresh.errors import ConfigError
from fresh.experiments.grid_file import read_grid
from fresh.experiments.local import LocalExecutor, _gpu_names, default_n_workers
from fresh.experiments.plan import Task
from fresh.experiments.store import RunStore


@pytest.mark.parametrize(
    ("cards", "n_cores", "n_workers"),
    [
        ([], 1, 1),
        ([], 2, 1),
        ([], 64, 32),
        ([139.0], 16, 6),
        ([139.0], 2, 2),
        ([24.0], 16, 1),
        ([8.0], 16, 1),
        ([48.0, 24.0], 16, 4),
        ([80.0] * 8, 128, 40),
    ],
)
def test_as_many_work_as_the_machine_holds(cards: list[float], n_cores: int, n_workers: int) -> None:
    assert default_n_workers(cards, n_cores) == n_workers


@pytest.mark.parametrize(
    ("visible", "names"),
    [(None, ["0", "1"]), ("", ["0", "1"]), ("2,5", ["2", "5"]), ("GPU-a,GPU-b,", ["GPU-a", "GPU-b"])],
)
def test_cards_keep_the_names_they_have_here(visible: str | None, names: list[str]) -> None:
    assert _gpu_names(2, visible) == names


@pytest.mark.parametrize("n_workers", [0, -1])
def test_somebody_must_work(n_workers: int, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"^workers must be at least 1, got {n_workers}\.$"):
        LocalExecutor(tmp_path, None, n_workers)


@pytest.fixture
def tasks(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> list[Task]:
    """Two short runs and an endless one."""
    rows: list[dict[str, Any]] = [{"epochs": 1}, {"epochs": 1, "discretizer": "contiguous"}, {"epochs": 9999}]
    path = toy_grid(tmp_path, toy, encoders["bert"], *rows, settings={"method": "random", "patience": 9999})
    return plan(read_grid(path), None, RunStore(tmp_path / "runs"))


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalExecutor]:
    engine = LocalExecutor(tmp_path / "runs", None, 2)
    yield engine
    engine.close()


def test_processes_do_tasks_and_may_die(local: LocalExecutor, tasks: list[Task], tmp_path: Path) -> None:
    short, other, endless = tasks
    local.start(endless)
    local.start(short)
    ended = local.wait()
    assert (ended.task, ended.outcome is not None and ended.outcome.status) == (short, "done")
    assert RunStore(tmp_path / "runs").read_report(short.key) is not None
    first = local.workers[0].process
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    assert local.wait() == (endless, None)
    idle = local.workers[0].process
    assert idle.pid is not None
    os.kill(idle.pid, signal.SIGKILL)
    idle.join()
    local.start(other)
    assert local.wait() == (other, None)
    assert local.workers == []
    local.start(endless)
    begun = local.workers[0].process
    local.close()
    assert not begun.is_alive()
    assert local.workers == []


def test_processes_begin_before_their_tasks_are_known_but_never_more_than_needed(local: LocalExecutor) -> None:
    local.prepare(1)
    [first] = local.workers
    local.prepare(5)
    assert [hand.task for hand in local.workers] == [None, None]
    assert local.workers[0] is first
    local.close()
    assert not first.process.is_alive()


def test_the_process_that_knows_the_corpus_is_asked_first(tasks: list[Task], tmp_path: Path) -> None:
    local = LocalExecutor(tmp_path / "runs", None, 2)
    first, second = local._add_worker(), local._add_worker()
    second.corpus = tasks[0].spec.corpus
    try:
        local.start(tasks[0])
        assert (first.task, second.task) == (None, tasks[0])
    finally:
        local.close()


def test_workers_share_cards_evenly_also_after_one_died(tmp_path: Path) -> None:
    local = LocalExecutor(tmp_path / "runs", None, 4)
    local.gpus = ["3", "7"]
    try:
        assert [local._add_worker().gpu for _ in range(3)] == ["3", "7", "3"]
        local.workers[1].task = Task("run", "key", None)  # type: ignore[arg-type]
        local.workers[1].process.kill()
        local._remove(local.workers[1])
        assert local._add_worker().gpu == "7"
    finally:
        local.close()

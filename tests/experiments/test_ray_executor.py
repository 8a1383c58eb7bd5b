"""A grid on a cluster of two nodes, one worker of which is killed."""

import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
import ray
from ray import cloudpickle

import crowds
import small
from experiments import Writer, read_reports, reports, run_grid, run_keys, write_grid
from fresh.cli.main import main
from fresh.data.splits import Splits
from fresh.experiments import ray_executor
from fresh.experiments.local import LocalExecutor
from fresh.experiments.ray_cluster import ClusterError
from fresh.experiments.ray_executor import RayExecutor, _RayWorker
from fresh.experiments.run import GridResult
from fresh.experiments.store import RunStore
from two_nodes import NODE, until, who_has_open

ROWS: tuple[dict[str, Any], ...] = (
    {"name": "short", "method": "full_text"},
    {"name": "FRESH", "scorer": "attention", "ratio": 0.2},
    {"name": "long", "method": "full_text", "epochs": 40, "patience": 40},
)


@pytest.fixture(scope="module")
def path(toy: Splits, encoders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grid, beside one of its first two rows."""
    folder = tmp_path_factory.mktemp("grid")
    small.write_csv(folder / "toy.csv", small.rows(toy.train[:96]))
    parts = {"settings": small.settings(encoders["bert"]), "corpora": {"toy": {"data": "toy.csv"}}}
    write_grid(folder / "first.toml", *ROWS[:2], **parts)
    return write_grid(folder / "grid.toml", *ROWS, **parts)


@pytest.fixture(scope="module")
def at_home(path: Path, tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """The runs of the grid as the local executor does them."""
    out = tmp_path_factory.mktemp("local")
    executor = LocalExecutor(out, None, n_workers=1)
    executor.n_threads = 1  # as many as a node of the cluster has
    assert run_grid(path, out, executor=executor).failures == {}
    return RunStore(out)


class Noting(RayExecutor):
    """Lists the nodes on which workers start."""

    nodes: list[str]

    def _add_worker(self) -> _RayWorker | None:
        worker = super()._add_worker()
        assert worker is not None
        self.nodes.append(worker.node.node.id)
        return worker


class Struck(NamedTuple):
    """A grid with two finished runs when the worker of the third was killed."""

    store: RunStore
    result: GridResult
    first_nodes: list[str]  # the node of each worker that started before, in their order
    nodes: list[str]
    victim: psutil.Process
    finished: dict[str, int]  # the reports that were there before


@pytest.fixture(scope="module")
def struck(cluster: Any, path: Path, tmp_path_factory: pytest.TempPathFactory) -> Struck:
    store, victims = RunStore(tmp_path_factory.mktemp("ray")), list[psutil.Process]()
    [_, _, long] = run_keys(path)

    def noting() -> Noting:
        executor = Noting(store.path, None, cluster.address)
        executor.nodes = []
        return executor

    def strike() -> None:
        until((store.run_folder(long) / "partial").is_dir, 300)
        victim = who_has_open(store.path / "claims" / long)
        assert victim is not None
        victim.kill()
        victims.append(victim)

    first = noting()
    assert run_grid(path.with_name("first.toml"), store.path, executor=first).failures == {}
    finished = reports(store.path)
    second, striker = noting(), threading.Thread(target=strike, daemon=True)
    striker.start()
    result = run_grid(path, store.path, executor=second)
    striker.join()
    [victim] = victims
    return Struck(store, result, first.nodes, second.nodes, victim, finished)


def test_a_grid_is_done_although_a_worker_is_killed(struck: Struck) -> None:
    assert struck.result == GridResult("grid", 3, {})
    assert not struck.victim.is_running()
    now = reports(struck.store.path)
    assert len(struck.finished) == 2
    assert {key: now[key] for key in struck.finished} == struck.finished
    for nodes in (struck.first_nodes, struck.nodes):  # workers are spread
        assert len(nodes) == len(set(nodes)) == 2
    assert list((struck.store.path / "claims").glob("cluster-*")) == []
    assert not ray.is_initialized()


def test_a_cluster_measures_the_same_as_one_machine(path: Path, struck: Struck, at_home: RunStore) -> None:
    for there, here in zip(*(read_reports(path, store.path) for store in (struck.store, at_home)), strict=True):
        assert there.pop("times").keys() == here.pop("times").keys()
        assert there == here


def test_finished_runs_are_not_repeated(
    cluster: Any, path: Path, struck: Struck, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = reports(struck.store.path)
    monkeypatch.chdir(path.parent)
    out = str(struck.store.path)
    assert main(["run", "grid.toml", "--out", out, "--engine", "ray", "--address", cluster.address]) == 0
    assert capsys.readouterr().out.startswith("3 of 3 runs done.")
    assert reports(struck.store.path) == before


def test_markers_must_arrive(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_executor, "marker_file", lambda *_about: tmp_path / "elsewhere")
    with pytest.raises(ClusterError, match=rf"does not see what node \S+ \(\S+\) writes to {re.escape(str(tmp_path))}"):
        RayExecutor(tmp_path, None, cluster.address)
    assert list((tmp_path / "claims").iterdir()) == []
    assert not ray.is_initialized()


def test_nodes_that_join_and_leave_are_noticed(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_executor, "REFRESH_SECONDS", 0.5)
    executor = RayExecutor(tmp_path, None, cluster.address)
    try:
        assert executor.n_workers == 2
        cluster.remove_node(next(iter(cluster.worker_nodes)))
        until(lambda: executor.n_workers == 1, 60)
        cluster.add_node(**NODE)
        until(lambda: executor.n_workers == 2, 60)
    finally:
        executor.close()


@pytest.fixture
def on_nodes() -> Iterator[None]:
    """Sends our tasks by value: nodes do not see the tests."""
    cloudpickle.register_pickle_by_value(crowds)  # type: ignore[no-untyped-call]
    yield
    cloudpickle.unregister_pickle_by_value(crowds)  # type: ignore[no-untyped-call]


@pytest.mark.usefixtures("on_nodes")
def test_idle_workers_are_ended_and_full_gpus_retried(cluster: Any, grid: Writer, tmp_path: Path) -> None:
    row = {"name": "random words", "method": "random", "seed": [0, 1, 2]}
    path, out = grid(row, settings={"epochs": 1}), tmp_path / "runs"
    crowds.check_retries(RayExecutor(out, None, cluster.address), path, out)
    crowds.check_releases_idle(RayExecutor(tmp_path / "other", None, cluster.address), path)


def test_a_missing_cluster_is_reported_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["run", "grid.toml", "--out", str(tmp_path), "--engine", "ray", "--address", address]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"fresh run: No Ray cluster answers at {address}: [Errno 111] Connection refused.")

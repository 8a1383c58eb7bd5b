import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
import ray

import small
from experiments import run_grid
from fresh.attribution.support_model import SupportModel
from fresh.cli.main import main
from fresh.data.splits import Splits
from fresh.experiments import sites
from fresh.experiments.local import LocalExecutor
from fresh.experiments.ray_cluster import ClusterError
from fresh.experiments.ray_executor import RayExecutor, _WorkerProcess
from fresh.experiments.run import GridResult
from fresh.experiments.store import RunStore
from fresh.predictor import Predictor
from fresh.selection.discretizers import TopK
from two_nodes import NODE, two_nodes, until, who_has_open

GRID = """
[grid]
corpus = ["toy"]

[settings]
encoder = "{encoder}"
layers = "all"
dropout = 0.0
batch_size = 8
learning_rate = 0.005
device = "cpu"
epochs = 2

[corpora.toy]
data = "toy.csv"

[[rows]]
name = "short"
method = "full_text"

[[rows]]
name = "FRESH"
scorer = "attention"
ratio = 0.2

[[rows]]
name = "long"
method = "full_text"
epochs = 40
patience = 40
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with two_nodes() as started:
        yield started


@pytest.fixture(scope="module")
def grid(toy: Splits, encoders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grid")
    small.write_csv(folder / "toy.csv", small.rows(toy.train[:96]))
    whole = GRID.format(encoder=encoders["bert"])
    (folder / "grid.toml").write_text(whole, encoding="utf-8")
    (folder / "first.toml").write_text(whole[: whole.rindex("[[rows]]")], encoding="utf-8")
    return folder / "grid.toml"


@pytest.fixture(scope="module")
def at_home(grid: Path, tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """The runs of the grid as the local engine does them."""
    out = tmp_path_factory.mktemp("local")
    engine = LocalExecutor(out, None, n_workers=1)
    engine.n_threads = 1  # as many as a node of the cluster has
    assert run_grid(grid, out, executor=engine).failures == {}
    return RunStore(out)


def key_of(runs: RunStore, row: str) -> str:
    [key] = [item["key"] for item in runs.read_plan("grid")["runs"] if item["row"] == row]
    return str(key)


def findings(runs: RunStore, row: str) -> dict[str, Any]:
    """All that a run reports, without times."""
    report = runs.read_report(key_of(runs, row))
    assert report is not None
    return {name: value for name, value in report.items() if name != "times"}


class Noting(RayExecutor):
    """Takes note of where workers begin."""

    nodes: list[str]

    def hire(self) -> _WorkerProcess | None:
        hand = super().hire()
        assert hand is not None
        self.nodes.append(hand.site.node.id)
        return hand


class Struck(NamedTuple):
    """A grid of which two runs were done when the worker of the third was killed."""

    runs: RunStore
    done: GridResult
    first_nodes: list[str]
    """The node of each worker that began before, in their order."""
    nodes: list[str]
    victim: psutil.Process
    finished: dict[str, str]
    """The reports that were there when it was killed."""


def reports(runs: RunStore) -> dict[str, str]:
    return {place.parent.name: place.read_text(encoding="utf-8") for place in runs.path.glob("runs/*/report.json")}


@pytest.fixture(scope="module")
def struck(cluster: Any, grid: Path, at_home: RunStore, tmp_path_factory: pytest.TempPathFactory) -> Struck:
    runs = RunStore(tmp_path_factory.mktemp("ray"))
    long = key_of(at_home, "long")
    victims: list[psutil.Process] = []

    def noting() -> Noting:
        engine = Noting(runs.path, None, cluster.address)
        engine.nodes = []
        return engine

    def strike() -> None:
        until((runs.run_folder(long) / "partial").is_dir, 300)
        victim = who_has_open(runs.path / "claims" / long)
        assert victim is not None
        victim.kill()
        victims.append(victim)

    first = noting()
    assert run_grid(grid.with_name("first.toml"), runs.path, executor=first).failures == {}
    finished = reports(runs)
    second, striker = noting(), threading.Thread(target=strike, daemon=True)
    striker.start()
    done = run_grid(grid, runs.path, executor=second)
    striker.join()
    [victim] = victims
    return Struck(runs, done, first.nodes, second.nodes, victim, finished)


def test_a_grid_is_done_although_a_worker_was_killed_in_the_middle(struck: Struck) -> None:
    assert struck.done == GridResult("grid", 3, {})
    assert not struck.victim.is_running()


def test_runs_that_were_done_stay_as_they_were(struck: Struck) -> None:
    now = reports(struck.runs)
    assert len(struck.finished) == 2
    assert {key: now[key] for key in struck.finished} == struck.finished


def test_workers_are_spread_and_what_one_was_at_is_done_elsewhere(struck: Struck) -> None:
    for nodes in (struck.first_nodes, struck.nodes):
        assert len(nodes) == len(set(nodes)) == 2


@pytest.mark.parametrize("row", ["short", "FRESH", "long"])
def test_a_cluster_finds_what_one_machine_finds(row: str, struck: Struck, at_home: RunStore) -> None:
    assert findings(struck.runs, row) == findings(at_home, row)


def test_nothing_is_left_of_the_look_at_the_nodes(struck: Struck) -> None:
    assert list((struck.runs.path / "claims").glob("cluster-*")) == []
    assert not ray.is_initialized()


def test_what_is_done_is_not_done_again(
    cluster: Any, grid: Path, struck: Struck, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = reports(struck.runs)
    monkeypatch.chdir(grid.parent)
    out = str(struck.runs.path)
    assert main(["run", "grid.toml", "--out", out, "--engine", "ray", "--address", cluster.address]) == 0
    assert capsys.readouterr().out == f"3 of 3 runs are done. Table: fresh table {out} grid\n"
    assert reports(struck.runs) == before


def test_a_node_whose_marks_do_not_arrive_is_named(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sites, "marker_file", lambda *_about: tmp_path / "elsewhere")
    expected = (
        rf"What node \S+ \(\S+\) writes to {re.escape(str(tmp_path))} does not arrive here\. "
        r"Name a folder that all nodes see under the same name, on a disk that they share\."
    )
    with pytest.raises(ClusterError, match=expected):
        RayExecutor(tmp_path, None, cluster.address)
    assert list((tmp_path / "claims").iterdir()) == []
    assert not ray.is_initialized()


@pytest.fixture(scope="module")
def model(support: SupportModel, predictor: Predictor, toy: Splits, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, with some hundred texts of which one cannot be read."""
    folder = tmp_path_factory.mktemp("explained")
    small.rationalizer(support, predictor, TopK(0.2), "attention").save_pretrained(folder / "model")
    table = [{"name": str(number), "review": e.document.text} for number, e in enumerate((*toy.train, *toy.train))]
    table[300]["review"] = "film " * 100_000
    small.write_csv(folder / "data.csv", table)
    return folder / "model"


def explain(model: Path, output: Path, *options: str) -> int:
    columns = ("--input", "data.csv", "--text", "review", "--id", "name", "--device", "cpu")
    return main(["explain", str(model), *columns, "--output", str(output), *options])


def test_explaining_on_a_cluster_gives_the_same_lines(
    cluster: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(model.parent)
    assert explain(model, tmp_path / "local.jsonl", "--skip-bad", "--scores") == 0
    told = capsys.readouterr().err.splitlines()[-1]
    over_ray = ("--engine", "ray", "--address", cluster.address)
    assert explain(model, tmp_path / "ray.jsonl", "--skip-bad", "--scores", *over_ray) == 0
    assert capsys.readouterr().err.splitlines()[-1] == told
    assert told.startswith("Left out 1 of 480 rows: Text '300' has 100000 words")
    lines = (tmp_path / "ray.jsonl").read_text(encoding="utf-8")
    assert lines == (tmp_path / "local.jsonl").read_text(encoding="utf-8")
    assert [json.loads(line)["id"] for line in lines.splitlines()] == [str(n) for n in range(480) if n != 300]


def test_nodes_that_come_and_go_are_noticed(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sites, "REFRESH_SECONDS", 0.5)
    engine = RayExecutor(tmp_path, None, cluster.address)
    try:
        assert engine.n_workers == 2
        cluster.remove_node(next(iter(cluster.worker_nodes)))
        until(lambda: engine.n_workers == 1, 60)
        cluster.add_node(**NODE)
        until(lambda: engine.n_workers == 2, 60)
    finally:
        engine.close()


def test_no_cluster_at_an_address_is_said_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["run", "grid.toml", "--out", str(tmp_path), "--engine", "ray", "--address", address]) == 1
    assert capsys.readouterr().err == (
        f"fresh run: No Ray cluster answers at {address}: [Errno 111] Connection refused. "
        "Start one with `ray start --head`, or leave the address out to use this machine alone.\n"
    )

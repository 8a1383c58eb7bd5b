"""Several grids at once, in one or more processes, some of which are killed."""

import json
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import psutil
import pytest
from safetensors import safe_open

from experiments import Inline, Writer, metrics, plan, reports, run, run_grid, start, toy_grid
from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.errors import ConfigError, DataError
from fresh.experiments.grid_file import read_grid
from fresh.experiments.plan import Task
from fresh.experiments.results import read_results
from fresh.experiments.run import GridResult, run_grids
from fresh.experiments.store import RunStore, StoreDeletedError
from fresh.experiments.worker import Outcome, Worker
from two_nodes import until

ATTENTION = {"name": "ours", "scorer": "attention"}
LONGER = {"name": "longer", "scorer": "attention", "ratio": 0.4}
Grids = Callable[..., list[Path]]


@pytest.fixture
def grids(grid: Writer, tmp_path: Path) -> Grids:
    """Writes several grids over one toy corpus."""

    def write(**rows: list[dict[str, Any]]) -> list[Path]:
        return [grid(*own, name=name).rename(tmp_path / f"{name}.toml") for name, own in rows.items()]

    return write


def test_what_grids_share_is_done_once(grids: Grids, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train_many = Mock(side_effect=SupportModel.train_many)
    monkeypatch.setattr(SupportModel, "train_many", train_many)
    paths, out = grids(first=[ATTENTION], second=[ATTENTION, LONGER]), tmp_path / "runs"
    executor, store = Inline(out), RunStore(out)
    assert run_grids(paths, out, executor=executor) == [GridResult("first", 1, {}), GridResult("second", 2, {})]
    assert executor.n_expected == 3
    assert len(reports(out)) == 2
    assert [result.row for result in read_results(store, "first")] == ["ours"]
    assert [result.row for result in read_results(store, "second")] == ["ours", "longer"]
    assert run(paths[1], "alone") == GridResult("second", 2, {})
    together, alone = (
        {result.key: result.metrics["macro-F1"] for result in read_results(RunStore(tmp_path / name), "second")}
        for name in ("runs", "alone")
    )
    assert together == alone
    assert train_many.call_count == 4  # trained once and read again for the scores, in each of the two folders


def test_each_grid_reports_its_failures(grids: Grids, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fresh.experiments.worker.measure", Mock(side_effect=ValueError("broken")))
    paths, out = grids(first=[ATTENTION], second=[ATTENTION, LONGER]), tmp_path / "runs"
    ours, longer = "toy, ours, seed 0", "toy, longer, seed 0"
    assert run_grids(paths, out, executor=Inline(out)) == [
        GridResult("first", 1, {ours: "ValueError: broken"}),
        GridResult("second", 2, {ours: "ValueError: broken", longer: "ValueError: broken"}),
    ]


def test_invalid_runs_of_all_grids_are_listed(grids: Grids, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"name": "wrong", "epochs": 0}
    paths, out = grids(first=[LONGER], second=[ATTENTION, wrong], third=[wrong]), tmp_path / "runs"
    executor, read_splits = Inline(out), Mock(side_effect=DataError("broken"))
    monkeypatch.setattr("fresh.experiments.sources.read_splits", read_splits)
    with pytest.raises(ConfigError) as caught:
        run_grids(paths, out, executor=executor)
    assert str(caught.value).splitlines()[:-1] == [
        "1 run of the grid first cannot be done, so none was started:",
        "broken",
        "  toy, longer, seed 0",
        "2 runs of the grid second cannot be done, so none was started:",
        "epochs must be at least 1, got 0.",
        "  toy, wrong, seed 0",
        "broken",
        "  toy, ours, seed 0",
        "1 run of the grid third cannot be done, so none was started:",
        "epochs must be at least 1, got 0.",
        "  toy, wrong, seed 0",
    ]
    assert (read_splits.call_count, out.exists(), executor.n_expected) == (1, False, 0)


def test_errors_of_all_files_are_reported(tmp_path: Path) -> None:
    paths = [tmp_path / "one.toml", tmp_path / "two.toml"]
    for path in paths:
        path.write_text("row = 1\n[[rows]]\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        run_grids(paths, tmp_path / "runs")
    for line, path in zip(str(caught.value).splitlines(), paths, strict=True):
        assert line.startswith(f"In {path}: row is not a part of a grid.")


def test_two_grids_of_one_name_are_refused(grids: Grids, tmp_path: Path) -> None:
    [path] = grids(first=[ATTENTION])
    shutil.copy(path, tmp_path / "other.toml")
    with pytest.raises(ConfigError, match=r"first\.toml and .*other\.toml are both called 'first'"):
        run_grids([path, tmp_path / "other.toml"], tmp_path / "runs")


def test_a_deleted_folder_stops_all(grids: Grids, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [path], perform = grids(main=[ATTENTION, {"method": "random"}]), Worker.perform
    done: list[str] = []

    def delete_then_perform(worker: Worker, task: Task) -> Outcome:
        shutil.rmtree(tmp_path / "runs")
        done.append(str(task))
        return perform(worker, task)

    with monkeypatch.context() as patch:
        patch.setattr(Worker, "perform", delete_then_perform)
        with pytest.raises(StoreDeletedError, match=r"runs was deleted or moved.*the plan of main is missing"):
            run(path)
    assert done == ["toy, support model, seed 0"]
    assert run(path) == GridResult("main", 2, {})


# Processes that are killed, and processes that work on one folder

ROWS = (
    {"name": "ours", "scorer": ["attention", "gradient"], "discretizer": ["top_k", "contiguous"]},
    {"name": "all", "method": "full_text"},
    {"name": "gate", "method": "lei", "discretizer": ["top_k", "contiguous"]},
)
COUNT_WRITES = """
import os, sys
def hook(event, arguments):
    if event == "open" and str(arguments[0]).endswith(("report.json.partial", "scores.npz.partial")):
        with os.fdopen(os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "w") as file:
            file.write(str(arguments[0]) + "\\n")
sys.addaudithook(hook)
"""


@pytest.fixture(scope="module")
def undisturbed(toy: Splits, encoders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grid that ran without an interruption."""
    path = toy_grid(tmp_path_factory.mktemp("undisturbed"), toy, encoders["bert"], *ROWS)
    assert run(path).failures == {}
    return path


def expected_metrics(path: Path) -> dict[str, dict[str, float]]:
    store = RunStore(path.parent / "runs")
    return metrics(store, [item["key"] for item in store.read_plan("grid")["runs"]])


def alive(group: int) -> list[int]:
    """List the processes of a group that are not dead."""
    found: list[int] = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def customize(folder: Path, code: str) -> str:
    """Write code that every Python process runs first that gets this import path."""
    (folder / "sitecustomize.py").write_text(code, encoding="utf-8")
    return os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))


def check_kills(path: Path, out: Path, n_rounds: int, seed: int) -> None:
    """Kill all processes of a grid at random moments, check what they leave each time, and let it finish."""
    whole, chance, seen = expected_metrics(path), np.random.default_rng(seed), dict[str, int]()
    for _ in range(n_rounds):
        if len(seen) == len(whole):
            shutil.rmtree(out)
            seen = {}
        plans = out / "plans/grid.json"
        before = plans.stat().st_mtime_ns if plans.exists() else None
        process = start(path, out, "--workers", "2")
        try:
            until(lambda: plans.exists() and plans.stat().st_mtime_ns != before, 120)  # noqa: B023 - called at once
            time.sleep(chance.uniform(0, 5))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        now = reports(out)
        assert {key: now.get(key) for key in seen} == seen
        assert metrics(RunStore(out), list(now)) == {key: whole[key] for key in now}
        seen = now
    assert run_grid(path, out, executor=Inline(out)).failures == {}
    assert metrics(RunStore(out), list(whole)) == whole
    assert {key: reports(out)[key] for key in seen} == seen


def test_a_killed_run_never_looks_finished(undisturbed: Path, tmp_path: Path) -> None:
    check_kills(undisturbed, tmp_path / "runs", 1, seed=0)


@pytest.mark.slow
def test_killed_at_random_fifty_times(grid: Writer, tmp_path: Path) -> None:
    path = grid(*ROWS, grid={"seed": [0, 1]})
    assert run(path).failures == {}
    check_kills(path, tmp_path / "killed", 50, seed=1)


def test_two_processes_do_not_repeat_each_others_work(undisturbed: Path, tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "runs"
    path = customize(tmp_path, COUNT_WRITES.format(log=str(log)))
    both = [start(undisturbed, out, "--workers", "1", PYTHONPATH=path) for _ in range(2)]
    for process in both:
        said, _ = process.communicate()
        assert (process.returncode, said.startswith("7 of 7 runs done.")) == (0, True)
    written = Counter(log.read_text(encoding="utf-8").splitlines())
    assert len(written) == 7 + 2
    assert set(written.values()) == {1}
    whole = expected_metrics(undisturbed)
    assert metrics(RunStore(out), list(whole)) == whole


def test_an_interrupt_leaves_no_process_behind_and_can_be_resumed(
    grid: Writer, tmp_path: Path, store: RunStore
) -> None:
    endless = grid({"method": "lei", "epochs": 99999, "patience": 99999})
    often = customize(tmp_path, "import fresh.experiments.worker\nfresh.experiments.worker.CHECKPOINT_SECONDS = 0.5\n")
    process = start(endless, tmp_path / "runs", "--workers", "1", PYTHONPATH=often)
    gate, _ = plan(read_grid(endless), None, RunStore(tmp_path / "planned"))
    state = store.shared_folder(gate.key) / "lei.safetensors"
    until(state.is_file, 120)
    os.killpg(process.pid, signal.SIGINT)
    said, errors = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "")
    assert "Traceback" not in errors
    assert errors.splitlines()[-1].startswith("Interrupted.")
    until(lambda: not alive(process.pid), 5)
    assert reports(tmp_path / "runs") == {}
    before, n_before = state.stat().st_mtime_ns, n_epochs(state)
    process = start(endless, tmp_path / "runs", "--workers", "1", PYTHONPATH=often)
    until(lambda: state.stat().st_mtime_ns != before, 120)
    os.kill(process.pid, signal.SIGKILL)  # not the workers, which must notice
    process.communicate()
    until(lambda: not alive(process.pid), 5)
    assert n_epochs(state) > n_before >= 1


def n_epochs(state: Path) -> int:
    """Count the epochs that a checkpoint has behind it."""
    with safe_open(state, "np") as file:
        return len(json.loads(file.metadata()["scores"]))

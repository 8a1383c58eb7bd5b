from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import fresh.experiments.artifacts
import fresh.experiments.worker
import fresh.training.loop
from experiments import figures, keys, reports, run, run_keys, tasks_of, toy_grid
from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.experiments.artifacts import read_scores, support_of
from fresh.experiments.run import _Done
from fresh.experiments.store import RunStore
from fresh.experiments.worker import Worker
from fresh.methods.config import FreshConfig
from fresh.predictor import Predictor
from fresh.training.checkpoint import BestState
from training_hooks import list_epochs

pytestmark = pytest.mark.filterwarnings("ignore:The gate has collapsed")  # for want of epochs
TWO = ({"scorer": "attention", "discretizer": ["top_k", "contiguous"]},)


@pytest.fixture
def grid(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> Callable[..., Path]:
    """Write a grid over a toy corpus."""
    return lambda *rows, **parts: toy_grid(tmp_path, toy, encoders["bert"], *rows, **parts)


@pytest.fixture
def epochs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List whatever network is trained for an epoch."""
    return list_epochs(monkeypatch)


def test_what_is_done_is_never_done_again(grid: Callable[..., Path], tmp_path: Path, epochs: list[str]) -> None:
    path = grid(*TWO)
    assert run(path) == _Done("grid", 2, {})
    before, n_epochs = reports(tmp_path / "runs"), len(epochs)
    assert epochs == ["support model"] * 2 + ["predictor"] * 4
    assert run(path) == _Done("grid", 2, {})
    more = grid(*TWO, {"scorer": "gradient"})
    assert run(more).n_runs == 3
    assert epochs[n_epochs:] == ["predictor"] * 2
    after = reports(tmp_path / "runs")
    assert {key: after[key] for key in before} == before
    assert len(after) == 3


@pytest.mark.parametrize("at_once", [True, False])
def test_a_gate_is_kept_until_it_has_been_cut_in_all_ways(
    at_once: bool, grid: Callable[..., Path], tmp_path: Path, epochs: list[str]
) -> None:
    runs, ways = RunStore(tmp_path / "runs"), ["contiguous", "top_k"]
    if not at_once:
        run(grid({"method": "lei", "discretizer": "contiguous"}))
        assert len(list((runs.path / "shared").glob("gate-*/**/*.safetensors"))) == 2
    path = grid({"method": "lei", "discretizer": ways})
    assert run(path) == _Done("grid", 2, {})
    assert epochs == ["lei"] * 2
    assert list((runs.path / "shared").glob("gate-*")) == []
    before = reports(runs.path)
    worker = Worker(runs, None)
    for task in tasks_of(path):  # as somebody does them who planned before others were done
        assert worker.perform(task).status == "done"
    assert run(path) == _Done("grid", 2, {})
    assert epochs == ["lei"] * 2
    assert reports(runs.path) == before


def test_a_gate_is_removed_though_the_worker_was_killed_that_should_have(
    grid: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epochs: list[str]
) -> None:
    shared, path = tmp_path / "runs" / "shared", grid({"method": "lei", "discretizer": ["contiguous", "top_k"]})
    with monkeypatch.context() as patch:
        patch.setattr(fresh.experiments.artifacts, "remove_folder", lambda _folder: None)
        run(path)
    [left] = shared.glob("gate-*")
    with RunStore(tmp_path / "runs").claimed(left.name):  # somebody is at it
        run(path)
    assert left.exists()
    run(path)
    assert list(shared.glob("gate-*")) == []
    assert epochs == ["lei"] * 2


def test_a_gate_that_somebody_is_at_is_not_removed_under_them(grid: Callable[..., Path], tmp_path: Path) -> None:
    runs = RunStore(tmp_path / "runs")
    run(grid({"method": "lei", "discretizer": "contiguous"}))
    [left] = (runs.path / "shared").glob("gate-*")
    worker = Worker(runs, None)
    [last] = [
        task
        for task in tasks_of(grid({"method": "lei", "discretizer": ["contiguous", "top_k"]}))
        if task.kind == "run" and runs.report(task.key) is None
    ]
    with runs.claimed(left.name):
        assert worker.perform(last).status == "done"
    assert left.exists()


def test_a_run_that_was_broken_off_goes_on(
    grid: Callable[..., Path], tmp_path: Path, epochs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = grid({"scorer": "attention"}, {"method": "lei"}, settings={"epochs": 3, "dropout": 0.3})
    run(path, "unbroken")
    expected, whole = figures(RunStore(tmp_path / "unbroken"), run_keys(path)), list(epochs)
    monkeypatch.setattr(fresh.experiments.worker, "KEPT_EVERY", 0.0)
    for stop in (2, 4, 7):
        epochs.clear()
        for left in (stop, None):
            with monkeypatch.context() as patch:
                if left is not None:
                    patch.setattr(BestState, "add", broken_after(left))
                    with pytest.raises(KeyboardInterrupt):
                        run(path, f"broken{stop}")
                else:
                    run(path, f"broken{stop}")
        assert figures(RunStore(tmp_path / f"broken{stop}"), run_keys(path)) == expected
        assert epochs == whole


def broken_after(n_epochs: int) -> Callable[..., None]:
    """Make an epoch that is interrupted, after some that are not."""
    add, count = BestState.add, iter(range(n_epochs))

    def interrupted(*given: Any) -> None:
        if next(count, None) is None:
            raise KeyboardInterrupt
        add(*given)

    return interrupted


def test_a_run_that_fails_stays_listed_and_the_rest_goes_on(
    grid: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = grid({"name": "ours", "scorer": "attention"}, {"method": "full_text"})
    with monkeypatch.context() as patch:
        patch.setattr(fresh.experiments.worker, "read_scores", failing(2))
        done = run(path)
    told = {"toy, ours, seed 0": "RuntimeError: not this time"}
    assert done == _Done("grid", 2, told)
    assert run(path) == _Done("grid", 2, told)
    runs, key = RunStore(tmp_path / "runs"), keys(path)["toy, ours, seed 0"]
    assert runs.failure(key) == "RuntimeError: not this time"
    assert "read_scores" in (runs.of(key) / "failed.json").read_text(encoding="utf-8")
    assert run(path, retry=True) == _Done("grid", 2, {})
    assert runs.failure(key) is None


def failing(when: int) -> Callable[..., Any]:
    """Make the reading of scores fail the n-th time."""
    count = iter(range(1, 99))

    def maybe(*given: Any) -> Any:
        if next(count) == when:
            raise RuntimeError("not this time")
        return read_scores(*given)

    return maybe


def test_a_support_model_that_fails_takes_its_runs_with_it(
    grid: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def support_of(*_given: Any) -> None:
        raise RuntimeError("no support")

    monkeypatch.setattr(fresh.experiments.worker, "support_of", support_of)
    done = run(grid({"name": "ours", "scorer": "attention"}, {"method": "random"}))
    assert done.failures == {"toy, ours, seed 0": "toy, support model, seed 0: RuntimeError: no support"}


def test_nobody_waits_for_what_somebody_else_is_at(grid: Callable[..., Path], tmp_path: Path) -> None:
    [task] = tasks_of(grid({"method": "random"}))
    worker = Worker(RunStore(tmp_path / "runs"), None)
    with RunStore(tmp_path / "runs").claimed(task.key):
        assert worker.perform(task).status == "busy"
    first = worker.perform(task)
    assert (first.status, first.seconds > 0) == ("done", True)
    again = worker.perform(task)
    assert (again.status, again.seconds) == ("done", 0.0)


def test_what_was_noted_of_a_support_model_stands_in_the_reports_that_rely_on_it(
    grid: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def noting(splits: Splits, config: FreshConfig, context: fresh.training.loop.RunContext) -> SupportModel:
        context.notes.append("training diverged")
        return support_of(splits, config, context)

    monkeypatch.setattr(fresh.experiments.worker, "support_of", noting)
    path = grid(*TWO, {"method": "full_text"}, settings={"epochs": 1})
    assert run(path).failures == {}
    reports = [RunStore(tmp_path / "runs").report(key) or {} for key in run_keys(path)]
    assert [report["notes"] for report in reports] == [["training diverged"], ["training diverged"], []]


def test_equal_runs_compare_equal_but_for_their_times(grid: Callable[..., Path], tmp_path: Path) -> None:
    path = grid({"scorer": "attention"}, {"method": "full_text"}, settings={"epochs": 1})
    for out in ("runs", "again"):
        assert run(path, out).failures == {}
    for key in run_keys(path):
        one, other = (RunStore(tmp_path / out).report(key) or {} for out in ("runs", "again"))
        times = {"seconds", "shared seconds", "explain seconds", "finished"}
        assert one.pop("times").keys() == other.pop("times").keys() == times
        assert one == other


def test_only_what_is_made_of_whole_documents_is_kept_for_other_tasks(
    grid: Callable[..., Path], tmp_path: Path
) -> None:
    path = grid({"scorer": "attention"}, {"method": "full_text"}, settings={"epochs": 1, "layers": 1})
    support, scores, ours, full = tasks_of(path)
    worker = Worker(RunStore(tmp_path / "runs"), None)
    assert worker.perform(support).status == "done"
    assert worker.feature_store is not None
    held = set(worker.feature_store[1]._in_memory)
    assert len(held) == 2  # train and dev
    for task in (scores, ours, full):
        assert worker.perform(task).status == "done"
        assert set(worker.feature_store[1]._in_memory) == held


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_a_grid_tests_with_the_numbers_it_trains_with(
    precision: str, grid: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    plain = Predictor.predict

    def predict(self: Predictor, *given: Any) -> Any:
        seen.append(torch.is_autocast_enabled("cpu"))
        return plain(self, *given)

    monkeypatch.setattr(Predictor, "predict", predict)
    rows = ({"scorer": "attention"}, {"scorer": "attention", "reads": "complement"}, {"method": "full_text"})
    assert run(grid(*rows, settings={"precision": precision})).failures == {}
    assert set(seen) == {precision == "bf16"}
    assert len(seen) >= 2 * len(rows)

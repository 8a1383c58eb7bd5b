import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fresh.experiments.store
from experiments import figures, keys, reports, run, run_keys, tasks_of, toy_grid, write_toy
from fresh.data.splits import Splits
from fresh.experiments.plan import Task
from fresh.experiments.run import _Done
from fresh.experiments.store import RunStore, _GoneError
from fresh.experiments.worker import Outcome, Worker

ROOM = ". Free some space on that disk."


@pytest.fixture
def grid(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> Callable[..., Path]:
    """Write a grid over a toy corpus."""
    return lambda *rows, **parts: toy_grid(tmp_path, toy, encoders["bert"], *rows, **parts)


@pytest.mark.parametrize("n_bytes", [0, 10, 1000, -50, -1])
def test_scores_that_are_damaged_are_made_again(n_bytes: int, grid: Callable[..., Path], tmp_path: Path) -> None:
    path = grid({"scorer": "attention"})
    run(path, "whole")
    names = keys(path)
    for task in tasks_of(path)[:2]:
        Worker(RunStore(tmp_path / "runs"), None).perform(task)
    place = RunStore(tmp_path / "runs").shared(names["toy, scores of attention, seed 0"]) / "scores.npz"
    whole = place.read_bytes()
    place.write_bytes(whole[:n_bytes])
    assert run(path).failures == {}
    assert place.read_bytes()[:4] == b"PK\x03\x04"
    assert np.load(place)["notes"].tolist() == []
    run_key = [names["toy, fresh, attention, seed 0"]]
    assert figures(RunStore(tmp_path / "runs"), run_key) == figures(RunStore(tmp_path / "whole"), run_key)


def test_scores_of_other_documents_are_not_taken(grid: Callable[..., Path], tmp_path: Path) -> None:
    path = grid({"scorer": "attention"})
    [_, scores, run_task] = tasks_of(path)
    worker = Worker(RunStore(tmp_path / "runs"), None)
    assert [worker.perform(task).status for task in tasks_of(path)[:2]] == ["done", "done"]
    place = RunStore(tmp_path / "runs").shared(scores.key) / "scores.npz"
    with np.load(place) as arrays:
        np.savez(place, **{**arrays, "test scores": arrays["test scores"][1:]})
    outcome = worker.perform(run_task)
    told = "ValueError: The scores that it needs are missing or damaged. Try again what failed: retry=True."
    assert (outcome.status, outcome.error) == ("failed", told)
    assert run(path, retry=True).failures == {}


def test_a_damaged_state_of_a_support_model_is_called_so(grid: Callable[..., Path], tmp_path: Path) -> None:
    path = grid({"scorer": "attention"})
    [support, *_] = tasks_of(path)
    Worker(RunStore(tmp_path / "runs"), None).perform(support)
    [state] = RunStore(tmp_path / "runs").shared(support.key).glob("*.safetensors")
    state.write_bytes(state.read_bytes()[:100])
    [told] = run(path).failures.values()
    assert told.startswith(f"toy, support model, seed 0: ValueError: The state kept in {state} is damaged: ")
    assert told.endswith("Delete the file to begin anew.")
    state.unlink()
    assert run(path, retry=True).failures == {}


def test_a_damaged_report_is_made_again(grid: Callable[..., Path], tmp_path: Path) -> None:
    path = grid({"method": "full_text"})
    run(path)
    [key] = run_keys(path)
    report = RunStore(tmp_path / "runs").of(key) / "report.json"
    before = figures(RunStore(tmp_path / "runs"), [key])
    no_figures = b'{"version": 1, "figures": {}}'
    for damaged in (report.read_bytes()[:-20], no_figures, no_figures.replace(b"{}", b'{"macro-F1": "high"}')):
        report.write_bytes(damaged)
        assert run(path) == _Done("grid", 1, {})
        assert figures(RunStore(tmp_path / "runs"), [key]) == before


def test_a_folder_that_is_deleted_meanwhile_ends_it_all(
    grid: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, perform = grid({"scorer": "attention"}, {"method": "random"}, name="main"), Worker.perform
    done: list[str] = []

    def delete_then_perform(worker: Worker, task: Task) -> Outcome:
        shutil.rmtree(tmp_path / "runs")
        done.append(str(task))
        return perform(worker, task)

    monkeypatch.setattr(Worker, "perform", delete_then_perform)
    with pytest.raises(_GoneError) as caught:
        run(path)
    assert str(caught.value) == (
        f"{tmp_path / 'runs'} was deleted, or moved, while runs were being done: the plan of main is not there any "
        "more. What was under way is broken off. Give the same command again to begin anew."
    )
    assert done == ["toy, support model, seed 0"]
    monkeypatch.undo()
    assert run(path) == _Done("main", 2, {})


def test_a_full_disk_is_told_and_leaves_no_run_that_looks_done(
    grid: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = grid({"name": "ours", "method": "random"})
    [task] = tasks_of(path)

    def full(place: Path, _text: str) -> None:
        place.with_name(f"{place.name}.partial").write_text('{"ver', encoding="utf-8")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    worker = Worker(RunStore(tmp_path / "runs"), None)
    monkeypatch.setattr(fresh.experiments.store, "write_text", full)
    outcome = worker.perform(task)
    assert (outcome.status, outcome.error) == ("failed", f"OSError: [Errno 28] No space left on device{ROOM}")
    assert reports(tmp_path / "runs") == {}
    monkeypatch.undo()
    assert run(path) == _Done("grid", 1, {})


def test_data_that_changes_in_the_middle_is_noticed(grid: Callable[..., Path], toy: Splits, tmp_path: Path) -> None:
    tasks = tasks_of(grid({"scorer": "attention"}))
    write_toy(tmp_path / "toy", toy, 40)
    for task in tasks:
        outcome = Worker(RunStore(tmp_path / "runs"), None).perform(task)
        assert (
            outcome.error
            == "DataError: The data of toy or its encoder has changed since the experiment began. Begin it again."
        )

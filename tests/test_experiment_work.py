import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fresh.experiment.folder
import fresh.experiment.work
import fresh.training
import small
from experiments import Inline, figures, reports, toy_grid, write_toy
from fresh.data import Splits
from fresh.document import Document, Example
from fresh.experiment.experiment import Done, run_grid
from fresh.experiment.folder import Runs
from fresh.experiment.grid_file import read_grid
from fresh.experiment.plan import Task, plan
from fresh.experiment.work import Worker
from fresh.progress import SILENT
from fresh.recipe import train

pytestmark = pytest.mark.filterwarnings("ignore:The gate has collapsed")  # for want of epochs
TWO = ({"scorer": "attention", "discretizer": ["top_k", "contiguous"]},)


@pytest.fixture
def grid(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> Callable[..., Path]:
    """Write a grid over a toy corpus."""
    return lambda *rows, **parts: toy_grid(tmp_path, toy, encoders["bert"], *rows, **parts)


def run(path: Path, out: str = "runs", **how: Any) -> Done:
    """Do a grid in this process."""
    return run_grid(path, path.parent / out, engine=Inline(path.parent / out), **how)


def keys(path: Path, out: str = "runs") -> dict[str, str]:
    """Find the keys of all tasks of a grid, by what they are called."""
    return {str(task): task.key for task in tasks_of(path, out)}


def tasks_of(path: Path, out: str = "runs") -> list[Task]:
    return plan(read_grid(path), None, Runs(path.parent / out))


@pytest.fixture
def epochs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List whatever network is trained for an epoch."""
    seen: list[str] = []
    whole = fresh.training.training

    def training(job: fresh.training.Job) -> Any:
        steps = whole(job)
        while True:
            try:
                made, told = next(steps)
            except StopIteration as end:
                return end.value
            if told:
                seen.append(job.watch.name)
            yield made, told

    monkeypatch.setattr(fresh.training, "training", training)
    return seen


ROWS: dict[str, dict[str, Any]] = {
    "attention": {"scorer": "attention"},
    "contiguous": {"scorer": "gradient", "discretizer": "contiguous"},
    "global": {"scorer": "attention_gradient", "discretizer": "global_top_k"},
    "many lengths": {"scorer": "attention", "ratio": "0.1:0.5"},
    "tagger": {"scorer": "attention", "tagger": True, "human": 0.5},
    "folds": {"scorer": "attention", "folds": 2},
    "lei": {"method": "lei"},
    "full_text": {"method": "full_text"},
    "random": {"method": "random"},
    "human": {"method": "human"},
}
FROM_REPORT = {
    "macro-F1": lambda row: row.macro_f1,
    "macro-F1 low": lambda row: row.macro_f1_between[0],
    "macro-F1 high": lambda row: row.macro_f1_between[1],
    "accuracy": lambda row: row.accuracy,
    "kept": lambda row: row.kept,
}


def check_same(path: Path, rows: dict[str, dict[str, Any]], settings: dict[str, Any]) -> list[float]:
    """Check that a grid finds what training with the same settings finds, and return macro-F1 of all rows."""
    assert run(path).failures == {}
    found: list[float] = []
    for name, row in rows.items():
        model = train(str(path.parent / "toy"), audit=False, baseline=False, progress=SILENT, **settings, **row)
        report = small.reported(model.report)
        [own] = [line for line in report.rows if line.own]
        [measured] = figures(
            Runs(path.parent / "runs"), [keys(path)[f"toy, {name}, seed {settings.get('seed', 0)}"]]
        ).values()
        assert {figure: read(own) for figure, read in FROM_REPORT.items()} == {
            figure: measured[figure] for figure in FROM_REPORT
        }, name
        agreement = (
            {} if report.figures is None else {item.name: item.figure.value for item in report.figures.agreement}
        )
        assert {figure: measured.get(figure) for figure in agreement} == agreement, name
        assert measured["unread"] == pytest.approx(report.unread, abs=1e-12), name
        found.append(measured["macro-F1"])
    return found


def test_a_grid_finds_what_training_finds(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> None:
    learning = small.settings(encoders["bert"], epochs=4, seed=3)
    rows = ({"name": name, **row} for name, row in ROWS.items())
    path = toy_grid(tmp_path, toy, encoders["bert"], *rows, settings=learning, corpora={"toy": {"data": "toy"}})
    write_toy(tmp_path / "toy", toy, 96, 32)
    found = check_same(path, ROWS, learning)
    assert len(set(found)) > 3  # it is no wonder that those agree which learnt nothing


def test_a_grid_knows_what_truncating_leaves_unread(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> None:
    long = Splits(*(tuple(map(longer, part[:16])) for part in (toy.train, toy.dev, toy.test)))
    rows = {"ours": {"scorer": "attention", "long": "truncate"}, "tagger": {"distil": True, "long": "truncate"}}
    settings = small.settings(encoders["bert"], epochs=1)
    listed = ({"name": name, **row} for name, row in rows.items())
    path = toy_grid(tmp_path, toy, encoders["bert"], *listed, settings=settings, corpora={"toy": {"data": "toy"}})
    write_toy(tmp_path / "toy", long)
    check_same(path, rows, settings)
    for measured in figures(Runs(tmp_path / "runs"), run_keys(path)).values():
        assert measured["unread"] > 0.1


def longer(example: Example) -> Example:
    """Say it all ten times, which is more than an encoder reads at once."""
    return Example(Document.from_words(example.document.words * 10, (), example.document.id), example.label)


def test_what_is_done_is_never_done_again(grid: Callable[..., Path], tmp_path: Path, epochs: list[str]) -> None:
    path = grid(*TWO)
    assert run(path) == Done("grid", 2, {})
    before, n_epochs = reports(tmp_path / "runs"), len(epochs)
    assert epochs == ["support model"] * 2 + ["predictor"] * 4
    assert run(path) == Done("grid", 2, {})
    more = grid(*TWO, {"scorer": "gradient"})
    assert run(more).n_runs == 3
    assert epochs[n_epochs:] == ["predictor"] * 2
    after = reports(tmp_path / "runs")
    assert {key: after[key] for key in before} == before
    assert len(after) == 3


def test_a_run_that_was_broken_off_goes_on(
    grid: Callable[..., Path], tmp_path: Path, epochs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = grid({"scorer": "attention"}, {"method": "lei"}, settings={"epochs": 3, "dropout": 0.3})
    run(path, "unbroken")
    expected, whole = figures(Runs(tmp_path / "unbroken"), run_keys(path)), list(epochs)
    monkeypatch.setattr(fresh.experiment.work, "KEPT_EVERY", 0.0)
    for stop in (2, 4, 7):
        epochs.clear()
        for left in (stop, None):
            with monkeypatch.context() as patch:
                if left is not None:
                    patch.setattr(fresh.training.Best, "add", broken_after(left))
                    with pytest.raises(KeyboardInterrupt):
                        run(path, f"broken{stop}")
                else:
                    run(path, f"broken{stop}")
        assert figures(Runs(tmp_path / f"broken{stop}"), run_keys(path)) == expected
        assert epochs == whole


def broken_after(n_epochs: int) -> Callable[..., None]:
    """Make an epoch that is interrupted, after some that are not."""
    add, count = fresh.training.Best.add, iter(range(n_epochs))

    def interrupted(*given: Any) -> None:
        if next(count, None) is None:
            raise KeyboardInterrupt
        add(*given)

    return interrupted


def run_keys(path: Path) -> list[str]:
    return [task.key for task in tasks_of(path, "planned") if task.kind == "run"]


def test_a_run_that_fails_stays_listed_and_the_rest_goes_on(
    grid: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = grid({"name": "ours", "scorer": "attention"}, {"method": "full_text"})
    with monkeypatch.context() as patch:
        patch.setattr(fresh.experiment.work, "read_scores", failing(2))
        done = run(path)
    told = {"toy, ours, seed 0": "RuntimeError: not this time"}
    assert done == Done("grid", 2, told)
    assert run(path) == Done("grid", 2, told)
    runs, key = Runs(tmp_path / "runs"), keys(path)["toy, ours, seed 0"]
    assert runs.failure(key) == "RuntimeError: not this time"
    assert "read_scores" in (runs.of(key) / "failed.json").read_text(encoding="utf-8")
    assert run(path, retry=True) == Done("grid", 2, {})
    assert runs.failure(key) is None


def failing(when: int) -> Callable[..., Any]:
    """Make the reading of scores fail the n-th time."""
    read, count = fresh.experiment.work.read_scores, iter(range(1, 99))

    def maybe(*given: Any) -> Any:
        if next(count) == when:
            raise RuntimeError("not this time")
        return read(*given)

    return maybe


def test_a_support_model_that_fails_takes_its_runs_with_it(
    grid: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def support_of(*_given: Any) -> None:
        raise RuntimeError("no support")

    monkeypatch.setattr(fresh.experiment.work, "support_of", support_of)
    done = run(grid({"name": "ours", "scorer": "attention"}, {"method": "full_text"}))
    assert done.failures == {"toy, ours, seed 0": "toy, support model, seed 0: RuntimeError: no support"}


@pytest.mark.parametrize("n_bytes", [0, 10, 1000, -50, -1])
def test_scores_that_are_damaged_are_made_again(n_bytes: int, grid: Callable[..., Path], tmp_path: Path) -> None:
    path = grid({"scorer": "attention"})
    run(path, "whole")
    names = keys(path)
    for task in tasks_of(path)[:2]:
        Worker(Runs(tmp_path / "runs"), None).perform(task)
    place = Runs(tmp_path / "runs").shared(names["toy, scores of attention, seed 0"]) / "scores.npz"
    whole = place.read_bytes()
    place.write_bytes(whole[:n_bytes])
    assert run(path).failures == {}
    assert place.read_bytes()[:4] == b"PK\x03\x04"
    assert np.load(place)["notes"].tolist() == []
    run_key = [names["toy, fresh, attention, seed 0"]]
    assert figures(Runs(tmp_path / "runs"), run_key) == figures(Runs(tmp_path / "whole"), run_key)


def test_scores_of_other_documents_are_not_taken(grid: Callable[..., Path], tmp_path: Path) -> None:
    path = grid({"scorer": "attention"})
    [_, scores, run_task] = tasks_of(path)
    worker = Worker(Runs(tmp_path / "runs"), None)
    assert [worker.perform(task).status for task in tasks_of(path)[:2]] == ["done", "done"]
    place = Runs(tmp_path / "runs").shared(scores.key) / "scores.npz"
    with np.load(place) as arrays:
        np.savez(place, **{**arrays, "test scores": arrays["test scores"][1:]})
    outcome = worker.perform(run_task)
    told = "ValueError: The scores that it needs are missing or damaged. Try again what failed: --retry."
    assert (outcome.status, outcome.error) == ("failed", told)
    assert run(path, retry=True).failures == {}


def test_a_damaged_state_of_a_support_model_is_called_so(grid: Callable[..., Path], tmp_path: Path) -> None:
    path = grid({"scorer": "attention"})
    [support, *_] = tasks_of(path)
    Worker(Runs(tmp_path / "runs"), None).perform(support)
    [state] = Runs(tmp_path / "runs").shared(support.key).glob("*.safetensors")
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
    report = Runs(tmp_path / "runs").of(key) / "report.json"
    before = figures(Runs(tmp_path / "runs"), [key])
    report.write_bytes(report.read_bytes()[:-20])
    assert run(path) == Done("grid", 1, {})
    assert figures(Runs(tmp_path / "runs"), [key]) == before


def test_a_full_disk_is_told_and_leaves_no_run_that_looks_done(
    grid: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = grid({"name": "ours", "method": "full_text"})
    [task] = tasks_of(path)

    def full(place: Path, _text: str) -> None:
        place.with_name(f"{place.name}.partial").write_text('{"ver', encoding="utf-8")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    worker = Worker(Runs(tmp_path / "runs"), None)
    monkeypatch.setattr(fresh.experiment.folder, "write_text", full)
    outcome = worker.perform(task)
    assert (outcome.status, outcome.error) == ("failed", "OSError: [Errno 28] No space left on device")
    assert reports(tmp_path / "runs") == {}
    monkeypatch.undo()
    assert run(path) == Done("grid", 1, {})


def test_data_that_changes_in_the_middle_is_noticed(grid: Callable[..., Path], toy: Splits, tmp_path: Path) -> None:
    tasks = tasks_of(grid({"scorer": "attention"}))
    write_toy(tmp_path / "toy", toy, 40)
    for task in tasks:
        outcome = Worker(Runs(tmp_path / "runs"), None).perform(task)
        assert outcome.error == "DataError: The data of toy has changed since the experiment began. Begin it again."


def test_nobody_waits_for_what_somebody_else_is_at(grid: Callable[..., Path], tmp_path: Path) -> None:
    [task] = tasks_of(grid({"method": "full_text"}))
    worker = Worker(Runs(tmp_path / "runs"), None)
    with Runs(tmp_path / "runs").claimed(task.key):
        assert worker.perform(task).status == "busy"
    first = worker.perform(task)
    assert (first.status, first.seconds > 0) == ("done", True)
    again = worker.perform(task)
    assert (again.status, again.seconds) == ("done", 0.0)

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

import fresh.experiments.worker
import small
from experiments import Writer, full_disk, metrics, read_reports, reports, run, run_keys, tasks_of, write_toy
from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.document import Document, Example
from fresh.experiments.run import GridResult
from fresh.experiments.store import Heartbeat, RunStore
from fresh.experiments.worker import Worker
from fresh.pipeline import train
from fresh.predictor import Predictor
from fresh.progress import SILENT, Advance
from fresh.reporting.report import Row

pytestmark = pytest.mark.filterwarnings("ignore:The gate has collapsed")  # too few epochs
TWO = ({"scorer": "attention", "discretizer": ["top_k", "contiguous"]},)


class Epochs(list[str]):
    """Lists the networks that were trained for an epoch, and may interrupt training."""

    stop_after: int | None = None

    @contextmanager
    def task(self, name: str, _total: int | None) -> Iterator[Advance]:
        def note(_steps: int, text: str) -> None:
            if text.startswith("dev F1"):
                self.append(name)
                if len(self) == self.stop_after:
                    raise KeyboardInterrupt

        yield note


@pytest.fixture
def epochs(monkeypatch: pytest.MonkeyPatch) -> Epochs:
    seen = Epochs()
    monkeypatch.setattr(Heartbeat, "task", lambda _self, *about: seen.task(*about))
    return seen


def test_finished_work_is_never_repeated(grid: Writer, store: RunStore, epochs: Epochs) -> None:
    path = grid(*TWO)
    assert run(path) == GridResult("grid", 2, {})
    before = reports(store.path)
    assert epochs == ["support model"] * 2 + ["predictor"] * 4
    assert run(path) == GridResult("grid", 2, {})
    assert run(grid(*TWO, {"scorer": "gradient"})).n_runs == 3
    assert epochs[6:] == ["predictor"] * 2
    after = reports(store.path)
    assert {key: after[key] for key in before} == before
    assert len(after) == 3


def test_an_interrupted_run_is_resumed(
    grid: Writer, tmp_path: Path, epochs: Epochs, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = grid({"scorer": "attention"}, {"method": "lei"}, settings={"epochs": 3, "dropout": 0.3})
    run(path, "whole")
    expected, whole = metrics(RunStore(tmp_path / "whole"), run_keys(path)), list(epochs)
    monkeypatch.setattr(fresh.experiments.worker, "CHECKPOINT_SECONDS", 0.0)
    for stop in (2, 4, 7):
        epochs.clear()
        epochs.stop_after = stop
        with pytest.raises(KeyboardInterrupt):
            run(path, f"interrupted{stop}")
        epochs.stop_after = None
        run(path, f"interrupted{stop}")
        assert metrics(RunStore(tmp_path / f"interrupted{stop}"), run_keys(path)) == expected
        assert epochs == whole


def test_a_task_of_another_process_is_busy(grid: Writer, store: RunStore, worker: Worker) -> None:
    [task] = tasks_of(grid({"method": "random"}))
    with store.claim(task.key):
        assert worker.perform(task).status == "busy"
    first = worker.perform(task)
    assert (first.status, first.seconds > 0) == ("done", True)
    again = worker.perform(task)
    assert (again.status, again.seconds) == ("done", 0.0)


# Gates, which runs share that cut them differently


@pytest.mark.parametrize("at_once", [True, False])
def test_a_gate_is_kept_until_it_is_cut_in_all_ways(
    at_once: bool, grid: Writer, store: RunStore, epochs: Epochs, worker: Worker
) -> None:
    cuts = ["contiguous", "top_k"]
    if not at_once:
        run(grid({"method": "lei", "discretizer": "contiguous"}))
        assert len(list((store.path / "shared").glob("gate-*/**/*.safetensors"))) == 2
    path = grid({"method": "lei", "discretizer": cuts})
    assert run(path) == GridResult("grid", 2, {})
    assert epochs == ["lei"] * 2
    assert list((store.path / "shared").glob("gate-*")) == []
    before = reports(store.path)
    for task in tasks_of(path):  # as a process does that planned before others did them
        assert worker.perform(task).status == "done"
    assert run(path) == GridResult("grid", 2, {})
    assert (epochs, reports(store.path)) == (["lei"] * 2, before)


def test_a_gate_without_a_worker_is_removed(
    grid: Writer, monkeypatch: pytest.MonkeyPatch, epochs: Epochs, store: RunStore
) -> None:
    shared, path = store.path / "shared", grid({"method": "lei", "discretizer": ["contiguous", "top_k"]})
    with monkeypatch.context() as patch:
        patch.setattr(RunStore, "remove_shared", lambda _store, _key: None)
        run(path)
    [left] = shared.glob("gate-*")
    with store.claim(left.name):  # another process works on it
        run(path)
    assert left.exists()
    run(path)
    assert list(shared.glob("gate-*")) == []
    assert epochs == ["lei"] * 2


def test_a_gate_is_not_removed_while_another_process_uses_it(grid: Writer, store: RunStore, worker: Worker) -> None:
    run(grid({"method": "lei", "discretizer": "contiguous"}))
    [left] = (store.path / "shared").glob("gate-*")
    tasks = tasks_of(grid({"method": "lei", "discretizer": ["contiguous", "top_k"]}))
    [last] = [task for task in tasks if task.kind == "run" and store.read_report(task.key) is None]
    with store.claim(left.name):
        assert worker.perform(last).status == "done"
    assert left.exists()


# Failures


def test_a_failed_run_does_not_stop_others(grid: Writer, store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    path = grid({"name": "ours", "scorer": "attention"}, {"method": "full_text"})
    with monkeypatch.context() as patch:  # the scores are found missing, computed, and cannot be read
        load_scores = Mock(side_effect=[None, RuntimeError("not this time")])
        patch.setattr(fresh.experiments.worker, "load_scores", load_scores)
        result = run(path)
    assert result == GridResult("grid", 2, {"toy, ours, seed 0": "RuntimeError: not this time"})
    assert run(path) == result
    [key, _] = run_keys(path)
    assert store.read_failure(key) == "RuntimeError: not this time"
    assert "load_scores" in (store.run_folder(key) / "failed.json").read_text(encoding="utf-8")
    assert run(path, retry=True) == GridResult("grid", 2, {})
    assert store.read_failure(key) is None


def test_a_full_disk_leaves_no_finished_run(grid: Writer, store: RunStore, worker: Worker) -> None:
    path = grid({"name": "ours", "method": "random"}, settings={"epochs": 1})
    [task] = tasks_of(path)

    with full_disk():
        outcome = worker.perform(task)
    assert outcome.status == "failed"
    assert re.match(r"OSError: .+ cannot be read or written \(No space left on device\)\. ", outcome.error)
    assert "space on that disk" in outcome.error
    assert reports(store.path) == {}
    assert run(path) == GridResult("grid", 1, {})


def test_data_that_changes_during_the_experiment_is_noticed(
    grid: Writer, toy: Splits, tmp_path: Path, worker: Worker
) -> None:
    tasks = tasks_of(grid({"scorer": "attention"}))
    write_toy(tmp_path / "toy", toy, 40)
    for task in tasks:
        outcome = worker.perform(task)
        assert outcome.error.startswith("DataError: The data of toy or its encoder changed during the experiment.")


def test_a_full_gpu_is_no_failure(
    grid: Writer, store: RunStore, monkeypatch: pytest.MonkeyPatch, worker: Worker
) -> None:
    monkeypatch.setattr(fresh.experiments.worker, "measure", Mock(side_effect=torch.OutOfMemoryError("full")))
    [task] = tasks_of(grid({"method": "random"}, settings={"epochs": 1}))
    outcome = worker.perform(task)
    assert (outcome.status, outcome.error, outcome.where[:9]) == ("crowded", "OutOfMemoryError: full", "Traceback")
    assert (worker.feature_store, store.read_failure(task.key)) == (None, None)


# Reports


def test_notes_of_a_support_model_are_reported(grid: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = SupportModel.train

    def note(*about: Any) -> SupportModel:
        about[-1].notes.append("training diverged")
        return plain(*about)

    monkeypatch.setattr(SupportModel, "train", note)
    path = grid(*TWO, {"method": "full_text"}, settings={"epochs": 1})
    assert run(path).failures == {}
    assert [report["notes"] for report in read_reports(path)] == [["training diverged"], ["training diverged"], []]


def test_equal_runs_are_equal_except_for_durations(grid: Writer) -> None:
    path = grid({"scorer": "attention"}, {"method": "full_text"}, settings={"epochs": 1})
    for out in ("runs", "again"):
        assert run(path, out).failures == {}
    times = {"seconds", "shared seconds", "explain seconds", "finished"}
    for one, other in zip(read_reports(path), read_reports(path, "again"), strict=True):
        assert one.pop("times").keys() == other.pop("times").keys() == times
        assert one == other


def test_only_features_of_whole_documents_are_kept_for_other_tasks(grid: Writer, worker: Worker) -> None:
    path = grid({"scorer": "attention"}, {"method": "full_text"}, settings={"epochs": 1, "layers": 1})
    support, scores, ours, full = tasks_of(path)
    assert worker.perform(support).status == "done"
    assert worker.feature_store is not None
    held = set(worker.feature_store[1]._rows)
    assert len(held) == 2  # train and dev
    for task in (scores, ours, full):
        assert worker.perform(task).status == "done"
        assert set(worker.feature_store[1]._rows) == held


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_a_grid_tests_in_the_precision_of_training(
    precision: str, grid: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    plain = Predictor.predict

    def predict(self: Predictor, *arguments: Any) -> Any:
        seen.append(torch.is_autocast_enabled("cpu"))
        return plain(self, *arguments)

    monkeypatch.setattr(Predictor, "predict", predict)
    rows = ({"scorer": "attention"}, {"scorer": "attention", "reads": "complement"}, {"method": "full_text"})
    assert run(grid(*rows, settings={"precision": precision})).failures == {}
    assert set(seen) == {precision == "bf16"}
    assert len(seen) >= 2 * len(rows)


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
FROM_REPORT: dict[str, Callable[[Row], float | None]] = {
    "macro-F1": lambda row: row.macro_f1,
    "macro-F1 low": lambda row: (row.macro_f1_between or (None,))[0],
    "macro-F1 high": lambda row: (row.macro_f1_between or (None,))[-1],
    "accuracy": lambda row: row.accuracy,
    "kept": lambda row: row.kept,
}


def check_same(path: Path, rows: dict[str, dict[str, Any]], settings: dict[str, Any]) -> list[dict[str, float]]:
    """Check that a grid measures what training with the same settings does, and return the metrics of all rows."""
    assert run(path).failures == {}
    found = metrics(RunStore(path.parent / "runs"), run_keys(path))
    for (name, row), measured in zip(rows.items(), found.values(), strict=True):
        model = train(str(path.parent / "toy"), audit=False, baseline=False, progress=SILENT, **settings, **row)
        report = small.reported(model.report)
        [own] = [line for line in report.rows if line.own]
        assert {metric: read(own) for metric, read in FROM_REPORT.items()} == {
            metric: measured[metric] for metric in FROM_REPORT
        }, name
        for item in () if report.figures is None else report.figures.agreement:
            assert measured[item.name] == item.figure.value, name
        assert measured["unread"] == pytest.approx(report.unread, abs=1e-12), name
    return list(found.values())


def test_a_grid_measures_what_training_does(
    grid: Writer, toy: Splits, encoders: dict[str, Path], tmp_path: Path
) -> None:
    settings = small.settings(encoders["bert"], epochs=4, seed=3)
    rows = ({"name": name, **row} for name, row in ROWS.items())
    path = grid(*rows, settings=settings, corpora={"toy": {"data": "toy"}})
    write_toy(tmp_path / "toy", toy, 96, 32)
    measured = check_same(path, ROWS, settings)
    assert len({row["macro-F1"] for row in measured}) > 3  # models that learned nothing would agree too easily


def test_an_audited_grid_trains_one_reader_and_measures_what_an_audit_does(
    grid: Writer, toy: Splits, encoders: dict[str, Path], tmp_path: Path, epochs: Epochs
) -> None:
    settings = small.settings(encoders["bert"], epochs=4)
    rows = (
        {"name": "gradient", "scorer": "gradient", "seed": [0, 1]},
        {"name": "attention", "scorer": "attention"},
        {"name": "lei", "method": "lei"},
        {"name": "independent", "scorer": "gradient", "predictor": "independent", "seed": [0, 1]},
    )
    write_toy(tmp_path / "toy", toy, 96, 32)
    corpora = {"toy": {"data": "toy"}}
    plain = run_keys(grid(*rows[:1], {"method": "full_text"}, settings=settings, corpora=corpora))
    path = grid(*rows[:1], {"method": "full_text"}, settings={**settings, "audit": True}, corpora=corpora)
    # Reports of the same runs without an audit have fewer measures, where an audit adds some.
    assert [key in plain for key in run_keys(path)] == [False, False, True]
    path = grid(*rows, settings={**settings, "audit": True}, corpora=corpora)
    assert run(path).failures == {}
    # The reader of seed 0 judges all others, and is the predictor of a run.
    assert epochs.count("independent reader") == 2 * settings["epochs"]
    store = RunStore(tmp_path / "runs")
    gradient, _, attention, lei, independent, _ = metrics(store, run_keys(path)).values()
    assert {"reader macro-F1", "reader agreement"} <= attention.keys() & lei.keys()
    assert "accuracy (runner-up)" not in attention.keys() | lei.keys()
    assert "reader macro-F1" not in independent  # it is one itself
    assert independent["macro-F1"] == gradient["reader macro-F1"]
    given = {**settings, "seed": 0, "audit": True, "progress": SILENT}
    report = small.reported(train(str(tmp_path / "toy"), scorer="gradient", **given).report)
    [row] = [row for row in report.rows if row.name == "independent reader"]
    assert row.macro_f1 == gradient["reader macro-F1"]
    [verdict] = [item for item in report.verdicts if item.name == "target class"]
    for name in ("runner-up", "random class"):
        [line] = [line for line in verdict.evidence if re.match(rf"Words for \w+ {name}: ", line)]
        assert f"accuracy {gradient[f'accuracy ({name})']:.3f}, " in line


def test_a_grid_measures_unread_words(grid: Writer, toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> None:
    def longer(example: Example) -> Example:
        return Example(Document.from_words(example.document.words * 10, (), example.document.id), example.label)

    rows: dict[str, dict[str, Any]] = {
        "ours": {"scorer": "attention", "long": "truncate"},
        "tagger": {"distil": True, "long": "truncate"},
    }
    settings = small.settings(encoders["bert"], epochs=1)
    named = ({"name": name, **row} for name, row in rows.items())
    path = grid(*named, settings=settings, corpora={"toy": {"data": "toy"}})
    write_toy(tmp_path / "toy", Splits(*(tuple(map(longer, part[:16])) for part in (toy.train, toy.dev, toy.test))))
    assert all(row["unread"] > 0.1 for row in check_same(path, rows, settings))

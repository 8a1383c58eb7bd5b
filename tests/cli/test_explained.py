import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

import small
from fresh.attribution.support_model import SupportModel
from fresh.cli.main import main
from fresh.data.splits import Splits
from fresh.predictor import Predictor
from fresh.progress import Advance, Terminal
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK

CPU = ("--device", "cpu")


@pytest.fixture(scope="module")
def place(support: SupportModel, predictor: Predictor, toy: Splits, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, its data without labels, and what was explained earlier."""
    folder = tmp_path_factory.mktemp("explained")
    small.rationalizer(support, predictor, TopK(0.2), "attention").save_pretrained(folder / "model")
    table = [{"name": item.document.id, "review": item.document.text} for item in (*toy.train, *toy.test)]
    table[3]["review"] = "film " * 100_000
    data = small.write_csv(folder / "data.csv", table)
    columns = ("--text", "review", "--id", "name", "--skip-bad")
    output = ("--output", str(folder / "explained.jsonl"))
    assert main(["explain", str(folder / "model"), "--input", str(data), *columns, *output, *CPU]) == 0
    return folder


def audit(place: Path, *options: str, data: str = "data.csv", explained: str = "explained.jsonl") -> int:
    columns = ("--text", "review", "--id", "name", "--skip-bad")
    files = (str(place / data), "--explained", str(place / explained))
    return main(["audit", str(place / "model"), *files, *columns, *options, *CPU])


def test_what_was_saved_is_replayed_to_the_bit(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(place, "--json", str(tmp_path / "audit.json")) == 0
    n_lines = len((place / "explained.jsonl").read_text(encoding="utf-8").splitlines())
    assert n_lines > 256
    shown = capsys.readouterr()
    assert f"holds replay: All {n_lines} saved predictions" in shown.out
    assert "equal those in the file, bit for bit.\n" in shown.out
    assert "leave --explained out to run them.\n\nNothing is broken.\n" in shown.out
    assert "Left out 1 of " in shown.err
    [verdict] = json.loads((tmp_path / "audit.json").read_text(encoding="utf-8"))["verdicts"]
    assert (verdict["name"], verdict["found"]) == ("replay", "holds")


def test_a_bar_is_shown_from_the_first_batch_on(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    real_task, real_explain = Terminal.task, Rationalizer.explain

    def task(terminal: Terminal, name: str, total: int | None) -> AbstractContextManager[Advance]:
        order.append(f"{name}, {total}")
        return real_task(terminal, name, total)

    def explain(model: Rationalizer, *given: Any, **named: Any) -> Any:
        order.append("a batch")
        return real_explain(model, *given, **named)

    monkeypatch.setattr(Terminal, "task", task)
    monkeypatch.setattr(Rationalizer, "explain", explain)
    data = small.write_csv(tmp_path / "data.csv", [{"text": "a good film"}, {"text": "an awful story"}])
    output = ("--output", str(tmp_path / "out.jsonl"))
    assert main(["explain", str(place / "model"), "--input", str(data), *output, *CPU]) == 0
    assert order == ["explaining, 2", "a batch"]


def test_a_changed_file_has_the_status_of_a_broken_one(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (place / "explained.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    record = json.loads(lines[9])
    record["probabilities"]["pos"] = record["probability"] = 0.625
    (tmp_path / "changed.jsonl").write_text("".join([*lines[:9], json.dumps(record) + "\n", *lines[10:]]))
    assert audit(place, explained=str(tmp_path / "changed.jsonl")) == 3
    assert f"line 10, document {record['id']!r}: the probability of 'pos' is 0.625" in capsys.readouterr().out


def test_a_file_of_something_else_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(place, explained="data.csv") == 1
    assert "data.csv, line 1: broken JSON" in capsys.readouterr().err
    assert audit(place, "--text", "words") == 1
    assert "data.csv has no column 'words' for the text" in capsys.readouterr().err

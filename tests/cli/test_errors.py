import json
import re
from pathlib import Path
from typing import Any

import pytest

import fresh.pipeline
import fresh.rationalizer
import small
from fresh.cli.main import main
from fresh.data.splits import Splits
from fresh.rationalizer import Rationalizer
from training_hooks import interrupt_training

CPU = ("--device", "cpu")
MEND = "Fix the row, or leave such rows out with --skip-bad."
GOOD = [{"text": f"a {word} film of {n}", "label": word} for n in range(6) for word in ("good", "bad")]


def test_an_unknown_device(saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", saved, "a film", "--device", "cud"]) == 1
    shown = capsys.readouterr().err
    assert re.fullmatch(r"fresh explain: device 'cud' cannot be used here: .*\. Try --device auto\.\n", shown)


def test_training_on_an_unknown_device_leaves_nothing(
    encoders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(small.write_jsonl(tmp_path / "reviews.jsonl", GOOD))
    options = small.options(encoders["bert"], device="cud")
    assert main(["train", data, "--out", str(tmp_path / "model"), *options]) == 1
    assert "fresh train: device 'cud' cannot be used here: " in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["reviews.jsonl"]


@pytest.fixture
def in_groups_of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Explain three documents at a time."""
    real = Rationalizer.explain_stream
    monkeypatch.setattr(
        Rationalizer, "explain_stream", lambda self, documents, **named: real(self, documents, 3, **named)
    )


@pytest.mark.usefixtures("in_groups_of_three")
def test_a_bad_row_in_the_middle_leaves_whole_lines(
    saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = small.write_jsonl(tmp_path / "in.jsonl", [*GOOD[:7], {"text": None}, *GOOD])
    target = tmp_path / "out.jsonl"
    assert main(["explain", saved, "--input", str(source), "--output", str(target), *CPU]) == 1
    found = [json.loads(line)["id"] for line in target.read_text(encoding="utf-8").splitlines()]
    assert found == [f"in-{number}" for number in range(1, 8)]
    *_, last = capsys.readouterr().err.splitlines()
    reason = f"fresh explain: in.jsonl, line 8: the text has no words. {MEND}"
    assert last == f"{reason} (7 texts before it are explained and written.)"


@pytest.mark.usefixtures("in_groups_of_three")
def test_explaining_can_be_interrupted(
    saved: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, calls = Rationalizer.explain, iter(range(2))

    def explain(self: Rationalizer, *arguments: Any, **named: Any) -> Any:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return real(self, *arguments, **named)

    monkeypatch.setattr(Rationalizer, "explain", explain)
    source = small.write_jsonl(tmp_path / "in.jsonl", GOOD)
    assert main(["explain", saved, "--input", str(source), *CPU]) == 130
    shown = capsys.readouterr()
    assert [json.loads(line)["id"] for line in shown.out.splitlines()] == [f"in-{number}" for number in range(1, 7)]
    assert shown.err == "\nInterrupted. 6 texts are explained; the output is valid.\n"


def test_training_can_be_interrupted(
    toy: Splits,
    encoders: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    interrupt_training(monkeypatch, epochs=1)
    monkeypatch.setattr(fresh.pipeline, "CHECKPOINT_SECONDS", 0)
    data = str(small.write_jsonl(tmp_path / "reviews.jsonl", GOOD))
    assert main(["train", data, "--out", str(tmp_path / "model"), *small.options(encoders["bert"])]) == 130
    assert re.search(
        r"\nInterrupted\. Checkpoints: support model: 1 epochs, best dev macro-F1 \d\.\d{3}\. To resume, repeat the "
        r"same command, or give fewer --epochs to finish with those that are done\.\n$",
        capsys.readouterr().err,
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.partial", "reviews.jsonl"]


def test_evaluating_can_be_interrupted(
    saved: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def explain(*_arguments: Any, **_named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Rationalizer, "explain", explain)
    rows = [{"text": "a film", "label": "pos"}]
    assert main(["evaluate", saved, str(small.write_jsonl(tmp_path / "in.jsonl", rows)), *CPU]) == 130
    assert capsys.readouterr().err.endswith("\nInterrupted.\n")

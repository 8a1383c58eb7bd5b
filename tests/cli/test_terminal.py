"""What a terminal shows: nothing in the data controls it, and progress bars know where they end."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import small
from command import Command
from fresh.cli.main import main
from fresh.data.examples import BadRows
from fresh.document import Document, Example, Explanation, Mask
from fresh.evaluation.warnings import data_warnings
from fresh.progress import Advance, Terminal
from fresh.rationale import Prediction
from fresh.rationalizer import Rationalizer
from fresh.reporting.console import show_curve, show_explanation, show_report
from fresh.reporting.report import Report, Row
from fresh.selection.extractors import Curve

EVIL = "po\x1b[31ms\x07\u202e"
HARMLESS = "po␛[31ms␇�"


def is_harmless(shown: str) -> bool:
    return HARMLESS in shown and not any(sign in shown for sign in "\x1b\x07\u202e")


def test_labels_cannot_control_the_terminal(model: Rationalizer, capsys: pytest.CaptureFixture[str]) -> None:
    document = Document.from_text("a good film")
    answer = Explanation(document, Mask.full(3), document.cut(Mask.full(3)), Prediction(EVIL, {EVIL: 1.0}))
    report = Report(1, (Row("own", 1.0, 1.0, 1.0),), notes=(f"All are {EVIL}.",))
    shows: list[tuple[Any, ...]] = [
        (show_explanation, answer, EVIL),
        (show_curve, Curve((answer,))),
        (show_report, report),
    ]
    for show, *arguments in shows:
        shown = StringIO()
        show(Console(file=shown, width=200), *arguments)
        assert is_harmless(shown.getvalue())
    Terminal().say(f"Classes: {EVIL}")
    assert is_harmless(capsys.readouterr().err)
    assert is_harmless(BadRows(1, 2, [EVIL]).summary())
    [warning, *_] = data_warnings(model, [Example(Document.from_text("a film"), EVIL)])
    assert "\x1b" not in warning
    assert "\u202e" not in warning


def test_errors_cannot_control_the_terminal(
    saved: str, command: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = str(small.write_csv(Path("data.csv"), [{EVIL: "a", "label": "pos"}]))
    assert is_harmless(command("evaluate", saved, data, status=1).err)
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    with pytest.raises(SystemExit):
        main(["evaluate", "--help"])
    assert warnings.formatwarning(EVIL, UserWarning, "", 1) == f"Warning: {HARMLESS}\n"
    with pytest.raises(SystemExit):
        main(["evaluate", saved, data, f"--{EVIL}"])
    assert is_harmless(capsys.readouterr().err)


@pytest.mark.parametrize(("name", "total"), [("data.csv", 3), ("data.jsonl", 3), ("-", None)])
def test_the_progress_bar_starts_before_the_first_batch_and_knows_its_end(
    name: str, total: int | None, saved: str, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    rows = [{"text": "a good\nfilm", "label": "pos"}] * 3
    small.write_csv(Path("data.csv"), rows)
    small.write_jsonl(Path("data.jsonl"), rows)
    order: list[object] = []
    real = Rationalizer.explain

    @contextmanager
    def task(_self: Terminal, _name: str, given: int | None) -> Iterator[Advance]:
        order.append(given)
        yield lambda _steps, _note: None

    def explain(model: Rationalizer, *given: Any, **named: Any) -> Any:
        order.append("a batch")
        return real(model, *given, **named)

    monkeypatch.setattr(Terminal, "task", task)
    monkeypatch.setattr(Rationalizer, "explain", explain)
    with Path("data.jsonl").open() as lines:
        monkeypatch.setattr(sys, "stdin", lines)
        command("explain", saved, "--input", name, "--output", "out.jsonl")
    assert order == [total, "a batch"]

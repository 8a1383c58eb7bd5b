"""What a terminal shows: nothing in the data steers it, and bars know where they end."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import small
from fresh.attribution.support_model import SupportModel
from fresh.cli.main import main
from fresh.data.splits import BadRows
from fresh.document import Document, Example, Explanation, Mask
from fresh.evaluation.warnings import data_warnings
from fresh.predictor import Predictor
from fresh.progress import Advance, Terminal
from fresh.rationale import Prediction
from fresh.rationalizer import Rationalizer
from fresh.reporting.console import show_curve, show_explanation, show_report
from fresh.reporting.report import Report, Row
from fresh.selection.discretizers import TopK
from fresh.selection.extractors import Curve

CPU = ("--device", "cpu")
EVIL = "po\x1b[31ms\x07\u202e"
HARMLESS = "po␛[31ms␇�"


@pytest.fixture(scope="module")
def model(support: SupportModel, predictor: Predictor) -> Rationalizer:
    return small.rationalizer(support, predictor, TopK(0.2), "attention")


@pytest.fixture(scope="module")
def saved(model: Rationalizer, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("terminal") / "model"
    model.save_pretrained(folder)
    return str(folder)


def harmless(shown: str) -> bool:
    return HARMLESS in shown and not any(sign in shown for sign in "\x1b\x07\u202e")


def test_no_label_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    shown = StringIO()
    console = Console(file=shown, width=200)
    document = Document.from_text("a good film")
    answer = Explanation(document, Mask.full(3), document.cut(Mask.full(3)), Prediction(EVIL, {EVIL: 1.0}))
    show_explanation(console, answer, EVIL)
    assert harmless(shown.getvalue())
    shown.truncate(0)
    show_curve(console, Curve((answer,)))
    assert harmless(shown.getvalue())
    shown.truncate(0)
    show_report(console, Report(1, (Row("own", 1.0, 1.0, 1.0),), notes=(f"All are {EVIL}.",)))
    assert harmless(shown.getvalue())
    Terminal().say(f"Classes: {EVIL}")
    assert harmless(capsys.readouterr().err)
    bad = BadRows(1, 2, [EVIL])
    assert harmless(bad.summary())


def test_no_error_steers_the_terminal(
    saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = small.write_csv(tmp_path / "data.csv", [{EVIL: "a", "label": "pos"}])
    assert main(["evaluate", saved, str(data), *CPU]) == 1
    assert harmless(capsys.readouterr().err)
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    with pytest.raises(SystemExit):
        main(["evaluate", "--help"])
    assert warnings.formatwarning(EVIL, UserWarning, "", 1) == f"Warning: {HARMLESS}\n"
    with pytest.raises(SystemExit):
        main(["evaluate", saved, str(data), f"--{EVIL}"])
    assert harmless(capsys.readouterr().err)


def test_a_label_in_a_caution_is_harmless(model: Rationalizer) -> None:
    [told, *_] = data_warnings(model, [Example(Document.from_text("a film"), EVIL)])
    assert "\x1b" not in told
    assert "\u202e" not in told


@pytest.mark.parametrize("nothing", [None, 5, 0.5])
def test_what_is_no_text_is_named(model: Rationalizer, nothing: object) -> None:
    name = type(nothing).__name__
    for given in (nothing, [nothing]):
        with pytest.raises(TypeError, match=rf"^Texts and documents can be explained, got {name}\.$"):
            model.explain(given)  # type: ignore[call-overload]


def test_a_missing_query_names_column_and_option(
    model: Rationalizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Rationalizer(model.extractor, model.predictor, needs_query=True).save_pretrained(tmp_path / "asking")
    data = small.write_csv(tmp_path / "data.csv", [{"text": "a good film", "label": "pos"}])
    told = (
        "Document 'data-1' has no query, but this model was trained with queries. Give one: --query for a text; for a "
        "file, the column query, or the one that --query names.\n"
    )
    assert main(["explain", str(tmp_path / "asking"), "--input", str(data), *CPU]) == 1
    assert capsys.readouterr().err == f"fresh explain: {told}"
    assert main(["evaluate", str(tmp_path / "asking"), str(data), *CPU]) == 1
    assert capsys.readouterr().err.endswith(f"fresh evaluate: {told}")


@pytest.mark.parametrize(("name", "total"), [("data.csv", 3), ("data.jsonl", 3), ("-", None)])
def test_the_bar_knows_where_it_ends(
    name: str, total: int | None, saved: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"text": "a good\nfilm", "label": "pos"}] * 3
    monkeypatch.chdir(tmp_path)
    small.write_csv(tmp_path / "data.csv", rows)
    small.write_jsonl(tmp_path / "data.jsonl", rows)
    totals: list[int | None] = []

    @contextmanager
    def task(_self: Terminal, _name: str, given: int | None) -> Iterator[Advance]:
        totals.append(given)
        yield lambda _steps, _note: None

    monkeypatch.setattr(Terminal, "task", task)
    with (tmp_path / "data.jsonl").open() as lines:
        monkeypatch.setattr(sys, "stdin", lines)
        assert main(["explain", saved, "--input", name, "--output", "out.jsonl", *CPU]) == 0
    assert totals == [total]

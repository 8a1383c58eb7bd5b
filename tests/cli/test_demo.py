import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import fresh.cli.demo
import fresh.data.corpora
import fresh.pipeline
import small
from fresh.data.splits import Splits
from fresh.document import Example
from fresh.metrics.bootstrap import short
from fresh.pipeline import train
from fresh.progress import SILENT
from fresh.rationalizer import Rationalizer


@pytest.fixture
def toy_demo(toy: Splits, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the demo train on toy documents, one of which is labelled wrong."""

    def quickly(data: Splits, **settings: Any) -> Rationalizer:
        return train(data, progress=SILENT, **{**small.run_settings(encoders["bert"], batch_size=16), **settings})

    first, *rest = toy.test
    wrong = Example(first.document, "neg" if first.label == "pos" else "pos")
    monkeypatch.setattr(fresh.data.corpora, "read_demo", lambda: Splits(toy.train, toy.dev, (wrong, *rest)))
    monkeypatch.setattr(fresh.pipeline, "train", quickly)
    monkeypatch.setitem(fresh.cli.demo._SETTINGS, "epochs", 6)


@pytest.mark.usefixtures("toy_demo")
def test_the_demo_shows_a_table_answers_and_what_to_do_next(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=80)
    model = fresh.cli.demo.train_demo(tmp_path / "model", False, console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "reads 30% of the words" in shown
    for row in small.reported(model.report).rows:
        figures = rf"{re.escape(short(row.macro_f1))} \(.*\) +{re.escape(short(row.accuracy))} \(.*\)"
        assert re.search(rf" {re.escape(row.name)} +{figures} +{row.kept:.1%}", shown)
    assert shown.count(" right, from ") == 4
    assert 1 <= shown.count(" wrong: it is ") <= 2
    assert re.search(r"\[[a-z ]*(good|great|bad|awful)[a-z ]*\]", shown)
    place = tmp_path / "model"
    assert shown.splitlines()[-4:] == [
        f"The model is saved in {place}, its report in {place}-report.html. Try next:",
        f'  fresh explain {tmp_path / "model"} "A lovely, funny film with a dull ending."',
        f"  fresh serve {tmp_path / 'model'}      # the same in the browser",
        "  fresh train your-data.csv --out your-model      # columns: text, label",
    ]
    assert Rationalizer.from_pretrained(tmp_path / "model").labels == ("neg", "pos")


@pytest.mark.slow
def test_rationales_beat_random_words_in_the_demo(tmp_path: Path) -> None:
    model = fresh.cli.demo.train_demo(tmp_path / "model", False, Console(file=io.StringIO()))
    rows = small.reported(model.report).rows
    assert [row.name for row in rows] == ["full text (support model)", "FRESH (attention_gradient)", "random words"]
    assert rows[1].macro_f1 > rows[2].macro_f1
    assert rows[1].kept == pytest.approx(rows[2].kept)


@pytest.mark.parametrize(
    ("called", "found", "expected"),
    [(".venv/bin/fresh", None, ".venv/bin/fresh"), ("-c", None, "fresh"), ("bin/fresh", "/bin/fresh", "fresh")],
)
@pytest.mark.usefixtures("toy_demo")
def test_the_command_is_shown_as_it_was_called(
    called: str, found: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [called])
    monkeypatch.setattr("shutil.which", lambda _name: found)
    monkeypatch.setitem(fresh.cli.demo._SETTINGS, "epochs", 1)
    console = Console(file=io.StringIO(), width=80)
    fresh.cli.demo.train_demo(tmp_path / "model", False, console)
    assert f"\n  {expected} serve " in console.file.getvalue()  # type: ignore[attr-defined]

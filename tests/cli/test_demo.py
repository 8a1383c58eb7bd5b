import re
from pathlib import Path
from typing import Any

import pytest

import fresh.cli.demo
import fresh.data.corpora
import fresh.pipeline
import small
from command import Command
from fresh.data.splits import Splits
from fresh.document import Example
from fresh.metrics.bootstrap import short
from fresh.pipeline import train
from fresh.progress import SILENT
from fresh.rationalizer import Rationalizer
from fresh.reporting.report import Report


@pytest.fixture
def report(toy: Splits, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> list[Report]:
    """Have the demo train on toy documents, one of which has a wrong label; its report is added to the list."""
    reports: list[Report] = []

    def train_quickly(data: Splits, **settings: Any) -> Rationalizer:
        settings = {**small.run_settings(encoders["bert"], batch_size=16), **settings}
        model = train(data, progress=SILENT, **settings)
        reports.append(small.reported(model.report))
        return model

    first, *rest = toy.test
    wrong = Example(first.document, "neg" if first.label == "pos" else "pos")
    monkeypatch.setattr(fresh.data.corpora, "read_demo", lambda: Splits(toy.train, toy.dev, (wrong, *rest)))
    monkeypatch.setattr(fresh.pipeline, "train", train_quickly)
    monkeypatch.setitem(fresh.cli.demo._SETTINGS, "epochs", 6)
    return reports


def test_the_demo_shows_a_table_answers_and_what_to_do_next(report: list[Report], command: Command) -> None:
    shown = command("demo", "--out", "model").out
    assert "reads 30% of the words" in shown
    for row in report[0].rows:
        figures = rf"{re.escape(short(row.macro_f1))} \(.*\) +{re.escape(short(row.accuracy))} \(.*\)"
        assert re.search(rf" {re.escape(row.name)} +{figures} +{row.kept:.1%}", shown)
    assert shown.count(" right, from ") == 4
    assert 1 <= shown.count(" wrong: it is ") <= 2
    assert re.search(r"\[[a-z ]*(good|great|bad|awful)[a-z ]*\]", shown)
    assert shown.splitlines()[-4:] == [
        "The model is saved in model, its report in model-report.html. Try next:",
        '  fresh explain model "A lovely, funny film with a dull ending."',
        "  fresh serve model      # the same in the browser",
        "  fresh train your-data.csv --out your-model      # columns: text, label",
    ]
    assert Rationalizer.from_pretrained("model").labels == ("neg", "pos")


@pytest.mark.slow
def test_rationales_beat_random_words_in_the_demo(command: Command) -> None:
    command("demo", "--out", "model")
    rows = small.reported(Rationalizer.from_pretrained("model").report).rows
    ours, random = "FRESH (attention_gradient)", "random words (independent)"
    names = ["full text (support model)", ours, "independent reader", random]
    assert [row.name for row in rows[:4]] == names
    assert rows[1].macro_f1 > rows[3].macro_f1
    assert rows[1].kept == pytest.approx(rows[3].kept)


@pytest.mark.parametrize(
    ("called", "found", "expected"),
    [(".venv/bin/fresh", None, ".venv/bin/fresh"), ("-c", None, "fresh"), ("bin/fresh", "/bin/fresh", "fresh")],
)
def test_the_demo_names_the_command_as_it_was_called(
    called: str,
    found: str | None,
    expected: str,
    model: Rationalizer,
    report: list[Report],
    monkeypatch: pytest.MonkeyPatch,
    command: Command,
) -> None:
    monkeypatch.setattr("sys.argv", [called])
    monkeypatch.setattr("shutil.which", lambda _name: found)
    monkeypatch.setattr(fresh.pipeline, "train", lambda *_given, **_settings: model)  # trained before
    assert f"\n  {expected} serve " in command("demo").out

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import small
from command import Command
from data_files import annotation, eraser_files, evidence, write_folder
from eraser_oracle import score_files
from fresh.data.splits import Splits
from fresh.document import Example
from fresh.evaluation.evaluation import evaluate
from fresh.metrics.bootstrap import short
from fresh.rationalizer import Rationalizer
from fresh.reporting.report import Report

FILES = ("--json", "a.json", "--markdown", "a.md", "--html", "a.html", "--eraser", "a.jsonl")


@pytest.fixture
def data(toy: Splits, here: Path) -> str:
    return small.write_csv(here / "test.csv", small.rows(toy.test)).name


def test_evaluation_shows_a_table_and_writes_every_kind_of_file(
    saved: str, data: str, model: Rationalizer, toy: Splits, command: Command
) -> None:
    shown = " ".join(command("evaluate", saved, data, *FILES).out.split())
    report = Report.from_dict(json.loads(Path("a.json").read_text(encoding="utf-8")))
    assert report == evaluate(model, [small.unmarked(example) for example in toy.test]).report
    assert Path("a.md").read_text(encoding="utf-8") == report.to_markdown()
    page = Path("a.html").read_text(encoding="utf-8")
    assert "<title>model</title>" in page
    assert "test.csv" in page
    answers = [json.loads(line) for line in Path("a.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [answer["classification"] for answer in answers] == [
        item.prediction.label for item in model.explain([example.document for example in toy.test])
    ]
    assert "32 test documents" in shown
    assert all(short(row.macro_f1) in shown for row in report.rows)
    assert "Brier score" in shown
    assert sorted(path.name for path in Path().iterdir()) == ["a.html", "a.json", "a.jsonl", "a.md", "test.csv"]


def test_files_are_replaced_with_overwrite(saved: str, data: str, command: Command) -> None:
    for name in FILES[1::2]:
        Path(name).write_text("precious", encoding="utf-8")
    command("evaluate", saved, data, *FILES, "--overwrite")
    assert not any(Path(name).read_text(encoding="utf-8") == "precious" for name in FILES[1::2])


def annotated_twice(example: Example) -> dict[str, Any]:
    """Write an example with two spans that touch."""
    spans = [[evidence(example.document.id, start, start + 1)] for start in (0, 1)]
    return annotation(example.document.id, example.label, *spans, query="")


def test_the_report_agrees_with_the_scorer_of_eraser(saved: str, toy: Splits, command: Command) -> None:
    parts = {"train": toy.train[:8], "val": toy.dev[:8], "test": toy.test}
    rows = {name: [annotated_twice(example) for example in part] for name, part in parts.items()}
    docs = {e.document.id: " ".join(e.document.words) for part in parts.values() for e in part}
    write_folder(Path("toy"), eraser_files(docs, **rows))
    command("evaluate", saved, "toy", "--json", "a.json", "--eraser", "a.jsonl")
    report = Report.from_dict(json.loads(Path("a.json").read_text(encoding="utf-8")))
    assert report.n_documents == len(toy.test)
    assert report.figures is not None
    ours = {item.name: item.figure.value for item in (*report.figures.agreement, *report.figures.faithfulness)}
    theirs = score_files(Path("toy"), "test", Path("a.jsonl"))
    figures = {
        "token precision": theirs["token"]["macro"][0],
        "token recall": theirs["token"]["macro"][1],
        "token F1": theirs["token"]["macro"][2],
        "IoU-F1 at .5": theirs["iou"]["macro"][2],
        "AUPRC of scores": np.mean(theirs["auprc"]),
        "comprehensiveness (same predictor)": np.mean(theirs["comprehensiveness"]),
        "sufficiency, AOPC": np.mean(theirs["sufficiency_aopc"]),
        "comprehensiveness, AOPC (same predictor)": np.mean(theirs["comprehensiveness_aopc"]),
    }
    assert {name: ours[name] for name in figures} == pytest.approx(figures, abs=1e-9)
    assert np.mean(theirs["sufficiency"]) == 0  # by construction

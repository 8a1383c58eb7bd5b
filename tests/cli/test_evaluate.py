import json
from pathlib import Path

import numpy as np
import pytest

import small
from eraser_oracle import score_files
from fresh.cli.main import main
from fresh.data.splits import Splits
from fresh.evaluation.evaluation import evaluate
from fresh.metrics.bootstrap import short
from fresh.rationalizer import Rationalizer
from fresh.reporting.report import Report

CPU = ("--device", "cpu")


@pytest.fixture
def data(toy: Splits, tmp_path: Path) -> str:
    return str(small.write_csv(tmp_path / "test.csv", small.rows(toy.test)))


def test_evaluating_shows_a_table_and_writes_every_kind_of_file(
    saved: str, data: str, model: Rationalizer, toy: Splits, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"json": "a.json", "markdown": "a.md", "html": "a.html", "eraser": "a.jsonl"}
    files = [item for name, file in names.items() for item in (f"--{name}", str(tmp_path / file))]
    assert main(["evaluate", saved, data, *files, *CPU]) == 0
    report = Report.from_dict(json.loads((tmp_path / "a.json").read_text(encoding="utf-8")))
    bare = evaluate(model, [small.unmarked(example) for example in toy.test]).report
    assert report == bare
    assert (tmp_path / "a.md").read_text(encoding="utf-8") == report.to_markdown()
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<title>model</title>" in page
    assert "test.csv" in page
    answers = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [answer["classification"] for answer in answers] == [
        item.prediction.label for item in model.explain([example.document for example in toy.test])
    ]
    shown = " ".join(capsys.readouterr().out.split())
    assert "32 test documents" in shown
    assert all(short(row.macro_f1) in shown for row in report.rows)
    assert "Brier score" in shown
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.json", "a.jsonl", "a.md", "test.csv"]


@pytest.mark.parametrize("kind", ["json", "markdown", "html", "eraser"])
def test_files_are_replaced_only_when_asked_for(
    kind: str, saved: str, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out"
    target.write_text("precious", encoding="utf-8")
    assert main(["evaluate", saved, data, f"--{kind}", str(target), *CPU]) == 1
    message = f"fresh evaluate: {target} already exists. Choose another path, or replace it: --overwrite.\n"
    assert capsys.readouterr().err == message
    assert target.read_text(encoding="utf-8") == "precious"
    assert main(["evaluate", saved, data, f"--{kind}", data, "--overwrite", *CPU]) == 1
    assert capsys.readouterr().err.endswith(f"{data} is the input. Choose another file for the output.\n")
    assert main(["evaluate", saved, data, f"--{kind}", str(target), "--overwrite", *CPU]) == 0
    assert target.read_text(encoding="utf-8") != "precious"


def write_eraser(folder: Path, toy: Splits) -> None:
    """Write the toy corpus as ERASER does, with touching spans."""
    (folder / "docs").mkdir(parents=True)
    for name, part in (("train", toy.train[:8]), ("val", toy.dev[:8]), ("test", toy.test)):
        lines = []
        for example in part:
            docid = example.document.id
            (folder / "docs" / docid).write_text(" ".join(example.document.words), encoding="utf-8")
            spans = [(0, 1), (1, 2)]
            evidences = [[{"docid": docid, "start_token": start, "end_token": end} for start, end in spans]]
            lines.append({"annotation_id": docid, "classification": example.label, "evidences": evidences, "query": ""})
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")


def test_the_report_says_what_the_scorer_of_eraser_says_of_the_file_beside_it(
    saved: str, toy: Splits, tmp_path: Path
) -> None:
    write_eraser(tmp_path / "toy", toy)
    files = ["--json", str(tmp_path / "a.json"), "--eraser", str(tmp_path / "a.jsonl")]
    assert main(["evaluate", saved, str(tmp_path / "toy"), *files, *CPU]) == 0
    report = Report.from_dict(json.loads((tmp_path / "a.json").read_text(encoding="utf-8")))
    assert report.n_documents == len(toy.test)
    assert report.figures is not None
    ours = {item.name: item.figure.value for item in (*report.figures.agreement, *report.figures.faithfulness)}
    theirs = score_files(tmp_path / "toy", "test", tmp_path / "a.jsonl")
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

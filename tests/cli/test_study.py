import csv
import re
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import small
from fresh.attribution.support_model import SupportModel
from fresh.cli.main import main
from fresh.data.splits import Splits
from fresh.document import Example
from fresh.predictor import Predictor
from fresh.selection.discretizers import TopK
from fresh.study import items
from fresh.study.annotators import record_consent, sign_in
from fresh.study.answers import Answer
from fresh.study.items import read_documents
from fresh.study.service import next_item, save_answer
from fresh.study.store import open_study

STUDY = """
corpus = "films.jsonl"
tokenised = true
sample = 4
per_item = 2
practice = 1
checks = 1
[conditions.FRESH]
model = "model"
[conditions.random]
kind = "random_non_contiguous"
like = "FRESH"
[labels]
pos = "Positive"
"""


@pytest.fixture
def folder(
    toy: Splits, support: SupportModel, predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Work where a corpus, a model and a study file are."""
    monkeypatch.chdir(tmp_path)
    small.write_jsonl(tmp_path / "films.jsonl", small.rows(toy.test))
    small.rationalizer(support, predictor, TopK(0.2)).save_pretrained(tmp_path / "model")
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    return tmp_path


def answer_all(place: str, codes: Path) -> None:
    """Let everybody with a code answer everything with the right label."""
    with codes.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with closing(open_study(place)) as store:
        for row in rows:
            who = sign_in(store, row["code"])
            assert who is not None
            assert who.id == int(row["annotator"])
            record_consent(store, who.id)
            while (task := next_item(store, who.id)) is not None:
                label = "pos" if {"good", "great"} & set(task.rationale.words) else "neg"
                save_answer(store, who.id, task.item, Answer(label, 4, 5, 2000))


def test_a_study_from_file_to_results(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "new", "study.toml", "--out", "a-study", "--device", "cpu"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "4 documents in 2 conditions, 16 answers wanted."
    assert shown[1] == "4 sign-in codes in a-study/codes.csv, and nowhere else. Give one to each annotator."
    assert shown[2] == "per_item is 2, an even number: votes can be tied. Choose an odd number."
    codes = folder / "a-study" / "codes.csv"
    assert stat.S_IMODE(codes.stat().st_mode) == 0o600
    answer_all("a-study", codes)
    assert main(["study", "status", "a-study"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "16 of 16 answers, by 4 of 4 annotators."
    assert shown[1] == "  annotator 1: finished, 4 answers, 2.0 s an answer, 1 of 1 check failed - review"
    outputs = ("--json", "r.json", "--markdown", "r.md", "--csv", "r.csv", "--figure", "r.png")
    assert main(["study", "results", "a-study", *outputs]) == 0
    shown_text = capsys.readouterr().out
    assert shown_text == Path("r.md").read_text(encoding="utf-8")
    assert re.search(r"\| FRESH +\| +4 \| +[\d.]+ \([\d.]+–[\d.]+\) \| 4\.00 \(4\.00–4\.00\) \|", shown_text)
    assert Path("r.csv").read_text(encoding="utf-8").startswith("condition,")
    assert Path("r.png").exists()
    assert main(["study", "export", "a-study", "--as", "csv", "--output", "answers.csv"]) == 0
    assert main(["study", "import", "a-study", "answers.csv", "--as", "csv"]) == 0
    assert "0 new, 24 imported before, 0 left out." in capsys.readouterr().out
    assert main(["study", "codes", "a-study", "2", "--output", "more.csv"]) == 0
    assert len(Path("more.csv").read_text(encoding="utf-8").splitlines()) == 3
    assert main(["study", "codes", "a-study", "1"]) == 0
    assert len(capsys.readouterr().out.split("-")) == 4


def test_nothing_is_written_if_anything_is_wrong(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = STUDY.replace("sample = 4", "sample = 400") + '[conditions.human]\nkind = "human"\n'
    (folder / "study.toml").write_text(wrong.replace('model = "model"', 'model = "modle"'), encoding="utf-8")
    before = sorted(folder.iterdir())
    assert main(["study", "new", "study.toml", "--out", "a-study"]) == 1
    told = capsys.readouterr().err
    assert "but there are 0 with marked words" in told
    assert "conditions.FRESH: There is no folder modle. Similar names: model." in told
    assert sorted(folder.iterdir()) == before


def test_a_folder_that_is_there_is_left_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "new", "study.toml", "--out", "model"]) == 1
    assert capsys.readouterr().err == "fresh study: model already exists. Choose another folder.\n"
    assert not (folder / "model" / "study.db").exists()


def test_a_folder_that_somebody_makes_meanwhile_is_left_alone(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(*given: Any) -> list[Example]:
        (folder / "a-study").mkdir()
        (folder / "a-study" / "theirs").touch()
        return read_documents(*given)

    monkeypatch.setattr(items, "read_documents", meanwhile)
    assert main(["study", "new", "study.toml", "--out", "a-study", "--device", "cpu"]) == 1
    told = "fresh study: a-study cannot be read or written (File exists). Choose another place.\n"
    assert capsys.readouterr().err == told
    assert [path.name for path in (folder / "a-study").iterdir()] == ["theirs"]


def test_a_study_lives_in_a_database_of_its_own(
    folder: Path, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url = database if "://" in database else f"sqlite:///{folder}/other.db"
    assert main(["study", "new", "study.toml", "--database", url, "--codes", "c.csv", "--device", "cpu"]) == 0
    answer_all(url, folder / "c.csv")
    assert main(["study", "results", url]) == 0
    assert "16 of 16 answers by 4 annotators." in capsys.readouterr().out


def test_too_few_codes_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "study.toml").write_text("annotators = 3\n" + STUDY, encoding="utf-8")
    assert main(["study", "new", "study.toml", "--out", "few", "--device", "cpu"]) == 0
    assert "at least 4 annotators. To add some: fresh study codes." in capsys.readouterr().out


def test_one_of_a_thing_is_told_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("films.csv").write_text("text,label\na good film,pos\na bad film,neg\n", encoding="utf-8")
    settings = "sample = 1\nper_item = 1\npractice = 0\nchecks = 0\n"
    Path("s.toml").write_text(
        f'corpus = "films.csv"\n{settings}[conditions.all]\nkind = "full_text"\n', encoding="utf-8"
    )
    assert main(["study", "new", "s.toml", "--out", "one"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "1 document in 1 condition, 1 answer wanted.",
        "1 sign-in code in one/codes.csv, and nowhere else. Give one to each annotator.",
    ]
    answer_all("one", Path("one/codes.csv"))
    assert main(["study", "status", "one"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "1 of 1 answer, by 1 of 1 annotator.",
        "  annotator 1: finished, 1 answer, 2.0 s an answer",
    ]
    assert main(["study", "results", "one"]) == 0
    assert "1 of 1 answer by 1 annotator.\n" in capsys.readouterr().out


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    for action in ("new", "status", "codes", "results", "export", "import"):
        with pytest.raises(SystemExit) as caught:
            main(["study", action, "--help"])
        assert caught.value.code == 0
    shown = capsys.readouterr().out
    for taught in ("[conditions.human]", "items.config.yaml", "Batch_1_batch_results.csv --as mturk"):
        assert taught in shown

import csv
import re
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import fresh.study
import small
from command import Command
from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.document import Example
from fresh.predictor import Predictor
from fresh.selection.discretizers import TopK
from fresh.study import Answer, next_item, open_study, read_documents, record_consent, save_answer, sign_in

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
NEW = ("study", "new", "study.toml", "--device", "cpu")


@pytest.fixture
def folder(toy: Splits, support: SupportModel, predictor: Predictor, here: Path) -> Path:
    """A working directory with a corpus, a model and a study file."""
    small.write_jsonl(here / "films.jsonl", small.rows(toy.test))
    small.rationalizer(support, predictor, TopK(0.2)).save_pretrained(here / "model")
    (here / "study.toml").write_text(STUDY, encoding="utf-8")
    return here


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


def test_a_study_from_file_to_results(folder: Path, command: Command) -> None:
    assert command(*NEW, "--out", "a-study").out.splitlines() == [
        "4 documents in 2 conditions, 16 answers wanted.",
        "4 sign-in codes in a-study/codes.csv, and nowhere else. Give one to each annotator.",
        "per_item is 2, an even number: votes can be tied. Choose an odd number.",
    ]
    codes = folder / "a-study" / "codes.csv"
    assert stat.S_IMODE(codes.stat().st_mode) == 0o600
    answer_all("a-study", codes)
    shown = command("study", "status", "a-study").out.splitlines()
    assert shown[0] == "16 of 16 answers, by 4 of 4 annotators."
    assert shown[1] == "  annotator 1: finished, 4 answers, 2.0 s an answer, 1 of 1 check failed - review"
    outputs = ("--json", "r.json", "--markdown", "r.md", "--csv", "r.csv", "--figure", "r.png")
    results = command("study", "results", "a-study", *outputs).out
    assert results == Path("r.md").read_text(encoding="utf-8")
    assert re.search(r"\| FRESH +\| +4 \| +[\d.]+ \([\d.]+–[\d.]+\) \| 4\.00 \(4\.00–4\.00\) \|", results)
    assert Path("r.csv").read_text(encoding="utf-8").startswith("condition,")
    assert Path("r.png").exists()
    command("study", "export", "a-study", "--as", "csv", "--output", "answers.csv")
    shown = command("study", "import", "a-study", "answers.csv", "--as", "csv").out.splitlines()
    assert shown == ["0 new, 24 imported before, 0 left out."]
    command("study", "codes", "a-study", "2", "--output", "more.csv")
    assert len(Path("more.csv").read_text(encoding="utf-8").splitlines()) == 3
    assert len(command("study", "codes", "a-study", "1").out.split("-")) == 4


def test_nothing_is_written_if_anything_is_wrong(folder: Path, command: Command) -> None:
    wrong = STUDY.replace("sample = 4", "sample = 400") + '[conditions.human]\nkind = "human"\n'
    (folder / "study.toml").write_text(wrong.replace('model = "model"', 'model = "modle"'), encoding="utf-8")
    before = sorted(folder.iterdir())
    message = command(*NEW, "--out", "a-study", status=1).err
    assert "but there are 0 with marked words" in message
    assert "conditions.FRESH: There is no folder modle. Similar names: model." in message
    assert sorted(folder.iterdir()) == before


def test_a_folder_made_by_somebody_meanwhile_is_left_alone(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_folder_meanwhile(*given: Any) -> list[Example]:
        (folder / "a-study").mkdir()
        (folder / "a-study" / "theirs").touch()
        return read_documents(*given)

    monkeypatch.setattr(fresh.study, "read_documents", make_folder_meanwhile)
    message = "fresh study: a-study cannot be read or written (File exists). Choose another place.\n"
    assert command(*NEW, "--out", "a-study", status=1).err == message
    assert [path.name for path in (folder / "a-study").iterdir()] == ["theirs"]


def test_a_study_can_have_its_own_database(folder: Path, database: str, command: Command) -> None:
    url = database if "://" in database else f"sqlite:///{folder}/other.db"
    command(*NEW, "--database", url, "--codes", "c.csv")
    answer_all(url, folder / "c.csv")
    assert "16 of 16 answers by 4 annotators." in command("study", "results", url).out


def test_too_few_codes_are_reported(folder: Path, command: Command) -> None:
    (folder / "study.toml").write_text("annotators = 3\n" + STUDY, encoding="utf-8")
    assert "at least 4 annotators. To add some: fresh study codes." in command(*NEW, "--out", "few").out


def test_counts_of_one_are_singular(here: Path, command: Command) -> None:
    (here / "films.csv").write_text("text,label\na good film,pos\na bad film,neg\n", encoding="utf-8")
    settings = "sample = 1\nper_item = 1\npractice = 0\nchecks = 0\n"
    text = f'corpus = "films.csv"\n{settings}[conditions.all]\nkind = "full_text"\n'
    (here / "study.toml").write_text(text, encoding="utf-8")
    assert command(*NEW, "--out", "one").out.splitlines() == [
        "1 document in 1 condition, 1 answer wanted.",
        "1 sign-in code in one/codes.csv, and nowhere else. Give one to each annotator.",
    ]
    answer_all("one", Path("one/codes.csv"))
    assert command("study", "status", "one").out.splitlines() == [
        "1 of 1 answer, by 1 of 1 annotator.",
        "  annotator 1: finished, 1 answer, 2.0 s an answer",
    ]
    assert "1 of 1 answer by 1 annotator.\n" in command("study", "results", "one").out

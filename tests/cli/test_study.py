import csv
import re
import shlex
import stat
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import fresh.study
import small
from command import Command
from fresh.cli.main import main
from fresh.cli.study import _ACTIONS, _quote_study
from fresh.data.splits import Splits
from fresh.document import Example
from fresh.rationalizer import Rationalizer
from fresh.study import create_study, next_item, open_study, read_documents
from studies import as_earlier, join, plan, two_ways, work

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "study.md"
SETTINGS = "practice = 0\n[conditions.all]\nkind = 'full_text'\n"
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
NEW = ("new", "study.toml", "--device", "cpu")


@pytest.fixture
def corpus(toy: Splits, model: Rationalizer, here: Path) -> Path:
    """A working directory with a corpus, a model and a study file."""
    small.write_jsonl(here / "films.jsonl", small.rows(toy.test))
    model.save_pretrained(here / "model")
    (here / "study.toml").write_text(STUDY, encoding="utf-8")
    return here


def answer_all(place: str, codes: Path) -> None:
    """Let everybody with a code answer everything with the right label."""
    with codes.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with closing(open_study(place)) as store:
        for row in rows:
            who = fresh.study.sign_in(store, row["code"])
            assert who is not None
            assert who.id == int(row["annotator"])
            fresh.study.record_consent(store, who.id)
            while (task := next_item(store, who.id)) is not None:
                label = "pos" if {"good", "great"} & set(task.rationale.words) else "neg"
                fresh.study.save_answer(store, who.id, task.item, fresh.study.Answer(label, 4, 5, 2000))


@pytest.fixture
def study(command: Command) -> Command:
    """Runs an action."""
    return partial(command, "study")


def test_a_study_from_file_to_results(corpus: Path, study: Command) -> None:
    assert study(*NEW, "--out", "a-study").out.splitlines() == [
        "4 documents in 2 conditions, 16 answers wanted.",
        "4 sign-in codes in a-study/codes.csv, and nowhere else. Give one to each annotator.",
        "per_item is 2, an even number: votes can be tied. Choose an odd number.",
    ]
    codes = corpus / "a-study" / "codes.csv"
    assert stat.S_IMODE(codes.stat().st_mode) == 0o600
    answer_all("a-study", codes)
    shown = study("status", "a-study").out.splitlines()
    assert shown[0] == "16 of 16 answers, by 4 of 4 annotators."
    assert shown[1] == "  annotator 1: finished, 4 answers, 2.0 s an answer, 1 of 1 check failed - review"
    outputs = ("--json", "r.json", "--markdown", "r.md", "--csv", "r.csv", "--figure", "r.png")
    results = study("results", "a-study", *outputs).out
    assert results == Path("r.md").read_text(encoding="utf-8")
    assert re.search(r"\| FRESH +\| +4 \| +[\d.]+ \([\d.]+–[\d.]+\) \| 4\.00 \(4\.00–4\.00\) \|", results)
    assert Path("r.csv").read_text(encoding="utf-8").startswith("condition,")
    assert Path("r.png").exists()
    study("export", "a-study", "--as", "csv", "--output", "answers.csv")
    shown = study("import", "a-study", "answers.csv", "--as", "csv").out.splitlines()
    assert shown == ["0 new, 24 imported before, 0 left out."]
    study("codes", "a-study", "2", "--output", "more.csv")
    assert len(Path("more.csv").read_text(encoding="utf-8").splitlines()) == 3
    assert len(study("codes", "a-study", "1").out.split("-")) == 4


def test_nothing_is_written_if_anything_is_wrong(corpus: Path, study: Command) -> None:
    wrong = STUDY.replace("sample = 4", "sample = 400") + '[conditions.human]\nkind = "human"\n'
    (corpus / "study.toml").write_text(wrong.replace('model = "model"', 'model = "modle"'), encoding="utf-8")
    before = sorted(corpus.iterdir())
    message = study(*NEW, "--out", "a-study", status=1).err
    assert "but there are 0 with marked words" in message
    assert "conditions.FRESH: There is no folder modle. Similar names: model." in message
    assert sorted(corpus.iterdir()) == before


def test_a_folder_made_by_somebody_meanwhile_is_left_alone(
    corpus: Path, study: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_folder_meanwhile(*given: Any) -> list[Example]:
        (corpus / "a-study").mkdir()
        (corpus / "a-study" / "theirs").touch()
        return read_documents(*given)

    monkeypatch.setattr(fresh.study, "read_documents", make_folder_meanwhile)
    message = "fresh study: a-study cannot be read or written (File exists). Choose another place.\n"
    assert study(*NEW, "--out", "a-study", status=1).err == message
    assert [path.name for path in (corpus / "a-study").iterdir()] == ["theirs"]


def test_a_study_can_have_its_own_database(corpus: Path, database: str, study: Command) -> None:
    url = database if "://" in database else f"sqlite:///{corpus}/other.db"
    study(*NEW, "--database", url, "--codes", "c.csv")
    answer_all(url, corpus / "c.csv")
    assert "16 of 16 answers by 4 annotators." in study("results", url).out


def test_too_few_codes_are_reported(corpus: Path, study: Command) -> None:
    (corpus / "study.toml").write_text("annotators = 3\n" + STUDY, encoding="utf-8")
    assert "at least 4 annotators. To add some: fresh study codes." in study(*NEW, "--out", "few").out


def test_counts_of_one_are_singular(films: Path, study: Command) -> None:
    settings = f"text = 'review'\ncorpus = 'films.csv'\nsample = 1\nper_item = 1\nchecks = 0\n{SETTINGS}"
    (films / "study.toml").write_text(settings, encoding="utf-8")
    assert study(*NEW, "--out", "one").out.splitlines() == [
        "1 document in 1 condition, 1 answer wanted.",
        "1 sign-in code in one/codes.csv, and nowhere else. Give one to each annotator.",
    ]
    answer_all("one", Path("one/codes.csv"))
    assert study("status", "one").out.splitlines() == [
        "1 of 1 answer, by 1 of 1 annotator.",
        "  annotator 1: finished, 1 answer, 2.0 s an answer",
    ]
    assert "1 of 1 answer by 1 annotator.\n" in study("results", "one").out


# Annotators, and what cannot be read or written


@pytest.fixture
def folder(here: Path) -> str:
    """A study of eight answers; one annotator has given three and has one open item."""
    with closing(create_study("x", plan(two_ways(), sample=4, practice=0, checks=0, per_item=1))) as store:
        [who] = join(as_earlier(store), "W1")
        work(as_earlier(store), who, 3)
        next_item(as_earlier(store), who)
    return "x"


@pytest.fixture
def films(here: Path) -> Path:
    """A working directory with some texts; the columns of the study file s.toml have to be named."""
    (here / "films.csv").write_text("review,label\na good film,pos\na bad film,neg\n", encoding="utf-8")
    (here / "s.toml").write_text(f"corpus = 'films.csv'\nsample = 1\n{SETTINGS}", encoding="utf-8")
    return here


def test_status_reports_what_is_missing(folder: str, study: Command) -> None:
    first, second, *_ = study("status", folder).out.splitlines()
    assert first == "3 of 8 answers, by 1 of 1 annotator."
    assert re.search(rf"cannot complete the study: 1 more annotator is needed.*fresh study codes {folder} 1$", second)
    study("codes", folder, "1")
    assert study("status", folder).out == (
        "3 of 8 answers, by 1 of 2 annotators.\n  annotator 1 (W1): active, 3 answers, 1.5 s an answer\n"
    )
    assert _quote_study("postgresql://me:secret@db.example.org/films") == "'postgresql://me:***@db.example.org/films'"
    assert _quote_study("my study") == "'my study'"


def test_a_study_is_paused_and_resumed(folder: str, study: Command) -> None:
    assert "was not paused" in study("resume", folder).out
    assert study("pause", folder).out.startswith("Paused")
    assert "already paused" in study("pause", folder).out
    assert study("status", folder).out.startswith("The study is paused")
    assert study("resume", folder).out.startswith("Resumed")
    assert "The study is paused" not in study("status", folder).out


def test_annotators_leave_and_are_excluded_and_readmitted(folder: str, study: Command) -> None:
    def state() -> str:
        with closing(open_study(folder)) as store:
            return fresh.study.get_overview(store).annotators[0].state

    assert re.search("no annotator '7'.*fresh study status", study("leave", folder, "7", status=1).err)
    assert "Annotator 1" in study("readmit", folder, "1", status=1).err
    assert re.search("Annotator 1 .*1", study("leave", folder, "W1").out)
    assert state() == "left"
    assert re.search("Annotator 1 is excluded.*3", study("exclude", folder, "1").out)
    assert re.search("Annotator 1 is excluded.*readmit", study("leave", folder, "1", status=1).err)
    assert state() == "excluded"
    with closing(open_study(folder)) as store:
        for who in join(store, "W2", "W3"):  # the second gets the first item of annotator 1
            work(store, who, 1)
    assert re.search("Annotator 1 .*\n.*1", study("readmit", folder, "W1").out)
    assert state() == "active"


def test_help_shows_how_to_use_each_action(capsys: pytest.CaptureFixture[str]) -> None:
    for action in _ACTIONS:
        with pytest.raises(SystemExit, match=r"^0$"):
            main(["study", action, "--help"])
        assert f"\n  fresh study {action} " in capsys.readouterr().out


def test_the_import_reports_answers_that_do_not_count(folder: str, study: Command) -> None:
    with closing(open_study(folder)) as store:
        fresh.study.exclude(store, 1)
        [file] = fresh.study.export_study(store, "csv", Path("a.csv"))
    create_study("copy", plan(two_ways(), sample=4, practice=0, checks=0, per_item=1)).close()
    shown = study("import", "copy", file, "--as", "csv")
    assert shown.out.startswith("3 new, 0 ")
    assert re.search("3 new answers do not count.*\n.*W1", shown.err)


def test_an_unwritable_place_is_named(films: Path, study: Command) -> None:
    (films / "s.toml").write_text(f"text = 'review'\ncorpus = 'films.csv'\nsample = 1\n{SETTINGS}", encoding="utf-8")
    assert re.search(
        r"films\.csv/x .*\(Not a directory\)", study("new", "s.toml", "--out", "films.csv/x", status=1).err
    )
    long = "c" * 250  # with .partial behind it, the name is too long for a file
    refused = rf"{long} .*\(File name too long\)"
    assert re.search(refused, study("new", "s.toml", "--out", "x", "--codes", long, status=1).err)
    assert not (films / "x").exists()
    study("new", "s.toml", "--out", "x")
    assert re.search(refused, study("codes", "x", "2", "--output", long, status=1).err)
    assert "of 3 annotators" in study("status", "x").out  # no code was made that nobody has


def test_no_file_of_an_export_is_replaced_unasked(folder: str, study: Command) -> None:
    Path("items.config.yaml").write_text("mine", encoding="utf-8")
    export = ("export", folder, "--as", "potato", "--output", "items.jsonl")
    assert re.search(r"items\.config\.yaml .*--overwrite", study(*export, status=1).err)
    assert not Path("items.jsonl").exists()
    assert "items.jsonl, items.config.yaml" in study(*export, "--overwrite").out
    assert Path("items.config.yaml").read_text(encoding="utf-8") != "mine"


def test_the_example_with_potato_can_be_followed(command: Command) -> None:
    create_study("my-study", plan(two_ways())).close()
    [block] = [part for part in HOW_TO.read_text(encoding="utf-8").split("```") if "potato start" in part]
    for line in block.strip().splitlines():
        name, *given = shlex.split(line, comments=True)
        if name == "mkdir":
            Path(*given).mkdir()
        elif name == "fresh" and "export" in given:
            command(*given)
        elif name == "potato":
            assert Path(given[-1]).is_file()


def test_a_study_may_sample_all_rows_of_a_file(films: Path, study: Command) -> None:
    """So the page says how to keep test rows apart from those of the training."""
    (films / "s.toml").write_text(f"text = 'review'\ncorpus = 'films.csv'\nsample = 2\n{SETTINGS}", encoding="utf-8")
    assert study("new", "s.toml", "--out", "x").out.startswith("2 documents in 1 condition, 6 answers")
    assert "fresh train train.csv --test test.csv`" in HOW_TO.read_text(encoding="utf-8")

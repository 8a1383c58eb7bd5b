import csv
import re
import shlex
import stat
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import pytest

import fresh.study
import small
from command import Command
from fresh.cli.main import main
from fresh.cli.study import _ACTIONS, _quote_study
from fresh.data.splits import Splits
from fresh.document import Example
from fresh.rationalizer import Rationalizer
from fresh.study import (
    Answer,
    create_study,
    exclude,
    export_study,
    get_overview,
    next_item,
    open_study,
    read_documents,
    record_consent,
    save_answer,
    sign_in,
)
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
NEW = ("study", "new", "study.toml", "--device", "cpu")


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
            who = sign_in(store, row["code"])
            assert who is not None
            assert who.id == int(row["annotator"])
            record_consent(store, who.id)
            while (task := next_item(store, who.id)) is not None:
                label = "pos" if {"good", "great"} & set(task.rationale.words) else "neg"
                save_answer(store, who.id, task.item, Answer(label, 4, 5, 2000))


def test_a_study_from_file_to_results(corpus: Path, command: Command) -> None:
    assert command(*NEW, "--out", "a-study").out.splitlines() == [
        "4 documents in 2 conditions, 16 answers wanted.",
        "4 sign-in codes in a-study/codes.csv, and nowhere else. Give one to each annotator.",
        "per_item is 2, an even number: votes can be tied. Choose an odd number.",
    ]
    codes = corpus / "a-study" / "codes.csv"
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


def test_nothing_is_written_if_anything_is_wrong(corpus: Path, command: Command) -> None:
    wrong = STUDY.replace("sample = 4", "sample = 400") + '[conditions.human]\nkind = "human"\n'
    (corpus / "study.toml").write_text(wrong.replace('model = "model"', 'model = "modle"'), encoding="utf-8")
    before = sorted(corpus.iterdir())
    message = command(*NEW, "--out", "a-study", status=1).err
    assert "but there are 0 with marked words" in message
    assert "conditions.FRESH: There is no folder modle. Similar names: model." in message
    assert sorted(corpus.iterdir()) == before


def test_a_folder_made_by_somebody_meanwhile_is_left_alone(
    corpus: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_folder_meanwhile(*given: Any) -> list[Example]:
        (corpus / "a-study").mkdir()
        (corpus / "a-study" / "theirs").touch()
        return read_documents(*given)

    monkeypatch.setattr(fresh.study, "read_documents", make_folder_meanwhile)
    message = "fresh study: a-study cannot be read or written (File exists). Choose another place.\n"
    assert command(*NEW, "--out", "a-study", status=1).err == message
    assert [path.name for path in (corpus / "a-study").iterdir()] == ["theirs"]


def test_a_study_can_have_its_own_database(corpus: Path, database: str, command: Command) -> None:
    url = database if "://" in database else f"sqlite:///{corpus}/other.db"
    command(*NEW, "--database", url, "--codes", "c.csv")
    answer_all(url, corpus / "c.csv")
    assert "16 of 16 answers by 4 annotators." in command("study", "results", url).out


def test_too_few_codes_are_reported(corpus: Path, command: Command) -> None:
    (corpus / "study.toml").write_text("annotators = 3\n" + STUDY, encoding="utf-8")
    assert "at least 4 annotators. To add some: fresh study codes." in command(*NEW, "--out", "few").out


def test_counts_of_one_are_singular(films: Path, command: Command) -> None:
    settings = f"text = 'review'\ncorpus = 'films.csv'\nsample = 1\nper_item = 1\nchecks = 0\n{SETTINGS}"
    (films / "study.toml").write_text(settings, encoding="utf-8")
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


class Say(Protocol):
    def __call__(self, *words: str, fails: bool = False) -> str: ...


@pytest.fixture
def say(command: Command) -> Say:
    """Runs an action and returns what it prints: on standard output, or on standard error if it fails."""

    def run(*words: str, fails: bool = False) -> str:
        out, err = command("study", *words, status=int(fails))
        assert (out == "") == fails
        return err if fails else out

    return run


def test_status_reports_what_is_missing(folder: str, say: Say) -> None:
    first, second, *_ = say("status", folder).splitlines()
    assert first == "3 of 8 answers, by 1 of 1 annotator."
    assert re.search(rf"cannot complete the study: 1 more annotator is needed.*fresh study codes {folder} 1$", second)
    say("codes", folder, "1")
    assert say("status", folder) == (
        "3 of 8 answers, by 1 of 2 annotators.\n  annotator 1 (W1): active, 3 answers, 1.5 s an answer\n"
    )
    assert _quote_study("postgresql://me:secret@db.example.org/films") == "'postgresql://me:***@db.example.org/films'"
    assert _quote_study("my study") == "'my study'"


def test_a_study_is_paused_and_resumed(folder: str, say: Say) -> None:
    assert "was not paused" in say("resume", folder)
    assert say("pause", folder).startswith("Paused")
    assert "already paused" in say("pause", folder)
    assert say("status", folder).startswith("The study is paused")
    assert say("resume", folder).startswith("Resumed")
    assert "The study is paused" not in say("status", folder)


def test_annotators_leave_and_are_excluded_and_readmitted(folder: str, say: Say) -> None:
    def state() -> str:
        with closing(open_study(folder)) as store:
            return get_overview(store).annotators[0].state

    assert re.search("no annotator '7'.*fresh study status", say("leave", folder, "7", fails=True))
    assert "Annotator 1" in say("readmit", folder, "1", fails=True)
    assert re.search("Annotator 1 .*1", say("leave", folder, "W1"))
    assert state() == "left"
    assert re.search("Annotator 1 is excluded.*3", say("exclude", folder, "1"))
    assert re.search("Annotator 1 is excluded.*readmit", say("leave", folder, "1", fails=True))
    assert state() == "excluded"
    with closing(open_study(folder)) as store:
        for who in join(store, "W2", "W3"):  # the second gets the first item of annotator 1
            work(store, who, 1)
    assert re.search("Annotator 1 .*\n.*1", say("readmit", folder, "W1"))
    assert state() == "active"


def test_help_shows_how_to_use_each_action(capsys: pytest.CaptureFixture[str]) -> None:
    for action in _ACTIONS:
        with pytest.raises(SystemExit, match=r"^0$"):
            main(["study", action, "--help"])
        assert f"\n  fresh study {action} " in capsys.readouterr().out


def test_the_import_reports_answers_that_do_not_count(folder: str, command: Command) -> None:
    with closing(open_study(folder)) as store:
        exclude(store, 1)
        [file] = export_study(store, "csv", Path("a.csv"))
    create_study("copy", plan(two_ways(), sample=4, practice=0, checks=0, per_item=1)).close()
    shown = command("study", "import", "copy", file, "--as", "csv")
    assert shown.out.startswith("3 new, 0 ")
    assert re.search("3 new answers do not count.*\n.*W1", shown.err)


def test_an_unwritable_place_is_named(films: Path, say: Say) -> None:
    (films / "s.toml").write_text(f"text = 'review'\ncorpus = 'films.csv'\nsample = 1\n{SETTINGS}", encoding="utf-8")
    assert re.search(r"films\.csv/x .*\(Not a directory\)", say("new", "s.toml", "--out", "films.csv/x", fails=True))
    long = "c" * 250  # with .partial behind it, the name is too long for a file
    refused = rf"{long} .*\(File name too long\)"
    assert re.search(refused, say("new", "s.toml", "--out", "x", "--codes", long, fails=True))
    assert not (films / "x").exists()
    say("new", "s.toml", "--out", "x")
    assert re.search(refused, say("codes", "x", "2", "--output", long, fails=True))
    assert "of 3 annotators" in say("status", "x")  # no code was made that nobody has


def test_no_file_of_an_export_is_replaced_unasked(folder: str, say: Say) -> None:
    Path("items.config.yaml").write_text("mine", encoding="utf-8")
    export = ("export", folder, "--as", "potato", "--output", "items.jsonl")
    assert re.search(r"items\.config\.yaml .*--overwrite", say(*export, fails=True))
    assert not Path("items.jsonl").exists()
    assert "items.jsonl, items.config.yaml" in say(*export, "--overwrite")
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


def test_a_study_may_sample_all_rows_of_a_file(films: Path, say: Say) -> None:
    """So the page says how to keep test rows apart from those of the training."""
    (films / "s.toml").write_text(f"text = 'review'\ncorpus = 'films.csv'\nsample = 2\n{SETTINGS}", encoding="utf-8")
    assert say("new", "s.toml", "--out", "x").startswith("2 documents in 1 condition, 6 answers")
    assert "fresh train train.csv --test test.csv`" in HOW_TO.read_text(encoding="utf-8")

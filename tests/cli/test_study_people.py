"""Commands about annotators, and what `fresh study` prints where something cannot be read or written."""

import errno
import re
import shlex
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import pytest

from command import Command
from fresh.cli.main import main
from fresh.cli.study import _ACTIONS, _quote_study
from fresh.study import create_study, exclude, export_study, get_overview, next_item, open_study
from studies import as_earlier, join, plan, two_ways, work

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "study.md"
SETTINGS = "practice = 0\n[conditions.all]\nkind = 'full_text'\n"


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


@pytest.mark.usefixtures("films")
def test_messages_name_settings_of_the_study_file(say: Say) -> None:
    message = say("new", "s.toml", "--out", "x", fails=True)
    assert re.search(r"films\.csv has no column 'text'.*review, label.*`text`", message)
    Path("s.toml").write_text(f"corpus = 'imdb'\nsample = 1\n{SETTINGS}", encoding="utf-8")
    assert re.search(r"imdb does not exist.*sst, agnews", say("new", "s.toml", "--out", "x", fails=True))


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


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "answers.csv"), r"answers\.csv .*\(Permission denied\)"),
        (OSError(errno.ENOSPC, "No space left on device"), r"answers\.csv .*\(No space left on device\).*space"),
    ],
)
def test_a_file_that_cannot_be_written_is_named(
    folder: str, say: Say, monkeypatch: pytest.MonkeyPatch, error: OSError, message: str
) -> None:
    def refuse(*_given: Any, **_more: Any) -> None:
        raise error

    monkeypatch.setattr(Path, "write_text", refuse)
    assert re.search(message, say("export", folder, "--as", "csv", "--output", "answers.csv", fails=True))
    assert sorted(path.name for path in Path().iterdir()) == [folder]


@pytest.mark.usefixtures("here")
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

"""Commands about annotators, and what `fresh study` says where something cannot be read or written."""

import errno
import re
import shlex
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fresh.cli.main import main
from fresh.cli.study import _quote_study
from fresh.study.annotators import exclude
from fresh.study.export import export_study
from fresh.study.overview import get_overview
from fresh.study.service import next_item
from fresh.study.store import create_study, open_study
from studies import as_earlier, join, plan, two_ways, work

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "study.md"
SETTINGS = "sample = 1\npractice = 0\n[conditions.all]\nkind = 'full_text'\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A study of eight answers, of which one annotator has given three and has one item before them."""
    monkeypatch.chdir(tmp_path)
    with closing(create_study("x", plan(two_ways(), sample=4, practice=0, checks=0, per_item=1))) as store:
        [who] = join(as_earlier(store), "W1")
        work(as_earlier(store), who, 3)
        next_item(as_earlier(store), who)
    return "x"


@pytest.fixture
def films(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work where some texts and a study file are."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "films.csv").write_text("review,label\na good film,pos\na bad film,neg\n", encoding="utf-8")
    (tmp_path / "s.toml").write_text(f"corpus = 'films.csv'\n{SETTINGS}", encoding="utf-8")
    return tmp_path


@pytest.fixture
def says(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command and takes what it says."""

    def run(*words: str, fails: bool = False) -> str:
        assert main(["study", *words]) == int(fails)
        out, err = capsys.readouterr()
        assert (out == "") == fails
        return str(err if fails else out)

    return run


def test_what_is_missing_is_told_by_status(folder: str, says: Any) -> None:
    first, second, *_ = says("status", folder).splitlines()
    assert first == "3 of 8 answers, by 1 of 1 annotator."
    assert re.search(rf"cannot complete the study: 1 more annotator is needed.*fresh study codes {folder} 1$", second)
    says("codes", folder, "1")
    assert says("status", folder) == (
        "3 of 8 answers, by 1 of 2 annotators.\n  annotator 1 (W1): active, 3 answers, 1.5 s an answer\n"
    )
    assert _quote_study("postgresql://me:secret@db.example.org/films") == "'postgresql://me:***@db.example.org/films'"
    assert _quote_study("my study") == "'my study'"


def test_a_study_is_paused_and_resumed(folder: str, says: Any) -> None:
    first = [says(command, folder) for command in ("resume", "pause", "pause")]
    assert "was not paused" in first[0]
    assert first[1].startswith("Paused")
    assert "paused already" in first[2] or "already paused" in first[2]
    assert says("status", folder).startswith("The study is paused")
    assert says("resume", folder) != first[0]
    assert "The study is paused" not in says("status", folder)


def test_annotators_leave_are_excluded_and_come_back(folder: str, says: Any) -> None:
    def state() -> str:
        with closing(open_study(folder)) as store:
            return get_overview(store).annotators[0].state

    assert "Annotator 1" in says("readmit", folder, "1", fails=True)
    assert re.search("Annotator 1 .*1", says("leave", folder, "W1"))
    assert state() == "left"
    assert re.search("Annotator 1 is excluded.*3", says("exclude", folder, "1"))
    assert re.search("Annotator 1 is excluded.*readmit", says("leave", folder, "1", fails=True))
    assert state() == "excluded"
    with closing(open_study(folder)) as store:
        for who in join(store, "W2", "W3"):  # the second gets the first item of annotator 1
            work(store, who, 1)
    assert re.search("Annotator 1 .*\n.*1", says("readmit", folder, "W1"))
    assert state() == "active"


@pytest.mark.parametrize("action", ["leave", "exclude", "readmit"])
def test_an_unknown_annotator_is_refused(folder: str, says: Any, action: str) -> None:
    assert re.search("no annotator '7'.*fresh study status", says(action, folder, "7", fails=True))


@pytest.mark.parametrize(
    ("action", "taught"),
    [
        ("status", "attention check"),
        ("pause", "fresh study resume"),
        ("resume", "again"),
        ("leave", "fresh study leave my-study 3 "),
        ("exclude", "fresh study readmit"),
        ("readmit", "xclu"),
    ],
)
def test_help_teaches(action: str, taught: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["study", action, "--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    assert f"fresh study {action}" in shown
    assert taught in shown


def test_the_import_says_what_does_not_count(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(open_study(folder)) as store:
        exclude(store, 1)
        [file] = export_study(store, "csv", Path("a.csv"))
    create_study("copy", plan(two_ways(), sample=4, practice=0, checks=0, per_item=1)).close()
    assert main(["study", "import", "copy", str(file), "--as", "csv"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("3 new, 0 ")
    assert re.search("3 new answers do not count.*\n.*W1", err)


@pytest.mark.usefixtures("films")
def test_settings_are_named_as_the_study_file_has_them(says: Any) -> None:
    assert re.search(
        r"films\.csv has no column 'text'.*review, label.*`text`", says("new", "s.toml", "--out", "x", fails=True)
    )
    Path("s.toml").write_text(f"corpus = 'imdb'\n{SETTINGS}", encoding="utf-8")
    assert re.search(r"imdb does not exist.*sst, agnews", says("new", "s.toml", "--out", "x", fails=True))


def test_a_folder_that_cannot_be_written_to_is_told(films: Path, says: Any) -> None:
    text = (films / "s.toml").read_text(encoding="utf-8")
    (films / "s.toml").write_text(f"text = 'review'\n{text}", encoding="utf-8")
    assert re.search(r"films\.csv/x .*\(Not a directory\)", says("new", "s.toml", "--out", "films.csv/x", fails=True))
    long = "c" * 250  # with .partial behind it, no file can be called that
    refused = rf"{long} .*\(File name too long\)"
    assert re.search(refused, says("new", "s.toml", "--out", "x", "--codes", long, fails=True))
    assert not (films / "x").exists()
    says("new", "s.toml", "--out", "x")
    assert re.search(refused, says("codes", "x", "2", "--output", long, fails=True))
    assert "of 3 annotators" in says("status", "x")  # no code was made that nobody has


def test_no_file_is_replaced_unasked(folder: str, says: Any) -> None:
    """Nor the configuration that some tools need next to their items."""
    Path("items.config.yaml").write_text("mine", encoding="utf-8")
    export = ("export", folder, "--as", "potato", "--output", "items.jsonl")
    assert re.search(r"items\.config\.yaml .*--overwrite", says(*export, fails=True))
    assert not Path("items.jsonl").exists()
    assert "items.jsonl, items.config.yaml" in says(*export, "--overwrite")
    assert Path("items.config.yaml").read_text(encoding="utf-8") != "mine"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "answers.csv"), r"answers\.csv .*\(Permission denied\)"),
        (OSError(errno.ENOSPC, "No space left on device"), r"answers\.csv .*\(No space left on device\).*space"),
    ],
)
def test_a_file_that_cannot_be_written_is_named(
    folder: str, says: Any, monkeypatch: pytest.MonkeyPatch, error: OSError, told: str
) -> None:
    def refuse(*_given: Any, **_more: Any) -> None:
        raise error

    monkeypatch.setattr(Path, "write_text", refuse)
    assert re.search(told, says("export", folder, "--as", "csv", "--output", "answers.csv", fails=True))
    assert sorted(path.name for path in Path().iterdir()) == [folder]


def test_the_example_with_potato_can_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    create_study("my-study", plan(two_ways())).close()
    [block] = [part for part in HOW_TO.read_text(encoding="utf-8").split("```") if "potato start" in part]
    for line in block.strip().splitlines():
        command, *given = shlex.split(line, comments=True)
        if command == "mkdir":
            Path(*given).mkdir()
        elif command == "fresh" and "export" in given:
            assert main(given) == 0
        elif command == "potato":
            assert Path(given[-1]).is_file()


def test_rows_for_a_study_are_kept_apart_as_the_docs_say(films: Path, says: Any) -> None:
    """All rows of a file of your own may be drawn."""
    settings = "text = 'review'\nsample = 2\npractice = 0\n[conditions.all]\nkind = 'full_text'\n"
    (films / "s.toml").write_text(f"corpus = 'films.csv'\n{settings}", encoding="utf-8")
    assert says("new", "s.toml", "--out", "x").startswith("2 documents in 1 condition, 6 answers")
    assert "fresh train train.csv --test test.csv`" in HOW_TO.read_text(encoding="utf-8")

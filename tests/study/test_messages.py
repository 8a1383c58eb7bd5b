"""What `fresh study` says where something cannot be read or written."""

from pathlib import Path
from typing import Any

import pytest

import fresh.study.store
from fresh.cli.main import main
from fresh.errors import StudyError
from fresh.study.store import _prepare, create_study, open_study
from studies import plan, two_ways

SETTINGS = "sample = 1\npractice = 0\n[conditions.all]\nkind = 'full_text'\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work where some texts and a study file are."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "films.csv").write_text("review,label\na good film,pos\na bad film,neg\n", encoding="utf-8")
    (tmp_path / "s.toml").write_text(f"corpus = 'films.csv'\n{SETTINGS}", encoding="utf-8")
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *given: str) -> str:
    """Run a command that fails, and take what it says."""
    assert main(["study", *given]) == 1
    return capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_settings_are_named_as_the_study_file_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "new", "s.toml", "--out", "x") == (
        "fresh study: films.csv has no column 'text' for the text. It has: review, label. "
        "Name the right one with `text`.\n"
    )


def test_a_folder_that_cannot_be_written_to_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (folder / "s.toml").read_text(encoding="utf-8")
    (folder / "s.toml").write_text(f"text = 'review'\n{text}", encoding="utf-8")
    assert told(capsys, "new", "s.toml", "--out", "films.csv/x") == (
        "fresh study: The study cannot be written to films.csv/x (Not a directory). "
        "Choose a folder that you may write to.\n"
    )
    long = "c" * 250  # with .partial behind it, no file can be called that
    refused = f"fresh study: Codes cannot be written to {long} (File name too long). Choose another file.\n"
    assert told(capsys, "new", "s.toml", "--out", "x", "--codes", long) == refused
    assert not (folder / "x").exists()
    assert main(["study", "new", "s.toml", "--out", "x"]) == 0
    capsys.readouterr()
    assert told(capsys, "codes", "x", "2", "--output", long) == refused
    assert main(["study", "status", "x"]) == 0
    assert "of 3 annotators" in capsys.readouterr().out  # no code was made that nobody has


def test_no_file_is_replaced_unasked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor the settings that some tools want beside their items."""
    create_study(folder / "x", plan(two_ways())).close()
    (folder / "items.config.yaml").write_text("mine", encoding="utf-8")
    assert told(capsys, "export", "x", "--as", "potato", "--output", "items.jsonl") == (
        "fresh study: items.config.yaml is there already. Choose another file, or replace it: --overwrite.\n"
    )
    assert not (folder / "items.jsonl").exists()
    assert told(capsys, "export", "x", "--as", "mturk", "--output", "batch.html") == (
        "fresh study: batch.html is where the settings for mturk go. Let the name of the file end otherwise.\n"
    )
    assert main(["study", "export", "x", "--as", "potato", "--output", "items.jsonl", "--overwrite"]) == 0
    assert capsys.readouterr().out == "Written: items.jsonl, items.config.yaml\n"
    assert (folder / "items.config.yaml").read_text(encoding="utf-8") != "mine"


def test_a_file_that_may_not_be_written_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    create_study(folder / "x", plan(two_ways())).close()

    def refuse(place: Path, *_given: Any, **_more: Any) -> None:
        raise PermissionError(13, "Permission denied", str(place))

    monkeypatch.setattr(Path, "write_text", refuse)
    assert told(capsys, "export", "x", "--as", "csv", "--output", "answers.csv") == (
        "fresh study: answers.csv cannot be read or written (Permission denied). See that you may, or choose another "
        "place.\n"
    )


def test_a_database_that_may_only_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_study(tmp_path, plan(two_ways())).close()

    def only_read(connection: Any, record: Any) -> None:
        _prepare(connection, record)
        connection.execute("PRAGMA query_only = ON")  # also for whoever may do everything, as in containers

    monkeypatch.setattr(fresh.study.store, "_prepare", only_read)
    with pytest.raises(StudyError) as caught:
        open_study(tmp_path)
    assert str(caught.value) == (
        f"The database sqlite:///{tmp_path / 'study.db'} cannot be written to (attempt to write a readonly database). "
        "A study is written to also where it is only looked at: see that you may write to the file and to its folder."
    )

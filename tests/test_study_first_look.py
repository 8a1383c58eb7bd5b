"""What whoever sets up their first study runs into."""

import shlex
from pathlib import Path

import pytest

from fresh.cli import main
from fresh.study.settings import Texts
from fresh.study.store import create_study
from studies import plan, two_ways

HOW_TO = Path(__file__).parents[1] / "docs" / "how-to" / "study.md"


def told(capsys: pytest.CaptureFixture[str], *given: str) -> str:
    """Run a command that fails, and take what it says."""
    assert main(["study", *given]) == 1
    return capsys.readouterr().err


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


def test_the_usual_texts_are_true_of_all_conditions() -> None:
    assert "short" not in Texts().consent
    assert Texts().instructions.startswith("Each page shows a text, or only some words of one:")


def test_a_name_that_no_corpus_has_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text("corpus = 'imdb'\n[conditions.all]\nkind = 'full_text'\n", encoding="utf-8")
    assert told(capsys, "new", "s.toml", "--out", "x") == (
        "fresh study: imdb does not exist, and imdb is not the name of a corpus. "
        "There are: sst, agnews, evinf, movies, multirc, each with data_dir in s.toml. Else name a file.\n"
    )

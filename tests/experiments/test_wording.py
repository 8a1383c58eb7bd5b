from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import small
from experiments import run, toy_grid, write_grid
from fresh.data.splits import Splits
from fresh.errors import ConfigError
from fresh.experiments.wording import WHERE, for_grids

TOLD = {
    "leave such rows out with --skip-bad.": "leave such rows out with skip_bad = true.",
    "Name the right one with --text.": "Name the right one with text.",
    "look at the column that --label names.": "look at the column that label names.",
    "Say --format doccano, or leave --format out.": "Say format = 'doccano', or leave format out.",
    "leave the column out with --query ''.": "leave the column out with query = ''.",
    "give files for them with --dev and --test.": "give files for them with dev and test.",
    "crf can only be had with a tagger: --tagger.": "crf can only be had with a tagger: tagger = true.",
    "a range is for --method fresh.": "a range is for method = 'fresh'.",
    "Try --device auto.": "Try device auto.",
}
OURS = ["Say where its files are: --data-dir FOLDER.", "Try again what failed: --retry.", "A -- B", "no option"]


@pytest.mark.parametrize("message", TOLD)
def test_options_of_a_training_are_named_as_settings(message: str) -> None:
    assert for_grids(message) == f"{TOLD[message]} {WHERE}"


@pytest.mark.parametrize("message", OURS)
def test_options_of_a_grid_stay_as_they_are(message: str) -> None:
    assert for_grids(message) == message


@pytest.fixture
def refused(encoders: dict[str, Path], tmp_path: Path) -> Callable[..., list[str]]:
    """Run a grid over a file of one's own, and list what it is refused for."""

    def refuse(rows: list[dict[str, Any]], **row: Any) -> list[str]:
        small.write_jsonl(tmp_path / "mine.jsonl", rows)
        corpora = {"mine": {"data": "mine.jsonl"}}
        path = write_grid(tmp_path / "grid.toml", row, settings=small.settings(encoders["bert"]), corpora=corpora)
        with pytest.raises(ConfigError) as caught:
            run(path)
        return str(caught.value).splitlines()[1:-1]

    return refuse


def test_what_is_wrong_with_a_corpus_is_told_for_a_grid(refused: Callable[..., list[str]]) -> None:
    rows: list[dict[str, Any]] = [{"id": f"{number}", "text": "a b", "label": "pn"[number % 2]} for number in range(9)]
    assert refused([{**rows[0], "text": ""}, *rows[1:]], method="random") == [
        "mine.jsonl, line 1: the text has no words. Mend the row, or leave such rows out with skip_bad = true. "
        "(Settings stand in a row, in [corpora.NAME] or in [settings] of the grid file, or behind --set.)"
    ]
    assert refused(rows, method="random", text="review") == [
        "mine.jsonl has no column 'review' for the text. It has: id, text, label. Name the right one with text. "
        "(Settings stand in a row, in [corpora.NAME] or in [settings] of the grid file, or behind --set.)"
    ]
    assert refused(rows, scorer="attention", crf=True) == [
        "crf can only be had with a tagger: tagger = true. "
        "(Settings stand in a row, in [corpora.NAME] or in [settings] of the grid file, or behind --set.)"
    ]


def test_what_a_run_fails_for_is_told_for_a_grid(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> None:
    path = toy_grid(tmp_path, toy, encoders["bert"], {"method": "random", "device": "nowhere"})
    [reason] = run(path).failures.values()
    assert reason.startswith("ValueError: device 'nowhere' cannot be used here: ")
    assert reason.endswith(f". Try device auto. {WHERE}")

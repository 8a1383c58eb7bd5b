from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import small
from experiments import run, toy_grid, write_grid
from fresh.data.splits import Splits
from fresh.errors import ConfigError


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
        "mine.jsonl, line 1: the text has no words. Fix the row, or leave such rows out with skip_bad=True."
    ]
    assert refused(rows, method="random", text="review") == [
        "mine.jsonl has no column 'review' for the text. It has: id, text, label. Name the right one with `text`."
    ]
    assert refused(rows, scorer="attention", crf=True) == ["crf can only be had with a tagger: tagger=True."]


def test_what_a_run_fails_for_is_told_for_a_grid(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> None:
    path = toy_grid(tmp_path, toy, encoders["bert"], {"method": "random", "device": "nowhere"})
    [reason] = run(path).failures.values()
    assert reason.startswith("ValueError: device 'nowhere' cannot be used here: ")
    assert reason.endswith(". Try device=auto.")

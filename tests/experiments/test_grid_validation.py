from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments import write_grid
from fresh.errors import ConfigError
from fresh.experiments.grid_file import read_grid

MINE = {"mine": {"data": "mine.csv"}}
Problems = Callable[..., list[str]]


@pytest.fixture
def problems(tmp_path: Path) -> Problems:
    """Read a grid file, and list what is wrong with it."""

    def find(*rows: dict[str, Any], overrides: dict[str, Any] | None = None, **parts: Any) -> list[str]:
        path = write_grid(tmp_path / "grid.toml", *rows, **parts)
        try:
            read_grid(path, overrides)
        except ConfigError as error:
            return [line.removeprefix(f"In {path}: ") for line in str(error).splitlines()]
        return []

    return find


def test_a_misspelt_corpus_is_recognised_be_it_ones_own_or_the_papers(problems: Problems) -> None:
    told = "{} is not a corpus of this grid or of the paper. Did you mean {}?"
    both = [told.format("mien", "mine"), told.format("moves", "movies")]
    assert problems({}, grid={"corpus": ["mien", "sst", "moves"]}, corpora=MINE) == both
    assert problems({"corpus": "mien"}, {"corpus": "mine"}, corpora=MINE) == both[:1]
    assert problems({}, overrides={"corpus": "mien"}, corpora=MINE) == both[:1]


def test_a_corpus_like_no_other_hears_all_there_are(problems: Problems) -> None:
    told = "xyz is not a corpus of this grid or of the paper. There are: mine, sst, agnews, evinf, movies, multirc."
    assert problems({}, grid={"corpus": ["xyz"]}, corpora=MINE) == [told]


def test_a_corpus_of_ones_own_needs_data(problems: Problems) -> None:
    told = "the corpus mine has no data. Say where it is: data = 'FILE' in [corpora.mine]."
    assert problems({}, grid={"corpus": "mine"}, corpora={"mine": {"ratio": 0.2}}) == [told]


def test_a_corpus_that_no_row_is_tried_on_is_a_mistake(problems: Problems) -> None:
    tables = {"ssst": {"epochs": 1}, "mine": {"data": "mine.csv"}}
    assert problems({}, grid={"corpus": ["sst", "movies"]}, corpora=tables) == [
        f"[corpora.{name}] is of no use: rows are tried on sst, movies only. "
        "Mend its name, name it in corpus too, or leave it out."
        for name in tables
    ]
    assert problems({"corpus": "mine"}, {"corpus": "sst"}, corpora={**MINE, "sst": {"epochs": 1}}) == []


def test_a_corpus_that_only_this_command_leaves_out_is_none(problems: Problems) -> None:
    grid = {"corpus": ["sst", "mine"]}
    assert problems({}, grid=grid, corpora={**MINE, "sst": {"epochs": 1}}, overrides={"corpus": "sst"}) == []
    assert problems({}, grid={"corpus": "sst"}, corpora=MINE, overrides={"corpus": "mine"}) == []


def test_a_grid_without_rows_hears_what_one_looks_like(problems: Problems) -> None:
    told = (
        "there are no rows, so there is nothing to train. A row looks like this: [[rows]] in one line, and in "
        "the next, for example, scorer = 'attention' or method = 'full_text'."
    )
    assert problems(grid={"corpus": ["sst", "moves"]}) == [told]
    assert problems(row=[{}]) == ["row is not a part of a grid. Did you mean rows?"]
    assert problems({}, grid={"corpus": "sst"}) == []


def test_two_runs_of_one_name_that_differ_are_refused(problems: Problems) -> None:
    told = "two runs are called sst, ours, seed 0, but differ: {}. Give their rows names of their own."
    grid = {"corpus": "sst", "seed": [0, 1]}
    ours, more = {"name": "ours"}, {"name": "ours", "epochs": 3}
    assert problems(ours, more, grid=grid) == [told.format("epochs is not given and 3")]
    assert problems(more, {**more, "epochs": 4, "reads": "complement"}, grid=grid) == [
        told.format("reads is 'rationale' and 'complement'; epochs is 3 and 4")
    ]
    assert problems(ours, {"name": "ours", "method": "lei"}, grid=grid) == [
        told.format("method is 'fresh' and 'lei'"),
    ]


def test_a_row_over_seeds_must_be_the_same_for_each(problems: Problems) -> None:
    rows = [{"name": "ours", "seed": [0, 1], "epochs": 3}, {"name": "ours", "seed": [2, 3], "epochs": 4}]
    assert problems(*rows, grid={"corpus": ["sst", "movies"]}) == [
        f"{corpus}, ours, seed 0 and {corpus}, ours, seed 2 are one row, but differ: epochs is 3 and 4. "
        "Give their rows names of their own."
        for corpus in ("sst", "movies")
    ]
    assert problems(*rows, grid={"corpus": "sst"}, overrides={"epochs": "1"}) == []


def test_a_row_may_differ_between_corpora_and_come_in_parts(problems: Problems) -> None:
    assert problems({"name": "a", "corpus": "sst", "epochs": 3}, {"name": "a", "corpus": "movies", "epochs": 4}) == []
    assert problems({"name": "a", "seed": 0}, {"name": "a", "seed": 1}, {"name": "a"}, grid={"corpus": "sst"}) == []


def test_what_is_drawn_may_differ_between_seeds_but_not_from_where(problems: Problems) -> None:
    row = {"name": "Lei", "method": "lei", "trials": 2, "draw": {"lambda_1": "0.01:1:log"}}
    grid = {"corpus": "sst", "seed": [0, 1]}
    assert problems(row, {**row, "seed": [1, 2], "trials": 1}, grid=grid) == []
    told = "but differ: lambda_1 is '0.01:1:log' and {}. Give their rows names of their own."
    other = {**row, "draw": {"lambda_1": "0.1:1"}, "seed": 2, "trials": 1}
    both = "sst, Lei, trial 0, seed 0 and sst, Lei, trial 0, seed 2 are one row, "
    assert problems(row, other, grid=grid) == [both + told.format("'0.1:1'")]
    fixed = {"name": "Lei, trial 0", "method": "lei", "seed": 2}
    assert problems(row, fixed, grid=grid) == [both + told.format("not given")]
    assert problems(row, other, grid=grid, overrides={"lambda_1": "0.5"}) == []

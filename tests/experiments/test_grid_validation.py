"""Parts, names and corpora of a grid file that are wrong, and runs that go by one label."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments import write_grid
from fresh.errors import ConfigError
from fresh.experiments.grid_file import read_grid

MINE = {"mine": {"data": "mine.csv"}}
SST = {"corpus": "sst"}
SETTING = "is not a setting. Did you mean"
Problems = Callable[..., list[str]]


@pytest.mark.parametrize(
    ("parts", "messages"),
    [
        ({"grid": 1, "figure": 2}, ["grid must be a table, as in [grid].", "figure must be a table, as in [figure]."]),
        ({"corpora": {"toy": 3}}, ["toy must be a table, as in [corpora.toy]."]),
        ({"corpora": {"toy": {"data": 3}}}, ["data of the corpus toy must name one or more files, got 3."]),
        ({"documents": 0}, ["documents must be a whole number of at least 1, got 0."]),
        ({"documents": "all"}, ["documents must be a whole number of at least 1, got 'all'."]),
        ({"name": "../main"}, ["name must be a valid file name, got '../main'."]),
        ({"corpus": "x"}, ["corpus is not a part of a grid. It belongs in [grid], in a row, or in `overrides`."]),
        ({"epochs": 1}, ["epochs is not a part of a grid. The setting epochs belongs in [settings], in [grid] or in"]),
        ({"seeds": 1}, ["seeds is not a part of a grid. The setting seed belongs in [settings]"]),
        ({"train": 1}, ["train is not a part of a grid. Settings of all runs belong in [settings.train]."]),
        ({"workers": 1}, ["workers is not a part of a grid. It is passed as `workers`."]),
        ({"setting": 1}, ["setting is not a part of a grid. Did you mean settings?"]),
        ({"row": [{}]}, ["row is not a part of a grid. Did you mean rows?"]),
        ({"title": "x"}, ["title is not a part of a grid. There are: name, about, documents, settings, grid, corpora"]),
    ],
    ids=str,
)
def test_wrong_parts_are_named(parts: dict[str, Any], messages: list[str], problems: Problems) -> None:
    for problem, message in zip(problems({}, **parts), messages, strict=True):
        assert problem.startswith(message)


@pytest.mark.parametrize("text", ["rows = 3", "rows = []", "rows = [1]"])
def test_rows_must_be_tables(text: str, tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"rows must be tables, each under its own \[\[rows\]\]\."):
        read_grid(tmp_path / "grid.toml")


def test_a_grid_without_rows_gets_an_example(problems: Problems) -> None:
    [problem] = problems(grid={"corpus": ["sst", "moves"]})
    assert problem.startswith("there are no rows, so there is nothing to train. Add one: a line [[rows]]")


ROW: dict[str, tuple[Any, str]] = {
    "epoch": (3, f"{SETTING} epochs?"),
    "learning-rate": (0.1, f"{SETTING} learning_rate?"),
    "trial": (3, f"{SETTING} trials?"),
    "read": ("complement", f"{SETTING} reads?"),
    "names": ("ours", f"{SETTING} name?"),
    "train.epoch": (3, f"{SETTING} train.epochs?"),
    "settings.epochs": (3, "is not a table of settings. There are: draw, data, network, train, engine, scoring"),
    "draws": ({"lambda_1": "0:1"}, "is not a table of settings. Did you mean draw?"),
    "documents": (9, "is not a setting. It belongs at the top of the file, or is passed as `documents`."),
    "data": ("a.csv", "is not a setting. It belongs in [corpora.NAME]."),
    "workers": (3, "is not a setting. It is passed as `workers`."),
    "data_dir": ("x", "is not a setting. It is passed as `data_dir`."),
    "corpora": (["sst"], "is not a setting. Name corpora with corpus, in [grid], in a row, or in `overrides`."),
    "lr": (0.1, "is not a setting. There are: name, corpus, reads, draw, trials, method, "),
}


@pytest.mark.parametrize("name", ROW)
def test_wrong_names_in_a_row(name: str, problems: Problems) -> None:
    value, message = ROW[name]
    shown = name.partition(".")[0] if "table" in message else name
    [problem] = problems({"method": "lei"}, {name: value}, grid=SST)
    assert problem.startswith(f"row 2: {shown} {message}")
    [problem] = problems({"name": "ours", name: value}, grid=SST)
    assert problem.startswith(f"row ours: {shown} {message}")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"grid": {**SST, "reads": ["complement"]}}, "[grid]: reads is not a setting. It belongs in a row."),
        ({"settings": SST}, "[settings]: corpus is not a setting. It belongs in [grid], in a row, or in"),
        ({"corpora": {"sst": {"epoch": 1}}}, f"[corpora.sst]: epoch {SETTING} epochs?"),
        ({"overrides": {"trials": "3"}}, "`overrides`: trials is not a setting. It belongs in a row."),
        ({"overrides": {"grid.seed": "3"}}, f"`overrides`: grid.seed {SETTING} seed?"),
    ],
    ids=str,
)
def test_each_place_has_names_of_its_own(parts: dict[str, Any], message: str, problems: Problems) -> None:
    [problem] = problems({}, **{"grid": SST, **parts})
    assert problem.startswith(message)


def test_a_setting_is_given_once_in_a_place_by_whatever_name(problems: Problems) -> None:
    message = "epochs is given twice, once as train.epochs. Remove one of them."
    assert problems({}, {}, grid=SST, settings={"epochs": 1, "train": {"epochs": 2}}) == [message]
    assert problems({"epochs": [1, 2], "train": {"epochs": 2}}, grid=SST) == [message]
    assert problems({"epochs": 1}, grid=SST, settings={"train.epochs": 2}) == []


def test_an_override_is_given_once(tmp_path: Path) -> None:
    path = write_grid(tmp_path / "grid.toml", {}, grid=SST)
    with pytest.raises(ConfigError, match=r"epochs is given twice, once as train\.epochs"):
        read_grid(path, {"epochs": "1", "train.epochs": "2"})


def test_right_names_are_accepted(problems: Problems) -> None:
    row = {"name": "ours", "method": "lei", "lambda_1": 0.1, "reads": "rationale", "train.epochs": 2, **SST}
    drawn = {"name": "drawn", "method": "lei", "draw": {"lambda_1": "0:1"}, "trials": 2}
    parts: dict[str, Any] = {
        "settings": {"network": {"layers": 2}},
        "corpora": {"mine": {"data": "a.csv", "text": "t"}},
        "grid": {"corpus": ["sst", "mine"], "seed": [0, 1]},
    }
    assert problems(row, drawn, **parts, overrides={"corpus": ["sst", "mine"], "train.patience": "3"}) == []


# Corpora


def test_a_misspelt_corpus_is_recognized(problems: Problems) -> None:
    message = "{} is not a corpus of this grid or of the paper. Did you mean {}?"
    both = [message.format("mien", "mine"), message.format("moves", "movies")]
    assert problems({}, grid={"corpus": ["mien", "sst", "moves"]}, corpora=MINE) == both
    assert problems({"corpus": "mien"}, {"corpus": "mine"}, corpora=MINE) == both[:1]
    assert problems({}, overrides={"corpus": "mien"}, corpora=MINE) == both[:1]
    [problem] = problems({}, grid={"corpus": ["xyz"]}, corpora=MINE)
    assert problem.endswith("There are: mine, sst, agnews, evinf, movies, multirc.")


def test_a_custom_corpus_needs_data(problems: Problems) -> None:
    [problem] = problems({}, grid={"corpus": "mine"}, corpora={"mine": {"ratio": 0.2}})
    assert problem == "the corpus mine has no data. Name its files: data = 'FILE' in [corpora.mine]."


def test_a_table_of_a_corpus_that_no_row_uses_is_a_mistake(problems: Problems) -> None:
    tables = {"ssst": {"epochs": 1}, "mine": {"data": "mine.csv"}}
    found = problems({}, grid={"corpus": ["sst", "movies"]}, corpora=tables)
    for problem, name in zip(found, tables, strict=True):
        assert problem.startswith(f"[corpora.{name}] is not used: the corpora of the rows are sst, movies.")
    assert problems({"corpus": "mine"}, SST, corpora={**MINE, "sst": {"epochs": 1}}) == []


def test_a_corpus_that_only_overrides_leave_out_is_no_mistake(problems: Problems) -> None:
    grid = {"corpus": ["sst", "mine"]}
    assert problems({}, grid=grid, corpora={**MINE, "sst": {"epochs": 1}}, overrides=SST) == []
    assert problems({}, grid=SST, corpora=MINE, overrides={"corpus": "mine"}) == []


# Runs with one label


def test_two_runs_of_one_label_that_differ_are_refused(problems: Problems) -> None:
    grid = {**SST, "seed": [0, 1]}
    start, end = "two runs are called sst, ours, seed 0, but differ: ", ". Give their rows different names."
    ours, more = {"name": "ours"}, {"name": "ours", "epochs": 3}
    for rows, difference in (
        ((ours, more), "epochs is not given and 3"),
        (
            (more, {**more, "epochs": 4, "reads": "complement"}),
            "reads is 'rationale' and 'complement'; epochs is 3 and 4",
        ),
        ((ours, {"name": "ours", "method": "lei"}), "method is 'fresh' and 'lei'"),
    ):
        assert problems(*rows, grid=grid) == [start + difference + end]


def test_a_row_over_seeds_must_be_the_same_for_each(problems: Problems) -> None:
    rows = [{"name": "ours", "seed": [0, 1], "epochs": 3}, {"name": "ours", "seed": [2, 3], "epochs": 4}]
    found = problems(*rows, grid={"corpus": ["sst", "movies"]})
    for problem, corpus in zip(found, ("sst", "movies"), strict=True):
        assert problem.startswith(f"{corpus}, ours, seed 0 and {corpus}, ours, seed 2 are in one row, but differ: ")
    assert problems(*rows, grid=SST, overrides={"epochs": "1"}) == []


def test_a_row_may_differ_between_corpora_and_come_in_parts(problems: Problems) -> None:
    assert problems({"name": "a", "corpus": "sst", "epochs": 3}, {"name": "a", "corpus": "movies", "epochs": 4}) == []
    assert problems({"name": "a", "seed": 0}, {"name": "a", "seed": 1}, {"name": "a"}, grid=SST) == []


def test_draws_may_differ_between_seeds_but_their_ranges_may_not(problems: Problems) -> None:
    row = {"name": "Lei", "method": "lei", "trials": 2, "draw": {"lambda_1": "0.01:1:log"}}
    grid = {**SST, "seed": [0, 1]}
    assert problems(row, {**row, "seed": [1, 2], "trials": 1}, grid=grid) == []
    other = {**row, "draw": {"lambda_1": "0.1:1"}, "seed": 2, "trials": 1}
    fixed = {"name": "Lei, trial 0", "method": "lei", "seed": 2}
    both = "sst, Lei, trial 0, seed 0 and sst, Lei, trial 0, seed 2 are in one row, but differ: lambda_1 is"
    for second, value in ((other, "'0.1:1'"), (fixed, "not given")):
        [problem] = problems(row, second, grid=grid)
        assert problem.startswith(f"{both} '0.01:1:log' and {value}.")
    assert problems(row, other, grid=grid, overrides={"lambda_1": "0.5"}) == []

"""Names in a grid file that are none, or stand where they do not belong."""

from pathlib import Path
from typing import Any

import pytest

from experiments import write_grid
from fresh.errors import ConfigError
from fresh.experiments.grid_file import read_grid

SETTING = "is not a setting. Did you mean"
ROW: dict[str, tuple[Any, str]] = {
    "epoch": (3, f"{SETTING} epochs?"),
    "learning-rate": (0.1, f"{SETTING} learning_rate?"),
    "trial": (3, f"{SETTING} trials?"),
    "read": ("complement", f"{SETTING} reads?"),
    "names": ("ours", f"{SETTING} name?"),
    "train.epoch": (3, f"{SETTING} train.epochs?"),
    "settings.epochs": (
        3,
        "is not a table of settings. There are: draw, data, network, train, engine, scoring, tagging.",
    ),
    "draws": ({"lambda_1": "0:1"}, "is not a table of settings. Did you mean draw?"),
    "documents": (9, "is not a setting. It stands at the top of the file, or is given as `documents`."),
    "data": ("a.csv", "is not a setting. It stands in [corpora.NAME]."),
    "workers": (3, "is not a setting. It is given as `workers`."),
    "data_dir": ("x", "is not a setting. It is given as `data_dir`."),
    "corpora": (
        ["sst"],
        "is not a setting. Corpora are named by corpus, in [grid] or in a row, or in `overrides`.",
    ),
}


def problem(path: Path, *rows: dict[str, Any], overrides: dict[str, Any] | None = None, **parts: Any) -> str:
    """Read a grid file, and say what is wrong with it."""
    parts = {"grid": {"corpus": "sst"}, **parts}
    with pytest.raises(ConfigError) as caught:
        read_grid(write_grid(path / "grid.toml", *rows, **parts), overrides)
    return str(caught.value).removeprefix(f"In {path / 'grid.toml'}: ")


@pytest.mark.parametrize("name", ROW)
def test_what_is_wrong_in_a_row(name: str, tmp_path: Path) -> None:
    value, told = ROW[name]
    shown = name.partition(".")[0] if "table" in told else name
    assert problem(tmp_path, {"method": "lei"}, {name: value}) == f"row 2: {shown} {told}"
    assert problem(tmp_path, {"name": "ours", name: value}) == f"row ours: {shown} {told}"


def test_a_name_like_no_other_hears_all_that_a_row_may_have(tmp_path: Path) -> None:
    told = problem(tmp_path, {"lr": 0.1})
    assert told.startswith("row 1: lr is not a setting. There are: name, corpus, reads, draw, trials, method, ")
    assert told.endswith(".")


def test_a_setting_is_given_once_in_a_place_whatever_it_is_called_there(tmp_path: Path) -> None:
    told = "epochs is given twice, once as train.epochs. Leave one of them out."
    assert problem(tmp_path, {}, {}, settings={"epochs": 1, "train": {"epochs": 2}}) == told
    assert problem(tmp_path, {"epochs": [1, 2], "train": {"epochs": 2}}) == told
    assert problem(tmp_path, {}, overrides={"epochs": "1", "train.epochs": "2"}) == told
    read_grid(write_grid(tmp_path / "grid.toml", {"epochs": 1}, grid={"corpus": "sst"}, settings={"train.epochs": 2}))


def test_each_place_has_names_of_its_own(tmp_path: Path) -> None:
    in_row, in_grid = "is not a setting. It stands in a row.", "It stands in [grid] or in a row, or in `overrides`."
    assert problem(tmp_path, {}, grid={"corpus": "sst", "reads": ["complement"]}) == f"[grid]: reads {in_row}"
    assert problem(tmp_path, {}, settings={"corpus": "sst"}) == f"[settings]: corpus is not a setting. {in_grid}"
    assert problem(tmp_path, {}, corpora={"sst": {"epoch": 1}}) == f"[corpora.sst]: epoch {SETTING} epochs?"
    assert problem(tmp_path, {}, overrides={"trials": "3"}) == f"`overrides`: trials {in_row}"
    assert problem(tmp_path, {}, overrides={"grid.seed": "3"}) == f"`overrides`: grid.seed {SETTING} seed?"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("corpus", "It stands in [grid] or in a row, or in `overrides`."),
        ("epochs", "The setting epochs stands in [settings], in [grid] or in a row."),
        ("seeds", "The setting seed stands in [settings], in [grid] or in a row."),
        ("train", "Settings of all runs stand in [settings.train]."),
        ("workers", "It is given as `workers`."),
        ("setting", "Did you mean settings?"),
        ("title", "There are: name, about, documents, settings, grid, corpora, rows, figure."),
    ],
)
def test_parts_that_are_none_hear_where_they_belong(name: str, told: str, tmp_path: Path) -> None:
    parts: dict[str, Any] = {name: "x"}
    assert problem(tmp_path, {}, **parts) == f"{name} is not a part of a grid. {told}"


def test_right_names_are_left_alone(tmp_path: Path) -> None:
    row = {"name": "ours", "method": "lei", "lambda_1": 0.1, "reads": "rationale", "train.epochs": 2, "corpus": "sst"}
    drawn = {"name": "drawn", "method": "lei", "draw": {"lambda_1": "0:1"}, "trials": 2}
    parts: dict[str, Any] = {
        "settings": {"network": {"layers": 2}},
        "corpora": {"mine": {"data": "a.csv", "text": "t"}},
    }
    path = write_grid(tmp_path / "grid.toml", row, drawn, grid={"corpus": ["sst", "mine"], "seed": [0, 1]}, **parts)
    assert len(read_grid(path, {"corpus": ["sst", "mine"], "train.patience": "3"}).cells) == 12

"""The grids of the paper, as they are given out."""

from pathlib import Path

import pytest

from fresh.data.corpora import CORPORA
from fresh.experiments.figure_config import read_figure
from fresh.experiments.grid import checked
from fresh.experiments.grid_file import read_grid

FOLDER = Path(__file__).parents[2] / "experiments"
SIZES = {
    "main": 17 * 5 * 5,
    "mpnet": 17 * 5 * 3,
    "lengths": 20 * 5 * 5,
    "human": 8 * 2 * 5,
    "search": 21 * 3,
    "global": 8 * 5 * 5,
    "evinf": 12 * 3 + 5 * 5,
    "steady": 4 * 3,
    "recipe": 14 * 3 * 2,
}


def test_all_grids_are_known() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(SIZES)


@pytest.mark.parametrize("name", SIZES)
def test_each_grid_can_be_run_and_says_how(name: str) -> None:
    path = FOLDER / f"{name}.toml"
    grid = read_grid(path)
    assert grid.name == name
    found = checked(grid, FOLDER)
    assert (len(found.pairs), found.wrong) == (SIZES[name], {})
    assert {cell.corpus for cell in grid.cells} <= set(CORPORA)
    assert f"fresh run experiments/{name}.toml --data-dir DATA --out runs" in path.read_text(encoding="utf-8")
    read_figure(grid.figure, {})

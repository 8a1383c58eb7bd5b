"""The examples of `fresh table --help`, and of the grids of the paper, work with these grids."""

import re
import shlex
from pathlib import Path

import pytest

from fresh.cli.main import main
from fresh.cli.table import ABOUT
from fresh.experiments.grid import check_grid
from fresh.experiments.grid_file import read_grid
from fresh.experiments.store import RunStore

GRIDS = sorted(path for path in (Path(__file__).parents[2] / "experiments").glob("*.toml") if path.stem != "search")
EXAMPLE = re.compile(r"^(?:#  )? +(fresh table .*?)(?: {2,}.*)?$", re.MULTILINE)
FIGURES = ("macro-F1", "dev macro-F1", "kept", "token F1")


def examples() -> list[str]:
    """Find all commands that are examples."""
    texts = [ABOUT, *(path.read_text(encoding="utf-8") for path in GRIDS)]
    return list(dict.fromkeys(command for text in texts for command in EXAMPLE.findall(text)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs of the paper's grids that nobody ran, two seeds of each."""
    place = tmp_path_factory.mktemp("examples")
    runs = RunStore(place / "runs")
    for path in GRIDS:
        grid = read_grid(path, {"seed": [0, 1]})
        planned = []
        for number, (cell, run) in enumerate(check_grid(grid, place).runs):
            key, settings = cell.key(run, ""), cell.table_settings(run)
            about = {"row": cell.row, "corpus": cell.corpus, "seed": cell.seed}
            planned.append({"key": key, **about, "settings": settings})
            figures = dict.fromkeys(FIGURES, 0.5 + number / 10_000)
            data = {"data": "", "documents": [], "all settings": {}, "machine": {}, "notes": []}
            times = {"seconds": 1.0, "finished": ""}
            runs.save_report(key, {"corpus": cell.corpus, "figures": figures, "times": times, **data})
        runs.write_plan(grid.name, "", planned, {})
    return place


def test_there_are_examples() -> None:
    assert len(examples()) >= 15


@pytest.mark.parametrize("command", examples())
def test_each_example_works_and_mixes_no_runs(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert main(shlex.split(command)[1:]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "†" not in shown.out

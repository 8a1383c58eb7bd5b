"""The grids of the paper, as they are given out; the examples of `fresh table` in them and in its help work."""

import hashlib
import json
import re
import shlex
import tarfile
from pathlib import Path
from typing import IO, Any, cast

import pytest

from fresh.cli.main import main
from fresh.cli.table import ABOUT
from fresh.data.corpora import CORPORA
from fresh.experiments.figures import read_figure_config
from fresh.experiments.grid import check_grid, key_settings
from fresh.experiments.grid_file import read_grid
from fresh.experiments.plan import tasks_of
from fresh.experiments.store import RunStore
from fresh.training.config import LATER

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
    "gates": 4 * (20 * 3 + 8 * 2),
    "proof": 13 * 5 * 5,
}

KEYS = {
    "main": "3d1ffe4114d42466",
    "mpnet": "2fd294d25e074781",
    "lengths": "93691e950958d2fd",
    "human": "8a783bf7430d1321",
    "search": "97b5fca4ffda5f71",
    "global": "127e3243c812bbb8",
    "evinf": "0c5a20003c29b749",
}
"""Digests of all keys of the grids whose runs were published, as version 0923d3f computed them."""


def test_all_grids_are_known() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(SIZES)


@pytest.mark.parametrize("name", SIZES)
def test_each_grid_can_be_run_and_says_how(name: str) -> None:
    path = FOLDER / f"{name}.toml"
    grid = read_grid(path)
    assert grid.name == name
    found = check_grid(grid, FOLDER)
    assert (len(found.runs), found.errors) == (SIZES[name], {})
    assert {cell.corpus for cell in grid.specs} <= set(CORPORA)
    assert f"fresh run experiments/{name}.toml --data-dir DATA --out runs" in path.read_text(encoding="utf-8")
    read_figure_config(grid.figure, {})
    if name in KEYS:
        keys = [[str(spec), [task.key for task in tasks_of(spec, run, "digest")]] for spec, run in found.runs]
        assert hashlib.sha256(json.dumps(sorted(keys)).encode()).hexdigest()[:16] == KEYS[name]


def read_archive() -> dict[str, dict[str, Any]]:
    """The plans and reports of the published runs, by their path."""
    with tarfile.open(FOLDER.parent / "docs/results/runs.tgz") as archive:
        files = [member for member in archive.getmembers() if member.name.endswith(".json")]
        return {member.name: json.load(cast("IO[bytes]", archive.extractfile(member))) for member in files}


def test_grids_still_describe_the_runs_that_were_published() -> None:
    """A key is a digest of these settings (and of the encoder's files, which differ from one machine to another)."""
    files, n_runs = read_archive(), 0
    for path in [path for path in files if path.startswith("runs/plans/")]:
        pairs = check_grid(read_grid(FOLDER / f"{Path(path).stem}.toml"), FOLDER).runs
        runs = {(spec.row, spec.corpus, spec.seed): (spec, run) for spec, run in pairs}
        for planned in files[path]["runs"]:
            if (report := files.get(f"runs/runs/{planned['key']}/report.json")) is None:
                continue
            spec, run = runs[planned["row"], planned["corpus"], planned["seed"]]
            published, found = report["all settings"], {"method": spec.method, **key_settings(run)}
            names = {name for name, value in published.items() if (name, value) not in LATER.items()}
            assert names == found.keys()
            assert {name for name in names if published[name] != found[name]} <= {"network.encoder"}, planned["row"]
            n_runs += 1
    assert n_runs == 1637


# Examples of tables

TABLED = sorted(path for path in FOLDER.glob("*.toml") if path.stem != "search")
EXAMPLE = re.compile(r"^(?:#  )? +(fresh table .*?)(?: {2,}.*)?$", re.MULTILINE)
FIGURES = ("macro-F1", "dev macro-F1", "kept", "token F1", "reader macro-F1")


def examples() -> list[str]:
    """Find all commands that are examples."""
    texts = [ABOUT, *(path.read_text(encoding="utf-8") for path in TABLED)]
    return list(dict.fromkeys(command for text in texts for command in EXAMPLE.findall(text)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs of the paper's grids that nobody ran, two seeds of each."""
    place = tmp_path_factory.mktemp("examples")
    runs = RunStore(place / "runs")
    for path in TABLED:
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

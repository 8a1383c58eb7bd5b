from pathlib import Path
from typing import Any

import pytest

from experiments import run, run_keys, toy_grid, write_grid
from fresh.data.splits import Splits
from fresh.errors import ConfigError
from fresh.experiments.figures import read_figure_config
from fresh.experiments.grid_file import read_grid
from fresh.experiments.store import RunStore
from fresh.experiments.worker import FIGURES

ROWS: tuple[dict[str, Any], ...] = (
    {"name": "full text", "method": "full_text"},
    {"name": "ours", "scorer": "attention", "ratio": [0.1, 0.2]},
)
SEARCH: dict[str, Any] = {"name": "Lei", "method": "lei", "draw": {"lambda_1": "0:1"}, "trials": 2}


def problem(
    tmp_path: Path, figure: dict[str, Any], *rows: dict[str, Any], overrides: dict[str, Any] | None = None
) -> str:
    """Read a grid with a figure, and say what is wrong with it."""
    grid = {"corpus": ["sst", "movies"], "seed": [0, 1]}
    path = write_grid(tmp_path / "grid.toml", *(rows or ROWS), grid=grid, figure=figure)
    try:
        read_grid(path, overrides)
    except ConfigError as error:
        return str(error).removeprefix(f"In {path}: [figure]: ")
    return ""


def test_names_serve_figures_of_all_kinds() -> None:
    given = {"kind": "evp", "x": "seconds", "names": {"sst": "SST", "lei": "Lei"}}
    config = read_figure_config(given, {"kind": "scatter", "names": {"lei": "Lei et al."}})
    assert (config.x, config.names) == ("kept", {"sst": "SST", "lei": "Lei et al."})
    assert (config.display_name("sst"), config.display_name("movies")) == ("SST", "movies")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"kind": "pie"}, "kind must be 'lines' or 'scatter' or 'evp', got 'pie'."),
    ({"ex": "ratio"}, "ex is not a setting of a figure. Did you mean x?"),
    ({"x": "ration"}, "ration is not a setting of these runs. Did you mean ratio?"),
    ({"by": "method,scorr"}, "scorr is not a setting of these runs. Did you mean scorer?"),
    ({"panels": "corpuss"}, "corpuss is not a setting of these runs. Did you mean corpus?"),
    ({"y": "macroF1"}, "macroF1 is not a figure of a run. Did you mean macro-F1?"),
    (
        {"kind": "scatter", "x": "ratio"},
        f"ratio is not a figure of a run. There are: {', '.join(FIGURES)}, explain seconds, seconds.",
    ),
    ({"against": "full"}, "full is not a row of this experiment. Did you mean full text?"),
    ({"against": 3}, "against must be the name of a row, or a list of them, got 3."),
    ({"names": {"ration": "share"}}, "ration is not the name of an axis, a panel or a line. Did you mean ratio?"),
    ({"where": {"methd": "fresh"}}, "methd is not a setting of these runs. Did you mean method?"),
    ({"where": {"corpus": ["sst", "moves"]}}, "moves is not a value of corpus in these runs. Did you mean movies?"),
    ({"where": {"method": "full_text"}}, "where leaves no run with ratio. Leave less out."),
    (
        {"kind": "scatter", "where": {"method": "full_text", "row": "ours, ratio 0.1"}},
        "where leaves no run. Leave less out.",
    ),
    (
        {"x": "scorer"},
        "scorer is 'attention' in ours, ratio 0.1, which is no number. Choose another setting with x, or leave such "
        "runs out with where.",
    ),
    (
        {"kind": "evp"},
        "The kind evp shows searches, but none of these runs is a trial of one. Give a row `draw` and `trials` in the "
        "grid file, or choose the kind lines or scatter.",
    ),
]


@pytest.mark.parametrize(("figure", "told"), WRONG, ids=lambda value: str(value)[:40])
def test_a_figure_that_cannot_be_is_refused_before_anything_runs(
    figure: dict[str, Any], told: str, tmp_path: Path
) -> None:
    assert problem(tmp_path, figure) == told


@pytest.mark.parametrize(
    "figure",
    [
        {},
        {"x": "seed", "y": "token F1", "by": "row", "panels": "reads"},
        {"x": "ratio", "by": "scorer,method", "where": {"method": "fresh", "corpus": ["sst"]}, "against": "full text"},
        {"x": "scorer", "where": {"scorer": "attention"}},
        {"names": {"sst": "SST", "fresh": "FRESH", "ratio": "share", "kept": "words", "macro-F1": "F1", "seed": "s"}},
        {"kind": "scatter", "x": "seconds", "y": "accuracy", "where": {"ratio": 0.1}},
    ],
)
def test_a_figure_that_can_be_is_not(figure: dict[str, Any], tmp_path: Path) -> None:
    assert problem(tmp_path, figure) == ""


def test_a_search_has_its_figure(tmp_path: Path) -> None:
    assert problem(tmp_path, {"kind": "evp", "x": "seconds", "against": "ours, ratio 0.1"}, SEARCH, *ROWS) == ""
    left_out = {"kind": "evp", "where": {"method": "fresh"}}
    assert problem(tmp_path, left_out, SEARCH, *ROWS).startswith("The kind evp shows searches, but none of these runs")


def test_a_figure_is_that_of_the_file_whatever_a_quick_look_leaves_out(tmp_path: Path) -> None:
    figure = {"where": {"corpus": ["sst", "movies"]}, "against": "ours, ratio 0.1"}
    assert problem(tmp_path, figure, overrides={"corpus": "sst", "ratio": "0.3"}) == ""
    assert problem(tmp_path, {"x": "ration"}, overrides={"seed": "0"}).startswith("ration is not a setting")
    mended = {"name": "mended", "ratio": "halfx"}
    assert problem(tmp_path, {"against": "mended"}, mended, overrides={"ratio": "0.3"}) == ""


def test_nothing_is_measured_that_a_figure_could_not_show(
    toy: Splits, encoders: dict[str, Path], tmp_path: Path
) -> None:
    path = toy_grid(tmp_path, toy, encoders["bert"], {"scorer": "attention"}, {"method": "lei"}, settings={"epochs": 1})
    assert run(path).failures == {}
    of_scores, of_gate = (RunStore(tmp_path / "runs").read_report(key) for key in run_keys(path))
    assert of_scores is not None
    assert of_gate is not None
    assert set(of_gate["figures"]) == set(FIGURES)  # the toy corpus has people's rationales too
    assert set(of_gate["figures"]) - set(of_scores["figures"]) == {"kept by gate"}

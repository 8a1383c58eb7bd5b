from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from experiments import write_grid
from fresh.errors import ConfigError
from fresh.experiments.grid_file import read_grid
from fresh.experiments.overrides import parse_lists

Names = Callable[..., list[str]]


@pytest.fixture
def names(tmp_path: Path) -> Names:
    """Read a grid file with some settings of the command line, and name its runs."""

    def find(*rows: Mapping[str, Any], given: tuple[str, ...] = (), **parts: Any) -> list[str]:
        path = write_grid(tmp_path / "grid.toml", *rows, **parts)
        return [str(cell) for cell in read_grid(path, parse_lists(given)).cells]

    return find


def test_values_with_commas_are_a_list() -> None:
    given = ["seed=0, 1", "corpus = sst", "text=", "ratio=0.05:0.5,0.5x"]
    assert parse_lists(given) == {"seed": ["0", "1"], "corpus": "sst", "text": "", "ratio": ["0.05:0.5", "0.5x"]}


def test_a_value_with_commas_of_its_own_stands_in_a_list() -> None:
    assert parse_lists(["text=['a, b']", "seed=[1, 2]"]) == {"text": ["a, b"], "seed": [1, 2]}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["epochs"], "'epochs' is not a setting. Write it as key=value, for example epochs=3."),
        (["seed=0,"], "seed=0, has a comma without a value. Write seed=one,two."),
        (["seed=0", "seed=1"], "seed is given twice. Write all its values at once: seed=one,two."),
    ],
)
def test_what_is_no_list(given: list[str], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_lists(given)
    assert str(caught.value) == told


def test_a_list_that_toml_does_not_know() -> None:
    with pytest.raises(ConfigError, match=r"^seed=\[0 is not a list as TOML writes it, such as \['a', 'b'\]: "):
        parse_lists(["seed=[0"])


def test_a_list_takes_the_place_of_the_files_and_names_what_varies(names: Names) -> None:
    rows = {"name": "ours", "scorer": "attention", "epochs": 3}, {"method": "full_text"}
    grid = {"corpus": ["sst", "movies", "multirc"], "seed": [0, 1, 2]}
    assert names(*rows, grid=grid, given=("corpus=sst,agnews", "seed=4,5")) == [
        f"{corpus}, {row}, seed {seed}"
        for row in ("ours", "full_text")
        for corpus in ("sst", "agnews")
        for seed in (4, 5)
    ]
    assert names(*rows, grid={"corpus": "sst"}, given=("epochs=1,2",)) == [
        *("sst, ours, epochs 1, seed 0", "sst, ours, epochs 2, seed 0"),
        *("sst, full_text, epochs 1, seed 0", "sst, full_text, epochs 2, seed 0"),
    ]
    assert names(rows[0], grid={"corpus": "sst"}, given=("crf=true,false",)) == [
        *("sst, ours, crf true, seed 0", "sst, ours, crf false, seed 0"),
    ]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("corpus=", "corpus is given without a name. There are: sst, agnews, evinf, movies, multirc."),
        ("corpus=sst,moves", "moves is not a corpus of this grid or of the paper. Did you mean movies?"),
        ("seed=0,x", "seed must be a whole number of at least 0, got 'x'."),
        (
            "recording=true,false",
            "recording decides on how fast a run is, not on what comes out, so it cannot be a list.",
        ),
    ],
)
def test_each_value_of_a_list_is_looked_at(given: str, told: str, names: Names, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        names({}, grid={"corpus": "sst"}, given=(given,))
    assert str(caught.value) == f"In {tmp_path / 'grid.toml'}: {told}"


def test_a_setting_is_given_to_the_runs_that_have_it(names: Names) -> None:
    rows = {"name": "full text", "method": "full_text"}, {"name": "ours", "scorer": "attention"}, {"method": "lei"}
    assert names(*rows, grid={"corpus": "sst"}, given=("ratio=0.5x,1x",)) == [
        "sst, full text, seed 0",
        *("sst, ours, ratio 0.5x, seed 0", "sst, ours, ratio 1x, seed 0"),
        *("sst, lei, ratio 0.5x, seed 0", "sst, lei, ratio 1x, seed 0"),
    ]
    assert names(*rows, grid={"corpus": "sst", "seed": [0, 1]}, given=("scorer=random",)) == [
        f"sst, {row}, seed {seed}" for row in ("full text", "ours", "lei") for seed in (0, 1)
    ]


def test_what_belongs_to_a_scorer_is_given_to_the_runs_with_that_scorer(tmp_path: Path) -> None:
    path = write_grid(
        tmp_path / "grid.toml",
        {"method": ["full_text", "fresh"], "name": "mixed"},
        {"scorer": ["integrated_gradients", "attention"]},
        grid={"corpus": "sst"},
    )
    found = {cell.row: cell.settings.get("steps") for cell in read_grid(path, {"steps": "5"}).cells}
    assert found == {
        "mixed, full_text": None,
        "mixed, fresh": None,
        "fresh, integrated_gradients": "5",
        "fresh, attention": None,
    }
    [full, *others] = read_grid(path, {"scorer": "integrated_gradients", "steps": "5"}).cells
    assert (full.row, full.settings) == ("mixed, full_text", {"method": "full_text", "seed": 0})
    assert [(cell.settings["scorer"], cell.settings["steps"]) for cell in others] == 2 * [("integrated_gradients", "5")]


def test_what_a_row_says_itself_is_not_left_out(tmp_path: Path) -> None:
    path = write_grid(tmp_path / "grid.toml", {"method": "full_text", "ratio": 0.2}, grid={"corpus": "sst"})
    [cell] = read_grid(path, {"ratio": "0.3"}).cells
    assert cell.settings["ratio"] == "0.3"


NO_RUN = "`overrides`: no run has {}. {} Leave it out, or add a row that has it."
SAYS = "and would not hold what the table calls it. Leave it out, or add a row with that method to the file."


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            "steps=5",
            NO_RUN.format(
                "steps",
                "steps is a setting of fresh, not of the method full_text. "
                "steps is a setting of the scorer integrated_gradients, not of attention.",
            ),
        ),
        ("method=leii", "`overrides`: leii is not a method. Did you mean lei?"),
        ("method=fresh", f"`overrides`: method cannot be set, since the row full text says its own {SAYS}"),
        ("method=fresh,lei", f"`overrides`: method cannot be set, since the rows full text; human say theirs {SAYS}"),
    ],
)
def test_what_cannot_be_set_is_told(given: str, told: str, names: Names, tmp_path: Path) -> None:
    rows = [{"name": "full text", "method": "full_text"}, {"scorer": "attention"}]
    rows += [{"method": "human"}] if "," in given else []
    with pytest.raises(ConfigError) as caught:
        names(*rows, grid={"corpus": "sst"}, given=(given,))
    assert str(caught.value) == f"In {tmp_path / 'grid.toml'}: {told}"


def test_a_method_is_set_where_no_row_says_another(names: Names) -> None:
    rows = {"name": "ours"}, {"name": "theirs", "method": "lei"}
    assert names(*rows, grid={"corpus": "sst"}, given=("method=lei",)) == ["sst, ours, seed 0", "sst, theirs, seed 0"]

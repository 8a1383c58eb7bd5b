import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments import write_grid
from fresh.data.corpora import CORPORA
from fresh.errors import ConfigError
from fresh.experiments.grid import RunSpec
from fresh.experiments.grid_file import draws, read_grid
from fresh.training.config import FREE

OWN = {"toy": {"data": "toy.csv", "ratio": 0.2}, "other": {"data": ["a.csv", "b.csv"], "epochs": 7}}


@pytest.fixture
def expanded(tmp_path: Path) -> Callable[..., list[RunSpec]]:
    """Write a grid file and read it back."""

    def expand(*rows: Mapping[str, Any], overrides: Mapping[str, Any] | None = None, **parts: Any) -> list[RunSpec]:
        path = write_grid(tmp_path / "grid.toml", *rows, **parts)
        return list(read_grid(path, overrides).cells)

    return expand


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., None]:
    """Check that a grid file is refused with some words, one line for each thing that is wrong."""

    def check(*problems: str, rows: Any = (), **parts: Any) -> None:
        path = write_grid(tmp_path / "grid.toml", *rows, **parts)
        with pytest.raises(ConfigError) as caught:
            read_grid(path)
        assert str(caught.value).splitlines() == [f"In {path}: {problem}" for problem in problems]

    return check


def named(cells: list[RunSpec]) -> list[str]:
    return [str(cell) for cell in cells]


def test_lists_corpora_and_seeds_are_multiplied_in_their_order(expanded: Callable[..., list[RunSpec]]) -> None:
    cells = expanded(
        {"scorer": "attention", "discretizer": ["top_k", "contiguous"]},
        {"name": "all words", "method": "full_text"},
        grid={"corpus": ["sst", "movies"], "seed": [0, 1]},
    )
    assert named(cells) == [
        "sst, fresh, attention, top_k, seed 0",
        "sst, fresh, attention, contiguous, seed 0",
        "sst, fresh, attention, top_k, seed 1",
        "sst, fresh, attention, contiguous, seed 1",
        "movies, fresh, attention, top_k, seed 0",
        "movies, fresh, attention, contiguous, seed 0",
        "movies, fresh, attention, top_k, seed 1",
        "movies, fresh, attention, contiguous, seed 1",
        "sst, all words, seed 0",
        "sst, all words, seed 1",
        "movies, all words, seed 0",
        "movies, all words, seed 1",
    ]
    assert cells[1].settings == {"scorer": "attention", "discretizer": "contiguous", "seed": 0}


def test_what_the_grid_varies_tells_rows_apart(expanded: Callable[..., list[RunSpec]]) -> None:
    cells = expanded(
        {"name": "ours"}, {"method": "lei"}, grid={"corpus": "sst", "ratio": [0.1, "0.5x"], "human": [0, 0.2]}
    )
    assert named(cells)[:4] == [
        f"sst, ours, ratio {ratio}, human {human}, seed 0" for ratio in (0.1, "0.5x") for human in (0, 0.2)
    ]
    assert named(cells)[5] == "sst, lei, ratio 0.1, human 0.2, seed 0"


def test_without_a_corpus_all_of_ones_own_are_tried_or_all_of_the_papers(
    expanded: Callable[..., list[RunSpec]],
) -> None:
    assert [cell.corpus for cell in expanded({})] == list(CORPORA)
    assert [cell.corpus for cell in expanded({}, corpora=OWN)] == ["toy", "other"]
    assert [cell.corpus for cell in expanded({"corpus": ["movies"]}, grid={"corpus": "sst"})] == ["movies"]


def test_files_are_looked_for_beside_the_grid(expanded: Callable[..., list[RunSpec]], tmp_path: Path) -> None:
    split = {"data": "a.csv", "dev": "b.csv", "test": "/c.csv"}
    toy, other, third = expanded({}, corpora={**OWN, "third": split})
    assert (toy.data, toy.source(None)) == ((str(tmp_path / "toy.csv"),), (str(tmp_path / "toy.csv"), None))
    assert other.source(None) == ([str(tmp_path / "a.csv"), str(tmp_path / "b.csv")], None)
    assert (third.settings["dev"], third.settings["test"]) == (str(tmp_path / "b.csv"), "/c.csv")


def test_the_nearer_setting_wins_whatever_it_is_called(expanded: Callable[..., list[RunSpec]]) -> None:
    layers: list[dict[str, Any]] = [
        {"settings": {"epochs": 1, "train": {"seed": 4}}},
        {"corpora": {"toy": {"data": "a.csv", "train.epochs": 2}}},
        {"grid": {"epochs": 3}},
    ]
    told: dict[str, Any] = {"corpora": {"toy": {"data": "a.csv"}}}
    for number, layer in enumerate(layers, 1):
        told |= layer
        [cell] = expanded({}, **json.loads(json.dumps(told)))
        assert (cell.settings["epochs"], cell.seed) == (number, 4)
        assert "train.epochs" not in cell.settings
    [cell] = expanded({"train.epochs": 4}, **told)
    assert cell.settings["epochs"] == 4
    [cell] = expanded({"epochs": [4, 5]}, overrides={"train.epochs": "6", "corpus": "sst", "seed": "9"}, **told)
    assert (cell.settings, cell.corpus, cell.row) == ({"epochs": "6", "seed": 9}, "sst", "fresh, epochs 6")


def test_a_setting_of_a_corpus_is_left_out_where_a_method_has_none(expanded: Callable[..., list[RunSpec]]) -> None:
    full, ours = expanded({"method": "full_text"}, {"scorer": "attention"}, corpora={"toy": OWN["toy"]})
    assert "ratio" not in full.settings
    assert ours.settings["ratio"] == 0.2


@pytest.mark.parametrize(
    ("ratio", "corpus", "expected"),
    [
        ("0.5x", "sst", 0.1),
        ("1x", "movies", 0.3),
        ("2x", "toy", 0.4),
        ("0.05:0.5", "sst", "0.05:0.5"),
        (0.1, "sst", 0.1),
    ],
)
def test_a_ratio_may_be_so_many_times_that_of_the_corpus(
    ratio: Any, corpus: str, expected: Any, expanded: Callable[..., list[RunSpec]]
) -> None:
    corpora = {corpus: OWN[corpus]} if corpus in OWN else {}
    [cell] = expanded({"ratio": ratio}, grid={"corpus": corpus}, corpora=corpora)
    assert cell.settings["ratio"] == expected


@given(st.integers(0, 2**31), st.integers(1, 9), st.floats(1e-9, 1e3), st.floats(1.001, 1e6))
def test_draws_are_repeatable_nested_and_inside_their_range(seed: int, n_trials: int, low: float, times: float) -> None:
    spans = {"lambda_1": f"{low}:{low * times}:log", "learning_rate": f"{low}:{low * times}", "lambda_2": "0,0.5,2"}
    found = list(draws({"draw": spans, "trials": n_trials}, "lei", seed))
    turned = dict(reversed(spans.items()))
    assert found == list(draws({"draw": turned, "trials": n_trials + 3}, "lei", seed))[:n_trials]
    assert [trial for trial, _ in found] == [f", trial {number}" for number in range(n_trials)]
    for _, drawn in found:
        assert low <= drawn["lambda_1"] <= low * times
        assert low <= drawn["learning_rate"] <= low * times
        assert drawn["lambda_2"] in (0, 0.5, 2)


def test_each_seed_and_trial_draws_anew(expanded: Callable[..., list[RunSpec]]) -> None:
    row = {"method": "lei", "trials": 3, "draw": {"lambda_1": "0.01:1:log"}}
    cells = expanded(row, grid={"corpus": "sst", "seed": [0, 1]})
    assert named(cells)[:2] == ["sst, lei, trial 0, seed 0", "sst, lei, trial 1, seed 0"]
    assert len({cell.settings["lambda_1"] for cell in cells}) == 6
    assert len(expanded({**row, "trials": 20}, grid={"corpus": "sst"})) == 20


def test_parts_that_are_not_as_they_must_be(refused: Callable[..., None]) -> None:
    refused("corpus is not a part of a grid. It stands in [grid] or in a row, or in `overrides`.", corpus=["sst"])
    refused("grid must be a table, as in [grid].", "figure must be a table, as in [figure].", grid=1, figure=2)
    refused("toy must be a table, as in [corpora.toy].", corpora={"toy": 3})
    refused("data of the corpus toy must name a file or several, got 3.", corpora={"toy": {"data": 3}})
    refused("documents must be a whole number of at least 1, got 0.", documents=0)
    refused("documents must be a whole number of at least 1, got 'all'.", documents="all")
    refused("name must be one that a file can have, got '../main'.", name="../main")


@pytest.mark.parametrize("text", ["rows = 3", "rows = []", "rows = [1]"])
def test_rows_must_be_tables(text: str, tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(text, encoding="utf-8")
    expected = f"In {tmp_path / 'grid.toml'}: rows must be tables, each under its own [[rows]]."
    with pytest.raises(ConfigError, match=f"^{re.escape(expected)}$"):
        read_grid(tmp_path / "grid.toml")


ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "reads": ({"reads": "nothing"}, "reads must be 'rationale' or 'complement', got 'nothing'."),
    "ratio": ({"ratio": "halfx"}, "ratio must be a number, two as in 0.05:0.5, or one as in 0.5x, got 'halfx'."),
    "seed": ({"seed": "one"}, "seed must be a whole number of at least 0, got 'one'."),
    "negative seed": ({"seed": -1}, "seed must be a whole number of at least 0, got -1."),
    "free": (
        {"recording": [False, True]},
        "recording decides on how fast a run is, not on what comes out, so it cannot be a list.",
    ),
    "twice": ({"ratio": [0.1, 0.2, 0.1]}, "ratio has 0.1 twice, which would be one run. Leave one of them out."),
    "empty": ({"scorer": []}, "scorer = [] stands for no run at all. List something, or leave scorer out."),
    "draw": (
        {"draw": "lambda_1"},
        "draw must be a table, as in draw = { lambda_1 = '0.01:1:log' }, got 'lambda_1'.",
    ),
    "trials": (
        {"draw": {"learning_rate": "0:1"}, "trials": 0},
        "trials must be a whole number of at least 1, got 0.",
    ),
    "no draw": ({"trials": 3}, "trials are of no use without draw, which says what is drawn."),
    "span": (
        {"draw": {"learning_rate": "1:0"}},
        "'learning_rate=1:0' cannot be searched. Write name=low:high, name=low:high:log or name=one,two,three, "
        "with numbers.",
    ),
    "endless": (
        {"draw": {"learning_rate": "0:inf"}},
        "learning_rate can be drawn from finite numbers only, got '0:inf'.",
    ),
    "log of nothing": (
        {"draw": {"learning_rate": "0:1:log"}},
        "'learning_rate=0:1:log' cannot be searched. Write name=low:high, name=low:high:log or name=one,two,three, "
        "with numbers.",
    ),
}


@pytest.mark.parametrize("case", ROWS)
def test_a_row_that_cannot_be(case: str, refused: Callable[..., None]) -> None:
    row, problem = ROWS[case]
    refused(problem, rows=[row], grid={"corpus": "sst"})


def test_what_is_wrong_with_all_rows_is_said_at_once(refused: Callable[..., None]) -> None:
    wrong = [row for row, _ in ROWS.values()]
    refused(*(problem for _, problem in ROWS.values()), rows=[*wrong, wrong[0]], grid={"corpus": "sst"})


def test_a_ratio_of_a_corpus_that_has_none(refused: Callable[..., None]) -> None:
    told = "ratio 0.5x is so many times that of the corpus, which has none. Give it one: ratio = 0.2."
    refused(told, rows=[{"ratio": "0.5x"}], corpora={"toy": {"data": "a.csv"}})


DATA = Path("data")
CHANGES = {"epochs": 3, "scorer": "gradient", "ratio": 0.1, "encoder": "mpnet", "precision": "fp32", "seed": 1}
CHANGES |= {"discretizer": "contiguous", "long": "chunk", "tagger": True, "patience": 3, "folds": 2, "pooling": "mean"}


def key_of(digest: str = "d", **about: Any) -> str:
    settings = about.pop("settings", {})
    cell = RunSpec(**{"row": "row", "corpus": "sst", "settings": {"scorer": "attention", **settings}, **about})
    return cell.key(cell.resolve(DATA), digest)


@settings(max_examples=30)
@given(st.dictionaries(st.sampled_from(sorted(CHANGES)), st.none(), min_size=1))
def test_a_key_changes_with_every_setting_that_matters(names: dict[str, None]) -> None:
    changed = {name: CHANGES[name] for name in names}
    assert key_of(settings=changed) != key_of()
    assert key_of(settings=dict(reversed(changed.items()))) == key_of(settings=changed)
    written = {name: str(value) if not isinstance(value, str) else value for name, value in changed.items()}
    assert key_of(settings=written) == key_of(settings=changed)


def test_keys_of_single_changes_all_differ() -> None:
    keys = [key_of(settings={name: value}) for name, value in CHANGES.items()]
    keys += [key_of(), key_of("other"), key_of(corpus="movies"), key_of(documents=9), key_of(reads="complement")]
    keys += [key_of(settings={"layer": -2})]
    assert len(set(keys)) == len(keys)


def test_a_key_does_not_depend_on_where_a_run_is_done_or_how_its_row_is_called() -> None:
    free = {"device": "cpu", "frozen": "memory", "frozen_gb": 3.0, "recording": False}
    assert {*free, "frozen_folder"} == set(FREE)
    for name, value in free.items():
        assert key_of(settings={name: value}) == key_of()
    assert key_of(settings={"frozen_folder": "place"}, row="another") == key_of()


rows = st.lists(
    st.fixed_dictionaries({"scorer": st.sampled_from(("attention", "gradient")), "ratio": st.sampled_from((0.1, 0.2))}),
    min_size=1,
    max_size=4,
    unique_by=lambda row: (row["scorer"], row["ratio"]),
)


@settings(max_examples=15)
@given(given_rows=rows, random=st.randoms())
def test_the_order_of_a_file_changes_no_key(
    given_rows: list[dict[str, Any]], random: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    turned = [dict(random.sample(sorted(row.items()), len(row))) for row in random.sample(given_rows, len(given_rows))]
    keys: list[set[str]] = []
    for number, listed in enumerate((given_rows, turned)):
        path = write_grid(tmp_path_factory.mktemp("grid") / f"{number}.toml", *listed, grid={"corpus": "sst"})
        cells = read_grid(path).cells
        keys.append({cell.key(cell.resolve(DATA), "digest") for cell in cells})
    assert keys[0] == keys[1]
    assert len(keys[0]) == len(given_rows)

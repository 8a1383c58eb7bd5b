import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import write_grid
from fresh.cli.run import parse_overrides
from fresh.data.corpora import CORPORA
from fresh.errors import ConfigError
from fresh.experiments.grid import RunSpec
from fresh.experiments.grid_file import draw_trials, read_grid

OWN = {"toy": {"data": "toy.csv", "ratio": 0.2}, "other": {"data": ["a.csv", "b.csv"], "epochs": 7}}
SST = {"corpus": "sst"}
Expand = Callable[..., list[RunSpec]]
Problems = Callable[..., list[str]]


@pytest.fixture
def expand(tmp_path: Path) -> Expand:
    """Writes a grid file and reads it back, perhaps with overrides as a user types them."""

    def read(*rows: Mapping[str, Any], given: tuple[str, ...] = (), **parts: Any) -> list[RunSpec]:
        overrides = parts.pop("overrides", None) or parse_overrides(given)
        return list(read_grid(write_grid(tmp_path / "grid.toml", *rows, **parts), overrides).specs)

    return read


def names(specs: list[RunSpec]) -> list[str]:
    return [str(spec) for spec in specs]


def test_lists_corpora_and_seeds_are_multiplied_in_their_order(expand: Expand) -> None:
    specs = expand(
        {"scorer": "attention", "discretizer": ["top_k", "contiguous"]},
        {"name": "all words", "method": "full_text"},
        grid={"corpus": ["sst", "movies"], "seed": [0, 1]},
    )
    assert names(specs) == [
        *(
            f"{corpus}, fresh, attention, {cut}, seed {seed}"
            for corpus in ("sst", "movies")
            for seed in (0, 1)
            for cut in ("top_k", "contiguous")
        ),
        *(f"{corpus}, all words, seed {seed}" for corpus in ("sst", "movies") for seed in (0, 1)),
    ]
    assert specs[1].settings == {"scorer": "attention", "discretizer": "contiguous", "seed": 0}


def test_settings_that_vary_are_part_of_the_name(expand: Expand) -> None:
    specs = expand({"name": "ours"}, {"method": "lei"}, grid={**SST, "ratio": [0.1, "0.5x"], "human": [0, 0.2]})
    assert names(specs)[:4] == [
        f"sst, ours, ratio {ratio}, human {human}, seed 0" for ratio in (0.1, "0.5x") for human in (0, 0.2)
    ]
    assert names(specs)[5] == "sst, lei, ratio 0.1, human 0.2, seed 0"


def test_by_default_all_custom_corpora_are_used_or_all_of_the_papers(expand: Expand) -> None:
    assert [spec.corpus for spec in expand({})] == list(CORPORA)
    assert [spec.corpus for spec in expand({}, corpora=OWN)] == ["toy", "other"]
    assert [spec.corpus for spec in expand({"corpus": ["movies"]}, grid=SST)] == ["movies"]


def test_relative_paths_start_at_the_grid_file(expand: Expand, tmp_path: Path) -> None:
    split = {"data": "a.csv", "dev": "b.csv", "test": "/c.csv"}
    toy, other, third = expand({}, corpora={**OWN, "third": split})
    assert (toy.data, toy.source(None)) == ((str(tmp_path / "toy.csv"),), (str(tmp_path / "toy.csv"), None))
    assert other.source(None) == ([str(tmp_path / "a.csv"), str(tmp_path / "b.csv")], None)
    assert (third.settings["dev"], third.settings["test"]) == (str(tmp_path / "b.csv"), "/c.csv")


def test_the_most_specific_setting_wins_whichever_name_is_used(expand: Expand) -> None:
    layers: list[dict[str, Any]] = [
        {"settings": {"epochs": 1, "train": {"seed": 4}}},
        {"corpora": {"toy": {"data": "a.csv", "train.epochs": 2}}},
        {"grid": {"epochs": 3}},
    ]
    parts: dict[str, Any] = {"corpora": {"toy": {"data": "a.csv"}}}
    for number, layer in enumerate(layers, 1):
        parts |= layer
        [spec] = expand({}, **json.loads(json.dumps(parts)))
        assert (spec.settings["epochs"], spec.seed) == (number, 4)
        assert "train.epochs" not in spec.settings
    [spec] = expand({"train.epochs": 4}, **parts)
    assert spec.settings["epochs"] == 4
    [spec] = expand({"epochs": [4, 5]}, overrides={"train.epochs": "6", "corpus": "sst", "seed": "9"}, **parts)
    assert (spec.settings, spec.corpus, spec.row) == ({"epochs": "6", "seed": 9}, "sst", "fresh, epochs 6")


def test_a_setting_of_a_corpus_is_left_out_where_a_method_does_not_have_it(expand: Expand) -> None:
    full, ours = expand({"method": "full_text"}, {"scorer": "attention"}, corpora={"toy": OWN["toy"]})
    assert ("ratio" not in full.settings, ours.settings["ratio"]) == (True, 0.2)


def test_a_ratio_may_be_a_multiple_of_the_corpus_s(expand: Expand) -> None:
    ratios = ["0.5x", "1x", "2x", "0.05:0.5", 0.1]
    specs = expand({"ratio": ratios}, grid={"corpus": ["sst", "toy"]}, corpora={"toy": OWN["toy"]})
    assert [spec.settings["ratio"] for spec in specs] == [0.1, 0.2, 0.4, "0.05:0.5", 0.1] * 2
    [spec] = expand({"ratio": "0.5x"}, grid={"corpus": "movies"})
    assert spec.settings["ratio"] == 0.15


@given(st.integers(0, 2**31), st.integers(1, 9), st.floats(1e-9, 1e3), st.floats(1.001, 1e6))
def test_draws_are_repeatable_nested_and_in_range(seed: int, n_trials: int, low: float, times: float) -> None:
    ranges = {"lambda_1": f"{low}:{low * times}:log", "learning_rate": f"{low}:{low * times}", "lambda_2": "0,0.5,2"}
    trials = list(draw_trials({"draw": ranges, "trials": n_trials}, "lei", seed))
    turned = dict(reversed(ranges.items()))
    assert trials == list(draw_trials({"draw": turned, "trials": n_trials + 3}, "lei", seed))[:n_trials]
    assert [suffix for suffix, _ in trials] == [f", trial {number}" for number in range(n_trials)]
    for _, values in trials:
        assert low <= values["lambda_1"] <= low * times
        assert low <= values["learning_rate"] <= low * times
        assert values["lambda_2"] in (0, 0.5, 2)


def test_a_value_may_be_drawn_as_a_multiple_of_another(expand: Expand) -> None:
    row = {"method": "lei", "trials": 9, "draw": {"lambda_1": "0.01:1:log", "lambda_2": "0,0.5,2"}}
    multiples = {**row, "draw": {"lambda_1": "0.01:1:log", "lambda_2": "0,0.5,2 * lambda_1"}}
    for plain, scaled in zip(expand(row, grid=SST), expand(multiples, grid=SST), strict=True):
        first, second = plain.settings["lambda_1"], plain.settings["lambda_2"]
        assert (scaled.settings["lambda_1"], scaled.settings["lambda_2"]) == (first, float(f"{second * first:.6g}"))
    [*specs] = expand(multiples, grid=SST, overrides={"lambda_2": 0.5})
    assert {spec.settings["lambda_2"] for spec in specs} == {0.5}
    with pytest.raises(ConfigError, match=r"`overrides`: lambda_2 is drawn as a multiple of lambda_1\. Set both"):
        expand(multiples, grid=SST, overrides={"lambda_1": 0.5})
    [*specs] = expand(multiples, grid=SST, overrides={"lambda_1": 0.1, "lambda_2": 0.5})
    assert {(spec.settings["lambda_1"], spec.settings["lambda_2"]) for spec in specs} == {(0.1, 0.5)}


def test_each_seed_and_trial_draws_its_own_values(expand: Expand) -> None:
    row = {"method": "lei", "trials": 3, "draw": {"lambda_1": "0.01:1:log"}}
    specs = expand(row, grid={**SST, "seed": [0, 1]})
    assert names(specs)[:2] == ["sst, lei, trial 0, seed 0", "sst, lei, trial 1, seed 0"]
    assert len({spec.settings["lambda_1"] for spec in specs}) == 6
    assert len(expand({**row, "trials": 20}, grid=SST)) == 20


RATE = {"learning_rate": "0:1"}
ROWS: list[tuple[dict[str, Any], str]] = [
    ({"reads": "nothing"}, "reads must be 'rationale' or 'complement', got 'nothing'."),
    ({"ratio": "halfx"}, "ratio must be a number, a range as in 0.05:0.5, or as in 0.5x, got 'halfx'."),
    ({"seed": "one"}, "seed must be a whole number of at least 0, got 'one'."),
    ({"seed": -1}, "seed must be a whole number of at least 0, got -1."),
    ({"recording": [False, True]}, "recording affects only the speed of a run, not its result"),
    ({"ratio": [0.1, 0.2, 0.1]}, "ratio has 0.1 twice"),
    ({"scorer": []}, "scorer = [] makes no run."),
    ({"draw": "lambda_1"}, "draw must be a table, as in draw = { lambda_1 = '0.01:1:log' }, got 'lambda_1'."),
    ({"draw": RATE, "trials": 0}, "trials must be a whole number of at least 1, got 0."),
    ({"draw": RATE, "trials": True}, "trials must be a whole number of at least 1, got True."),
    ({"trials": 3}, "trials needs draw"),
    ({"draw": {"learning_rate": "1:0"}}, "'learning_rate=1:0' cannot be searched."),
    ({"draw": {"learning_rate": "0:inf"}}, "'learning_rate=0:inf' cannot be searched."),
    (
        {"draw": {"learning_rate": "0:1 * ratio"}},
        "learning_rate is a multiple of 'ratio', which is not drawn by itself.",
    ),
    ({"draw": {"learning_rate": "0:1:log"}}, "'learning_rate=0:1:log' cannot be searched."),
]


def test_the_errors_of_all_rows_are_reported_at_once(problems: Problems) -> None:
    wrong = [row for row, _ in ROWS]
    for problem, (_, message) in zip(problems(*wrong, wrong[0], grid=SST), ROWS, strict=True):
        assert problem.startswith(message)


# Overrides


def test_values_are_separated_by_commas_or_are_a_toml_list() -> None:
    given = ["seed=0, 1", "corpus = sst", "text=", "ratio=0.05:0.5,0.5x"]
    assert parse_overrides(given) == {"seed": ["0", "1"], "corpus": "sst", "text": "", "ratio": ["0.05:0.5", "0.5x"]}
    assert parse_overrides(["text=['a, b']", "seed=[1, 2]"]) == {"text": ["a, b"], "seed": [1, 2]}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["epochs"], r"'epochs' is not a setting.*key=value"),
        (["seed=0,"], r"seed=0, has a comma without a value.*seed=one,two"),
        (["seed=0", "seed=1"], r"seed is given twice.*seed=one,two"),
        (["seed=[0"], r"seed=\[0 is not a TOML list such as \['a', 'b'\]: "),
    ],
)
def test_what_cannot_be_parsed_is_refused(given: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_overrides(given)


def test_a_list_replaces_that_of_the_file_and_is_part_of_the_name(expand: Expand) -> None:
    rows = {"name": "ours", "scorer": "attention", "epochs": 3}, {"method": "full_text"}
    grid = {"corpus": ["sst", "movies", "multirc"], "seed": [0, 1, 2]}
    assert names(expand(*rows, grid=grid, given=("corpus=sst,agnews", "seed=4,5"))) == [
        f"{corpus}, {row}, seed {seed}"
        for row in ("ours", "full_text")
        for corpus in ("sst", "agnews")
        for seed in (4, 5)
    ]
    assert names(expand(*rows, grid=SST, given=("epochs=1,2",))) == [
        *("sst, ours, epochs 1, seed 0", "sst, ours, epochs 2, seed 0"),
        *("sst, full_text, epochs 1, seed 0", "sst, full_text, epochs 2, seed 0"),
    ]
    crf = names(expand(rows[0], grid=SST, given=("crf=true,false",)))
    assert crf == ["sst, ours, crf true, seed 0", "sst, ours, crf false, seed 0"]


def test_an_override_applies_to_the_runs_that_have_the_setting(expand: Expand) -> None:
    rows = {"name": "full text", "method": "full_text"}, {"name": "ours", "scorer": "attention"}, {"method": "lei"}
    assert names(expand(*rows, grid=SST, given=("ratio=0.5x,1x",))) == [
        "sst, full text, seed 0",
        *("sst, ours, ratio 0.5x, seed 0", "sst, ours, ratio 1x, seed 0"),
        *("sst, lei, ratio 0.5x, seed 0", "sst, lei, ratio 1x, seed 0"),
    ]
    assert names(expand(*rows, grid={**SST, "seed": [0, 1]}, given=("scorer=random",))) == [
        f"sst, {row}, seed {seed}" for row in ("full text", "ours", "lei") for seed in (0, 1)
    ]


def test_a_setting_of_a_scorer_applies_to_the_runs_with_that_scorer(expand: Expand) -> None:
    rows = (
        {"method": ["full_text", "fresh"], "name": "mixed"},
        {"scorer": ["integrated_gradients", "attention"]},
    )
    assert {spec.row: spec.settings.get("steps") for spec in expand(*rows, grid=SST, given=("steps=5",))} == {
        "mixed, full_text": None,
        "mixed, fresh": None,
        "fresh, integrated_gradients": "5",
        "fresh, attention": None,
    }
    [full, *others] = expand(*rows, grid=SST, given=("scorer=integrated_gradients", "steps=5"))
    assert (full.row, full.settings) == ("mixed, full_text", {"method": "full_text", "seed": 0})
    assert [(spec.settings["scorer"], spec.settings["steps"]) for spec in others] == 2 * [("integrated_gradients", "5")]


def test_a_row_s_own_setting_stays_and_a_method_is_overridden_where_no_row_has_another(expand: Expand) -> None:
    [spec] = expand({"method": "full_text", "ratio": 0.2}, grid=SST, given=("ratio=0.3",))
    assert spec.settings["ratio"] == "0.3"
    rows = {"name": "ours"}, {"name": "theirs", "method": "lei"}
    assert names(expand(*rows, grid=SST, given=("method=lei",))) == ["sst, ours, seed 0", "sst, theirs, seed 0"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("corpus=", " is not a corpus of this grid or of the paper. There are: sst, agnews"),
        ("corpus=sst,moves", "moves is not a corpus of this grid or of the paper. Did you mean movies?"),
        ("seed=0,x", "seed must be a whole number of at least 0, got 'x'."),
        ("recording=true,false", "recording affects only the speed of a run"),
        (
            "steps=5",
            "`overrides`: no run has steps. steps is a setting of fresh, not of the method full_text. "
            "steps is a setting of the scorer integrated_gradients, not of attention.",
        ),
        ("method=leii", "`overrides`: leii is not a method. Did you mean lei?"),
        ("method=human", "`overrides`: method cannot be changed, because some rows set another method"),
    ],
)
def test_overrides_that_cannot_be_used_are_refused(given: str, message: str, problems: Problems) -> None:
    rows = [{"name": "full text", "method": "full_text"}, {"scorer": "attention"}]
    rows += [{"method": "human"}] if "method" in given else []
    [problem] = problems(*rows, grid=SST, overrides=parse_overrides([given]))
    assert problem.startswith(message)


# Parts, names and corpora that are wrong

MINE = {"mine": {"data": "mine.csv"}}
SETTING = "is not a setting. Did you mean"
MIEN = "mien is not a corpus of this grid or of the paper. Did you mean mine?"
UNUSED = "[corpora.{}] is not used: the corpora of the rows are sst."
PARTS = ("setting", "row")


@pytest.mark.parametrize(
    ("parts", "messages"),
    [
        ({"grid": 1, "figure": 2}, ["grid must be a table, as in [grid].", "figure must be a table, as in [figure]."]),
        ({"corpora": {"toy": 3}}, ["corpora.toy must be a table, as in [corpora.toy]."]),
        ({"corpora": {"toy": {"data": 3}}}, ["[corpora.toy]: data must name one or more files, got 3."]),
        ({"documents": 0}, ["documents must be a whole number of at least 1, got 0."]),
        ({"documents": "all"}, ["documents must be a whole number of at least 1, got 'all'."]),
        ({"documents": True}, ["documents must be a whole number of at least 1, got True."]),
        *(({"name": n}, [f"name must be a valid file name, got {n!r}."]) for n in ("../main", "", ".", "..", "a\0")),
        ({"setting": 1, "row": 1}, [f"{name} is not a part of a grid. Did you mean {name}s?" for name in PARTS]),
        ({"title": "x"}, ["title is not a part of a grid. There are: name, about, documents, settings, grid, corpora"]),
        ({"grid": {**SST, "reads": ["complement"]}}, ["[grid]: reads is not a setting."]),
        ({"settings": SST}, ["[settings]: corpus is not a setting."]),
        ({"corpora": {"sst": {"epoch": 1}}, "grid": SST}, [f"[corpora.sst]: epoch {SETTING} epochs?"]),
        ({"overrides": {"trials": "3"}}, ["`overrides`: trials is not a setting."]),
        ({"overrides": {"grid.seed": "3"}}, [f"`overrides`: grid.seed {SETTING} seed?"]),
        (
            {"grid": {"corpus": ["mien", "sst", "moves"]}, "corpora": MINE},
            [MIEN, "moves is not a corpus of this grid or of the paper. Did you mean movies?"],
        ),
        ({"grid": {"corpus": "mien"}, "overrides": {"corpus": "mine"}, "corpora": MINE}, [MIEN]),
        ({"overrides": {"corpus": "mien"}, "corpora": MINE}, [MIEN]),
        (
            {"grid": {"corpus": "xyz"}},
            ["xyz is not a corpus of this grid or of the paper. There are: sst, agnews, evinf"],
        ),
        ({"grid": {"corpus": "mine"}, "corpora": {"mine": {"ratio": 0.2}}}, ["the corpus mine has no data. Name its"]),
        ({"grid": SST, "corpora": {"ssst": {"epochs": 1}, **MINE}}, [UNUSED.format("ssst"), UNUSED.format("mine")]),
        (
            {"corpora": MINE, "grid": {"ratio": "0.5x"}},
            ["ratio 0.5x is relative to that of the corpus, which has none."],
        ),
    ],
    ids=str,
)
def test_what_is_wrong_in_a_file_is_named(parts: dict[str, Any], messages: list[str], problems: Problems) -> None:
    for problem, message in zip(problems({}, **parts), messages, strict=True):
        assert problem.startswith(message)


@pytest.mark.parametrize("parts", [{"rows": 3}, {"rows": []}, {"rows": [1]}, {}])
def test_rows_must_be_tables(parts: dict[str, Any], problems: Problems) -> None:
    [problem] = problems(**parts)
    assert problem.startswith("rows must be one or more tables, each below its own line [[rows]]")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("epoch", 3, f"{SETTING} epochs?"),
        ("learning-rate", 0.1, f"{SETTING} learning_rate?"),
        ("trial", 3, f"{SETTING} trials?"),
        ("names", "ours", f"{SETTING} name?"),
        ("train.epoch", 3, f"{SETTING} train.epochs?"),
        ("settings.epochs", 3, f"{SETTING} epochs?"),
        ("lr", 0.1, "is not a setting. There are: name, corpus, reads, draw, trials, method, "),
    ],
)
def test_wrong_names_in_a_row(name: str, value: Any, message: str, problems: Problems) -> None:
    [problem] = problems({"method": "lei"}, {name: value}, grid=SST)
    assert problem.startswith(f"row 2: {name} {message}")
    [problem] = problems({"name": "ours", name: value}, grid=SST)
    assert problem.startswith(f"row ours: {name} {message}")


def test_a_setting_has_one_value_in_a_place_whichever_name_is_used(problems: Problems, tmp_path: Path) -> None:
    message = "epochs is set twice, once as train.epochs. Remove one of them."
    assert problems({}, {}, grid=SST, settings={"epochs": 1, "train": {"epochs": 2}}) == [message]
    assert problems({"method": "lei", "epochs": [1, 2], "train": {"epochs": 2}}, grid=SST) == [message]
    assert problems({"epochs": 1}, grid=SST, settings={"train.epochs": 2}) == []
    with pytest.raises(ConfigError, match=r"epochs is set twice, once as train\.epochs"):
        read_grid(tmp_path / "grid.toml", {"epochs": "1", "train.epochs": "2"})


def test_right_names_are_accepted(problems: Problems) -> None:
    row = {"name": "ours", "method": "lei", "lambda_1": 0.1, "reads": "rationale", "train.epochs": 2, **SST}
    drawn = {"name": "drawn", "method": "lei", "draw": {"lambda_1": "0:1"}, "trials": 2}
    parts: dict[str, Any] = {
        "settings": {"network": {"layers": 2}},
        "corpora": {"mine": {"data": "a.csv", "text": "t"}},
        "grid": {"corpus": ["sst", "mine"], "seed": [0, 1]},
    }
    assert problems(row, drawn, **parts, overrides={"corpus": ["sst", "mine"], "train.patience": "3"}) == []
    # So is a corpus that only overrides leave out.
    grid = {"corpus": ["sst", "mine"]}
    assert problems({}, grid=grid, corpora={**MINE, "sst": {"epochs": 1}}, overrides=SST) == []
    assert problems({}, grid=SST, corpora=MINE, overrides={"corpus": "mine"}) == []
    assert problems({"corpus": "mine"}, SST, corpora={**MINE, "sst": {"epochs": 1}}) == []


# Runs with one label


def test_two_runs_of_one_label_that_differ_are_refused(problems: Problems) -> None:
    start, end = "two runs are called sst, ours, seed 0, but differ: ", ". Give their rows different names."
    ours, more = {"name": "ours"}, {"name": "ours", "epochs": 3}
    other = {**more, "epochs": 4, "reads": "complement"}
    for rows, difference in (
        ((ours, more), "epochs is None and 3"),
        ((more, other), "reads is 'rationale' and 'complement'; epochs is 3 and 4"),
        ((ours, {"name": "ours", "method": "lei"}), "method is 'fresh' and 'lei'"),
    ):
        assert problems(*rows, grid={**SST, "seed": [0, 1]}) == [start + difference + end]


def test_a_row_has_the_same_settings_for_each_seed(problems: Problems) -> None:
    rows = [{"name": "ours", "seed": [0, 1], "epochs": 3}, {"name": "ours", "seed": [2, 3], "epochs": 4}]
    found = problems(*rows, grid={"corpus": ["sst", "movies"]})
    for problem, corpus in zip(found, ("sst", "movies"), strict=True):
        assert problem.startswith(f"{corpus}, ours, seed 0 and {corpus}, ours, seed 2 are in one row, but differ: ")
    assert problems(*rows, grid=SST, overrides={"epochs": "1"}) == []
    # A row may differ between corpora, and have several parts.
    assert problems({"name": "a", "corpus": "sst", "epochs": 3}, {"name": "a", "corpus": "movies", "epochs": 4}) == []
    assert problems({"name": "a", "seed": 0}, {"name": "a", "seed": 1}, {"name": "a"}, grid=SST) == []


def test_draws_may_differ_between_seeds_but_their_ranges_may_not(problems: Problems) -> None:
    row = {"name": "Lei", "method": "lei", "trials": 2, "draw": {"lambda_1": "0.01:1:log"}}
    grid = {**SST, "seed": [0, 1]}
    assert problems(row, {**row, "seed": [1, 2], "trials": 1}, grid=grid) == []
    other = {**row, "draw": {"lambda_1": "0.1:1"}, "seed": 2, "trials": 1}
    fixed = {"name": "Lei, trial 0", "method": "lei", "seed": 2}
    both = "sst, Lei, trial 0, seed 0 and sst, Lei, trial 0, seed 2 are in one row, but differ: lambda_1 is"
    for second, value in ((other, "'0.1:1'"), (fixed, "None")):
        [problem] = problems(row, second, grid=grid)
        assert problem.startswith(f"{both} '0.01:1:log' and {value}.")
    assert problems(row, other, grid=grid, overrides={"lambda_1": "0.5"}) == []


def test_settings_of_speed_of_earlier_versions_are_left_out(expand: Expand) -> None:
    rows = {"frozen": "file", "train.engine.frozen_folder": "x"}, {"scorer": "lime", "engine": {"frozen_gb": 2}}
    found = expand(*rows, grid=SST, settings={"frozen": "memory", "frozen_gb": 3.0})
    assert [spec.settings for spec in found] == [spec.settings for spec in expand({}, {"scorer": "lime"}, grid=SST)]
    [spec] = expand({"frozen": "off"}, grid=SST)
    assert spec.settings["frozen"] == "off"

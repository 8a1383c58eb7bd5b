import itertools
import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import Writer, read_reports, run
from fresh.errors import ConfigError
from fresh.experiments.figures import FigureConfig, Level, Point, expected_curve, figure_data, read_figure_config
from fresh.experiments.worker import METRICS
from made_up_runs import Made, results, seeds

LENGTHS = [
    *seeds("a, 0.2", 0.8, 0.9, settings={"scorer": "a", "ratio": 0.2}),
    *seeds("a, 0.1", 0.7, None, settings={"scorer": "a", "ratio": 0.1}),
    *seeds("b, 0.1", 0.5, 0.5, settings={"scorer": "b", "ratio": "0.1"}),
    *seeds("b, 0.1", 0.6, corpus="movies", settings={"scorer": "b", "ratio": 0.1}),
    *seeds("full text", 0.9, 0.95, settings={"method": "full_text"}),
]


def trial(number: int, dev: float, seed: int = 0) -> Made:
    return Made(f"Lei, trial {number}", dev - 0.1, seed, metrics={"dev macro-F1": dev, "kept": dev / 2})


TRIALS = [trial(0, 0.2), trial(1, 0.8), trial(2, 0.5), trial(0, 0.6, 1), trial(1, 0.4, 1)]
SEARCH = [*TRIALS, *seeds("ours", 0.7, 0.9, metrics={"dev macro-F1": 0.75})]


def compute(made: list[Made], **options: Any) -> Any:
    return figure_data(results(made), read_figure_config({}, options))


# Settings


def test_options_override_the_grid() -> None:
    of_grid = {"x": "human", "by": "scorer", "where": {"corpus": ["sst", "movies"]}, "against": "full text"}
    config = read_figure_config(of_grid, {"by": "method"})
    assert (config.x, config.y, config.by) == ("human", "macro-F1", "method")
    assert (config.where, config.against) == ({"corpus": "sst,movies"}, ("full text",))


def test_a_figure_of_another_kind_uses_only_the_names_of_the_grid() -> None:
    of_grid = {"x": "human", "by": "scorer", "names": {"sst": "SST", "lei": "Lei"}}
    config = read_figure_config(of_grid, {"kind": "evp", "names": {"lei": "Lei et al."}})
    names = {"sst": "SST", "lei": "Lei et al."}
    assert config == FigureConfig("evp", "trials", "dev macro-F1", "row", names=names)
    assert (config.display_name("sst"), config.display_name("movies")) == ("SST", "movies")
    assert read_figure_config({"kind": "evp", "x": "seconds"}, {"kind": "evp"}).x == "seconds"


# Data


def test_lines_go_over_a_setting_with_the_range_over_seeds() -> None:
    data = compute(LENGTHS, by="scorer", where={"method": "fresh"}, against="full text")
    assert [panel.name for panel in data.panels] == ["sst", "movies"]
    first, second = data.panels[0].lines
    assert first.name == "a"
    assert first.points[0] == Point(0.1, 0.7, 0.7, 0.7, whole=False)
    assert first.points[1] == pytest.approx((0.2, 0.85, 0.8, 0.9, True))
    assert (second.name, second.points) == ("b", (Point(0.1, 0.5, 0.5, 0.5),))
    assert [level.y for level in data.panels[0].levels] == [pytest.approx(0.925)]
    assert data.panels[1].levels == ()
    assert (data.names, data.level_names, data.starred) == (["a", "b"], ["full text"], set())
    assert data.remarks == ("7 runs: 6 done, 0 failed, 1 open.",)


def test_a_line_is_named_by_the_settings_that_its_runs_have() -> None:
    made = [*LENGTHS, *seeds("random", 0.5, settings={"method": "random", "ratio": 0.1})]
    assert compute(made, by="method,scorer").names == ["fresh, a", "fresh, b", "random"]
    assert compute(made, by="scorer").names == ["a", "b", "–"]
    data = compute(LENGTHS)  # runs of one point that differ are reported
    assert data.names == ["fresh"]
    assert data.remarks[0].startswith("Runs of one point also differ in: scorer.")


def test_marks_are_runs_and_all_trials_of_a_row_have_one_name() -> None:
    [panel] = compute(SEARCH, kind="scatter", y="dev macro-F1").panels
    assert [line.name for line in panel.lines] == ["Lei"]
    assert panel.lines[0].points[0] == Point(0.1, 0.2, 0.2, 0.2)
    assert len(panel.lines[0].points) == 5


def test_points_and_lines_with_missing_runs_are_not_whole() -> None:
    missing = [*LENGTHS, Made("full text", None, 2, settings={"method": "full_text"})]
    data = compute(missing, by="scorer", where={"method": "fresh"}, against="full text")
    assert [[point.whole for point in line.points] for line in data.panels[0].lines] == [[False, True], [True]]
    assert data.starred == {"full text"}
    both = [*seeds("a", 0.5, 0.6, None, metrics={"kept": 0.1}), *seeds("b", 0.5, metrics={"kept": 0.1})]
    [panel] = compute(both, kind="scatter").panels
    assert [[point.whole for point in line.points] for line in panel.lines] == [[False, False], [True]]
    search = compute([*TRIALS, Made("Lei, trial 2", None, 1)], kind="evp")
    assert [point.whole for point in search.panels[0].lines[0].points] == [False, False]


def test_a_search_is_the_mean_over_the_searches_of_all_seeds() -> None:
    data = compute(SEARCH, kind="evp", against=["ours"])
    [panel] = data.panels
    pairs = list(zip(expected_curve([0.2, 0.8, 0.5]), expected_curve([0.6, 0.4]), strict=False))
    assert len(panel.lines[0].points) == len(pairs) == 2
    for number, (point, pair) in enumerate(zip(panel.lines[0].points, pairs, strict=True), 1):
        assert point == pytest.approx((number, sum(pair) / 2, min(pair), max(pair), True))
    assert panel.levels == (Level("ours", 0.75),)
    assert data.remarks == ("5 runs: 5 done, 0 failed, 0 open.",)


def test_time_is_that_of_an_average_trial() -> None:
    known = results([trial(0, 0.2), trial(1, 0.8), *seeds("ours", 0.7, 0.9, metrics={"dev macro-F1": 0.75})])
    timed = [
        replace(run, metrics={**run.metrics, "seconds": seconds})
        for run, seconds in zip(known, (1.0, 3.0, 5.0, 6.0), strict=True)
    ]
    [panel] = figure_data(timed, FigureConfig("evp", x="seconds", against=("ours",))).panels
    assert [point.x for point in panel.lines[0].points] == [2.0, 4.0]
    assert panel.levels == (Level("ours", 0.75, x=5.5),)
    [panel] = figure_data(timed, FigureConfig("evp", against=("ours",))).panels
    assert [level.x for level in panel.levels] == [None]


@pytest.mark.parametrize(
    ("made", "options", "message"),
    [
        (LENGTHS, {"by": "method,scorr"}, "scorr is not a setting of these runs.*scorer"),
        (LENGTHS, {"where": {"methd": "fresh"}}, "methd is not a setting of these runs.*method"),
        (LENGTHS, {"y": "macro"}, "macro is not a metric of these runs.*macro-F1"),
        (LENGTHS, {"against": "full"}, "full is not a row.*full text"),
        (LENGTHS, {"kind": "evp", "x": "ratio"}, "x must be trials or seconds for the kind evp, got 'ratio'"),
        (LENGTHS, {"where": "lei"}, "where must be a table.*got 'lei'"),
        (LENGTHS, {"names": "share"}, "names must be a table.*got 'share'"),
        (LENGTHS, {"names": {"a": {"b": "c"}}}, "names must be text, got {'b': 'c'} for 'a'"),
        (LENGTHS, {"kind": "pie"}, "kind must be 'lines' or 'scatter' or 'evp', got 'pie'"),
        (LENGTHS, {"ex": "ratio"}, "ex is not a setting of a figure. Did you mean x"),
        (LENGTHS, {"x": "scorer"}, "scorer is 'a' in a, 0.2, which is not a number.*`x`.*`where`"),
        (LENGTHS, {"kind": "evp", "y": "macro-F1"}, "none of these runs is a trial"),
        (SEARCH, {"kind": "evp", "where": {"row": "ours"}}, "none of these runs is a trial"),
        ([Made("a", settings={"ratio": 0.1})], {}, "nothing to draw: no finished run has ratio and macro-F1"),
    ],
)
def test_what_cannot_be_drawn_is_refused(made: list[Made], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compute(made, **options)


# Expected validation performance


@given(st.lists(st.sampled_from((0.0, 0.25, 0.5, 0.75, 1.0)) | st.floats(0, 1), min_size=1, max_size=5))
def test_a_curve_has_the_mean_of_the_best_over_all_draws(values: list[float]) -> None:
    draws = [itertools.product(values, repeat=n_trials) for n_trials in range(1, len(values) + 1)]
    assert expected_curve(values) == pytest.approx([statistics.fmean(map(max, drawn)) for drawn in draws])
    assert expected_curve(values) == expected_curve(values[::-1])


# The figure of a grid file, which is checked before anything runs

ROWS: tuple[dict[str, Any], ...] = (
    {"name": "full text", "method": "full_text"},
    {"name": "ours", "scorer": "attention", "ratio": [0.1, 0.2]},
)
SEARCHED: dict[str, Any] = {"name": "Lei", "method": "lei", "draw": {"lambda_1": "0:1"}, "trials": 2}
GRID = {"corpus": ["sst", "movies"], "seed": [0, 1]}
Problems = Callable[..., list[str]]

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"x": "ration"}, "ration is not a setting of these runs. Did you mean ratio"),
    ({"panels": "corpuss"}, "corpuss is not a setting of these runs"),
    ({"kind": "scatter", "x": "ratio"}, "ratio is not a metric of these runs. There are: AUPRC of scores"),
    ({"against": 3}, "against must be the name of a row, or a list of names, got 3"),
    ({"where": {"corpus": ["sst", "moves"]}}, "moves is not a value of corpus in these runs. Did you mean movies"),
    ({"where": {"method": "full_text"}}, "There is nothing to draw: no finished run has ratio and macro-F1"),
    ({"kind": "scatter", "where": {"method": "full_text", "row": "ours, ratio 0.1"}}, "There is nothing to draw"),
]


@pytest.mark.parametrize(("figure", "message"), WRONG, ids=lambda value: str(value)[:40])
def test_a_figure_that_cannot_be_drawn_is_refused(figure: dict[str, Any], message: str, problems: Problems) -> None:
    [problem] = problems(*ROWS, grid=GRID, figure=figure)
    assert problem.startswith(f"[figure]: {message}")


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
def test_a_figure_that_can_be_drawn_is_not_refused(figure: dict[str, Any], problems: Problems) -> None:
    assert problems(*ROWS, grid=GRID, figure=figure) == []


def test_a_figure_of_a_search_needs_its_trials(problems: Problems) -> None:
    figure = {"kind": "evp", "x": "seconds", "against": "ours, ratio 0.1"}
    assert problems(SEARCHED, *ROWS, grid=GRID, figure=figure) == []
    [problem] = problems(SEARCHED, *ROWS, grid=GRID, figure={**figure, "where": {"row": "full text"}})
    assert problem.startswith("[figure]: The kind evp shows searches, but none of these runs is a trial")


def test_a_figure_may_show_runs_that_overrides_leave_out(problems: Problems) -> None:
    figure = {"where": {"corpus": ["sst", "movies"]}, "against": "ours, ratio 0.1"}
    assert problems(*ROWS, grid=GRID, figure=figure, overrides={"corpus": "sst", "ratio": "0.3"}) == []
    assert problems(*ROWS, grid=GRID, figure={"x": "ration"}, overrides={"seed": "0"}) != []
    repaired = {"name": "repaired", "ratio": "halfx"}
    assert problems(repaired, grid=GRID, figure={"against": "repaired"}, overrides={"ratio": "0.3"}) == []


def test_a_figure_can_show_everything_that_is_measured(grid: Writer) -> None:
    path = grid({"scorer": "gradient"}, {"method": "lei"}, settings={"epochs": 1, "audit": True})
    assert run(path).failures == {}
    of_scores, of_gate = (set(report["figures"]) for report in read_reports(path))
    assert of_gate | of_scores == set(METRICS)  # the toy corpus has human rationales
    assert of_gate - of_scores == {"kept by gate"}
    assert of_scores - of_gate == {"accuracy (runner-up)", "accuracy (random class)"}

import re
from typing import Any

import pytest

from fresh.errors import ConfigError
from fresh.experiments.curves import Drawing, _Level, _Point, drawing
from fresh.experiments.expected import expected_curve
from fresh.experiments.figure_config import FigureConfig, read_figure
from made_up_runs import Made, results, seeds

LENGTHS = [
    *seeds("a, 0.2", 0.8, 0.9, settings={"scorer": "a", "ratio": 0.2}),
    *seeds("a, 0.1", 0.7, None, settings={"scorer": "a", "ratio": 0.1}),
    *seeds("b, 0.1", 0.5, 0.5, settings={"scorer": "b", "ratio": "0.1"}),
    *seeds("b, 0.1", 0.6, corpus="movies", settings={"scorer": "b", "ratio": 0.1}),
    *seeds("full text", 0.9, 0.95, settings={"method": "full_text"}),
]


def trial(number: int, dev: float, seed: int = 0, **about: Any) -> Made:
    """Make a trial of a search."""
    return Made(f"Lei, trial {number}", dev - 0.1, seed, figures={"dev macro-F1": dev, "kept": dev / 2}, **about)


TRIALS = [trial(0, 0.2), trial(1, 0.8), trial(2, 0.5), trial(0, 0.6, 1), trial(1, 0.4, 1)]
SEARCH = [*TRIALS, *seeds("ours", 0.7, 0.9, figures={"dev macro-F1": 0.75})]


def drawn(made: list[Made], **about: Any) -> Drawing:
    """Compute a figure."""
    return drawing(results(made), read_figure({}, about))


def refused(message: str, made: list[Made], **about: Any) -> None:
    """Check the words of an error."""
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        drawn(made, **about)


def test_lines_go_over_a_setting_with_the_range_over_seeds() -> None:
    found = drawn(LENGTHS, by="scorer", where={"method": "fresh"}, against="full text")
    assert [panel.name for panel in found.panels] == ["sst", "movies"]
    first, second = found.panels[0].lines
    assert first.name == "a"
    assert first.points[0] == _Point(0.1, 0.7, 0.7, 0.7, whole=False)
    assert first.points[1] == pytest.approx((0.2, 0.85, 0.8, 0.9, True))
    assert (second.name, second.points) == ("b", (_Point(0.1, 0.5, 0.5, 0.5),))
    [level] = found.panels[0].levels
    assert level.y == pytest.approx(0.925)
    assert found.panels[1].levels == ()
    assert (found.names, found.level_names) == (["a", "b"], ["full text"])
    assert found.remarks == ("7 runs: 6 done, 0 failed, 1 open.",)


def test_a_line_is_named_by_the_settings_that_its_runs_have() -> None:
    random = seeds("random", 0.5, settings={"method": "random", "ratio": 0.1})
    assert drawn([*LENGTHS, *random], by="method,scorer").names == ["fresh, a", "fresh, b", "random"]
    assert drawn([*LENGTHS, *random], by="scorer").names == ["a", "b", "–"]


def test_what_a_point_puts_together_is_told() -> None:
    found = drawn(LENGTHS)
    assert found.names == ["fresh"]
    told = "Runs of one point differ also in: scorer. Choose some with `where`, or `by`."
    assert found.remarks[0] == told


def test_marks_are_runs_and_all_trials_of_a_row_are_one() -> None:
    [panel] = drawn(SEARCH, kind="scatter", y="dev macro-F1").panels
    assert [line.name for line in panel.lines] == ["Lei"]
    assert panel.lines[0].points[0] == _Point(0.1, 0.2, 0.2, 0.2)
    assert len(panel.lines[0].points) == 5


def test_what_stands_for_too_few_runs_is_not_whole() -> None:
    missing = [*LENGTHS, Made("full text", None, 2, settings={"method": "full_text"})]
    found = drawn(missing, by="scorer", where={"method": "fresh"}, against="full text")
    assert [[point.whole for point in line.points] for line in found.panels[0].lines] == [[False, True], [True]]
    assert [level.whole for level in found.panels[0].levels] == [False]
    assert found.starred == {"full text"}
    assert drawn(LENGTHS, by="scorer", against="full text").starred == set()
    both = [*seeds("a", 0.5, 0.6, None, figures={"kept": 0.1}), *seeds("b", 0.5, figures={"kept": 0.1})]
    [panel] = drawn(both, kind="scatter").panels
    assert [[point.whole for point in line.points] for line in panel.lines] == [[False, False], [True]]
    search = drawn([*TRIALS, Made("Lei, trial 2", None, 1)], kind="evp")
    assert [point.whole for point in search.panels[0].lines[0].points] == [False, False]


def test_a_search_is_the_mean_over_the_searches_of_all_seeds() -> None:
    found = drawn(SEARCH, kind="evp", against=["ours"])
    [panel] = found.panels
    first, second = expected_curve([0.2, 0.8, 0.5]), expected_curve([0.6, 0.4])
    pairs = list(zip(first, second, strict=False))
    assert len(panel.lines[0].points) == 2
    for number, (point, pair) in enumerate(zip(panel.lines[0].points, pairs, strict=True), 1):
        assert point == pytest.approx((number, sum(pair) / 2, min(pair), max(pair), True))
    assert panel.levels == (_Level("ours", 0.75),)
    assert found.remarks == ("5 runs: 5 done, 0 failed, 0 open.",)


def test_time_is_that_of_an_average_trial() -> None:
    made = [trial(0, 0.2), trial(1, 0.8), *seeds("ours", 0.7, 0.9, figures={"dev macro-F1": 0.75})]
    known = results(made)
    timed = [
        type(run)(**run_about(run), figures={**run.figures, "seconds": seconds})
        for run, seconds in zip(known, (1.0, 3.0, 5.0, 6.0), strict=True)
    ]
    [panel] = drawing(timed, FigureConfig("evp", x="seconds", against=("ours",))).panels
    assert [point.x for point in panel.lines[0].points] == [2.0, 4.0]
    assert panel.levels == (_Level("ours", 0.75, x=5.5),)
    [panel] = drawing(timed, FigureConfig("evp", against=("ours",))).panels
    assert [level.x for level in panel.levels] == [None]


def run_about(run: Any) -> dict[str, Any]:
    """Take all of a result but its figures."""
    return {name: getattr(run, name) for name in ("key", "row", "corpus", "seed", "settings", "report")}


def test_wrong_names_are_refused() -> None:
    refused("scorr is not a setting of these runs. Did you mean scorer?", LENGTHS, by="scorr")
    refused("macro is not a figure of these runs. Did you mean macro-F1?", LENGTHS, y="macro")
    refused("full is not a row of this experiment. Did you mean full text?", LENGTHS, against="full")
    refused("x must be trials or seconds for the kind evp, got 'ratio'.", LENGTHS, kind="evp", x="ratio")
    refused("where must be a table of settings, as in { method = 'lei' }, got 'lei'.", LENGTHS, where="lei")
    told = "names must be a table of settings, as in { ratio = 'share of words' }, got 'share'."
    refused(told, LENGTHS, names="share")
    told = "names must have a text for 'a', got {'b': 'c'}. Write a name with dots in quotes."
    refused(told, LENGTHS, names={"a": {"b": "c"}})
    refused("kind must be 'lines' or 'scatter' or 'evp', got 'pie'.", LENGTHS, kind="pie")
    refused("ex is not a setting of a figure. Did you mean x?", LENGTHS, ex="ratio")
    told = "colour is not a setting of a figure. There are: kind, x, y, by, panels, where, against, names."
    refused(told, LENGTHS, colour="red")


def test_a_setting_that_is_no_number_is_refused() -> None:
    told = (
        "scorer is 'a' in a, 0.2, which is no number. Choose another setting with `x`, "
        "or leave such runs out with `where`."
    )
    refused(told, LENGTHS, x="scorer")


def test_without_a_search_there_is_nothing_to_expect() -> None:
    told = (
        "The kind evp shows searches, but none of these runs is a trial of one. "
        "Give a row `draw` and `trials` in the grid file, or choose the kind lines or scatter."
    )
    refused(told, LENGTHS, kind="evp", y="macro-F1")
    refused(told, SEARCH, kind="evp", where={"row": "ours"})


def test_an_empty_figure_is_refused() -> None:
    told = (
        "There is nothing to draw: no run that is done has ratio and macro-F1. "
        "Choose others with `x`, `y` and `where`, or run more."
    )
    refused(told, [Made("a", settings={"ratio": 0.1})])


def test_what_is_asked_for_goes_before_what_the_grid_says() -> None:
    given = {"x": "human", "by": "scorer", "where": {"corpus": ["sst", "movies"]}, "against": "full text"}
    found = read_figure(given, {"by": "method"})
    assert (found.x, found.y, found.by) == ("human", "macro-F1", "method")
    assert (found.where, found.against) == ({"corpus": "sst,movies"}, ("full text",))


def test_a_figure_of_another_kind_has_nothing_of_the_grids() -> None:
    found = read_figure({"x": "human", "by": "scorer"}, {"kind": "evp"})
    assert found == FigureConfig("evp", "trials", "dev macro-F1", "row")
    assert read_figure({"kind": "evp", "x": "seconds"}, {"kind": "evp"}).x == "seconds"

import re
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.errors import ConfigError
from fresh.experiments.results import read_results, where
from fresh.experiments.store import RunStore
from fresh.experiments.tables import Cell, _in_order, pivot, relative
from made_up_runs import Made, results, seeds, write

FULL = {"method": "full_text"}
MADE = [
    *seeds("full text", 0.9, 0.92, settings=FULL),
    *seeds("full text", 0.8, 0.6, corpus="movies", settings=FULL),
    *seeds("ours", 0.85, 0.87),
    *seeds("ours", 0.7, None, corpus="movies"),
    *seeds("theirs", 0.8604, 0.8604),
    Made("theirs", None, 0, "movies", failure="ValueError: no"),
]


def refused(message: str, *about: Any, **more: Any) -> None:
    """Check the words of an error."""
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        pivot(*about, **more)


def test_cells_have_mean_and_range_over_seeds_and_say_what_is_missing() -> None:
    sheet = pivot(results(MADE)).sheet()
    assert sheet.header == ("row", "sst", "movies")
    assert sheet.rows == (
        ("full text", ".910 (.900–.920)", ".700 (.600–.800)"),
        ("ours", ".860 (.850–.870)", ".700 1/2"),
        ("theirs", ".860 (.860–.860)", "0/1"),
    )


def test_equal_means_as_they_are_written_are_all_best_and_full_text_is_not_ranked() -> None:
    assert set(pivot(results(MADE)).best()) == {(("ours",), ("sst",)), (("theirs",), ("sst",))}


def test_remarks_tell_how_far_it_is_and_what_failed() -> None:
    assert pivot(results(MADE)).sheet().notes == (
        "macro-F1: mean (min–max) over seeds.",
        "Bold: the best mean of a column, full text left out.",
        "1/2: 1 of 2 seeds are there; such cells are not ranked.",
        "11 runs: 9 done, 1 failed, 1 open.",
        "failed: movies, theirs, seed 0: ValueError: no",
    )


def test_the_legend_shows_a_cell_that_there_is() -> None:
    none = pivot(results([Made("ours", None, seed) for seed in range(3)])).sheet()
    assert none.rows == (("ours", "0/3"),)
    assert none.notes[1] == "0/3: 0 of 3 seeds are there; such cells are not ranked."


def test_marks_are_not_told_of_where_there_are_none() -> None:
    assert pivot(results(MADE)).sheet(marked=False).notes == (
        "macro-F1: mean (min–max) over seeds.",
        "11 runs: 9 done, 1 failed, 1 open.",
        "failed: movies, theirs, seed 0: ValueError: no",
    )
    mixed = pivot(results(MADE), rows=["seed"], columns=["method"]).sheet(marked=False)
    assert mixed.notes[:2] == (
        "macro-F1: mean (min–max) over runs.",
        "differ in: runs of one cell differ also in corpus. Tell them apart: rows='seed,corpus'.",
    )


def test_records_have_all_figures_in_full() -> None:
    records = {(record["row"], record["corpus"]): record for record in pivot(results(MADE)).sheet().records}
    assert records["ours", "sst"] == {
        "row": "ours",
        "corpus": "sst",
        "figure": "macro-F1",
        "mean": 0.86,
        "min": 0.85,
        "max": 0.87,
        "standard deviation": pytest.approx(0.0002**0.5),
        "n": 2,
        "planned": 2,
    }
    nothing = dict.fromkeys(("mean", "min", "max", "standard deviation"), "")
    about = {"row": "theirs", "corpus": "movies", "figure": "macro-F1"}
    assert records["theirs", "movies"] == {**about, **nothing, "n": 0, "planned": 1}
    assert records["ours", "movies"]["standard deviation"] == ""


def test_any_setting_goes_down_or_across() -> None:
    made = [
        Made(f"{scorer} {ratio}", value, settings={"scorer": scorer, "ratio": ratio})
        for scorer, ratio, value in (("b", 0.2, 0.5), ("b", 0.1, 0.4), ("a", 0.05, 0.3), ("a", None, 0.2))
    ]
    sheet = pivot(results(made), rows=("ratio",), columns=("corpus", "scorer")).sheet()
    assert sheet.header == ("ratio", "sst, b", "sst, a")
    assert sheet.rows == (("0.05", "–", ".300"), ("0.1", ".400", "–"), ("0.2", ".500", "–"), ("–", "–", ".200"))


def test_what_runs_of_a_cell_differ_in_is_told() -> None:
    made = [Made("a", 0.1, settings={"scorer": "x", "ratio": 0.1}), Made("b", 0.3, settings={"scorer": "y"})]
    table = pivot(results(made), rows=("method",))
    assert table.sheet().rows == (("fresh", ".200 (.100–.300) †"),)
    assert table.sheet().notes[:2] == (
        "macro-F1: mean (min–max) over runs.",
        "†: runs that differ also in scorer, ratio; such cells are not ranked. Tell them apart: rows='method,scorer'.",
    )
    assert table.sheet().records[0]["differ in"] == "scorer, ratio"


def test_several_figures_have_columns_of_their_own() -> None:
    made = [
        Made("a", 0.9, figures={"kept": 0.2, "explain seconds": 3.0}),
        Made("b", 0.8, figures={"kept": 0.3, "explain seconds": 2.0}),
    ]
    table = pivot(results(made), ("macro-F1", "kept", "explain seconds"))
    assert table.sheet().header == ("row", "sst, macro-F1", "sst, kept", "sst, explain seconds")
    assert table.sheet().rows[0] == ("a", ".900", ".200", "3.000")
    assert set(table.best()) == {(("a",), ("sst", "macro-F1")), (("b",), ("sst", "explain seconds"))}
    down = pivot(results(made), ("macro-F1", "kept"), rows=("row", "figure"))
    assert [row[:2] for row in down.sheet().rows] == [
        *(("a", "macro-F1"), ("a", "kept"), ("b", "macro-F1"), ("b", "kept"))
    ]


def test_a_run_in_two_rows_is_shown_in_both_and_counted_once(tmp_path: Path) -> None:
    made = [Made("a", 0.9, key="same"), Made("b", 0.9, key="same"), Made("c", 0.3)]
    found = read_results(RunStore(write(tmp_path, made)), "main")
    assert pivot(found).sheet().rows == (("a", ".900"), ("b", ".900"), ("c", ".300"))
    whole = pivot(found, rows=("method",))
    assert [cell.values for cell in whole.cells.values()] == [(0.9, 0.3)]
    assert whole.sheet().notes[-1] == "2 runs: 2 done, 0 failed, 0 open."


def test_shares_are_of_the_mean_of_another_row() -> None:
    everything = results(MADE)
    shown = relative(pivot(where(everything, {"row": "ours"})), everything, "full text")
    assert shown.sheet().rows == (("ours", ".945 (.934–.956)", "1.000 1/2"),)
    assert shown.sheet().notes[0] == (
        "macro-F1 as a share of the mean of full text in the same column: mean (min–max) over seeds."
    )


def test_a_row_without_a_length_is_held_against_all_lengths() -> None:
    made = [Made("full text", 0.8, settings={**FULL, "ratio": None}), Made("ours", 0.4, settings={"ratio": 0.1})]
    found = relative(pivot(results(made), columns=("corpus", "ratio")), results(made), "full text")
    assert found.sheet().rows[1] == ("ours", ".500", "–")


def test_nothing_is_left_where_the_other_row_is_not_done() -> None:
    made = [Made("full text", None), Made("ours", 0.4)]
    found = relative(pivot(results(made)), results(made), "full text")
    assert found.sheet().rows == (("full text", "0/1"), ("ours", "0/1"))


def test_wrong_names_are_refused_with_those_that_there_are() -> None:
    some = results([Made("ours", 0.5)])
    refused("macro-F2 is not a figure of these runs. Did you mean macro-F1?", some, ("macro-F2",))
    told = "methd is not a setting of these runs. Did you mean method?"
    refused(told, some, rows=("methd",))
    with pytest.raises(ConfigError, match=f"^{re.escape(told)}$"):
        where(some, {"methd": "x"})
    with pytest.raises(ConfigError, match=r"^hours is not a value of row in these runs\. Did you mean ours\?$"):
        where(some, {"row": "ours,hours"})
    with pytest.raises(ConfigError, match=r"^hours is not a row of this table\. Did you mean ours\?$"):
        relative(pivot(some), some, "hours")


def test_any_figure_may_come_as_long_as_no_run_is_done() -> None:
    assert pivot(results([Made("ours")]), ("whatever",)).sheet().rows == (("ours", "0/1"),)


def test_values_may_have_commas_of_their_own() -> None:
    made = results([Made("ours, top_k"), Made("ours"), Made("theirs, top_k"), Made("top_k")])
    assert [run.row for run in where(made, {"row": "ours, top_k,top_k"})] == ["ours, top_k", "top_k"]


def test_how_long_a_run_took_is_a_figure(tmp_path: Path) -> None:
    [found] = read_results(RunStore(write(tmp_path, [Made("ours", 0.5)])), None)
    assert found.figures == {"macro-F1": 0.5, "seconds": 2.0}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(("sst", "movies")), st.floats(0, 1)), min_size=1))
def test_a_table_is_what_one_would_count(runs: list[tuple[str, str, float]]) -> None:
    made = [Made(row, value, seed, corpus) for seed, (row, corpus, value) in enumerate(runs)]
    cells = pivot(results(made)).cells
    assert sum(cell.n_planned for cell in cells.values()) == len(runs)
    for ((row,), (corpus,)), cell in cells.items():
        values = [value for own, other, value in runs if (own, other) == (row, corpus)]
        assert cell.values == tuple(values)
        assert cell.mean == pytest.approx(statistics.fmean(values))
        assert min(values) - 1e-12 <= cell.mean <= max(values) + 1e-12


@given(st.lists(st.floats(0.1, 1), min_size=1, max_size=4), st.lists(st.floats(0.1, 1), min_size=1, max_size=4))
def test_shares_keep_the_order_of_runs(values: list[float], reference: list[float]) -> None:
    cell = Cell("macro-F1", tuple(values), len(values))
    assert cell.over(reference).mean == pytest.approx(cell.mean / statistics.fmean(reference))
    assert cell.over(values).mean == pytest.approx(1)


def test_numbers_are_in_order_and_names_as_they_come() -> None:
    labels = [("b", "0.5"), ("a", "–"), ("b", "0.05"), ("a", "0.5")]
    assert _in_order(labels) == (("b", "0.05"), ("b", "0.5"), ("a", "0.5"), ("a", "–"))
    assert _in_order([("10",), ("x",), ("2",)]) == (("10",), ("x",), ("2",))

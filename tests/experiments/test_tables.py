import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.errors import ConfigError
from fresh.experiments.results import read_results, select
from fresh.experiments.store import RunStore
from fresh.experiments.tables import Cell, _sort_labels, divide_by_row, pivot
from made_up_runs import TWO_ENCODERS, Made, encoder_runs, results, seeds, write

FULL = {"method": "full_text"}
MADE = [
    *seeds("full text", 0.9, 0.92, settings=FULL),
    *seeds("full text", 0.8, 0.6, corpus="movies", settings=FULL),
    *seeds("ours", 0.85, 0.87),
    *seeds("ours", 0.7, None, corpus="movies"),
    *seeds("theirs", 0.8604, 0.8604),
    Made("theirs", None, 0, "movies", failure="ValueError: no"),
]
COUNTS = ("11 runs: 9 done, 1 failed, 1 open.", "failed: movies, theirs, seed 0: ValueError: no")


def test_cells_have_mean_and_range_over_seeds_and_how_many_are_done() -> None:
    table = pivot(results(MADE)).to_table()
    assert table.header == ("row", "sst", "movies")
    assert table.rows == (
        ("full text", ".910 (.900–.920)", ".700 (.600–.800)"),
        ("ours", ".860 (.850–.870)", ".700 1/2"),
        ("theirs", ".860 (.860–.860)", "0/1"),
    )
    assert table.notes == (
        "macro-F1: mean (min–max) over seeds.",
        "Bold: the best mean of a column, full text left out.",
        "1/2: 1 of 2 seeds are done; such cells are not ranked.",
        *COUNTS,
    )
    assert pivot(results(MADE)).to_table(marked=False).notes == ("macro-F1: mean (min–max) over seeds.", *COUNTS)
    # Means that look equal are all best, and full text is not ranked.
    assert set(pivot(results(MADE)).best()) == {(("ours",), ("sst",)), (("theirs",), ("sst",))}


def test_the_legend_shows_a_cell_that_exists() -> None:
    table = pivot(results([Made("ours", None, seed) for seed in range(3)])).to_table()
    assert table.rows == (("ours", "0/3"),)
    assert table.notes[1].startswith("0/3: 0 of 3 seeds are done")
    # Any metric is accepted until a run is done.
    assert pivot(results([Made("ours")]), ("whatever",)).to_table().rows == (("ours", "0/1"),)


def test_records_have_full_precision() -> None:
    records = {(record["row"], record["corpus"]): record for record in pivot(results(MADE)).to_table().records}
    values = {"mean": 0.86, "min": 0.85, "max": 0.87, "standard deviation": pytest.approx(0.0002**0.5)}
    about = {"row": "ours", "corpus": "sst", "figure": "macro-F1"}
    assert records["ours", "sst"] == {**about, **values, "n": 2, "planned": 2}
    about = {"row": "theirs", "corpus": "movies", "figure": "macro-F1"}
    assert records["theirs", "movies"] == {**about, **dict.fromkeys(values, ""), "n": 0, "planned": 1}
    assert records["ours", "movies"]["standard deviation"] == ""


def test_any_setting_goes_down_or_across() -> None:
    made = [
        Made(f"{scorer} {ratio}", value, settings={"scorer": scorer, "ratio": ratio})
        for scorer, ratio, value in (("b", 0.2, 0.5), ("b", 0.1, 0.4), ("a", 0.05, 0.3), ("a", None, 0.2))
    ]
    table = pivot(results(made), rows=("ratio",), columns=("corpus", "scorer")).to_table()
    assert table.header == ("ratio", "sst, b", "sst, a")
    assert table.rows == (("0.05", "–", ".300"), ("0.1", ".400", "–"), ("0.2", ".500", "–"), ("–", "–", ".200"))


def test_several_metrics_have_columns_of_their_own() -> None:
    made = [
        Made("a", 0.9, metrics={"kept": 0.2, "explain seconds": 3.0}),
        Made("b", 0.8, metrics={"kept": 0.3, "explain seconds": 2.0}),
    ]
    pivoted = pivot(results(made), ("macro-F1", "kept", "explain seconds"))
    assert pivoted.to_table().header == ("row", "sst, macro-F1", "sst, kept", "sst, explain seconds")
    assert pivoted.to_table().rows[0] == ("a", ".900", ".200", "3.000")
    assert set(pivoted.best()) == {(("a",), ("sst", "macro-F1")), (("b",), ("sst", "explain seconds"))}
    down = pivot(results(made), ("macro-F1", "kept"), rows=("row", "figure")).to_table()
    assert [row[:2] for row in down.rows] == [("a", "macro-F1"), ("a", "kept"), ("b", "macro-F1"), ("b", "kept")]


def test_a_run_in_two_rows_is_shown_in_both_and_counted_once(tmp_path: Path) -> None:
    made = [Made("a", 0.9, key="same"), Made("b", 0.9, key="same"), Made("c", 0.3)]
    both = read_results(RunStore(write(tmp_path, made)), "main")
    assert pivot(both).to_table().rows == (("a", ".900"), ("b", ".900"), ("c", ".300"))
    whole = pivot(both, rows=("method",))
    assert [cell.values for cell in whole.cells.values()] == [(0.9, 0.3)]
    assert whole.to_table().notes[-1] == "2 runs: 2 done, 0 failed, 0 open."


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"macro-F2 is not a metric of these runs\. Did you mean macro-F1"):
        pivot(results([Made("ours", 0.5)]), ("macro-F2",))
    with pytest.raises(ConfigError, match=r"methd is not a setting of these runs\. Did you mean method"):
        pivot(results([Made("ours", 0.5)]), rows=("methd",))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(("sst", "movies")), st.floats(0, 1)), min_size=1))
def test_cells_have_the_values_of_their_runs(runs: list[tuple[str, str, float]]) -> None:
    cells = pivot(results([Made(row, value, seed, corpus) for seed, (row, corpus, value) in enumerate(runs)])).cells
    assert sum(cell.n_planned for cell in cells.values()) == len(runs)
    for ((row,), (corpus,)), cell in cells.items():
        values = [value for own, other, value in runs if (own, other) == (row, corpus)]
        assert cell.values == tuple(values)
        assert cell.mean == pytest.approx(statistics.fmean(values))
        assert min(values) - 1e-12 <= cell.mean <= max(values) + 1e-12


def test_numbers_are_sorted_by_size_and_names_stay_in_order() -> None:
    labels = [("b", "0.5"), ("a", "–"), ("b", "0.05"), ("a", "0.5")]
    assert _sort_labels(labels) == (("b", "0.05"), ("b", "0.5"), ("a", "0.5"), ("a", "–"))
    assert _sort_labels([("10",), ("x",), ("2",)]) == (("10",), ("x",), ("2",))


# As a share of another row


def test_shares_are_of_the_mean_of_another_row() -> None:
    everything = results(MADE)
    table = divide_by_row(pivot(select(everything, {"row": "ours"})), everything, "full text").to_table()
    assert table.rows == (("ours", ".945 (.934–.956)", "1.000 1/2"),)
    assert table.notes[0] == (
        "macro-F1 as a share of the mean of full text in the same column: mean (min–max) over seeds."
    )
    with pytest.raises(ConfigError, match=r"hours is not a row of this table\. Did you mean ours"):
        divide_by_row(pivot(everything), everything, "hours")


@pytest.mark.parametrize(
    ("made", "columns", "rows"),
    [
        (
            [Made("full text", 0.8, settings={**FULL, "ratio": None}), Made("ours", 0.4, settings={"ratio": 0.1})],
            ("corpus", "ratio"),
            (("full text", "–", "1.000"), ("ours", ".500", "–")),
        ),
        ([Made("full text", None), Made("ours", 0.4)], ("corpus",), (("full text", "0/1"), ("ours", "0/1"))),
    ],
    ids=["a row without a ratio is compared with all ratios", "a row that is not done leaves nothing"],
)
def test_shares_of_a_row_that_lacks_something(made: list[Made], columns: Any, rows: Any) -> None:
    assert divide_by_row(pivot(results(made), columns=columns), results(made), "full text").to_table().rows == rows


@given(st.lists(st.floats(0.1, 1), min_size=1, max_size=4), st.lists(st.floats(0.1, 1), min_size=1, max_size=4))
def test_shares_keep_the_order_of_runs(values: list[float], reference: list[float]) -> None:
    cell = Cell("macro-F1", tuple(values), len(values))
    assert cell.relative_to(reference).mean == pytest.approx(cell.mean / statistics.fmean(reference))
    assert cell.relative_to(values).mean == pytest.approx(1)


# Runs that differ in more than the seed, as those of several experiments do


def test_rows_are_split_where_their_runs_differ_in_more_than_the_seed() -> None:
    pivoted = pivot(results(TWO_ENCODERS))
    assert pivoted.to_table().header == ("row", "encoder", "sst")
    assert pivoted.to_table().rows == (
        ("full text", "small", ".700 (.600–.800)"),
        ("full text", "large", ".900 (.900–.900)"),
        ("ours", "small", ".500 (.500–.500)"),
        ("ours", "large", ".700 (.600–.800)"),
        ("theirs", "small", ".450 (.400–.500)"),
    )
    assert pivoted.to_table().notes[0] == "macro-F1: mean (min–max) over seeds."
    assert set(pivoted.best()) == {(("ours", "large"), ("sst",))}
    # A column may separate runs like a row, and settings that affect only speed split no row.
    table = pivot(results(TWO_ENCODERS), columns=["encoder"]).to_table()
    assert table.header == ("row", "small", "large")
    assert table.rows[1] == ("ours", ".500 (.500–.500)", ".700 (.600–.800)")
    made = [Made("ours", 0.5, 0), Made("ours", 0.7, 1, settings={"recording": False})]
    assert pivot(results(made)).to_table().rows == (("ours", ".600 (.500–.700)"),)


def test_chosen_rows_are_not_split_and_mixed_cells_are_marked_and_not_ranked() -> None:
    pivoted = pivot(results(TWO_ENCODERS), rows=["row"])
    table = pivoted.to_table()
    assert [row[1] for row in table.rows] == [".800 (.600–.900) †", ".600 (.500–.800) †", ".450 (.400–.500)"]
    assert set(pivoted.best()) == set()
    assert table.notes[:2] == (
        "macro-F1: mean (min–max) over runs.",
        "†: runs that also differ in encoder, learning_rate; such cells are not ranked. "
        "Separate them: rows='row,encoder'.",
    )
    assert [record["differ in"] for record in table.records] == ["encoder", "encoder, learning_rate", ""]
    assert r".800 (.600--.900) \dag{}" in table.to_latex()
    assert pivoted.to_table(marked=False).notes[1] == (
        "differ in: runs in one cell also differ in encoder, learning_rate. Separate them: rows='row,encoder'."
    )


def test_equal_runs_with_one_seed_are_marked() -> None:
    table = pivot(results([Made("ours", 0.5, key="of all"), Made("ours", 0.7, key="of some")])).to_table()
    assert table.rows == (("ours", ".600 (.500–.700) †"),)
    assert table.notes[1].startswith("†: runs that also differ in something that no setting records, such as")
    assert table.notes[1].endswith("Name one experiment: fresh table RUNS EXPERIMENT.")


def test_shares_are_of_runs_with_the_same_settings() -> None:
    everything = results(TWO_ENCODERS)
    shown = divide_by_row(pivot(select(everything, {"method": "fresh"})), everything, "full text").to_table()
    assert [row[2] for row in shown.rows] == [".714 (.714–.714)", ".778 (.667–.889)", ".643 (.571–.714)"]
    assert "of full text with the same encoder in the same column: mean (min–max) over seeds" in shown.notes[0]
    one = divide_by_row(pivot(select(everything, {"encoder": "large"})), everything, "full text")
    assert one.to_table().rows[1] == ("ours", ".778 (.667–.889)")
    # Shares of a row that is mixed are marked.
    full = [*encoder_runs("small", "full text", 0.8), *encoder_runs("large", "full text", 0.8)]
    made = results([*full, *seeds("ours", 0.4)])
    assert divide_by_row(pivot(made, rows=["row"]), made, "full text").to_table().rows[1] == ("ours", ".500 †")

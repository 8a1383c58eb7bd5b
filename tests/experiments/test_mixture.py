"""Tables of runs that differ in more than the seed, as those of several experiments do."""

from typing import Any

from fresh.experiments.mixture import with_callback
from fresh.experiments.results import where
from fresh.experiments.significance import read_question, welch_table
from fresh.experiments.tables import pivot, relative
from made_up_runs import Made, results, seeds


def of(encoder: str, row: str, *values: float, **settings: Any) -> list[Made]:
    """Make runs of an encoder, each with a folder of its own."""
    about = {"encoder": encoder, **settings}
    return [Made(row, value, n, settings=about, key=f"{row} {about} {n}") for n, value in enumerate(values)]


TWO = [
    *of("small", "full text", 0.6, 0.8, method="full_text"),
    *of("small", "ours", 0.5, 0.5, learning_rate=0.1),
    *of("small", "theirs", 0.4, 0.5),
    *of("large", "full text", 0.9, 0.9, method="full_text"),
    *of("large", "ours", 0.6, 0.8, learning_rate=0.2, recording=False),
]
MIXED = "macro-F1: mean (min–max) over runs."


def test_rows_are_told_apart_where_their_runs_differ_in_more_than_the_seed() -> None:
    table = pivot(results(TWO))
    assert table.sheet().header == ("row", "encoder", "sst")
    assert table.sheet().rows == (
        ("full text", "small", ".700 (.600–.800)"),
        ("full text", "large", ".900 (.900–.900)"),
        ("ours", "small", ".500 (.500–.500)"),
        ("ours", "large", ".700 (.600–.800)"),
        ("theirs", "small", ".450 (.400–.500)"),
    )
    assert table.sheet().notes[0] == "macro-F1: mean (min–max) over seeds."
    assert set(table.best()) == {(("ours", "large"), ("sst",))}


def test_rows_that_somebody_asks_for_stay_as_they_are_but_mixed_cells_are_marked_and_not_ranked() -> None:
    table = pivot(results(TWO), rows=["row"])
    assert [row[1] for row in table.sheet().rows] == [".800 (.600–.900) †", ".600 (.500–.800) †", ".450 (.400–.500)"]
    assert set(table.best()) == set()
    assert table.sheet().notes[:2] == (
        MIXED,
        "†: runs that differ also in encoder, learning_rate; such cells are not ranked. "
        "Tell them apart: rows='row,encoder'.",
    )
    assert [record["differ in"] for record in table.records()] == ["encoder", "encoder, learning_rate", ""]
    assert r".800 (.600--.900) \dag{}" in table.sheet().to_latex()


def test_a_column_tells_runs_apart_as_well_as_a_row() -> None:
    sheet = pivot(results(TWO), columns=["encoder"]).sheet()
    assert sheet.header == ("row", "small", "large")
    assert sheet.rows[1] == ("ours", ".500 (.500–.500)", ".700 (.600–.800)")


def test_settings_that_only_say_how_fast_a_run_is_tell_nothing_apart() -> None:
    made = [Made("ours", 0.5, 0), Made("ours", 0.7, 1, settings={"recording": False})]
    assert pivot(results(made)).sheet().rows == (("ours", ".600 (.500–.700)"),)


def test_runs_with_the_same_settings_and_seed_are_not_put_together_in_silence() -> None:
    made = results([Made("ours", 0.5, key="of all documents"), Made("ours", 0.7, key="of some"), Made("theirs", 0.5)])
    table = pivot(made)
    assert table.sheet().rows == (("ours", ".600 (.500–.700) †"), ("theirs", ".500"))
    assert table.sheet().notes[:2] == (
        MIXED,
        "†: runs that differ also in what no setting says, such as how many documents there are; such cells are not "
        "ranked. Name one experiment: fresh table RUNS EXPERIMENT.",
    )
    tested = welch_table(made, [read_question(made, "row=ours:theirs")]).sheet()
    assert tested.rows[0][2:4] == (".600 (.500–.700) †", ".500")
    assert tested.notes[:2] == (
        "macro-F1: mean (min–max) over runs; the difference is between the means.",
        "†: runs that differ also in what no setting says, such as how many documents there are. "
        "Name one experiment: fresh table RUNS EXPERIMENT.",
    )


def test_a_test_between_mixed_runs_is_not_in_bold() -> None:
    twice = [Made("a", 0.1 + n / 1000, n % 3, key=f"a {n}", settings={"x": "a"}) for n in range(6)]
    made = results([*twice, *seeds("b", 0.9, 0.901, 0.902, settings={"x": "b"})])
    tested = welch_table(made, [read_question(made, "x=a:b")])
    assert tested.adjusted()[0] < 0.001
    assert tested.sheet().best == frozenset()
    assert tested.sheet(marked=False).notes[1] == (
        "Runs of one side differ also in what no setting says, such as how many documents there are. "
        "Name one experiment: fresh table RUNS EXPERIMENT."
    )


def test_shares_are_of_runs_with_the_same_settings() -> None:
    everything = results(TWO)
    shown = relative(pivot(where(everything, {"method": "fresh"})), everything, "full text").sheet()
    assert [row[2] for row in shown.rows] == [".714 (.714–.714)", ".778 (.667–.889)", ".643 (.571–.714)"]
    assert shown.notes[0] == (
        "macro-F1 as a share of the mean of full text with the same encoder in the same column: "
        "mean (min–max) over seeds."
    )
    one = relative(pivot(where(everything, {"encoder": "large"})), everything, "full text")
    assert one.sheet().rows[1] == ("ours", ".778 (.667–.889)")


def test_shares_of_a_row_that_is_mixed_are_marked() -> None:
    made = results([*of("small", "full text", 0.8), *of("large", "full text", 0.8), *seeds("ours", 0.4)])
    shown = relative(pivot(made, rows=["row"]), made, "full text").sheet()
    assert shown.rows[1] == ("ours", ".500 †")


def test_rows_are_compared_where_what_tells_their_runs_apart_is_equal() -> None:
    made = results(TWO)
    table = welch_table(made, [read_question(made, "row=full text:ours")])
    assert [(one.about["encoder"], one.first.mean, one.second.mean) for one in table.compared] == [
        ("small", 0.7, 0.5),
        ("large", 0.9, 0.7),
    ]
    assert table.sheet().header[:3] == ("corpus", "encoder", "row")
    [alone] = welch_table(made, [read_question(made, "row=ours:theirs")]).compared
    assert alone.about == {"corpus": "sst", "encoder": "small"}


def test_runs_that_differ_in_how_fast_they_are_can_be_compared() -> None:
    made = results(
        [*seeds("a", 0.5, 0.6, settings={"x": "a", "recording": False}), *seeds("b", 0.5, 0.7, settings={"x": "b"})]
    )
    assert len(welch_table(made, [read_question(made, "x=a:b")]).compared) == 1


def test_as_many_settings_tell_runs_apart_as_are_needed() -> None:
    made = results([*of("small", "a", 0.1, rate=1), *of("small", "a", 0.1, rate=2), *of("large", "a", 0.1, rate=1)])
    assert with_callback([made]) == ("encoder", "rate")
    assert with_callback([made[:2]]) == ("rate",)
    assert with_callback([]) == ()

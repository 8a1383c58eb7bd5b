import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.errors import ConfigError
from fresh.experiments.results import Result
from fresh.experiments.significance import Question, _p_value, read_question, signed, welch_table
from fresh.metrics.significance import holm, welch
from made_up_runs import Made, results, seeds

NEAR = (0.8, 0.82, 0.81)
FAR = (0.6, 0.61, 0.63)


def four() -> list[Made]:
    """Two scorers on two corpora, each with two discretizers."""
    made: list[Made] = []
    for corpus in ("sst", "movies"):
        for scorer in ("attention", "gradient"):
            for discretizer, values in (("global_top_k", NEAR), ("top_k", FAR if scorer == "gradient" else NEAR)):
                about = {"scorer": scorer, "discretizer": discretizer}
                made += seeds(f"{scorer}, {discretizer}", *values, corpus=corpus, settings=about)
    return made


GLOBAL = Question("discretizer", "global_top_k", "top_k")


def test_all_pairs_that_differ_in_one_setting_are_tested() -> None:
    table = welch_table(results(four()), [GLOBAL])
    assert table.names == ["scorer"]
    assert [(one.about["corpus"], one.about["scorer"]) for one in table.compared] == [
        *(("sst", "attention"), ("sst", "gradient"), ("movies", "attention"), ("movies", "gradient"))
    ]
    assert [one.test for one in table.compared] == [welch(NEAR, NEAR), welch(NEAR, FAR)] * 2


def test_p_values_are_corrected_for_all_of_them() -> None:
    table = welch_table(results(four()), [GLOBAL])
    expected = holm({str(number): one.test.p or 0 for number, one in enumerate(table.compared)})
    assert table.adjusted() == {number: found.adjusted for number, found in enumerate(expected)}
    found = welch(NEAR, FAR)
    assert found.p is not None
    assert table.adjusted()[1] == pytest.approx(4 * found.p)


def test_the_table_can_be_read() -> None:
    sheet = welch_table(results(four()), [GLOBAL]).sheet()
    assert sheet.header == (
        *("corpus", "scorer", "discretizer", "first", "second", "difference", "t", "df", "p", "p (Holm)"),
    )
    assert sheet.rows[1] == (
        *("sst", "gradient", "global_top_k − top_k", ".810 (.800–.820)", ".613 (.600–.630)", "+.197"),
        *("18.66", "3.4", ".0001", ".0006"),
    )
    assert sheet.best == {(1, 9), (3, 9)}
    assert sheet.notes == (
        "macro-F1: mean (min–max) over seeds; the difference is between the means.",
        "p: Welch's t-test, two-sided; df: its degrees of freedom. "
        "p (Holm): with Holm's correction for all 4 tests; bold: below .05.",
        "24 runs: 24 done, 0 failed, 0 open.",
    )
    assert sheet.records[1] == {
        "corpus": "sst",
        "scorer": "gradient",
        "setting": "discretizer",
        "first": "global_top_k",
        "second": "top_k",
        "figure": "macro-F1",
        "mean of first": pytest.approx(0.81),
        "mean of second": pytest.approx(0.61333333),
        "n of first": 3,
        "n of second": 3,
        "difference": pytest.approx(0.19666666),
        "t": pytest.approx(0.59 / 3 / (1 / 9000) ** 0.5),
        "degrees of freedom": pytest.approx(1 / 0.29),
        "p": pytest.approx(0.00013825523756),
        "p (Holm)": pytest.approx(4 * 0.00013825523756),
    }


def test_rows_are_compared_on_each_corpus_whatever_their_settings() -> None:
    made = [
        *seeds("ours", *NEAR, settings={"scorer": "attention"}),
        *seeds("a: b", *FAR, settings={"method": "lei"}),
    ]
    asked = read_question(results(made), "row=ours:a: b")
    assert asked == Question("row", "ours", "a: b")
    [one] = welch_table(results(made), [asked]).compared
    assert (one.about, one.test) == ({"corpus": "sst"}, welch(NEAR, FAR))


def test_several_questions_are_told_apart() -> None:
    sheet = welch_table(results(four()), [GLOBAL, Question("scorer", "attention", "gradient")]).sheet()
    assert sheet.header[:4] == ("corpus", "scorer", "discretizer", "first − second")
    assert sheet.rows[0][:4] == ("sst", "attention", "–", "discretizer: global_top_k − top_k")
    assert sheet.rows[5][:4] == ("sst", "–", "top_k", "scorer: attention − gradient")
    assert len(sheet.rows) == 8


def test_a_pair_without_chance_is_named_and_left_out_of_the_correction() -> None:
    made = [*four(), *(Made(d, 0.5, settings={"discretizer": d, "scorer": "random"}) for d in GLOBAL[1:])]
    table = welch_table(results(made), [GLOBAL])
    assert len(table.adjusted()) == 4
    assert table.sheet().rows[4][-4:] == ("–", "–", "–", "–")
    assert table.sheet().notes[2] == (
        "sst, random, global_top_k − top_k: no test, since there are 1 and 1 seeds, "
        "and the test needs two of each. Train with more seeds."
    )


def test_runs_that_are_missing_or_failed_are_told() -> None:
    made = [
        *seeds("a", 0.5, 0.6, None, settings={"ratio": 0.1}),
        *seeds("b", 0.7, 0.9, settings={"ratio": 0.2}),
        Made("b", None, 2, settings={"ratio": 0.2}, failure="ValueError: no"),
    ]
    sheet = welch_table(results(made), [Question("ratio", "0.1", "0.2")]).sheet()
    assert sheet.rows[0][2:4] == (".550 (.500–.600) 2/3", ".800 (.700–.900) 2/3")
    assert sheet.notes[-2:] == ("6 runs: 4 done, 1 failed, 1 open.", "failed: sst, b, seed 2: ValueError: no")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "discretizer",
            "'discretizer' is no comparison. Write SETTING=FIRST:SECOND, as in discretizer=top_k:contiguous.",
        ),
        ("scorer=a", "'scorer=a' is no comparison. Write SETTING=FIRST:SECOND, as in discretizer=top_k:contiguous."),
        ("scorr=a:b", "scorr is not a setting of these runs. Did you mean scorer?"),
        ("scorer=attention:gradien", "gradien is not a value of scorer in these runs. Did you mean gradient?"),
    ],
)
def test_questions_that_cannot_be_understood_are_refused(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(told)}$"):
        read_question(results(four()), text)


def test_nothing_to_compare_is_refused() -> None:
    made = results([Made("a", 0.5, settings={"ratio": 0.1, "x": 1}), Made("b", 0.6, settings={"ratio": 0.2, "x": 2})])
    told = (
        "There is nothing to compare for ratio: 0.1 − 0.2: no two runs that are done differ in that and the seed only. "
        "Compare rows, as in row=FIRST:SECOND, or run more."
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(told)}$"):
        welch_table(made, [Question("ratio", "0.1", "0.2")])


@pytest.mark.parametrize(("p", "shown"), [(None, "–"), (0.00001, "<.0001"), (0.5, ".5000"), (1.0, "1.0000")])
def test_p_values_are_written_shortly(p: float | None, shown: str) -> None:
    assert _p_value(p) == shown


@pytest.mark.parametrize(
    ("difference", "shown"), [(-0.0001, "-.000"), (0.0001, "+.000"), (0.0, ".000"), (-0.2, "-.200"), (1.5, "+1.500")]
)
def test_a_difference_keeps_its_sign(difference: float, shown: str) -> None:
    assert signed(difference) == shown


figures = st.lists(st.integers(0, 100).map(lambda n: n / 100), min_size=2, max_size=5)


@given(figures, figures)
def test_turning_a_question_round_turns_the_answer_round(first: list[float], second: list[float]) -> None:
    def made(one: list[float], two: list[float]) -> list[Result]:
        return results([*seeds("a", *one, settings={"x": "a"}), *seeds("b", *two, settings={"x": "b"})])

    [there] = welch_table(made(first, second), [Question("x", "a", "b")]).compared
    [back] = welch_table(made(first, second), [Question("x", "b", "a")]).compared
    assert there.test.difference == pytest.approx(-back.test.difference)
    assert (there.test.p is None) == (back.test.p is None)
    if there.test.p is not None:
        assert there.test.p == pytest.approx(back.test.p)

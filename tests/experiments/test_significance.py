import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.errors import ConfigError
from fresh.experiments.results import RunResult
from fresh.experiments.significance import Contrast, _format_p, parse_contrast, signed, welch_table
from fresh.metrics.significance import holm, welch
from made_up_runs import TWO_ENCODERS, Made, results, seeds

NEAR = (0.8, 0.82, 0.81)
FAR = (0.6, 0.61, 0.63)
GLOBAL = Contrast("discretizer", "global_top_k", "top_k")
FOUR = [
    made
    for corpus in ("sst", "movies")
    for scorer in ("attention", "gradient")
    for discretizer, values in (("global_top_k", NEAR), ("top_k", FAR if scorer == "gradient" else NEAR))
    for made in seeds(
        f"{scorer}, {discretizer}", *values, corpus=corpus, settings={"scorer": scorer, "discretizer": discretizer}
    )
]
"""Two scorers on two corpora, each with two discretizers."""


def test_all_pairs_that_differ_in_one_setting_are_tested() -> None:
    table = welch_table(results(FOUR), [GLOBAL])
    assert table.names == ["scorer"]
    assert [(one.common["corpus"], one.common["scorer"]) for one in table.tests] == [
        *(("sst", "attention"), ("sst", "gradient"), ("movies", "attention"), ("movies", "gradient"))
    ]
    assert [one.test for one in table.tests] == [welch(NEAR, NEAR), welch(NEAR, FAR)] * 2
    expected = holm({str(number): one.test.p or 0 for number, one in enumerate(table.tests)})
    assert table.adjusted() == {number: one.adjusted for number, one in enumerate(expected)}
    assert table.adjusted()[1] == pytest.approx(4 * (welch(NEAR, FAR).p or 0))


def test_the_table_has_all_statistics() -> None:
    table = welch_table(results(FOUR), [GLOBAL]).to_table()
    assert table.header == (
        *("corpus", "scorer", "discretizer", "first", "second", "difference", "t", "df", "p", "p (Holm)"),
    )
    assert table.rows[1] == (
        *("sst", "gradient", "global_top_k − top_k", ".810 (.800–.820)", ".613 (.600–.630)", "+.197"),
        *("18.66", "3.4", ".0001", ".0006"),
    )
    assert table.best == {(1, 9), (3, 9)}
    assert table.notes == (
        "macro-F1: mean (min–max) over seeds; the difference is between the means.",
        "p: Welch's t-test, two-sided; df: its degrees of freedom. "
        "p (Holm): with Holm's correction for all 4 tests; bold: below .05.",
        "24 runs: 24 done, 0 failed, 0 open.",
    )
    assert table.records[1] == {
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


def test_several_contrasts_have_labels_of_their_own() -> None:
    table = welch_table(results(FOUR), [GLOBAL, Contrast("scorer", "attention", "gradient")]).to_table()
    assert table.header[:4] == ("corpus", "scorer", "discretizer", "first − second")
    assert table.rows[0][:4] == ("sst", "attention", "–", "discretizer: global_top_k − top_k")
    assert table.rows[5][:4] == ("sst", "–", "top_k", "scorer: attention − gradient")
    assert len(table.rows) == 8


def test_rows_are_compared_on_each_corpus_whatever_their_settings() -> None:
    ours = seeds("ours", *NEAR, settings={"scorer": "attention"})
    made = results([*ours, *seeds("a: b", *FAR, settings={"method": "lei"})])
    contrast = parse_contrast(made, "row=ours:a: b")
    assert contrast == Contrast("row", "ours", "a: b")
    [one] = welch_table(made, [contrast]).tests
    assert (one.common, one.test) == ({"corpus": "sst"}, welch(NEAR, FAR))


def test_rows_are_compared_between_runs_with_equal_settings() -> None:
    made = results(TWO_ENCODERS)
    table = welch_table(made, [parse_contrast(made, "row=full text:ours")])
    assert [(one.common["encoder"], one.first.mean, one.second.mean) for one in table.tests] == [
        ("small", 0.7, 0.5),
        ("large", 0.9, 0.7),
    ]
    assert table.to_table().header[:3] == ("corpus", "encoder", "row")
    [alone] = welch_table(made, [parse_contrast(made, "row=ours:theirs")]).tests
    assert alone.common == {"corpus": "sst", "encoder": "small"}
    # Runs that differ only in speed can be compared.
    slow = seeds("a", 0.5, 0.6, settings={"x": "a", "recording": False})
    made = results([*slow, *seeds("b", 0.5, 0.7, settings={"x": "b"})])
    assert len(welch_table(made, [parse_contrast(made, "x=a:b")]).tests) == 1


def test_a_test_between_mixed_runs_is_not_in_bold() -> None:
    twice = [Made("a", 0.1 + n / 1000, n % 3, key=f"a {n}", settings={"x": "a"}) for n in range(6)]
    made = results([*twice, *seeds("b", 0.9, 0.901, 0.902, settings={"x": "b"})])
    table = welch_table(made, [parse_contrast(made, "x=a:b")])
    assert table.adjusted()[0] < 0.001
    assert table.to_table().best == frozenset()
    assert table.to_table().rows[0][2] == ".102 (.100–.105) †"
    assert table.to_table().notes[0].startswith("macro-F1: mean (min–max) over runs;")
    for marked, start in ((True, "†: runs that"), (False, "Runs of one side")):
        note = table.to_table(marked).notes[1]
        assert note.startswith(f"{start} also differ in something that no setting records, such as")
        assert note.endswith("Name one experiment: fresh table RUNS EXPERIMENT.")


def test_a_pair_that_cannot_be_tested_is_named_and_left_out_of_the_correction() -> None:
    made = [*FOUR, *(Made(d, 0.5, settings={"discretizer": d, "scorer": "random"}) for d in GLOBAL[1:])]
    table = welch_table(results(made), [GLOBAL])
    assert len(table.adjusted()) == 4
    assert table.to_table().rows[4][-4:] == ("–", "–", "–", "–")
    assert table.to_table().notes[2].startswith("sst, random, global_top_k − top_k: no test, since there are 1 and 1")


def test_missing_and_failed_runs_are_reported() -> None:
    made = [
        *seeds("a", 0.5, 0.6, None, settings={"ratio": 0.1}),
        *seeds("b", 0.7, 0.9, settings={"ratio": 0.2}),
        Made("b", None, 2, settings={"ratio": 0.2}, failure="ValueError: no"),
    ]
    table = welch_table(results(made), [Contrast("ratio", "0.1", "0.2")]).to_table()
    assert table.rows[0][2:4] == (".550 (.500–.600) 2/3", ".800 (.700–.900) 2/3")
    assert table.notes[-2:] == ("6 runs: 4 done, 1 failed, 1 open.", "failed: sst, b, seed 2: ValueError: no")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("discretizer", "'discretizer' is not a comparison. Write SETTING=FIRST:SECOND"),
        ("scorer=a", "'scorer=a' is not a comparison"),
        ("scorr=a:b", "scorr is not a setting of these runs. Did you mean scorer"),
        ("scorer=attention:gradien", "gradien is not a value of scorer in these runs. Did you mean gradient"),
    ],
)
def test_contrasts_that_cannot_be_parsed_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        parse_contrast(results(FOUR), text)


def test_nothing_to_compare_is_refused() -> None:
    made = results([Made("a", 0.5, settings={"ratio": 0.1, "x": 1}), Made("b", 0.6, settings={"ratio": 0.2, "x": 2})])
    with pytest.raises(ConfigError, match=r"nothing to compare for ratio: 0\.1 − 0\.2.*row=FIRST:SECOND"):
        welch_table(made, [Contrast("ratio", "0.1", "0.2")])


def test_p_values_have_four_digits_and_differences_keep_their_sign() -> None:
    assert list(map(_format_p, (None, 0.00001, 0.5, 1.0))) == ["–", "<.0001", ".5000", "1.0000"]
    assert list(map(signed, (-0.0001, 0.0001, 0.0, -0.2, 1.5))) == ["-.000", "+.000", ".000", "-.200", "+1.500"]


values = st.lists(st.integers(0, 100).map(lambda n: n / 100), min_size=2, max_size=5)


@given(values, values)
def test_swapping_a_contrast_swaps_the_result(first: list[float], second: list[float]) -> None:
    def made(one: list[float], two: list[float]) -> list[RunResult]:
        return results([*seeds("a", *one, settings={"x": "a"}), *seeds("b", *two, settings={"x": "b"})])

    [there] = welch_table(made(first, second), [Contrast("x", "a", "b")]).tests
    [back] = welch_table(made(first, second), [Contrast("x", "b", "a")]).tests
    assert there.test.difference == pytest.approx(-back.test.difference)
    assert (there.test.p is None) == (back.test.p is None)
    if there.test.p is not None:
        assert there.test.p == pytest.approx(back.test.p)

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from fresh.errors import MissingExtraError
from fresh.metrics.classification import macro_f1
from fresh.metrics.resampling import Kinds, Numbers
from fresh.metrics.significance import (
    Welch,
    _Adjusted,
    _sign_test,
    _Swaps,
    compare_accuracy,
    compare_macro_f1,
    holm,
    welch,
)

CLASSES = st.integers(0, 2)
TRIPLES = st.lists(st.tuples(CLASSES, CLASSES, CLASSES), min_size=1, max_size=9)
FIGURES = st.lists(st.floats(0, 1), min_size=2, max_size=6)


def columns(triples: list[tuple[int, int, int]]) -> list[Numbers]:
    return [np.array(column) for column in zip(*triples, strict=True)]


def f1(gold: Numbers, predicted: Numbers) -> float:
    return macro_f1([str(x) for x in gold], [str(x) for x in predicted], ["0", "1", "2"])


def right(gold: Numbers, predicted: Numbers) -> float:
    return float((gold == predicted).mean())


def enumerated(gold: Numbers, first: Numbers, second: Numbers, measure: object) -> float:
    """Swap the answers in all ways there are, document by document."""
    assert callable(measure)
    seen = abs(measure(gold, first) - measure(gold, second))
    as_large = 0
    for swap in product((False, True), repeat=len(gold)):
        one, two = np.where(swap, second, first), np.where(swap, first, second)
        as_large += abs(measure(gold, one) - measure(gold, two)) >= seen - 1e-12
    return float(as_large / 2 ** len(gold))


@given(TRIPLES)
def test_paired_tests_equal_enumeration(triples: list[tuple[int, int, int]]) -> None:
    gold, first, second = columns(triples)
    by_accuracy, by_f1 = compare_accuracy(gold, first, second, 10), compare_macro_f1(gold, first, second, 3, 10)
    assert by_accuracy.exact
    assert by_f1.exact
    assert by_accuracy.p == pytest.approx(enumerated(gold, first, second, right))
    assert by_f1.p == pytest.approx(enumerated(gold, first, second, f1))
    assert by_f1.n_discordant == int((first != second).sum())
    assert by_accuracy.n_discordant == int(((first == gold) != (second == gold)).sum())


@given(TRIPLES)
def test_a_comparison_turns_round(triples: list[tuple[int, int, int]]) -> None:
    gold, first, second = columns(triples)
    for one, other in (
        (compare_accuracy(gold, first, second, 10), compare_accuracy(gold, second, first, 10)),
        (compare_macro_f1(gold, first, second, 3, 10), compare_macro_f1(gold, second, first, 3, 10)),
    ):
        assert one.p == pytest.approx(other.p)
        assert (one.first, one.second) == pytest.approx((other.second, other.first))
        assert one.difference.value == pytest.approx(one.first - one.second)
        assert one.difference.value == pytest.approx(-other.difference.value)


@pytest.mark.parametrize(("n_first", "n_second"), [(0, 0), (3, 3), (0, 5), (7, 2), (900, 1000)])
def test_the_sign_test_equals_scipy(n_first: int, n_second: int) -> None:
    total = n_first + n_second
    expected = stats.binomtest(n_first, total).pvalue if total else 1.0
    assert _sign_test(n_first, n_second) == pytest.approx(expected)


def test_models_that_agree_do_not_differ() -> None:
    for found in (
        compare_accuracy([0, 1, 1], [0, 1, 0], [0, 1, 0]),
        compare_macro_f1([0, 1, 1], [0, 1, 0], [0, 1, 0], 2),
    ):
        assert (found.p, found.n_discordant) == (1, 0)
        assert (found.difference.value, found.difference.low, found.difference.high) == (0, 0, 0)


def some_models(n: int, n_classes: int, chances: tuple[float, float], seed: int) -> list[Numbers]:
    generator = np.random.default_rng(seed)
    gold = generator.integers(n_classes, size=n)
    answers = [np.where(generator.random(n) < c, gold, generator.integers(n_classes, size=n)) for c in chances]
    return [gold, *answers]


def test_random_swaps_come_close_to_all_of_them() -> None:
    gold, first, second = some_models(40, 2, (0.8, 0.5), seed=3)
    exact = compare_macro_f1(gold, first, second, 2)
    sampled = _Swaps.of(Kinds.of(gold, first, second), 2).sampled_p(seed=0)
    assert exact.exact
    assert 0.005 < exact.p < 0.5
    assert sampled == pytest.approx(exact.p, abs=4 * math.sqrt(exact.p / 10_000))


def test_a_clear_difference_between_large_models_is_found() -> None:
    gold, first, second = some_models(2000, 4, (0.8, 0.6), seed=0)
    found = compare_macro_f1(gold, first, second, 4)
    assert not found.exact
    assert found.p == 1 / 10_001
    assert found.difference.low > 0.08
    assert str(found) == (
        f"macro-F1: difference {found.difference}, paired permutation test p = 0.0001 (10,000 random swaps)"
    )


def test_equal_models_are_seldom_told_apart() -> None:
    """Under no difference, p is at most .05 in at most about 5 % of cases."""
    models = [some_models(150, 3, (0.7, 0.7), seed) for seed in range(200)]
    for ps in (
        [compare_macro_f1(g, a, b, 3, 1).p for g, a, b in models],
        [compare_accuracy(g, a, b, 1).p for g, a, b in models],
    ):
        assert np.mean(np.array(ps) <= 0.05) <= 0.085
        assert np.mean(np.array(ps) <= 0.5) > 0.3


def test_paired_intervals_cover_what_they_promise() -> None:
    hits = 0
    for seed in range(300):
        gold, first, second = some_models(300, 2, (0.8, 0.6), seed)
        found = compare_accuracy(gold, first, second, 400, seed)
        hits += found.difference.low <= 0.1 <= found.difference.high  # half of what is guessed is right
    assert 0.91 < hits / 300 < 0.985


@pytest.mark.filterwarnings("ignore:Precision loss")  # what scipy says where one model always gives the same figure
@given(FIGURES, FIGURES)
def test_welch_equals_scipy(first: list[float], second: list[float]) -> None:
    assume(np.ptp(first) > 1e-6 or np.ptp(second) > 1e-6)
    found, expected = welch(first, second), stats.ttest_ind(first, second, equal_var=False)
    assert found.t == pytest.approx(expected.statistic, abs=1e-9)
    assert found.degrees == pytest.approx(expected.df)
    assert found.p == pytest.approx(expected.pvalue, abs=1e-12)
    assert found.note == ""


def test_answers_that_cannot_be_paired_are_refused() -> None:
    for compare in (compare_accuracy, lambda gold, first, second: compare_macro_f1(gold, first, second, 2)):
        with pytest.raises(ValueError, match=r"^There are 2 gold labels but 1 answers\. Give one each\.$"):
            compare([0, 1], [0, 1], [0])
        with pytest.raises(ValueError, match=r"^There are no instances to draw from\. Give at least one\.$"):
            compare([], [], [])
    with pytest.raises(ValueError, match=r"^n_classes must be at least 1, got 0\.$"):
        compare_macro_f1([0], [0], [0], 0)


def test_welch_in_words() -> None:
    found = welch([0.81, 0.83, 0.82], [0.79, 0.80, 0.78])
    assert str(found) == "difference +0.030, Welch's t(4.0) = 3.67, p = 0.0213"


def test_one_seed_is_named() -> None:
    found = welch([0.875], [0.75, 0.75])
    note = "there are 1 and 2 seeds, and one seed does not show how much chance does. Train two."
    assert found == Welch(0.125, None, None, None, note)
    assert str(found) == f"difference +0.125; no Welch's t-test: {note}"


@pytest.mark.parametrize("second", [[0.3, 0.3], [0.8, 0.8, 0.8]])
def test_seeds_that_all_agree_are_named(second: list[float]) -> None:
    found = welch([0.1 + 0.2, 0.3], second)
    assert (found.t, found.degrees, found.p) == (None, None, None)
    assert found.difference == pytest.approx(0.3 - second[0])
    assert found.note == "all seeds of a model gave the same figure, for both models. Chance shows nowhere."


@pytest.mark.filterwarnings("ignore:Precision loss")
def test_one_model_may_give_the_same_figure_always() -> None:
    found = welch([0.5, 0.5, 0.5], [0.6, 0.7])
    assert found.degrees == 1
    assert found.p == pytest.approx(stats.ttest_ind([0.5, 0.5, 0.5], [0.6, 0.7], equal_var=False).pvalue)


def test_figures_without_a_mean_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^There are no figures to compare\. Give at least one seed of each model\.$"):
        welch([], [0.5])
    with pytest.raises(ValueError, match=r"^Figures must be finite numbers, got nan\. Leave failed seeds out\.$"):
        welch([0.5, float("nan")], [0.5])


def test_welch_says_which_extra_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(MissingExtraError) as caught:
        welch([0.5, 0.6], [0.5, 0.7])
    assert str(caught.value) == "Welch's t-test needs scipy. Install it with: pip install 'fresh-rationales[sklearn]'"


def test_holm_by_hand() -> None:
    found = holm({"a": 0.0625, "b": 0.25, "c": 0.1875, "d": 0.03125})
    assert found == [
        _Adjusted("a", 0.0625, 0.1875, 4, "Holm"),
        _Adjusted("b", 0.25, 0.375, 4, "Holm"),
        _Adjusted("c", 0.1875, 0.375, 4, "Holm"),
        _Adjusted("d", 0.03125, 0.125, 4, "Holm"),
    ]
    assert holm({}) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_lies_between_none_and_bonferroni(ps: list[float]) -> None:
    found = holm({str(i): p for i, p in enumerate(ps)})
    assert all(item.p <= item.adjusted <= min(1, item.p * len(ps)) + 1e-12 for item in found)
    assert min(item.adjusted for item in found) == pytest.approx(min(1, min(ps) * len(ps)))
    ordered = sorted(found, key=lambda item: item.p)
    assert [item.adjusted for item in ordered] == sorted(item.adjusted for item in found)


def test_a_p_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^The p of 'a' must be from 0 to 1, got 1\.5\.$"):
        holm({"a": 1.5})

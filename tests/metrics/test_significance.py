import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import special

from fresh.metrics.bootstrap import Ints, sum_by_text
from fresh.metrics.significance import AdjustedP, Welch, compare_accuracy, compare_macro_f1, holm, welch
from strategies import labels_and_texts

FIGURES = st.lists(st.floats(0, 1), min_size=2, max_size=6)


def f1(gold: Ints, predicted: Ints) -> float:
    n_right = np.bincount(gold[gold == predicted], minlength=3)
    n_all = np.bincount(gold, minlength=3) + np.bincount(predicted, minlength=3)
    return float((2 * n_right / np.maximum(n_all, 1)).mean())


def share_right(gold: Ints, predicted: Ints) -> float:
    return float((gold == predicted).mean())


def enumerated_p(measure: Callable[..., float], gold: Ints, first: Ints, second: Ints, texts: Ints) -> float:
    """Swap the predictions in all possible ways, text by text."""
    observed, as_large = abs(measure(gold, first) - measure(gold, second)), 0
    distinct = np.unique(texts)
    for swapped in product((False, True), repeat=len(distinct)):
        swap = np.isin(texts, distinct[list(swapped)])
        one, two = np.where(swap, second, first), np.where(swap, first, second)
        as_large += abs(measure(gold, one) - measure(gold, two)) >= observed - 1e-12
    return float(as_large / 2 ** len(distinct))


@given(labels_and_texts(9), st.booleans())
def test_paired_tests_equal_enumeration(columns: list[Ints], shared: bool) -> None:
    gold, first, second, texts = columns
    texts = texts if shared else np.arange(len(gold))
    by_accuracy = compare_accuracy(gold, first, second, 5, texts=texts)
    by_f1 = compare_macro_f1(gold, first, second, 3, 5, texts=texts)
    assert by_accuracy.exact
    assert by_f1.exact
    assert by_accuracy.p == pytest.approx(enumerated_p(share_right, gold, first, second, texts))
    assert by_f1.p == pytest.approx(enumerated_p(f1, gold, first, second, texts))
    assert by_accuracy.by_text == by_f1.by_text == (len(set(texts.tolist())) < len(gold))
    leads = sum_by_text((first == gold) * 1.0 - (second == gold), texts)
    assert by_accuracy.n_discordant == int((leads != 0).sum())
    assert by_f1.n_discordant == int((sum_by_text((first != second) * 1.0, texts) > 0).sum())


@given(labels_and_texts(9))
def test_a_comparison_is_antisymmetric(columns: list[Ints]) -> None:
    gold, first, second, _ = columns
    for one, other in (
        (compare_accuracy(gold, first, second, 10), compare_accuracy(gold, second, first, 10)),
        (compare_macro_f1(gold, first, second, 3, 10), compare_macro_f1(gold, second, first, 3, 10)),
    ):
        assert one.p == pytest.approx(other.p)
        assert (one.first, one.second) == pytest.approx((other.second, other.first))
        assert one.difference.value == pytest.approx(one.first - one.second)
        assert one.difference.value == pytest.approx(-other.difference.value)


@pytest.mark.parametrize(("n_first", "n_second"), [(0, 0), (3, 3), (0, 5), (7, 2), (900, 1000)])
def test_the_sign_test_equals_exact_counting(n_first: int, n_second: int) -> None:
    first = np.repeat([1, 0, 1], [n_first, n_second, 1])  # both are right on the last document
    second = np.repeat([0, 1, 1], [n_first, n_second, 1])
    total = n_first + n_second
    tail = sum(math.comb(total, count) for count in range(min(n_first, n_second) + 1))
    p = compare_accuracy(np.ones(total + 1, dtype=int), first, second, 1).p
    assert p == pytest.approx(min(1, 2 * tail / 2**total), rel=1e-10, abs=1e-12)


def random_models(n: int, n_classes: int, chances: tuple[float, float], seed: int) -> tuple[Ints, Ints, Ints]:
    generator = np.random.default_rng(seed)
    gold = generator.integers(n_classes, size=n)
    one, two = (np.where(generator.random(n) < c, gold, generator.integers(n_classes, size=n)) for c in chances)
    return gold, one, two


@pytest.mark.parametrize("texts", [None, np.arange(40) // 2])
def test_random_swaps_come_close_to_all_of_them(texts: Ints | None, monkeypatch: pytest.MonkeyPatch) -> None:
    models = random_models(40, 2, (0.8, 0.5), seed=3)
    exact = compare_macro_f1(*models, 2, texts=texts)
    monkeypatch.setattr("fresh.metrics.significance.MAX_OUTCOMES", 0)
    sampled = compare_macro_f1(*models, 2, texts=texts)
    assert (exact.exact, sampled.exact) == (True, False)
    assert 0.005 < exact.p < 0.5
    assert sampled.p == pytest.approx(exact.p, abs=4 * math.sqrt(exact.p / 10_000))


def test_a_clear_difference_between_large_models_is_found() -> None:
    result = compare_macro_f1(*random_models(2000, 4, (0.8, 0.6), seed=0), 4)
    assert (result.exact, result.p) == (False, 1 / 10_001)
    assert result.difference.low > 0.08


# Welch's test


@given(FIGURES, FIGURES)
def test_welch_is_the_published_formula(first: list[float], second: list[float]) -> None:
    assume(np.ptp(first) > 1e-6 or np.ptp(second) > 1e-6)
    result, one, two = welch(first, second), np.array(first), np.array(second)
    parts = one.var(ddof=1) / len(one), two.var(ddof=1) / len(two)
    t = (one.mean() - two.mean()) / math.sqrt(sum(parts))
    shares = parts[0] / sum(parts), parts[1] / sum(parts)
    degrees = 1 / (shares[0] ** 2 / (len(one) - 1) + shares[1] ** 2 / (len(two) - 1))
    assert result.t == pytest.approx(t, abs=1e-12)
    assert result.degrees == pytest.approx(degrees, rel=1e-12)
    assert result.p == pytest.approx(2 * special.stdtr(degrees, -abs(t)), abs=1e-12)
    assert result.note == ""


@pytest.mark.parametrize(
    ("first", "second", "note"),
    [
        ([0.875], [0.75, 0.75], "there are 1 and 2 seeds, and the test needs two of each"),
        ([0.1 + 0.2, 0.3], [0.3, 0.3], "all seeds of each model gave the same figure"),
        ([0.1 + 0.2, 0.3], [0.8, 0.8, 0.8], "all seeds of each model gave the same figure"),
    ],
)
def test_without_enough_seeds_there_is_no_test(first: list[float], second: list[float], note: str) -> None:
    result = welch(first, second)
    assert result == Welch(result.difference, None, None, None, result.note)
    assert result.difference == pytest.approx(np.mean(first) - np.mean(second))
    assert result.note.startswith(note)


def test_figures_without_a_mean_are_refused() -> None:
    assert welch([0.5, 0.5, 0.5], [0.6, 0.7]).degrees == 1  # equal ones are not
    with pytest.raises(ValueError, match="There are no figures to compare"):
        welch([], [0.5])
    with pytest.raises(ValueError, match="Figures must be finite numbers, got nan"):
        welch([0.5, float("nan")], [0.5])


# Holm's correction


def test_holm_by_hand() -> None:
    ps = {"a": 0.0625, "b": 0.25, "c": 0.1875, "d": 0.03125}
    adjusted = {"a": 0.1875, "b": 0.375, "c": 0.375, "d": 0.125}
    assert holm(ps) == [AdjustedP(name, p, adjusted[name], 4, "Holm") for name, p in ps.items()]
    assert holm({}) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_lies_between_none_and_bonferroni(ps: list[float]) -> None:
    result = holm({str(i): p for i, p in enumerate(ps)})
    assert all(item.p <= item.adjusted <= min(1, item.p * len(ps)) + 1e-12 for item in result)
    assert min(item.adjusted for item in result) == pytest.approx(min(1, min(ps) * len(ps)))
    ordered = sorted(result, key=lambda item: item.p)
    assert [item.adjusted for item in ordered] == sorted(item.adjusted for item in result)

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fresh.metrics.bootstrap import (
    Estimate,
    Interval,
    Ints,
    accuracy_interval,
    bootstrap_interval,
    class_intervals,
    describe_shared_texts,
    draw_rows,
    macro_f1_interval,
    mean_interval,
    number_labels,
    number_texts,
    percentile_intervals,
    ratio_interval,
    resample_counts,
)
from fresh.metrics.classification import accuracy, class_scores, macro_f1
from fresh.metrics.significance import compare_accuracy, compare_macro_f1
from strategies import labels_and_texts

LABELS = ("neg", "pos", "mixed")
PAIRS = st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from((*LABELS, "other"))), min_size=1, max_size=30)


# Figures with intervals


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Interval(0.8123, 0.7941, 0.8299), ".812 (.794–.830)"),
        (Interval(1.0, 0.9996, 1.0), "1.000 (1.000–1.000)"),
        (Interval(0.0, 0.0, 0.05), ".000 (.000–.050)"),
        (Interval(-0.012, -0.0304, 0.0041), "-.012 (-.030 to .004)"),
        (Interval(-1.5, -10.25, -0.00001), "-1.500 (-10.250 to .000)"),
        (Interval(10.5, 10.0, 20.5), "10.500 (10.000–20.500)"),
        (Estimate(0.8123), ".812"),
    ],
)
def test_figures_are_short(estimate: Estimate, text: str) -> None:
    assert str(estimate) == text


def test_an_estimate_holds_both_ends_or_none() -> None:
    assert Estimate.of(0.5, None) == Estimate(0.5)
    assert Estimate.of(0.5, (0.25, 0.75)) == Estimate(0.5, 0.25, 0.75)
    assert Interval(0.5, 0.25, 0.75).bounds == (0.25, 0.75)
    for numbers, message in (
        ((float("nan"), 0.1, 0.2), r"must be finite, got \[0\.1, nan, 0\.2\]"),
        ((0.2, 0.3, 0.2), r"from low to high, got 0\.3 to 0\.2"),
        ((0.2, 0.3), r"two ends, got 0\.3 and None"),
    ):
        with pytest.raises(ValueError, match=message):
            Estimate(*numbers)


# Intervals


def test_a_seed_decides_the_interval_unless_all_values_are_equal() -> None:
    values = np.random.default_rng(0).random(50)
    assert mean_interval(values, seed=3) == mean_interval(values, seed=3) != mean_interval(values, seed=4)
    assert mean_interval([0.25] * 9) == Interval(0.25, 0.25, 0.25)


@given(PAIRS)
def test_figures_equal_those_of_the_metrics(pairs: list[tuple[str, str]]) -> None:
    gold, predicted = zip(*pairs, strict=True)
    labels, answers = number_labels(gold, LABELS), number_labels(predicted, LABELS)
    assert accuracy_interval(labels, answers, 10).value == pytest.approx(accuracy(gold, predicted))
    assert macro_f1_interval(labels, answers, 3, 10).value == pytest.approx(macro_f1(gold, predicted, LABELS))
    for own, score in zip(class_intervals(labels, answers, 3, 20), class_scores(gold, predicted, LABELS), strict=True):
        assert [one.value for one in own] == pytest.approx([score.precision, score.recall, score.f1])
        assert all(0 <= one.low <= one.high <= 1 for one in own)


def test_ratios_without_a_divisor_are_zero() -> None:
    assert ratio_interval([0, 0], [0, 0]) == Interval(0, 0, 0)
    assert ratio_interval([1, 0], [1, 0]) == Interval(1, 0, 1)  # one draw in four has nothing to divide by


def test_an_undefined_figure_of_a_resample_is_left_out() -> None:
    first, second = percentile_intervals(np.array([[9.0, 0.5], [0.0, np.nan], [1.0, 0.5], [2.0, 0.5]]))
    assert (first.value, *first.bounds) == pytest.approx((9, 0.05, 1.95))
    assert second == Interval(0.5, 0.5, 0.5)


@pytest.mark.parametrize("shared", [False, True])
def test_intervals_of_classes_are_those_of_drawing_documents(shared: bool) -> None:
    generator = np.random.default_rng(2)
    gold = generator.integers(3, size=120)
    predicted = np.where(generator.random(120) < 0.7, gold, generator.integers(3, size=120))
    texts = np.arange(120) // 3 if shared else None

    def score(rows: Ints, place: int, name: str) -> float:
        correct = ((gold[rows] == place) & (predicted[rows] == place)).sum()
        n_gold, n_predicted = (gold[rows] == place).sum(), (predicted[rows] == place).sum()
        divisor = {"precision": n_predicted, "recall": n_gold, "f1": (n_gold + n_predicted) / 2}[name]
        return float(correct / max(1, divisor))

    def check(fast: Interval, statistic: Callable[[Ints], float]) -> None:
        slow = bootstrap_interval(statistic, 120, 1_000, 5, texts)
        assert fast.value == pytest.approx(slow.value)
        assert fast.bounds == pytest.approx(slow.bounds, abs=0.03)

    mean_f1 = macro_f1_interval(gold, predicted, 3, texts=texts)
    check(mean_f1, lambda rows: sum(score(rows, place, "f1") for place in range(3)) / 3)
    for place, own in enumerate(class_intervals(gold, predicted, 3, texts=texts)):
        for name in ("precision", "recall", "f1"):
            check(getattr(own, name), partial(score, place=place, name=name))


# Coverage


@pytest.mark.parametrize("few_kinds", [True, False])
def test_95_percent_of_the_intervals_hold_the_true_mean(few_kinds: bool) -> None:
    generator = np.random.default_rng(7)
    hits = 0
    for seed in range(400):
        values = generator.random(200) < 0.7 if few_kinds else generator.exponential(0.7, 200)
        interval = mean_interval(values, 150, seed)
        hits += interval.low <= 0.7 <= interval.high
    assert 0.915 < hits / 400 < 0.98


# Resamples


def test_blocks_are_drawn_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.array([3, 4, 5])
    whole = np.concatenate(list(resample_counts(counts, 50, seed=1)))
    monkeypatch.setattr("fresh.metrics.bootstrap.BLOCK_SIZE", 21)
    blocks = list(resample_counts(counts, 50, seed=1))
    assert [len(block) for block in blocks] == [1] + [7] * 7 + [1]
    assert np.array_equal(np.concatenate(blocks), whole)
    assert np.array_equal(blocks[0], [counts])


# Shared texts


def all_intervals(gold: Ints, first: Ints, second: Ints, texts: Ints | None, n: int = 40) -> list[Interval]:
    values = gold * 0.37 + first * 0.11
    return [
        macro_f1_interval(gold, first, 3, n, texts=texts),
        accuracy_interval(gold, first, n, texts=texts),
        mean_interval(values, n, texts=texts),
        ratio_interval(first, gold + 1, n, texts=texts),
        compare_macro_f1(gold, first, second, 3, n, texts=texts).difference,
        compare_accuracy(gold, first, second, n, texts=texts).difference,
        bootstrap_interval(lambda rows: float(np.median(values[rows])), len(gold), n, texts=texts),
    ]


@given(labels_and_texts(12), st.data())
def test_texts_of_one_document_each_change_nothing(columns: list[Ints], data: st.DataObject) -> None:
    gold, first, second, _ = columns
    apart = np.array(data.draw(st.permutations(range(5, 5 + len(gold)))))
    assert all_intervals(gold, first, second, apart) == all_intervals(gold, first, second, None)
    assert compare_macro_f1(gold, first, second, 3, 5) == compare_macro_f1(gold, first, second, 3, 5, texts=apart)


def test_intervals_are_those_of_the_first_version() -> None:
    # The figures of the version that resampled documents only.
    generator = np.random.default_rng(0)
    gold, first, second = generator.integers(3, size=(3, 40))
    values = generator.random(40)
    intervals = [macro_f1_interval(gold, first, 3), accuracy_interval(gold, first), mean_interval(values)]
    assert [(one.value, one.low, one.high) for one in intervals] == [
        pytest.approx((0.3814002089864159, 0.22910426609549, 0.5279241352517214)),
        pytest.approx((0.375, 0.225, 0.525)),
        pytest.approx((0.6127517993154481, 0.5163963890605408, 0.7092541056864459)),
    ]
    tests = compare_macro_f1(gold, first, second, 3), compare_accuracy(gold, first, second)
    assert [(one.difference.low, one.difference.high, one.p, one.n_discordant) for one in tests] == [
        pytest.approx((-0.17415596295132216, 0.24665140273883368, 0.6707329267073293, 25)),
        pytest.approx((-0.175, 0.25, 1.0, 19)),
    ]


@given(labels_and_texts(12), st.data())
def test_neither_order_nor_numbers_of_texts_matter(columns: list[Ints], data: st.DataObject) -> None:
    gold, first, second, texts = columns
    order = np.array(data.draw(st.permutations(range(len(gold)))))
    renamed = np.array(data.draw(st.permutations(range(4))))[texts]

    def measure_all(gold: Ints, first: Ints, second: Ints, texts: Ints) -> list[Any]:
        return [
            accuracy_interval(gold, first, 30, texts=texts),
            macro_f1_interval(gold, first, 3, 30, texts=texts),
            compare_accuracy(gold, first, second, 30, texts=texts),
            compare_macro_f1(gold, first, second, 3, 30, texts=texts),
        ]

    expected = measure_all(gold, first, second, texts)
    # Means are drawn text by text, in the order of their numbers.
    assert measure_all(gold, first, second, renamed)[1:] == expected[1:]
    if len(set(texts.tolist())) < len(gold):
        assert measure_all(*(column[order] for column in (gold, first, second, texts))) == expected


@settings(max_examples=3)
@given(st.integers(0, 2**32), st.integers(2, 6))
def test_repeated_documents_do_not_narrow_an_interval(seed: int, n_times: int) -> None:
    # Resampled one by one, k copies of each document would narrow the interval by the square root of k.
    generator = np.random.default_rng(seed)
    gold = generator.integers(3, size=60)
    first, second = (np.where(generator.random(60) < 0.6, gold, generator.integers(3, size=60)) for _ in range(2))
    repeated = (np.repeat(gold, n_times), np.repeat(first, n_times), np.repeat(second, n_times))
    once = all_intervals(gold, first, second, None, 2_000)
    together = all_intervals(*repeated, np.repeat(np.arange(60), n_times), 2_000)
    one_by_one = all_intervals(*repeated, None, 2_000)
    for plain, whole, narrow in list(zip(once, together, one_by_one, strict=True))[:-1]:  # a median jumps
        width = plain.high - plain.low
        assert whole.value == pytest.approx(plain.value)
        assert whole.bounds == pytest.approx(plain.bounds, abs=0.15 * width)
        assert narrow.high - narrow.low < 1.2 * width / np.sqrt(n_times)


@given(st.lists(st.integers(-2, 3), min_size=1, max_size=9), st.integers(0, 99))
def test_a_draw_holds_whole_texts(texts: list[int], seed: int) -> None:
    [whole, drawn] = draw_rows(len(texts), 1, seed, texts)
    assert whole.tolist() == list(range(len(texts)))
    counts = np.bincount(drawn, minlength=len(texts))
    assert all(counts[i] == counts[j] for i, j in product(range(len(texts)), repeat=2) if texts[i] == texts[j])
    assert sum(int(counts[texts.index(text)]) for text in set(texts)) == len(set(texts))


def test_equal_texts_have_equal_numbers() -> None:
    numbers = number_texts([("b",), ("a", "c"), ("b",)])
    assert numbers is not None
    assert numbers.tolist() == [1, 0, 1]
    assert number_texts([("b",), ("a",)]) is None
    assert describe_shared_texts(4848, 83) == "4,848 documents share 83 texts"
    assert describe_shared_texts(2, 1) == "2 documents share 1 text"


# Errors

NUMBERS = r"Labels must be a row of whole numbers from 0.*number_labels\(labels, classes\)"


@pytest.mark.parametrize(
    ("gold", "predicted", "message"),
    [
        ([0, 1], [0], "got 1 for 2"),
        ([0, -1], [0, 1], NUMBERS),
        ([0.0, 1.0], [0, 1], NUMBERS),
        (["a", "b"], [0, 1], NUMBERS),
        ([], [], "There are no instances to resample"),
    ],
)
def test_labels_that_cannot_be_compared_are_refused(gold: list[int], predicted: list[int], message: str) -> None:
    for measure in (
        lambda: accuracy_interval(gold, predicted),
        lambda: macro_f1_interval(gold, predicted, 2),
        lambda: compare_accuracy(gold, gold, predicted),
        lambda: compare_macro_f1(gold, gold, predicted, 2),
    ):
        with pytest.raises(ValueError, match=message):
            measure()


def test_samples_that_cannot_be_resampled_are_refused() -> None:
    with pytest.raises(ValueError, match="must be finite"):
        mean_interval([1.0, float("nan")])
    with pytest.raises(ValueError, match="There are no instances to resample"):
        bootstrap_interval(len, 0)
    with pytest.raises(ValueError, match=r"one shape, got \(2,\) and \(1,\)"):
        ratio_interval([1, 2], [1])


@pytest.mark.parametrize("texts", [[0, 0], [0.0, 1.0, 1.0], ["a", "b", "b"], [[0, 1, 1]]])
def test_texts_that_do_not_fit_are_refused(texts: list[int]) -> None:
    gold = number_labels(["a", "b", "b"], ["a", "b"])
    for measure in (
        lambda: accuracy_interval(gold, gold, texts=texts),
        lambda: macro_f1_interval(gold, gold, 2, texts=texts),
        lambda: ratio_interval(gold, gold, texts=texts),
        lambda: bootstrap_interval(len, 3, texts=texts),
        lambda: compare_accuracy(gold, gold, gold, texts=texts),
        lambda: compare_macro_f1(gold, gold, gold, 2, texts=texts),
    ):
        with pytest.raises(ValueError, match=r"3 whole numbers.*number_texts\(texts\)"):
            measure()

import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.metrics.bootstrap import (
    accuracy_interval,
    bootstrap,
    class_intervals,
    intervals,
    macro_f1_interval,
    mean_interval,
    numbered,
    ratio_interval,
)
from fresh.metrics.classification import accuracy, class_scores, macro_f1
from fresh.metrics.estimate import Estimate, Interval
from fresh.metrics.resampling import Kinds, Numbers, resampled

LABELS = ("neg", "pos", "mixed")
PAIRS = st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from((*LABELS, "other"))), min_size=1, max_size=30)


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(0.8123, 0.7941, 0.8299), ".812 (.794–.830)"),
        (Interval(1.0, 0.9996, 1.0), "1.000 (1.000–1.000)"),
        (Interval(0.0, 0.0, 0.05), ".000 (.000–.050)"),
        (Interval(-0.012, -0.0304, 0.0041), "-.012 (-.030 to .004)"),
        (Interval(-1.5, -10.25, -0.00001), "-1.500 (-10.250 to .000)"),
        (Interval(10.5, 10.0, 20.5), "10.500 (10.000–20.500)"),
    ],
)
def test_an_interval_in_few_signs(interval: Interval, text: str) -> None:
    assert str(interval) == text


def test_an_interval_cannot_be_built_wrong() -> None:
    finite = "A figure and its interval must be finite, got [0.1, nan, 0.2]. Leave out what is not known."
    with pytest.raises(ValueError, match=f"^{re.escape(finite)}$"):
        Interval(float("nan"), 0.1, 0.2)
    with pytest.raises(ValueError, match=r"^An interval runs from low to high, got 0\.3 to 0\.2\.$"):
        Interval(0.2, 0.3, 0.2)


def test_a_figure_without_a_range_stands_alone() -> None:
    assert str(Estimate(0.8123)) == ".812"
    assert Estimate.of(0.5, None) == Estimate(0.5)
    assert Estimate.of(0.5, (0.25, 0.75)) == Estimate(0.5, 0.25, 0.75)
    assert Interval(0.5, 0.25, 0.75).bounds == (0.25, 0.75)


def test_the_interval_of_any_figure() -> None:
    values = np.arange(100.0)
    found = bootstrap(lambda rows: float(np.median(values[rows])), 100)
    assert found.value == 49.5
    assert 35 < found.low < 45
    assert 54 < found.high < 64


def test_all_resamples_of_two_instances_are_as_probable_as_counted() -> None:
    """Of (0, 0), (0, 1), (1, 0) and (1, 1), the mean is 1/2 in two of four."""
    draws = np.concatenate(list(resampled(np.array([1, 1]), 40_000, seed=0)))
    shares = [float((draws[:, 0] == count).mean()) for count in range(3)]
    assert shares == pytest.approx([0.25, 0.5, 0.25], abs=0.01)
    assert (draws.sum(axis=1) == 2).all()


def test_blocks_are_drawn_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.array([3, 4, 5])
    whole = np.concatenate(list(resampled(counts, 50, seed=1)))
    monkeypatch.setattr("fresh.metrics.resampling.BLOCK", 21)
    parts = list(resampled(counts, 50, seed=1))
    assert [len(part) for part in parts] == [7] * 7 + [1]
    assert np.array_equal(np.concatenate(parts), whole)


@given(PAIRS)
def test_figures_equal_those_of_the_metrics(pairs: list[tuple[str, str]]) -> None:
    gold, predicted = zip(*pairs, strict=True)
    wanted, given_ = numbered(gold, LABELS), numbered(predicted, LABELS)
    assert accuracy_interval(wanted, given_, 10).value == pytest.approx(accuracy(gold, predicted))
    assert macro_f1_interval(wanted, given_, 3, 10).value == pytest.approx(macro_f1(gold, predicted, LABELS))


@given(PAIRS, st.integers(0, 2**32))
def test_every_resample_has_the_macro_f1_of_its_instances(pairs: list[tuple[str, str]], seed: int) -> None:
    drawn = [pairs[i] for i in np.random.default_rng(seed).integers(len(pairs), size=len(pairs))]
    kinds = Kinds.of(*(numbered(column, LABELS) for column in zip(*pairs, strict=True)))
    cells = [tuple((*LABELS, "other")[place] for place in cell) for cell in kinds.cells]
    counts = np.array([[drawn.count(cell) for cell in cells]])
    gold, predicted = zip(*drawn, strict=True)
    assert kinds.count_classes(3).times(counts).macro_f1 == pytest.approx(macro_f1(gold, predicted, LABELS))


@given(PAIRS, st.permutations((0, 1, 2)))
def test_the_order_of_instances_and_the_names_of_classes_do_not_matter(
    pairs: list[tuple[str, str]], order: list[int]
) -> None:
    gold, predicted = (numbered(column, LABELS) for column in zip(*pairs, strict=True))
    straight = macro_f1_interval(gold, predicted, 3, 20)
    assert macro_f1_interval(gold[::-1], predicted[::-1], 3, 20) == straight
    renamed = np.array([*order, 3])
    assert macro_f1_interval(renamed[gold], renamed[predicted], 3, 20).value == pytest.approx(straight.value)


@given(st.lists(st.integers(-5, 5).map(float), min_size=2, max_size=40), st.integers(0, 9))
def test_an_interval_moves_with_its_values(values: list[float], seed: int) -> None:
    plain, moved = mean_interval(values, 50, seed), mean_interval(np.array(values) * 2 + 8, 50, seed)
    for before, after in zip((plain.value, plain.low, plain.high), (moved.value, moved.low, moved.high), strict=True):
        assert after == pytest.approx(before * 2 + 8)


def test_the_same_seed_gives_the_same_interval() -> None:
    values = np.random.default_rng(0).random(50)
    assert mean_interval(values, seed=3) == mean_interval(values, seed=3) != mean_interval(values, seed=4)


def test_equal_values_leave_nothing_open() -> None:
    assert mean_interval([0.25] * 9) == Interval(0.25, 0.25, 0.25)
    assert macro_f1_interval([0, 1, 1], [0, 1, 1], 2).value == 1


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=20))
def test_the_ratio_of_sums_is_drawn_document_by_document(pairs: list[tuple[int, int]]) -> None:
    parts, wholes = np.array(pairs).T
    found = ratio_interval(parts, wholes, n_resamples=50)
    assert found == bootstrap(lambda rows: float(parts[rows].sum() / wholes[rows].sum()), len(pairs), n_resamples=50)
    assert found.value == pytest.approx(parts.sum() / wholes.sum())


def test_ratios_at_the_edges() -> None:
    assert ratio_interval([0, 0], [0, 0]) == Interval(0, 0, 0)
    assert ratio_interval([1, 0], [1, 0]) == Interval(1, 0, 1)  # one draw in four has nothing to divide by
    message = "Give one part and one whole for each instance, got arrays of shapes (2,) and (1,)."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        ratio_interval([1, 2], [1])


@pytest.mark.parametrize("few_kinds", [True, False])
def test_intervals_of_means_cover_what_they_promise(few_kinds: bool) -> None:
    """Both ways of drawing; of 400 samples of 200, about 95 % of the intervals hold the true mean."""
    generator = np.random.default_rng(7)
    hits = 0
    for seed in range(400):
        values = generator.random(200) < 0.7 if few_kinds else generator.exponential(0.7, 200)
        found = mean_interval(values, 400, seed)
        hits += found.low <= 0.7 <= found.high
    assert 0.915 < hits / 400 < 0.98


def test_intervals_of_macro_f1_cover_what_they_promise() -> None:
    generator = np.random.default_rng(8)
    chances = np.array(
        [0.3, 0.1, 0.05, 0.35, 0.05, 0.15]
    )  # of each pair of gold and predicted, two classes and another
    cells = np.array(list(product(range(2), range(3))))
    [true] = Kinds.of(*cells.T).count_classes(2).times(chances[None] * 1e9).macro_f1
    hits = 0
    for seed in range(400):
        gold, predicted = cells[generator.choice(6, size=300, p=chances)].T
        found = macro_f1_interval(gold, predicted, 2, 400, seed)
        hits += found.low <= true <= found.high
    assert 0.915 < hits / 400 < 0.98


NUMBERS = "Labels must be one row of whole numbers from 0. Make them with numbered(labels, classes)."


@pytest.mark.parametrize(
    ("gold", "predicted", "message"),
    [
        ([0, 1], [0], "There are 2 gold labels but 1 answers. Give one each."),
        ([0, -1], [0, 1], NUMBERS),
        ([0.0, 1.0], [0, 1], NUMBERS),
        (["a", "b"], [0, 1], NUMBERS),
        ([], [], "There are no instances to draw from. Give at least one."),
    ],
)
def test_labels_that_cannot_be_compared_are_refused(gold: list[int], predicted: list[int], message: str) -> None:
    for measure in (accuracy_interval, lambda gold, predicted: macro_f1_interval(gold, predicted, 2)):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            measure(gold, predicted)


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^n_resamples must be at least 1, got 0\.$"):
        mean_interval([1.0], 0)
    with pytest.raises(ValueError, match=r"^n_classes must be at least 1, got 0\.$"):
        macro_f1_interval([0], [0], 0)
    with pytest.raises(ValueError, match=r"^Value 1 is not a finite number\. Leave it out\.$"):
        mean_interval([1.0, float("inf")])
    with pytest.raises(ValueError, match=r"^Give one value for each instance, got an array of shape \(1, 2\)\.$"):
        mean_interval([[1.0, 2.0]])
    with pytest.raises(ValueError, match=r"^There are no instances to draw from\. Give at least one\.$"):
        bootstrap(len, 0)


@given(PAIRS)
def test_scores_of_classes_equal_those_of_the_metrics(pairs: list[tuple[str, str]]) -> None:
    gold, predicted = zip(*pairs, strict=True)
    found = class_intervals(numbered(gold, LABELS), numbered(predicted, LABELS), 3, 20)
    for own, score in zip(found, class_scores(gold, predicted, LABELS), strict=True):
        assert [one.value for one in own] == pytest.approx([score.precision, score.recall, score.f1])
        assert all(0 <= one.low <= one.high <= 1 for one in own)


def test_intervals_of_classes_are_those_of_drawing_documents() -> None:
    generator = np.random.default_rng(2)
    gold = generator.integers(3, size=120)
    given_ = np.where(generator.random(120) < 0.7, gold, generator.integers(3, size=120))
    names = [str(label) for label in range(3)]
    texts = np.arange(120) // 3
    for shared in (None, texts):

        def scored(rows: Numbers, place: int, name: str) -> float:
            scores = class_scores([str(gold[row]) for row in rows], [str(given_[row]) for row in rows], names)
            return float(getattr(scores[place], name))

        found = class_intervals(gold, given_, 3, texts=shared)
        for place, name in ((0, "precision"), (1, "recall"), (2, "f1")):
            slow = bootstrap(lambda rows, at=place, of=name: scored(rows, at, of), 120, 1_000, 5, shared)  # type: ignore[misc]
            fast = getattr(found[place], name)
            assert fast.value == pytest.approx(slow.value)
            assert fast.bounds == pytest.approx(slow.bounds, abs=0.02)


def test_what_a_resample_could_not_measure_is_left_out() -> None:
    draws = np.array([[0.0, np.nan], [1.0, 0.5], [2.0, 0.5]])
    first, second = intervals(np.array([1.0, 0.5]), draws)
    assert first.bounds == pytest.approx((0.05, 1.95))
    assert second == Interval(0.5, 0.5, 0.5)

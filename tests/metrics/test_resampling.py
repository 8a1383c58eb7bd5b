import re
import time
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fresh.metrics.bootstrap import (
    accuracy_interval,
    bootstrap,
    macro_f1_interval,
    mean_interval,
    numbered,
    ratio_interval,
)
from fresh.metrics.classification import class_scores
from fresh.metrics.estimate import Interval
from fresh.metrics.resampling import Kinds, Numbers, _Members, draw_rows, number_texts, share_texts, sum_by_text
from fresh.metrics.significance import Comparison, compare_accuracy, compare_macro_f1

CLASSES = st.integers(0, 2)
ROWS = st.lists(st.tuples(CLASSES, CLASSES, CLASSES, st.integers(0, 3)), min_size=1, max_size=12)
Ends = tuple[float, float, float]


FOUND = [
    (0.3814002089864159, 0.22910426609549, 0.5279241352517214),
    (0.375, 0.225, 0.525),
    (0.6127517993154481, 0.5163963890605408, 0.7092541056864459),
]
TESTED = [(-0.17415596295132216, 0.24665140273883368, 0.6707329267073293, 25), (-0.175, 0.25, 1.0, 19)]


def columns(rows: list[tuple[int, int, int, int]]) -> list[Numbers]:
    return [np.array(column) for column in zip(*rows, strict=True)]


def figures(gold: Numbers, first: Numbers, second: Numbers, texts: Numbers | None, n: int = 40) -> list[Interval]:
    """Every kind of interval there is."""
    values = gold * 0.37 + first * 0.11
    return [
        macro_f1_interval(gold, first, 3, n, texts=texts),
        accuracy_interval(gold, first, n, texts=texts),
        mean_interval(values, n, texts=texts),
        ratio_interval(first, gold + 1, n, texts=texts),
        bootstrap(lambda rows: float(np.median(values[rows])), len(gold), n, texts=texts),
        compare_macro_f1(gold, first, second, 3, n, texts=texts).difference,
        compare_accuracy(gold, first, second, n, texts=texts).difference,
    ]


@given(ROWS, st.data())
def test_texts_of_one_document_each_change_nothing(rows: list[tuple[int, int, int, int]], data: st.DataObject) -> None:
    gold, first, second, _ = columns(rows)
    apart = np.array(data.draw(st.permutations(range(5, 5 + len(rows)))))
    assert figures(gold, first, second, apart) == figures(gold, first, second, None)
    plain, texts = compare_macro_f1(gold, first, second, 3, 5), compare_macro_f1(gold, first, second, 3, 5, texts=apart)
    assert plain == texts
    assert compare_accuracy(gold, first, second, 5) == compare_accuracy(gold, first, second, 5, texts=apart)


def test_documents_are_drawn_as_they_were_before_texts_were() -> None:
    """Figures of the version that drew documents only."""
    generator = np.random.default_rng(0)
    gold, first, second = generator.integers(3, size=(3, 40))
    values = generator.random(40)
    found = [macro_f1_interval(gold, first, 3), accuracy_interval(gold, first), mean_interval(values)]
    assert [(one.value, one.low, one.high) for one in found] == [pytest.approx(one) for one in FOUND]
    tests = compare_macro_f1(gold, first, second, 3), compare_accuracy(gold, first, second)
    assert [(one.difference.low, one.difference.high, one.p, one.n_discordant) for one in tests] == [
        pytest.approx(one) for one in TESTED
    ]


@given(ROWS, st.data())
def test_the_order_of_documents_and_the_numbers_of_texts_do_not_matter(
    rows: list[tuple[int, int, int, int]], data: st.DataObject
) -> None:
    gold, first, second, texts = columns(rows)
    order = np.array(data.draw(st.permutations(range(len(rows)))))
    renamed = np.array(data.draw(st.permutations(range(4))))[texts]
    for measure in (accuracy, f1, p_of_accuracy, p_of_f1):
        if measure is not accuracy:  # means are drawn text by text, in the order of their numbers
            assert measure(gold, first, second, renamed) == measure(gold, first, second, texts)
        if len(set(texts.tolist())) < len(rows):
            shuffled = (column[order] for column in (gold, first, second, texts))
            assert measure(*shuffled) == measure(gold, first, second, texts)


def accuracy(gold: Numbers, first: Numbers, second: Numbers, texts: Numbers) -> Ends:
    found = accuracy_interval(gold, first, 30, texts=texts)
    return found.value, found.low, found.high


def f1(gold: Numbers, first: Numbers, second: Numbers, texts: Numbers) -> Ends:
    found = macro_f1_interval(gold, first, 3, 30, texts=texts)
    return found.value, found.low, found.high


def p_of_accuracy(gold: Numbers, first: Numbers, second: Numbers, texts: Numbers) -> Comparison:
    return compare_accuracy(gold, first, second, 30, texts=texts)


def p_of_f1(gold: Numbers, first: Numbers, second: Numbers, texts: Numbers) -> Comparison:
    return compare_macro_f1(gold, first, second, 3, 30, texts=texts)


@settings(max_examples=10)
@given(st.integers(0, 2**32), st.integers(2, 6))
def test_asking_again_does_not_narrow_an_interval(seed: int, n_times: int) -> None:
    """Each document k times under its text is as wide as once; drawn one by one, it would be narrower by root k."""
    generator = np.random.default_rng(seed)
    gold = generator.integers(3, size=60)
    first, second = (np.where(generator.random(60) < 0.6, gold, generator.integers(3, size=60)) for _ in range(2))
    again = (np.repeat(gold, n_times), np.repeat(first, n_times), np.repeat(second, n_times))
    once = figures(gold, first, second, None, 2_000)
    whole = figures(*again, texts=np.repeat(np.arange(60), n_times), n=2_000)
    one_by_one = figures(*again, texts=None, n=2_000)
    for place, (plain, drawn, wrong) in enumerate(zip(once, whole, one_by_one, strict=True)):
        width = plain.high - plain.low
        assert drawn.value == pytest.approx(plain.value)
        if place != 4:  # a median jumps
            assert drawn.low == pytest.approx(plain.low, abs=0.15 * width)
            assert drawn.high == pytest.approx(plain.high, abs=0.15 * width)
            assert wrong.high - wrong.low < 1.2 * width / np.sqrt(n_times)


def enumerated(measure: Callable[..., float], gold: Numbers, first: Numbers, second: Numbers, texts: Numbers) -> float:
    """Swap the answers in all ways there are, text by text."""
    seen, as_large = abs(measure(gold, first) - measure(gold, second)), 0
    distinct = np.unique(texts)
    for flags in product((False, True), repeat=len(distinct)):
        swap = np.isin(texts, distinct[list(flags)])
        one, two = np.where(swap, second, first), np.where(swap, first, second)
        as_large += abs(measure(gold, one) - measure(gold, two)) >= seen - 1e-12
    return float(as_large / 2 ** len(distinct))


@given(ROWS)
def test_paired_tests_of_texts_equal_enumeration(rows: list[tuple[int, int, int, int]]) -> None:
    gold, first, second, texts = columns(rows)

    def macro(gold: Numbers, predicted: Numbers) -> float:
        scores = class_scores([str(x) for x in gold], [str(x) for x in predicted], ["0", "1", "2"])
        return sum(score.f1 for score in scores) / 3

    by_f1 = compare_macro_f1(gold, first, second, 3, 5, texts=texts)
    by_accuracy = compare_accuracy(gold, first, second, 5, texts=texts)
    assert by_f1.exact
    assert by_f1.p == pytest.approx(enumerated(macro, gold, first, second, texts))
    assert by_accuracy.p == pytest.approx(
        enumerated(lambda gold, given: float((gold == given).mean()), gold, first, second, texts)
    )
    assert by_f1.by_text == (len(set(texts.tolist())) < len(rows))
    is_main = sum_by_text((first == gold) * 1.0 - (second == gold), texts)
    assert by_accuracy.n_discordant == int((is_main != 0).sum())


def test_equal_models_on_shared_texts_are_seldom_told_apart() -> None:
    """Whole texts go wrong together: drawn one by one, a third of such differences would look real."""
    apart: list[float] = []
    together: list[float] = []
    for seed in range(200):
        generator = np.random.default_rng(seed)
        texts = np.repeat(np.arange(30), 20)
        first, second = (generator.random(30)[texts] < 0.7).astype(int), (generator.random(30)[texts] < 0.7).astype(int)
        gold = np.ones(600, dtype=int)
        together.append(compare_accuracy(gold, first, second, 1, texts=texts).p)
        apart.append(compare_accuracy(gold, first, second, 1).p)
    assert np.mean(np.array(together) <= 0.05) <= 0.085
    assert np.mean(np.array(apart) <= 0.05) > 0.3


def test_intervals_over_shared_texts_cover_what_they_promise() -> None:
    generator = np.random.default_rng(5)
    hits = {"texts": 0, "documents": 0}
    for seed in range(300):
        sizes = generator.integers(1, 12, size=60)
        texts = np.repeat(np.arange(60), sizes)
        right = (generator.random(60) < 0.7)[texts] ^ (generator.random(len(texts)) < 0.1)
        gold = np.ones(len(texts), dtype=int)
        for name, given_ in (("texts", texts), ("documents", None)):
            found = accuracy_interval(gold, right.astype(int), 400, seed, texts=given_)
            hits[name] += found.low <= 0.7 * 0.9 + 0.3 * 0.1 <= found.high
    assert 0.91 < hits["texts"] / 300 < 0.98
    assert hits["documents"] / 300 < 0.7


@given(st.lists(st.integers(-2, 3), min_size=1, max_size=9), st.integers(0, 99))
def test_a_draw_holds_whole_texts(texts: list[int], seed: int) -> None:
    rows = _Members.of(np.array(texts)).take(np.array([0, 0]))
    least = [row for row, text in enumerate(texts) if text == min(texts)]
    assert rows.tolist() == [*least, *least]
    [drawn] = draw_rows(len(texts), 1, seed, texts)
    sizes = {text: texts.count(text) for text in texts}
    counts = np.bincount(drawn, minlength=len(texts))
    assert all(counts[i] == counts[j] for i, j in product(range(len(texts)), repeat=2) if texts[i] == texts[j])
    assert sum(int(counts[texts.index(text)]) for text in sizes) == len(sizes)


@given(ROWS)
def test_kinds_hold_every_text_once(rows: list[tuple[int, int, int, int]]) -> None:
    gold, first, _, texts = columns(rows)
    kinds = Kinds.of(gold, first, texts=texts)
    assert kinds.counts.sum() == len(set(texts.tolist()))
    whole = kinds.count_classes(3).times(kinds.counts[None])
    scores = class_scores([str(x) for x in gold], [str(x) for x in first], ["0", "1", "2"])
    assert whole.precision[0] == pytest.approx([score.precision for score in scores])
    assert whole.recall[0] == pytest.approx([score.recall for score in scores])
    assert whole.f1[0] == pytest.approx([score.f1 for score in scores])
    assert whole.wanted[0].tolist() == [score.support for score in scores]


def test_texts_are_numbered_whatever_their_order() -> None:
    assert number_texts([("b",), ("a", "c"), ("b",)]) is not None
    assert number_texts([("b",), ("a", "c"), ("b",)]).tolist() == [1, 0, 1]  # type: ignore[union-attr]
    assert number_texts([("b",), ("a",)]) is None
    assert share_texts(4848, 83) == "4,848 documents share 83 texts"
    assert share_texts(2, 1) == "2 documents share 1 text"


def test_many_questions_about_few_texts_take_no_time() -> None:
    generator = np.random.default_rng(0)
    gold, first, second = generator.integers(4, size=(3, 5000))
    for n_texts in (80, 4000):
        start, texts = time.perf_counter(), generator.integers(n_texts, size=5000)
        accuracy_interval(gold, first, texts=texts)
        macro_f1_interval(gold, first, 4, texts=texts)
        compare_macro_f1(gold, first, second, 4, texts=texts)
        compare_accuracy(gold, first, second, texts=texts)
        assert time.perf_counter() - start < 5


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([0, 0], "There are 3 instances but 2 texts. Give one each."),
        ([0.0, 1.0, 1.0], "Texts must be one row of whole numbers. Make them with number_texts(texts)."),
        (["a", "b", "b"], "Texts must be one row of whole numbers. Make them with number_texts(texts)."),
        ([[0, 1, 1]], "Texts must be one row of whole numbers. Make them with number_texts(texts)."),
    ],
)
def test_texts_that_do_not_fit_are_refused(texts: list[int], message: str) -> None:
    gold = numbered(["a", "b", "b"], ["a", "b"])
    for measure in (
        lambda: accuracy_interval(gold, gold, texts=texts),
        lambda: macro_f1_interval(gold, gold, 2, texts=texts),
        lambda: ratio_interval(gold, gold, texts=texts),
        lambda: bootstrap(len, 3, texts=texts),
        lambda: compare_accuracy(gold, gold, gold, texts=texts),
        lambda: compare_macro_f1(gold, gold, gold, 2, texts=texts),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            measure()

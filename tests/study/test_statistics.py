import math
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.study.answers import Response
from fresh.study.statistics import (
    Metric,
    chance_agreement,
    compare_conditions,
    fleiss_kappa,
    krippendorff_alpha,
    raw_agreement,
    swap_test,
)

# The example of Krippendorff (2011): four observers, twelve units, some missing.
OBSERVERS = ("12332141 2...", "123322412 5.3", ".33323422 51.", "123324412 51.")
UNITS = [
    [int(row[place]) for row in (line.replace(" ", "") for line in OBSERVERS) if row[place] != "."]
    for place in range(12)
]
# The example of Fleiss (1971) as it is mostly given: ten subjects, fourteen raters, five classes.
SUBJECTS = (
    *((0, 0, 0, 0, 14), (0, 2, 6, 4, 2), (0, 0, 3, 5, 6), (0, 3, 9, 2, 0), (2, 2, 8, 1, 1)),
    *((7, 7, 0, 0, 0), (3, 2, 6, 3, 0), (2, 5, 3, 2, 2), (6, 5, 2, 1, 0), (0, 2, 2, 3, 7)),
)


@pytest.mark.parametrize(("metric", "expected"), [("nominal", 0.743), ("ordinal", 0.815)])
def test_alpha_matches_the_published_example(metric: Metric, expected: float) -> None:
    assert krippendorff_alpha(UNITS, metric) == pytest.approx(expected, abs=0.0005)
    for undefined in ([], [[1], [2]], [[1, 1], [1, 1, 1], [2]]):
        assert krippendorff_alpha(undefined, metric) is None


def test_kappa_matches_the_published_example() -> None:
    ratings = [[place for place, count in enumerate(row) for _ in range(count)] for row in SUBJECTS]
    assert fleiss_kappa(ratings, 14) == pytest.approx(0.210, abs=0.0005)


@given(st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), max_size=8))
def test_kappa_matches_its_definition(ratings: list[list[int]]) -> None:
    found = fleiss_kappa([*ratings, [1, 1]], 3)  # the last has not enough answers
    pooled = [answer for item in ratings for answer in item]
    shares = [pooled.count(label) / len(pooled) for label in set(pooled)]
    if len(shares) < 2:
        assert found is None
        return
    same = [sum(a == b for a, b in permutations(item, 2)) / 6 for item in ratings]
    by_chance = sum(share**2 for share in shares)
    assert found == pytest.approx((sum(same) / len(same) - by_chance) / (1 - by_chance))


def test_agreement_of_small_cases() -> None:
    assert raw_agreement([[1, 1, 1], [0, 1, 1], [1]]) == pytest.approx((1 + 2 / 3) / 2)  # as in the paper
    assert raw_agreement([[1]]) is None
    assert fleiss_kappa([[0], [1]], 1) is None


@given(st.integers(1, 4), st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_chance_agreement_matches_enumeration(n_raters: int, weights: list[int]) -> None:
    chances = [weight / sum(weights) for weight in weights]
    expected = 0.0
    for throw in product(range(len(chances)), repeat=n_raters):
        expected += math.prod(chances[face] for face in throw) * max(map(throw.count, throw)) / n_raters
    assert chance_agreement(n_raters, chances) == pytest.approx(expected)


@given(st.lists(st.integers(-3, 3), max_size=8))
def test_small_swap_tests_are_exact(gaps: list[int]) -> None:
    signs = product((1, -1), repeat=len(gaps))
    sums = [abs(sum(sign * gap for sign, gap in zip(row, gaps, strict=True))) for row in signs]
    expected = sum(one >= abs(sum(gaps)) for one in sums) / len(sums)
    assert swap_test([float(gap) for gap in gaps]) == pytest.approx(expected)


def test_large_swap_tests_are_sampled() -> None:
    assert swap_test([1.0] * 40) == 1 / 10_001
    assert swap_test([1.0, -1.0] * 20) == 1


def test_documents_that_share_a_text_are_swapped_together() -> None:
    ratings = list(enumerate((("A", 4), ("B", 1))))
    made = [Response(who, 0, d, 7, way, "pos", "pos", rating, 3) for d in range(4) for who, (way, rating) in ratings]
    assert compare_conditions(made, ("A", "B"))[1].p_documents == 1

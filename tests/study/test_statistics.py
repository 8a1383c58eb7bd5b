import math
from fractions import Fraction
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.errors import StudyError
from fresh.study.answers import Response, majority_score
from fresh.study.results import make_results
from fresh.study.statistics import (
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


@pytest.mark.parametrize(("metric", "expected"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_of_the_published_example(metric: str, expected: float) -> None:
    assert krippendorff_alpha(UNITS, metric) == pytest.approx(expected, abs=0.0005)


def test_kappa_of_the_published_example() -> None:
    ratings = [[place for place, count in enumerate(row) for _ in range(count)] for row in SUBJECTS]
    assert fleiss_kappa(ratings, 14) == pytest.approx(0.210, abs=0.0005)


def slow_alpha(ratings: list[list[int]], metric: str) -> float | None:
    """Alpha from its definition: disagreement of all ordered pairs within items, over that of all pairs at all."""
    pairable = [item for item in ratings if len(item) > 1]
    everything = [answer for item in pairable for answer in item]

    def distance(a: int, b: int) -> Fraction:
        if metric == "nominal":
            return Fraction(a != b)
        if metric == "interval":
            return Fraction(a - b) ** 2
        low, high = min(a, b), max(a, b)
        between = sum(low <= answer <= high for answer in everything)
        return (between - Fraction(everything.count(low) + everything.count(high), 2)) ** 2 if a != b else Fraction(0)

    n = len(everything)
    expected = sum((distance(a, b) for a, b in permutations(everything, 2)), Fraction(0)) / max(1, n * (n - 1))
    if not expected:
        return None
    observed = sum(
        (distance(a, b) / (len(item) - 1) for item in pairable for a, b in permutations(item, 2)), Fraction(0)
    )
    return float(1 - observed / n / expected)


RATINGS = st.lists(st.lists(st.integers(1, 4), max_size=4), max_size=8)


@given(RATINGS, st.sampled_from(("nominal", "ordinal", "interval")))
def test_alpha_is_its_definition(ratings: list[list[int]], metric: str) -> None:
    expected = slow_alpha(ratings, metric)
    assert krippendorff_alpha(ratings, metric) == (None if expected is None else pytest.approx(expected))


@given(st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), max_size=8))
def test_kappa_is_its_definition(ratings: list[list[int]]) -> None:
    found = fleiss_kappa([*ratings, [1, 1]], 3)  # the last has not enough answers
    pooled = [answer for item in ratings for answer in item]
    shares = [pooled.count(label) / len(pooled) for label in set(pooled)]
    if len(shares) < 2:
        assert found is None
        return
    same = [sum(a == b for a, b in permutations(item, 2)) / 6 for item in ratings]
    by_chance = sum(share**2 for share in shares)
    assert found == pytest.approx((sum(same) / len(same) - by_chance) / (1 - by_chance))


def test_one_annotator_an_item_has_no_kappa() -> None:
    assert fleiss_kappa([[0], [1]], 1) is None


def test_raw_agreement_is_the_papers() -> None:
    assert raw_agreement([[1, 1, 1], [0, 1, 1], [1]]) == pytest.approx((1 + 2 / 3) / 2)
    assert raw_agreement([[1]]) is None


def test_three_coins_agree_in_three_of_four() -> None:
    assert chance_agreement(3, [0.5, 0.5]) == pytest.approx(0.75)
    assert chance_agreement(3, [1.0, 0.0]) == 1


@given(st.integers(1, 4), st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_chance_is_counted_over_all_throws(n_raters: int, weights: list[int]) -> None:
    chances = [weight / sum(weights) for weight in weights]
    expected = 0.0
    for throw in product(range(len(chances)), repeat=n_raters):
        expected += math.prod(chances[face] for face in throw) * max(map(throw.count, throw)) / n_raters
    assert chance_agreement(n_raters, chances) == pytest.approx(expected)


def test_a_tie_is_worth_what_lots_get() -> None:
    assert majority_score(["a", "a", "b"], "a") == 1
    assert majority_score(["a", "a", "b"], "b") == 0
    assert majority_score(["a", "b"], "b") == 0.5
    assert majority_score(["a", "b", "c"], "c") == pytest.approx(1 / 3)
    assert majority_score(["a", "b"], "c") == 0


@given(st.lists(st.integers(-3, 3), max_size=8))
def test_swaps_are_all_tried(gaps: list[int]) -> None:
    sums = [
        abs(sum(sign * gap for sign, gap in zip(signs, gaps, strict=True)))
        for signs in product((1, -1), repeat=len(gaps))
    ]
    expected = sum(one >= abs(sum(gaps)) for one in sums) / len(sums)
    assert swap_test([float(gap) for gap in gaps]) == pytest.approx(expected)


def test_many_swaps_are_sampled() -> None:
    assert swap_test([1.0] * 40) == 1 / 10_001
    assert swap_test([1.0, -1.0] * 20) == 1


# A table by hand: two conditions, two documents, three annotators each; the votes of B on document 1 are tied.
BY_HAND = [
    *(("A", 0, "pos", "pos", 4, 5), ("A", 0, "pos", "pos", 3, 4), ("A", 0, "pos", "neg", 2, 3)),
    *(("A", 1, "neg", "neg", 4, 4), ("A", 1, "neg", "neg", 4, 5), ("A", 1, "neg", "neg", 4, 3)),
    *(("B", 0, "pos", "neg", 1, 2), ("B", 0, "pos", "neg", 2, 1), ("B", 0, "pos", "pos", 3, 3)),
    *(("B", 1, "neg", "neg", 1, 1), ("B", 1, "neg", "pos", 2, 2)),
]
ANNOTATORS = (1, 2, 3, 4, 5, 6, 4, 5, 6, 1, 2)


def responses() -> list[Response]:
    return [
        Response(who, 0, document, document, condition, gold, label, confidence, readability, 1000 * who)
        for who, (condition, document, gold, label, confidence, readability) in zip(ANNOTATORS, BY_HAND, strict=True)
    ]


def test_the_tables_are_those_computed_by_hand() -> None:
    found = make_results(responses(), ("A", "B", "C"), ("neg", "pos"), 3, 12)
    first, second = found.rows
    assert (first.condition, first.n_items, first.n_answers, first.n_ties) == ("A", 2, 6, 0)
    assert (first.accuracy.value, second.accuracy.value) == (1.0, 0.25)
    assert (second.n_answers, second.n_ties) == (5, 1)
    assert (first.confidence.mean.value, second.confidence.mean.value) == (3.5, 1.75)  # of (3, 4) and (2, 1.5)
    assert first.confidence.sd == pytest.approx(0.5**0.5)
    assert second.confidence.sd == pytest.approx(0.125**0.5)
    assert (first.readability.mean.value, first.readability.sd) == (4, 0)
    assert (first.seconds, second.seconds) == (3.5, 4.0)
    assert first.agreement.raw == pytest.approx((2 / 3 + 1) / 2)
    assert first.agreement.even_chance == pytest.approx(0.75)
    assert first.agreement.chance == pytest.approx(sum((8 + 1, 2 / 3 * (12 + 6))) / 27)  # labels in shares 4:2
    three, two = (sum(p**3 for p in (0.4, 0.6)), sum(p**2 for p in (0.4, 0.6)))  # all alike, with B's labels in 2:3
    by_chance = ((three + (1 - three) * 2 / 3) + (two + (1 - two) / 2)) / 2  # an item of three answers, and one of two
    assert second.agreement.chance == pytest.approx(by_chance)
    assert first.agreement.kappa == pytest.approx((2 / 3 - 5 / 9) / (4 / 9))
    assert found.n_annotators == 6
    assert found.remarks[0] == "11 of 12 answers by 6 annotators. Still missing: 1."


def test_tests_are_paired_by_text_and_by_person() -> None:
    [accuracy, confidence, readability] = compare_conditions(responses(), ("A", "B"))
    assert (accuracy.measure, accuracy.n_documents, accuracy.difference.value) == ("accuracy", 2, 0.75)
    assert accuracy.p_documents == 0.5  # two texts, both better: 2 of 4 swaps
    assert confidence.difference.value == pytest.approx(((3 - 2) + (4 - 1.5)) / 2)
    # In confidence persons 1, 2, 4, 5, 6 have 4-1, 3-2, 4-1, 4-2, 4-3: all above, so 2 of 32 swaps.
    assert confidence.p_annotators == 2 / 32
    assert confidence.p == 0.5
    assert readability.adjusted == 1


def test_documents_of_one_text_are_swapped_together() -> None:
    made = [
        Response(who, 0, document, 7, condition, "pos", "pos", 4 if condition == "A" else 1, 3)
        for document in range(4)
        for who, condition in enumerate("AB")
    ]
    assert compare_conditions(made, ("A", "B"))[1].p_documents == 1


def test_the_figures_of_one_row_never_move_to_another() -> None:
    """The original shifted ratings by a row for each answer that it dropped: here an answer is one thing."""
    whole = make_results(responses(), ("A", "B"), ("neg", "pos"), 3, 12).rows
    fewer = make_results(responses()[1:], ("A", "B"), ("neg", "pos"), 3, 12).rows
    assert fewer[1] == whole[1]
    assert fewer[0].confidence.mean.value == pytest.approx((2.5 + 4) / 2)
    assert fewer[0].accuracy.value == pytest.approx(0.75)


def test_tables_are_written() -> None:
    found = make_results(responses(), ("A", "B"), ("neg", "pos"), 3, 12, "Films")
    text = found.to_markdown()
    assert text.startswith("# Films\n\n| condition | items |")
    assert "| A − B" in text
    assert "Tied votes: 1." in text
    assert "chance alone would give .750" in text
    assert found.table().to_csv().splitlines()[0].startswith("condition,n_items,n_answers,n_ties,accuracy_value")
    assert '"per_item": 3' in found.to_json()


def test_a_single_item_has_no_deviation() -> None:
    one = make_results(responses()[:1], ("A",), ("neg", "pos"), 3, 12)
    assert one.rows[0].confidence.sd is None
    assert one.differences == ()
    assert "–" in one.to_markdown()


def test_no_answers_have_no_results() -> None:
    with pytest.raises(StudyError, match=r"^Nobody has answered yet, so that there are no results\.$"):
        make_results([], ("A",), ("neg", "pos"), 3, 12)

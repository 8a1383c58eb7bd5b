from pathlib import Path

import pytest

from fresh.study.answers import Response
from fresh.study.overview import compute_results
from fresh.study.results import draw_results, format_p, make_results
from fresh.study.statistics import compare_conditions
from studies import MakeStore, join, work

# A table by hand: two conditions, two documents, three annotators each; the votes of B on document 1 are tied.
BY_HAND = [
    *(("A", 0, "pos", "pos", 4, 5), ("A", 0, "pos", "pos", 3, 4), ("A", 0, "pos", "neg", 2, 3)),
    *(("A", 1, "neg", "neg", 4, 4), ("A", 1, "neg", "neg", 4, 5), ("A", 1, "neg", "neg", 4, 3)),
    *(("B", 0, "pos", "neg", 1, 2), ("B", 0, "pos", "neg", 2, 1), ("B", 0, "pos", "pos", 3, 3)),
    *(("B", 1, "neg", "neg", 1, 1), ("B", 1, "neg", "pos", 2, 2)),
]
ANNOTATORS = (1, 2, 3, 4, 5, 6, 4, 5, 6, 1, 2)
RESPONSES = [
    Response(who, 0, document, document, condition, gold, label, confidence, readability, 1000 * who)
    for who, (condition, document, gold, label, confidence, readability) in zip(ANNOTATORS, BY_HAND, strict=True)
]


def test_results_match_hand_computation() -> None:
    found = make_results(RESPONSES, ("A", "B", "C"), ("neg", "pos"), 3, 12)
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
    assert found.notes[0] == "11 of 12 answers by 6 annotators. Still missing: 1."


def test_tests_are_paired_by_text_and_by_annotator() -> None:
    [accuracy, confidence, readability] = compare_conditions(RESPONSES, ("A", "B"))
    assert (accuracy.measure, accuracy.n_documents, accuracy.difference.value) == ("accuracy", 2, 0.75)
    assert accuracy.p_documents == 0.5  # two texts, both better: 2 of 4 swaps
    assert confidence.difference.value == pytest.approx(((3 - 2) + (4 - 1.5)) / 2)
    # In confidence persons 1, 2, 4, 5, 6 have 4-1, 3-2, 4-1, 4-2, 4-3: all above, so 2 of 32 swaps.
    assert confidence.p_annotators == 2 / 32
    assert confidence.p == 0.5
    assert readability.adjusted == 1


def test_tables_are_formatted() -> None:
    found = make_results(RESPONSES, ("A", "B"), ("neg", "pos"), 3, 12, "C# *and* [F](x) <b>_1_ | 2")
    text = found.to_markdown()
    assert text.startswith(r"# C\# \*and\* \[F\](x) \<b\>\_1\_ \| 2" + "\n\n| condition | items |")
    assert "| A − B" in text
    assert "Tied votes: 1." in text
    assert "with equal frequencies it is .750" in text
    assert found.table().to_csv().splitlines()[0].startswith("condition,n_items,n_answers,n_ties,accuracy_value")
    assert '"per_item": 3' in found.to_json()
    one = make_results(RESPONSES[:1], ("A",), ("neg", "pos"), 3, 12)  # a single item has no standard deviation
    assert one.rows[0].confidence.sd is None
    assert one.differences == ()
    assert "–" in one.to_markdown()


def test_p_values_are_never_shown_as_zero() -> None:
    formatted = ["<.001", "<.001", "<.001", ".001", "1.000", "–"]
    assert [format_p(p) for p in (0.0, 0.0004, 0.00099, 0.001, 1.0, None)] == formatted
    low, high = ("a", "pos", "neg", 1, 1), ("b", "pos", "pos", 4, 4)
    answers = [Response(way, 2 * d + way, d, d, *(low, high)[way]) for d in range(40) for way in range(2)]
    [first, *_] = make_results(answers, "ab", ["neg", "pos"], 1, 80).differences_table().rows
    assert first[4] == "<.001"


def test_a_figure_is_drawn(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store(sample=4, practice=1, checks=1, per_item=2)
    for who in join(store, "p1", "p2", "p3", "p4"):
        work(store, who)
    places = [tmp_path / "a.png", tmp_path / "b.svg"]
    draw_results(compute_results(store), places)
    first = [place.read_bytes() for place in places]
    draw_results(compute_results(store), places)
    assert [place.read_bytes() for place in places] == first
    assert first[0].startswith(b"\x89PNG")

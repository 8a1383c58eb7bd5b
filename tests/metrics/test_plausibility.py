import math
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import auc, f1_score, precision_recall_curve

from fresh.document import Document, Example, Explanation, Mask, Saliency
from fresh.metrics.plausibility import Agreement, Flags, _area, _Instance, _Score, _tally, agreement, compare, token_f1
from fresh.rationale import Prediction
from fresh.text import Spans
from strategies import any_numbers, numbers

ANSWER = Prediction("pos", {"pos": 1.0})


def flag(row: str) -> Flags:
    return np.array([sign == "x" for sign in row], dtype=np.bool_)


def flags(*rows: str) -> list[Flags]:
    return [flag(row) for row in rows]


def row_of(score: _Score) -> tuple[float, float, float]:
    return score.precision, score.recall, score.f1


def agree(*pairs: tuple[Spans, str], least: float = 0.5) -> Agreement:
    """Compare people's spans with kept words, drawn as in "xx--"."""
    instances = [
        _Instance(marked, kept) for (marked, _), kept in zip(pairs, flags(*(row for _, row in pairs)), strict=True)
    ]
    return agreement(_tally(instances, least))


# Words


def test_words_by_hand() -> None:
    found = agree((((0, 2),), "-xx-"), (((0, 1),), "xxxx"))
    assert found.token_macro == _Score((1 / 2 + 1 / 4) / 2, (1 / 2 + 1) / 2, (1 / 2 + 2 / 5) / 2)
    assert row_of(found.token_micro) == pytest.approx((2 / 6, 2 / 3, 4 / 9))


def test_an_instance_without_any_word_is_left_out_and_one_without_evidence_counts_as_zero() -> None:
    good: tuple[Spans, str] = (((0, 1),), "x-")
    perfect = _Score(1.0, 1.0, 1.0)
    assert agree(good).token_macro == agree(good, ((), "--")).token_macro == perfect
    assert agree(good, (((1, 1),), "--")).token_macro == perfect
    assert agree(good, ((), "x-")).token_macro == _Score(0.5, 0.5, 0.5)
    assert agree(good, (((0, 2),), "--")).token_macro == _Score(0.5, 0.5, 0.5)


def test_nothing_to_count_is_zero() -> None:
    found = agree(((), "--"))
    assert {found.token_macro, found.token_micro, found.iou_macro, found.iou_micro} == {_Score(0.0, 0.0, 0.0)}
    assert found.auprc is None


def test_token_f1_is_a_mean_over_documents_in_which_there_is_something() -> None:
    assert token_f1(flags("xx--"), flags("-xx-")) == 0.5
    assert token_f1(flags("x---", "xx--", "--"), flags("x---", "xxxx", "--")) == pytest.approx((1 + 2 / 3) / 2)


def test_token_f1_where_nothing_is_wanted_or_nothing_found() -> None:
    assert token_f1(flags("--"), flags("--")) == 0
    assert token_f1(flags("--"), flags("x-")) == 0
    assert token_f1(flags("x-"), flags("--")) == 0


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=20))
def test_token_f1_agrees_with_scikit_learn(pairs: list[tuple[bool, bool]]) -> None:
    wanted, found = (np.array(row) for row in zip(*pairs, strict=True))
    expected = f1_score(wanted, found, zero_division=0)
    assert token_f1([wanted], [found]) == pytest.approx(expected)
    assert token_f1([found], [wanted]) == pytest.approx(expected)
    assert agreement(_tally([_Instance(Mask(wanted).spans, found)])).token_macro.f1 == pytest.approx(expected)


def test_no_masks_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match=r"^There are no masks to compare\. Give at least one document\.$"):
        token_f1([], [])


# Spans


def test_half_of_the_union_is_enough() -> None:
    assert agree((((0, 4),), "xx--")).iou_macro == _Score(1.0, 1.0, 1.0)
    assert agree((((0, 5),), "xx---")).iou_macro == _Score(0.0, 0.0, 0.0)
    assert agree((((0, 5),), "xx---"), least=0.4).iou_macro == _Score(1.0, 1.0, 1.0)


@pytest.mark.parametrize("least", [0.0, -1.0, 1.5, math.nan])
def test_a_share_that_is_none_is_refused(least: float) -> None:
    with pytest.raises(ValueError, match=f"^least must lie above 0 and be at most 1, got {least}\\.$"):
        agree((((0, 1),), "x"), least=least)


def test_touching_spans_of_people_are_apart_and_those_of_a_mask_are_not() -> None:
    assert row_of(agree((((0, 2), (2, 4)), "xxxx")).iou_macro) == pytest.approx((1.0, 0.5, 2 / 3))
    assert agree((((0, 4),), "xxxx")).iou_macro == _Score(1.0, 1.0, 1.0)


def test_a_span_of_no_words_and_a_span_given_twice() -> None:
    assert row_of(agree((((0, 2), (3, 3)), "xx--")).iou_macro) == pytest.approx((1.0, 0.5, 2 / 3))
    assert agree((((0, 2), (0, 2)), "xx--")).iou_macro == _Score(1.0, 1.0, 1.0)


def test_two_spans_that_match_one_count_twice() -> None:
    found = agree((((0, 5),), "xx-xx"), least=0.4)
    assert row_of(found.iou_macro) == pytest.approx((1.0, 2.0, 4 / 3))


def test_macro_f1_of_spans_is_that_of_the_means() -> None:
    found = agree((((0, 1),), "x---"), (((0, 1), (3, 4)), "x-x-"), ((), "x---"), (((0, 1),), "----"))
    precision, recall = (1 + 1 / 2 + 0) / 3, (1 + 1 / 2 + 0) / 3
    assert row_of(found.iou_macro) == pytest.approx((precision, recall, 0.5))
    assert found.iou_micro == _Score(2 / 4, 2 / 4, 0.5)


# Scores


def test_area_by_hand() -> None:
    assert _area(flag("x-"), np.array([2.0, 1.0])) == 1
    assert _area(flag("-x"), np.array([2.0, 1.0])) == 0.25
    assert _area(flag("xx"), np.array([2.0, 1.0])) == 1
    assert math.isnan(_area(flag("--"), np.array([2.0, 1.0])))


def test_words_of_equal_scores_are_found_together() -> None:
    assert _area(flag("x-"), np.array([0.5, 0.5])) == _area(flag("-x"), np.array([0.5, 0.5])) == 0.75


@given(st.lists(st.tuples(st.booleans(), numbers() | any_numbers()), min_size=1, max_size=20))
def test_area_agrees_with_scikit_learn(pairs: list[tuple[bool, float]]) -> None:
    marked, scores = np.array([flag for flag, _ in pairs]), np.array([score for _, score in pairs])
    if marked.any():
        precision, recall, _ = precision_recall_curve(marked, scores)
        assert _area(marked, scores) == pytest.approx(auc(recall, precision), abs=1e-12)


def test_the_mean_area_is_over_instances_with_a_marked_word() -> None:
    scores = np.array([2.0, 1.0])
    instances = [_Instance(spans, flag("x-"), scores) for spans in (((0, 1),), ((1, 2),), (), ((0, 0),))]
    found = agreement(_tally(instances))
    assert found.auprc == (1 + 0.25) / 2
    assert found.tally.auprc is not None
    assert found.tally.auprc.tolist() == pytest.approx([1, 0.25, math.nan, math.nan], nan_ok=True)
    assert agreement(_tally(instances[2:])).auprc is None


def test_scores_for_some_texts_only_are_refused() -> None:
    instances = [_Instance((), flag("x"), np.array([1.0])), _Instance((), flag("x"))]
    with pytest.raises(ValueError, match=r"^1 of 2 texts have no scores\. Give scores for all or for none\.$"):
        _tally(instances)


# Resamples


@given(st.lists(st.integers(0, 2), min_size=1, max_size=8))
def test_figures_of_a_resample_are_those_of_its_instances(rows: list[int]) -> None:
    kept, scores = flags("xx--", "x-x-", "--xx"), np.array([4.0, 3.0, 1.0, 1.0])
    spans: list[Spans] = [((0, 1), (1, 3)), (), ((2, 4), (1, 1))]
    instances = [_Instance(spans[i], kept[i], scores, i) for i in range(3)]
    drawn = agreement(_tally(instances).take(np.array(rows)))
    expected = agreement(_tally([instances[row] for row in rows]))
    assert drawn.tally.example.tolist() == rows
    for item in fields(Agreement):
        if item.name != "tally":
            assert getattr(drawn, item.name) == getattr(expected, item.name)
    there = drawn.tally.words_marked + drawn.tally.words_kept > 0
    assert drawn.token_macro.f1 == pytest.approx(drawn.tally.token_f1[there].mean())


# Examples


def explanation(document: Document, kept: str, scores: list[float] | None = None) -> Explanation:
    saliency = None if scores is None else Saliency(np.array(scores), "pos")
    return Explanation(document, Mask(flag(kept)), document.cut(Mask(flag(kept))), ANSWER, saliency)


FILM = Document.from_words(["a", "good", "film", "."], id="film")
SEA = Document.from_words(["a", "bad", "sea", "."], id="sea")


def test_examples_are_compared_where_people_marked_them() -> None:
    examples = [Example(SEA, "neg"), Example(FILM, "pos", Mask.from_spans([(1, 3)], 4), ((1, 2), (2, 3)))]
    found = compare(examples, [explanation(SEA, "xxxx", [0] * 4), explanation(FILM, "-xx-", [0, 1, 2, 0])])
    assert found.token_macro == _Score(1.0, 1.0, 1.0)
    assert row_of(found.iou_macro) == pytest.approx((1.0, 0.5, 2 / 3))
    assert found.auprc == 1
    assert found.tally.example.tolist() == [1]


def test_each_text_that_was_joined_counts_by_itself() -> None:
    joined = Document(FILM.text, FILM.words, FILM.spans, id="two", parts=(("x", 2), ("y", 2)))
    example = Example(joined, "pos", Mask.from_spans([(1, 3)], 4), ((1, 3), (2, 2), (0, 0)))
    found = compare([example], [explanation(joined, "-xx-", [0, 1, 2, 3])])
    assert found.tally.example.tolist() == [0, 0]
    assert found.tally.spans_marked.tolist() == [2, 2]
    assert found.tally.spans_matched.tolist() == [1, 1]
    assert found.tally.auprc is not None
    assert found.tally.auprc.tolist() == [1, 0.25]


def test_explanations_of_other_documents_are_refused() -> None:
    example = Example(FILM, "pos", Mask.full(4))
    with pytest.raises(ValueError, match="paired") as caught:
        compare([example], [explanation(SEA, "xxxx")])
    assert str(caught.value) == (
        "Example 'film' was paired with an explanation of document 'sea', which has other words. "
        "Give both in the same order."
    )
    with pytest.raises(ValueError, match=r"^There are 1 examples but 0 explanations\. Give one each\.$"):
        compare([example], [])


def test_examples_that_nobody_marked_are_refused() -> None:
    with pytest.raises(ValueError, match="human rationale") as caught:
        compare([Example(FILM, "pos")], [explanation(FILM, "xxxx")])
    assert str(caught.value) == (
        "None of the 1 documents has a human rationale to compare with. Give some that people marked."
    )

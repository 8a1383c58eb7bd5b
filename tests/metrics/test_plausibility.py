import math
from collections.abc import Sequence
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import auc, f1_score, precision_recall_curve

from fresh.document import Document, Example, Explanation, Mask, Saliency
from fresh.metrics.bootstrap import Flags
from fresh.metrics.plausibility import Agreement, Score, measure_agreement, score_agreement, token_f1
from fresh.rationale import Prediction
from fresh.text import Spans
from strategies import any_numbers, numbers

ANSWER = Prediction("pos", {"pos": 1.0})
PERFECT = Score(1.0, 1.0, 1.0)


def flag(row: str) -> Flags:
    return np.array([sign == "x" for sign in row], dtype=np.bool_)


def flags(*rows: str) -> list[Flags]:
    return [flag(row) for row in rows]


def row_of(score: Score) -> tuple[float, float, float]:
    return score.precision, score.recall, score.f1


def agree(*pairs: tuple[Spans, str], min_iou: float = 0.5, scores: Sequence[float] | None = None) -> Agreement:
    """Compare marked spans with kept words, drawn as in "xx--"."""
    examples, explanations = [], []
    for number, (marked, kept) in enumerate(pairs):
        document = Document.from_words(["word"] * len(kept), id=str(number))
        words = Mask.from_spans([span for span in marked if span[0] < span[1]], len(kept))
        examples.append(Example(document, "pos", words, marked))
        explanations.append(explain(document, kept, scores))
    return measure_agreement(examples, explanations, min_iou)


def explain(document: Document, kept: str, scores: Sequence[float] | None = None) -> Explanation:
    saliency = None if scores is None else Saliency(np.array(scores), "pos")
    return Explanation(document, Mask(flag(kept)), document.cut(Mask(flag(kept))), ANSWER, saliency)


# Words


def test_an_instance_without_any_word_is_left_out_and_one_without_evidence_counts_as_zero() -> None:
    good: tuple[Spans, str] = (((0, 1),), "x-")
    assert agree(good).token_macro == agree(good, ((), "--")).token_macro == PERFECT
    assert agree(good, (((1, 1),), "--")).token_macro == PERFECT
    assert agree(good, ((), "x-")).token_macro == Score(0.5, 0.5, 0.5)
    assert agree(good, (((0, 2),), "--")).token_macro == Score(0.5, 0.5, 0.5)


def test_nothing_to_count_is_zero() -> None:
    result = agree(((), "--"))
    assert {result.token_macro, result.token_micro, result.iou_macro, result.iou_micro} == {Score(0.0, 0.0, 0.0)}
    assert result.auprc is None


def test_token_f1_is_a_mean_over_documents_with_a_word() -> None:
    assert token_f1(flags("xx--"), flags("-xx-")) == 0.5
    assert token_f1(flags("x---", "xx--", "--"), flags("x---", "xxxx", "--")) == pytest.approx((1 + 2 / 3) / 2)
    assert token_f1(flags("--"), flags("--")) == token_f1(flags("--"), flags("x-")) == 0
    assert token_f1(flags("x-"), flags("--")) == 0
    with pytest.raises(ValueError, match="no masks to compare"):
        token_f1([], [])


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=20))
def test_token_f1_agrees_with_scikit_learn(pairs: list[tuple[bool, bool]]) -> None:
    gold, kept = (np.array(row) for row in zip(*pairs, strict=True))
    expected = pytest.approx(f1_score(gold, kept, zero_division=0))
    assert token_f1([gold], [kept]) == expected
    assert token_f1([kept], [gold]) == expected
    drawn = "".join("x" if word else "-" for word in kept)
    assert agree((Mask(gold).spans, drawn)).token_macro.f1 == expected


# Spans


@pytest.mark.parametrize("min_iou", [0.0, -1.0, 1.5, math.nan])
def test_an_impossible_threshold_is_refused(min_iou: float) -> None:
    with pytest.raises(ValueError, match=rf"^min_iou must be in \(0, 1\], got {min_iou}"):
        agree((((0, 1),), "x"), min_iou=min_iou)


# Scores


@given(st.lists(st.tuples(st.booleans(), numbers() | any_numbers()), min_size=1, max_size=20))
def test_area_agrees_with_scikit_learn(pairs: list[tuple[bool, float]]) -> None:
    marked, scores = np.array([flag for flag, _ in pairs]), np.array([score for _, score in pairs])
    if marked.any():
        precision, recall, _ = precision_recall_curve(marked, scores)
        found = agree((Mask(marked).spans, "x" * len(marked)), scores=scores.tolist())
        assert found.auprc == pytest.approx(auc(recall, precision), abs=1e-12)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=8))
def test_figures_of_a_resample_are_those_of_its_instances(rows: list[int]) -> None:
    pairs: list[tuple[Spans, str]] = [(((0, 1), (1, 3)), "xx--"), ((), "x-x-"), (((2, 4), (1, 1)), "--xx")]
    resample = score_agreement(agree(*pairs, scores=[4, 3, 1, 1]).counts.take(np.array(rows)))
    expected = agree(*(pairs[row] for row in rows), scores=[4, 3, 1, 1])
    assert resample.counts.example.tolist() == rows
    for item in fields(Agreement):
        if item.name != "counts":
            assert getattr(resample, item.name) == getattr(expected, item.name)
    some = resample.counts.words_marked + resample.counts.words_kept > 0
    assert resample.token_macro.f1 == pytest.approx(resample.counts.token_f1[some].mean())


# Examples


FILM = Document.from_words(["a", "good", "film", "."], id="film")
SEA = Document.from_words(["a", "bad", "sea", "."], id="sea")


def test_examples_are_compared_where_people_marked_them() -> None:
    examples = [Example(SEA, "neg"), Example(FILM, "pos", Mask.from_spans([(1, 3)], 4), ((1, 2), (2, 3)))]
    result = measure_agreement(examples, [explain(SEA, "xxxx", [0] * 4), explain(FILM, "-xx-", [0, 1, 2, 0])])
    assert result.token_macro == PERFECT
    assert row_of(result.iou_macro) == pytest.approx((1.0, 0.5, 2 / 3))
    assert (result.auprc, result.counts.example.tolist()) == (1, [1])


def test_each_text_that_was_joined_counts_by_itself() -> None:
    joined = Document(FILM.text, FILM.words, FILM.spans, id="two", parts=(("x", 2), ("y", 2)))
    example = Example(joined, "pos", Mask.from_spans([(1, 3)], 4), ((1, 3), (2, 2), (0, 0)))
    counts = measure_agreement([example], [explain(joined, "-xx-", [0, 1, 2, 3])]).counts
    assert counts.example.tolist() == [0, 0]
    assert counts.spans_marked.tolist() == [2, 2]
    assert counts.spans_matched.tolist() == [1, 1]
    assert counts.auprc.tolist() == [1, 0.25]


def test_examples_that_cannot_be_compared_are_refused() -> None:
    example = Example(FILM, "pos", Mask.full(4))
    with pytest.raises(ValueError, match="'film' is paired with an explanation of document 'sea'"):
        measure_agreement([example], [explain(SEA, "xxxx")])
    with pytest.raises(ValueError, match="None of the documents has a human rationale"):
        measure_agreement([Example(FILM, "pos")], [explain(FILM, "xxxx")])

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fresh.attribution
from fresh.attribution import SCORERS, scorer_to_dict
from fresh.data.splits import Splits
from fresh.document import Document, Example, Explanation, Mask, Saliency
from fresh.methods.rationales import score_all
from fresh.progress import SILENT
from fresh.rationale import Prediction
from fresh.selection.discretizers import Contiguous, TopK, budget
from fresh.selection.extractors import (
    MAX_POINTS,
    Curve,
    FullText,
    HumanRationales,
    SaliencyExtractor,
    curve_ratios,
    extract_with_scores,
)
from strategies import ratios

FILM = Document.from_words(["a", "good", "film"], id="film")
SEA = Document.from_words(["the", "old", "men", "and", "the", "sea"], id="sea")


@dataclass
class LongestWords:
    """A scorer such as a user might write."""

    extra: int = 0
    leave_out: int = 0
    value: float = 0.0

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Longer words score higher."""
        return [
            Saliency(
                np.array([len(word) + self.value for word in document.words] + [0.0] * self.extra), "", document.id
            )
            for document in documents[self.leave_out :]
        ]


def flags(*masks: Mask) -> list[list[int]]:
    return [mask.kept.astype(int).tolist() for mask in masks]


def test_a_custom_scorer_selects_words() -> None:
    extractor = SaliencyExtractor(LongestWords(), TopK(0.3))
    assert flags(*extractor.extract([FILM, SEA])) == [[0, 1, 0], [1, 1, 0, 0, 0, 0]]
    assert flags(*SaliencyExtractor(LongestWords(), Contiguous(0.5)).extract([FILM])) == [[0, 1, 1]]
    assert scorer_to_dict(LongestWords()) == {"name": "custom", "class": "tests.selection.test_extractors.LongestWords"}


def test_masks_come_with_scores_if_there_are_any() -> None:
    masks, scores = extract_with_scores(SaliencyExtractor(LongestWords(), TopK(0.3)), [FILM])
    assert flags(*masks) == [[0, 1, 0]]
    assert scores[0] is not None
    assert scores[0].scores.tolist() == [1, 4, 4]
    assert extract_with_scores(FullText(), [FILM, SEA]) == ([Mask.full(3), Mask.full(6)], [None, None])


@pytest.mark.parametrize(
    ("scorer", "message"),
    [
        (LongestWords(extra=1), "4 scores to the 3 words of document 'film'"),
        (LongestWords(leave_out=1), "it scored 1 of 2"),
        (LongestWords(value=float("nan")), "score of word 0 in document 'film' is nan"),
    ],
)
def test_scores_that_do_not_fit_are_refused(scorer: LongestWords, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SaliencyExtractor(scorer, TopK(0.5)).extract([FILM, SEA])


@pytest.mark.parametrize(
    "method",
    [
        *(getattr(fresh.attribution, name).score for name in SCORERS.values()),
        FullText.extract,
        HumanRationales.extract,
        SaliencyExtractor.extract,
    ],
)
def test_scorers_and_extractors_receive_documents_only(method: Callable[..., Any]) -> None:
    parameters = inspect.signature(method, eval_str=True).parameters
    assert [value.annotation for key, value in parameters.items() if key != "self"] == [Sequence[Document]]


def test_scorers_see_no_labels_in_training(toy: Splits) -> None:
    spy = Mock(wraps=LongestWords())
    score_all(spy, toy.train, SILENT, "scores")
    [(seen,)] = (call.args for call in spy.score.call_args_list)
    assert {type(item) for item in seen} == {Document}
    assert seen == [example.document for example in toy.train]


MARKED = Mask(np.array([False, True, False]))
KNOWN = HumanRationales.of([Example(FILM, "pos", MARKED), Example(SEA, "neg", Mask.from_spans([(1, 3), (5, 6)], 6))])


def test_the_words_that_people_marked_are_kept() -> None:
    assert flags(*KNOWN.extract([SEA, FILM, SEA])) == [[0, 1, 1, 0, 0, 1], [0, 1, 0], [0, 1, 1, 0, 0, 1]]
    assert extract_with_scores(KNOWN, [FILM]) == ([MARKED], [None])


def test_a_document_is_identified_by_its_words_and_query() -> None:
    asked = Document.from_words(FILM.words, ["praise"])
    marks = HumanRationales.of([Example(FILM, "pos", MARKED), Example(asked, "pos", ~MARKED)])
    again = Document.from_words(FILM.words, id="another name")
    assert flags(*marks.extract([again, asked])) == [[0, 1, 0], [1, 0, 1]]
    unmarked = HumanRationales.of([Example(FILM, "pos")])
    with pytest.raises(ValueError, match=r"Document 'film' has no human rationale.*method=fresh"):
        unmarked.extract([FILM])
    with pytest.raises(ValueError, match="'other'"):  # a word of the query is not a word of the text
        KNOWN.extract([Document.from_words(["a", "good"], ["film"], id="other")])


def test_half_a_surrogate_pair_can_be_marked() -> None:
    strange = Document.from_words(["\ud800", "a"])
    assert HumanRationales.of([Example(strange, "pos", Mask.full(2))]).extract([strange]) == [Mask.full(2)]


def test_documents_of_the_same_words_keep_their_own_marks() -> None:
    first, second, stranger = (replace(FILM, id=name) for name in ("first", "second", "stranger"))
    marks = HumanRationales.of([Example(first, "pos", MARKED), Example(second, "neg", ~MARKED)])
    assert marks.extract([second, first]) == [~MARKED, MARKED]
    with pytest.raises(ValueError, match=r"^Document 'stranger' has no human rationale"):
        marks.extract([stranger])  # the marks of either might apply
    agreed = HumanRationales.of([Example(first, "pos", MARKED), Example(second, "neg", MARKED)])
    assert agreed.extract([stranger]) == [MARKED]


# Curves


@given(st.integers(1, 2000), ratios(), ratios())
def test_points_go_word_by_word_from_the_shortest_to_the_longest(n_words: int, one: float, other: float) -> None:
    low, high = sorted((one, other))
    counts = [budget(n_words, ratio) for ratio in curve_ratios(n_words, low, high)]
    first, last = budget(n_words, low), budget(n_words, high)
    assert counts == sorted(set(counts))
    assert (counts[0], counts[-1]) == (first, last)
    assert len(counts) == min(MAX_POINTS, last - first + 1)


@given(st.lists(st.sampled_from(("neg", "pos", "mixed")), min_size=1, max_size=12))
def test_every_rationale_longer_than_the_minimal_one_has_its_answer(labels: list[str]) -> None:
    document, points = Document.from_words(["film"] * len(labels)), list[Explanation]()
    for place, label in enumerate(labels):
        mask = Mask(np.arange(len(labels)) <= place)
        points.append(Explanation(document, mask, document.cut(mask), Prediction(label, {label: 1.0})))
    curve = Curve(tuple(points))
    enough = [place for place in range(len(labels)) if set(labels[place:]) == {labels[-1]}]
    assert len(curve) == len(labels)
    assert curve.minimal is curve.points[min(enough)]

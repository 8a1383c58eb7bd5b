from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

import cheats
from fresh.audit.stability import _Edited, _misspell, _neighbors, check_stability
from fresh.data.splits import Splits
from fresh.document import Document, Mask
from fresh.rationalizer import Rationalizer
from fresh.selection.extractors import FullText, HumanRationales


def test_an_honest_model_is_measured_in_each_way(rationalizer: Rationalizer, toy: Splits) -> None:
    explained = rationalizer.explain([example.document for example in toy.test])
    found = check_stability(rationalizer, explained)
    assert found.found == "holds"
    assert [line.split(":")[0] for line in found.evidence] == [
        f"A word {edit}" for edit in ("deleted", "replaced by a neighbor", "in another case", "with a typo")
    ]
    assert all("of 32 answers change" in line for line in found.evidence[:1])
    assert "no word can be edited in this way" in found.evidence[2]  # the encoder reads lower case only
    assert found == check_stability(rationalizer, explained)  # reproducible


@dataclass(frozen=True, slots=True)
class Counter:
    """An extractor that keeps the first word if the number of words is even, and the last if it is odd."""

    def extract(self, documents: Sequence[Document]) -> list[Mask]:
        sizes = [len(document.words) for document in documents]
        return [Mask(np.arange(size) == (0 if size % 2 == 0 else size - 1)) for size in sizes]


def test_answers_that_hang_on_words_that_are_not_shown_are_flagged(rationalizer: Rationalizer) -> None:
    # Whichever word is deleted, the first is still "a" and the last is still "z".
    documents = [Document.from_words([*"aabcdefgh"[: 4 + number % 5], *"zz"], id=str(number)) for number in range(20)]
    reader = cheats.Answering(
        rationalizer.predictor.classifier,
        lambda _, rationale: cheats.sure("pos" if rationale.words == ("z",) else "neg"),
    )
    model = Rationalizer(Counter(), reader)
    found = check_stability(model, model.explain(documents))
    assert found.found == "look here"
    assert "20 of 20 answers change" in found.evidence[0]
    assert "overlap of the rationales .000" in found.evidence[0]
    assert ": 0 of 20 answers change" in found.evidence[1]  # a replaced word leaves the number of words as it is


@pytest.mark.parametrize("extractor", [FullText(), HumanRationales({})])
def test_models_without_unselected_or_selected_words_are_not_run(
    extractor: FullText | HumanRationales, rationalizer: Rationalizer
) -> None:
    document = Document.from_words(("a", "b"))
    explained = [cheats.explained(document, Mask.full(2), cheats.sure("pos"))]
    assert check_stability(Rationalizer(extractor, rationalizer.predictor), explained).found == "not run"


def test_overlap_is_counted_at_the_places_before_the_edit() -> None:
    document = Document.from_words(tuple("abcd"))
    explained = cheats.explained(document, Mask(np.array([True, False, True, False])), cheats.sure("pos"))
    deleted = _Edited(0, explained, 1, Document.from_words(tuple("acd")))
    assert deleted.overlap(Mask(np.array([True, True, False]))) == 1
    assert deleted.overlap(Mask(np.array([True, False, True]))) == pytest.approx(1 / 3)


def test_edits_by_hand() -> None:
    generator = np.random.default_rng(0)
    assert _misspell(("ab",), 0, generator) == "ba"
    assert _misspell(("aa",), 0, generator) is None
    assert _misspell(("1.",), 0, generator) is None
    documents = [Document.from_words(text.split()) for text in ("the old sea", "the new sea")]
    edit = _neighbors([cheats.explained(item, Mask.full(3), cheats.sure("pos")) for item in documents])
    assert edit(documents[0].words, 1, generator) == "new"
    assert edit(documents[0].words, 0, generator) is None  # no word before it
    assert edit(documents[0].words, 2, generator) is None  # nothing else follows

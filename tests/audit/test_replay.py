from dataclasses import replace

import pytest
from hypothesis import given

import cheats
import small
from fresh.attribution.support_model import SupportModel
from fresh.audit.replay import ANOTHER_GROUPING, _distance, figures, read_back, replay, write_down
from fresh.data.splits import Splits
from fresh.document import Document, Explanation, Mask
from fresh.predictor import Predictor
from fresh.rationale import Prediction, Rationale
from fresh.rationalizer import BATCH_SIZE, Rationalizer
from fresh.reporting.verdict import Verdict
from fresh.selection.discretizers import TopK
from strategies import documents

HOLDS = (
    "All 32 predictions, computed again from the words of their rationales alone, equal those reported, bit for bit."
)


@pytest.fixture(scope="module")
def model(support: SupportModel, predictor: Predictor) -> Rationalizer:
    return small.rationalizer(support, predictor, TopK(0.2), "attention")


@pytest.fixture(scope="module")
def explained(model: Rationalizer, toy: Splits) -> list[Explanation]:
    return model.explain([example.document for example in toy.test])


@given(documents())
def test_a_rationale_is_written_down_and_read_back(document: Document) -> None:
    rationale = document.cut(Mask.full(len(document.words)))
    assert read_back(write_down(rationale)) == rationale
    assert read_back(write_down(rationale)).id == ""


def test_half_characters_are_not_joined() -> None:
    halves = Rationale(("\ud83d\ude00", "\ud800"), ("\ude00",))
    assert read_back(write_down(halves)) == halves


def test_what_was_reported_comes_out_again(model: Rationalizer, explained: list[Explanation]) -> None:
    found = replay(model.predictor, explained)
    assert (found.name, found.found, found.says) == ("replay", "holds", HOLDS)
    assert found.evidence[0] == "32 predictions computed again, 0 differ."
    assert found.evidence[1].startswith("Read once more in another order: probabilities are at most ")


def test_more_documents_than_are_explained_at_once(model: Rationalizer, toy: Splits) -> None:
    many = [example.document for example in (*toy.train, *toy.dev, *toy.test)][: BATCH_SIZE + 40]
    assert len(many) == BATCH_SIZE + 40
    assert replay(model.predictor, list(model.explain_stream(iter(many)))).found == "holds"


def test_a_doctored_answer_is_found(model: Rationalizer, explained: list[Explanation]) -> None:
    honest = explained[3]
    lie = Prediction(honest.prediction.label, {"neg": 0.25, "pos": 0.75})
    doctored = [*explained[:3], replace(honest, prediction=lie), *explained[4:]]
    found = replay(model.predictor, doctored)
    assert found.found == "broken"
    assert found.says == (
        "1 of 32 predictions, computed again from the words of their rationales alone, differ from those reported."
    )
    assert found.evidence[0] == "32 predictions computed again, 1 differ."
    assert found.evidence[2:] == (
        f"document 'test-3', rationale: {' '.join(honest.rationale.words)}",
        f"  reported: {honest.prediction.label} (neg 0.25, pos 0.75)",
        f"  from the rationale alone: {figures(honest.prediction)}",
    )


def test_a_doctored_mask_is_found(model: Rationalizer, explained: list[Explanation]) -> None:
    doctored = [replace(item, mask=~item.mask, rationale=item.document.cut(~item.mask)) for item in explained]
    found = replay(model.predictor, doctored)
    assert found.found == "broken"
    assert sum(line.startswith("document ") for line in found.evidence) == 3


def test_the_last_bit_counts_and_rounding_is_explained(model: Rationalizer, explained: list[Explanation]) -> None:
    first = explained[0].prediction
    nudged = Prediction(first.label, {label: value * (1 - 2e-16) for label, value in first.probabilities.items()})
    assert nudged != first
    found = replay(model.predictor, [replace(explained[0], prediction=nudged), *explained[1:]])
    assert found.found == "broken"
    assert ANOTHER_GROUPING in found.evidence


def test_a_query_is_shown(model: Rationalizer) -> None:
    document = Document.from_words(("a", "good", "film"), ("praise", "it"), "asked")
    found = replay(
        model.predictor, [Explanation(document, Mask.full(3), document.cut(Mask.full(3)), cheats.sure("pos"))]
    )
    assert "  query: praise it" in found.evidence


def refused(model: Rationalizer, toy: Splits) -> Verdict:
    return replay(model.predictor, model.explain([example.document for example in toy.test]))


def test_a_predictor_that_knows_documents_by_name_is_found(model: Rationalizer, toy: Splits) -> None:
    known = {example.document.id: example.label for example in toy.test}
    librarian = cheats.Librarian(model.predictor.classifier, known)
    found = refused(replace(model, predictor=librarian), toy)
    assert found.found == "broken"
    assert found.says.startswith("16 of 32 predictions")


def test_a_predictor_that_is_told_on_the_side_is_found(model: Rationalizer, toy: Splits) -> None:
    passed: list[int] = []
    smuggler = cheats.Smuggler(model.extractor, passed)
    receiver = cheats.Receiver(model.predictor.classifier, passed)
    found = refused(replace(model, extractor=smuggler, predictor=receiver), toy)
    assert found.found == "broken"
    assert found.says == (
        "Answers are not made from the rationale alone: they depend on what else is read before or beside it."
    )
    assert found.evidence[1] == "Read once more in another order: probabilities are at most 1.0e+00 apart."


def test_answers_of_other_labels_are_far_apart() -> None:
    assert _distance(Prediction("a", {"a": 1.0}), Prediction("b", {"b": 1.0})) == 1.0
    assert _distance(Prediction("a", {"a": 0.75, "b": 0.25}), Prediction("a", {"a": 1.0, "b": 0.0})) == 0.25

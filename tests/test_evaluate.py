import re

import pytest

import small
from fresh.classifier import ClassifierConfig
from fresh.data import Splits
from fresh.discretize import TopK
from fresh.document import Document, Example
from fresh.evaluate import evaluate
from fresh.extractor import KeepAll
from fresh.metrics import accuracy, macro_f1
from fresh.predictor import Predictor
from fresh.random_words import cut_at_random
from fresh.rationale import Rationale
from fresh.rationalizer import Rationalizer
from fresh.support import Support

LABELS = ("neg", "pos")


@pytest.fixture(scope="module")
def model(support: Support, predictor: Predictor) -> Rationalizer:
    return small.rationalizer(support, predictor, TopK(0.2))


def test_every_row_is_what_one_computes_by_hand(model: Rationalizer, toy: Splits, support: Support) -> None:
    report = evaluate(model, toy.test)
    gold = [example.label for example in toy.test]
    documents = [example.document for example in toy.test]
    explained = model.explain(documents)
    drawn = model.predictor.predict(cut_at_random(documents, [item.mask for item in explained], contiguous=False))
    answers = {
        "full text (support model)": [item.label for item in support.predict(documents)],
        "FRESH (occlusion)": [item.prediction.label for item in explained],
        "random words, same predictor": [item.label for item in drawn],
    }
    assert report.n_documents == 32
    assert [row.name for row in report.rows] == list(answers)
    for row, given in zip(report.rows, answers.values(), strict=True):
        assert row.accuracy == accuracy(gold, given)
        assert row.macro_f1 == macro_f1(gold, given, LABELS)
        assert [score.label for score in row.classes] == list(LABELS)
    kept = sum(item.mask.kept.sum() for item in explained) / sum(len(item.mask) for item in explained)
    assert [row.kept for row in report.rows] == [1, pytest.approx(kept), pytest.approx(kept)]
    assert report.rows[1].macro_f1 > report.rows[2].macro_f1


def test_a_predictor_of_random_words_stands_beside_it(
    model: Rationalizer, toy: Splits, quick: ClassifierConfig
) -> None:
    silent = [(Rationale(("film",)), label) for label in LABELS]
    random = Predictor.train(silent, silent, quick)
    row = evaluate(model, toy.test, random=random).rows[2]
    documents = [example.document for example in toy.test]
    drawn = cut_at_random(documents, model.extractor.extract(documents), contiguous=False)
    assert row.name == "random words"
    assert row.macro_f1 == macro_f1([item.label for item in toy.test], [a.label for a in random.predict(drawn)], LABELS)


def test_no_documents_are_refused(model: Rationalizer) -> None:
    with pytest.raises(ValueError, match=r"^There are no documents to measure on\. Give some that can be used\.$"):
        evaluate(model, [])


def test_a_model_that_keeps_all_has_no_other_full_text(predictor: Predictor, toy: Splits) -> None:
    report = evaluate(Rationalizer(KeepAll(), predictor), toy.test)
    assert [row.name for row in report.rows] == ["all words", "random words, same predictor"]
    assert report.rows[0].kept == 1
    assert report.rows[0].macro_f1 == report.rows[1].macro_f1


def test_a_label_that_was_never_trained_is_refused(model: Rationalizer) -> None:
    strange = Example(Document.from_text("a good film", id="x"), "great")
    expected = (
        "Document 'x' has the label 'great', which this model was not trained for. It knows: neg, pos. "
        "Leave such documents out, or train a model for them."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        evaluate(model, [strange])

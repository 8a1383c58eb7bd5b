import re

import numpy as np
import pytest

import small
from fresh.data import Splits
from fresh.discretize import TopK
from fresh.document import Document, Example, Explanation, Mask
from fresh.evaluate import evaluate, random_masks
from fresh.extractor import KeepAll, SaliencyExtractor
from fresh.metrics import accuracy, macro_f1
from fresh.predictor import Predictor
from fresh.rationale import Prediction
from fresh.rationalizer import Rationalizer
from fresh.scorers.random import Random
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
    drawn = model.predictor.predict([document.cut(mask) for document, mask in random_masks(explained)])
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


def test_a_model_on_random_words_stands_beside_it(model: Rationalizer, toy: Splits, predictor: Predictor) -> None:
    random = Rationalizer(SaliencyExtractor(Random(), TopK(0.5)), predictor)
    report = evaluate(model, toy.test, random=random)
    alone = evaluate(random, toy.test)
    assert report.rows[2].name == "random words"
    assert alone.rows[0].name == "FRESH (random)"
    assert report.rows[2].macro_f1 == alone.rows[0].macro_f1
    assert report.rows[2].kept == alone.rows[0].kept


def test_a_model_that_keeps_all_has_no_other_full_text(predictor: Predictor, toy: Splits) -> None:
    report = evaluate(Rationalizer(KeepAll(), predictor), toy.test)
    assert [row.name for row in report.rows] == ["all words", "random words, same predictor"]
    assert report.rows[0].kept == 1
    assert report.rows[0].macro_f1 == report.rows[1].macro_f1


def test_a_label_that_was_never_trained_is_refused(model: Rationalizer) -> None:
    strange = Example(Document.from_text("a good film", id="x"), "great")
    expected = "Document 'x' has the label 'great', which this model was not trained for. It knows: neg, pos."
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        evaluate(model, [strange])


def test_random_words_are_as_many_and_always_the_same() -> None:
    documents = [Document.from_words([f"w{n}" for n in range(size)]) for size in (1, 10, 10, 200)]
    masks = [Mask(np.arange(len(item.words)) < len(item.words) / 4) for item in documents]
    answer = Prediction("pos", {"neg": 0.0, "pos": 1.0})
    explained = [Explanation(*pair, answer) for pair in zip(documents, masks, strict=True)]
    drawn = random_masks(explained)
    assert [document for document, _ in drawn] == documents
    assert [mask.kept.sum() for _, mask in drawn] == [mask.kept.sum() for mask in masks]
    assert len(drawn[3][1].spans) > 20
    assert [mask for _, mask in random_masks(explained[::-1])] == [mask for _, mask in drawn][::-1]

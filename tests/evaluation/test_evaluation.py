import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import small
from fresh.attribution.support_model import SupportModel
from fresh.data import BadRows, Splits
from fresh.document import Document, Example, Mask
from fresh.evaluation.baselines import Baselines, cut_all, random_masks
from fresh.evaluation.evaluation import Evaluation, evaluate
from fresh.evaluation.warnings import drop_too_long
from fresh.metrics.bootstrap import accuracy_interval, class_intervals, macro_f1_interval, number_labels, ratio_interval
from fresh.metrics.classification import accuracy, class_scores, macro_f1
from fresh.nn.token_classifier import TokenClassifier
from fresh.nn.tokenizer import Text
from fresh.pipeline import train
from fresh.predictor import Predictor
from fresh.progress import SILENT
from fresh.rationale import Rationale
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK
from fresh.selection.extractors import FullText, HumanRationales, SaliencyExtractor
from fresh.selection.tagger import Tagger
from fresh.training.config import ClassifierConfig
from fresh.training.fit import build

LABELS = ("neg", "pos")


def test_every_row_is_what_one_computes_by_hand(model: Rationalizer, toy: Splits, support: SupportModel) -> None:
    report = evaluate(model, toy.test).report
    gold = [example.label for example in toy.test]
    documents = [example.document for example in toy.test]
    explained = model.explain(documents)
    masks = [item.mask for item in explained]
    drawn, dropped = random_masks(documents, masks, contiguous=False), [~mask for mask in masks]
    answers = {
        "full text (support model)": [item.label for item in support.predict(documents)],
        "FRESH (occlusion)": [item.prediction.label for item in explained],
        "random words, same predictor": read(model.predictor, documents, drawn),
        "complement, same predictor": read(model.predictor, documents, dropped),
        "majority class (neg)": ["neg"] * 32,
    }
    assert report.n_documents == 32
    assert [row.name for row in report.rows] == list(answers)
    for row, given in zip(report.rows, answers.values(), strict=True):
        assert row.accuracy == accuracy(gold, given)
        assert row.macro_f1 == macro_f1(gold, given, LABELS)
        numbers = number_labels(gold, LABELS), number_labels(given, LABELS)
        assert row.macro_f1_between == macro_f1_interval(*numbers, 2).bounds
        assert row.accuracy_between == accuracy_interval(*numbers).bounds
        classes = zip(class_scores(gold, given, LABELS), class_intervals(*numbers, 2), strict=True)
        assert list(row.classes) == [
            replace(score, precision_between=precision.bounds, recall_between=recall.bounds, f1_between=f1.bounds)
            for score, (precision, recall, f1) in classes
        ]
    kept = ratio_interval([item.mask.kept.sum() for item in explained], [len(item.mask) for item in explained])
    assert [row.kept for row in report.rows] == pytest.approx([1, kept.value, kept.value, 1 - kept.value, 0])
    assert [row.kept_between for row in report.rows[:3]] == [None, kept.bounds, kept.bounds]  # all words are all words
    assert [row.own for row in report.rows] == [False, True, False, False, False]
    assert report.rows[1].macro_f1 > report.rows[2].macro_f1


def read(predictor: Predictor, documents: Sequence[Document], masks: Sequence[Mask]) -> list[str]:
    """Say what a predictor answers to some words of documents."""
    return [answer.label for answer in predictor.predict(cut_all(documents, masks))]


def test_predictors_that_read_something_else_stand_beside_it(
    model: Rationalizer, toy: Splits, quick: ClassifierConfig
) -> None:
    silent = [(Rationale(("film",)), label) for label in LABELS]
    other = Predictor.train(silent, silent, quick)
    full, _, independent, random, complement, majority = evaluate(
        model, toy.test, baselines=Baselines(other, other, other, "pos")
    ).report.rows
    documents, gold = [example.document for example in toy.test], [example.label for example in toy.test]
    masks = model.extractor.extract(documents)
    names = ["full text", "independent reader", "random words (independent)", "complement"]
    assert [row.name for row in (full, independent, random, complement)] == names
    assert independent.macro_f1 == macro_f1(gold, read(other, documents, masks), LABELS)
    whole, drawn = [Mask.full(len(mask)) for mask in masks], random_masks(documents, masks, contiguous=False)
    for row, chosen in ((full, whole), (random, drawn), (complement, [~mask for mask in masks])):
        assert row.macro_f1 == macro_f1(gold, read(other, documents, chosen), LABELS)
    assert majority.name == "majority class (pos)"
    assert majority.macro_f1 == macro_f1(gold, ["pos"] * len(gold), LABELS)


def test_a_model_of_many_lengths_is_measured_at_the_ends_of_its_range(model: Rationalizer, toy: Splits) -> None:
    many = Rationalizer(model.extractor, model.predictor, ratios=(0.05, 0.5))
    rows = evaluate(many, toy.test).report.rows[1:4]
    assert [row.name for row in rows] == ["FRESH (occlusion)", "the same, at 0.05", "the same, at 0.5"]
    for row, ratio in zip(rows, (None, 0.05, 0.5), strict=True):
        explained = many.explain([item.document for item in toy.test], ratio=ratio)
        answers = [item.prediction.label for item in explained]
        assert row.macro_f1 == macro_f1([item.label for item in toy.test], answers, LABELS)
        kept = sum(item.mask.kept.sum() for item in explained) / sum(len(item.mask) for item in explained)
        assert row.kept == pytest.approx(kept)


def test_models_without_scores_have_no_other_full_text(predictor: Predictor, toy: Splits) -> None:
    whole = evaluate(Rationalizer(FullText(), predictor), toy.test).report
    assert [(row.name, row.kept) for row in whole.rows] == [("all words", 1), ("majority class (neg)", 0)]
    human = evaluate(Rationalizer(HumanRationales.of(toy.test), predictor), toy.test).report
    assert [row.name for row in human.rows][:2] == ["human rationales", "random words, same predictor"]
    assert human.rows[0].kept == pytest.approx(32 / sum(len(item.document.words) for item in toy.test))


@pytest.mark.parametrize(
    ("method", "name"),
    [("fresh", "FRESH (tagger)"), ("lei", "Lei et al."), ("bastings", "Bastings et al."), (None, "FRESH (tagger)")],
)
def test_a_tagger_is_called_by_its_method(
    method: str | None, name: str, predictor: Predictor, toy: Splits, quick: ClassifierConfig
) -> None:
    extractor = SaliencyExtractor(Tagger(build(TokenClassifier, "words", quick)), TopK(0.2))
    settings = {} if method is None else {"method": method}
    assert evaluate(Rationalizer(extractor, predictor, settings), toy.test[:2]).report.rows[0].name == name


def test_documents_that_cannot_be_evaluated_are_refused(model: Rationalizer) -> None:
    with pytest.raises(ValueError, match=r"examples must have at least one document"):
        evaluate(model, [])
    odd = Example(Document.from_text("a good film", id="x"), "great")
    with pytest.raises(ValueError, match=r"trained with the labels neg, pos.*also has great \(1\).*'x'"):
        evaluate(model, [odd])


def test_a_report_says_which_share_of_words_was_not_read(
    toy: Splits, quick: ClassifierConfig, predictor: Predictor
) -> None:
    network = replace(quick.network, long="truncate")
    tagger = Tagger(build(TokenClassifier, "words", replace(quick, network=network)))
    model = Rationalizer(SaliencyExtractor(tagger, TopK(0.2)), predictor)
    long = Example(Document.from_words(["good"] * 248, id="long"), "pos")
    found = evaluate(model, [long])
    own, random, complement, _ = found.report.rows
    assert found.report.unread == pytest.approx(1 - 62 / 248)
    assert 0 < own.kept == random.kept <= 62 / 248
    assert complement.kept == pytest.approx(62 / 248 - own.kept)  # what was not read was not dropped
    assert evaluate(model, toy.test[:4]).report.unread == 0


def test_results_for_eraser_hold_what_less_reading_gives(model: Rationalizer, toy: Splits, tmp_path: Path) -> None:
    def written(found: Evaluation) -> list[Any]:
        found.write_eraser(tmp_path / "results.jsonl")
        return [json.loads(line) for line in (tmp_path / "results.jsonl").read_text(encoding="utf-8").splitlines()]

    found = evaluate(model, toy.test)
    dropped = model.predictor.predict([item.document.cut(~item.mask) for item in found.explained])
    for line, explanation, answer in zip(written(found), found.explained, dropped, strict=True):
        assert line["sufficiency_classification_scores"] == explanation.prediction.probabilities
        assert line["comprehensiveness_classification_scores"] == answer.probabilities
        assert [item["threshold"] for item in line["thresholded_scores"]] == [0.01, 0.05, 0.1, 0.2, 0.5]
    [whole] = written(evaluate(Rationalizer(FullText(), model.predictor), toy.test[:1]))
    assert "comprehensiveness_classification_scores" not in whole


def test_documents_that_share_a_text_are_drawn_with_it(predictor: Predictor) -> None:
    model = Rationalizer(FullText(), predictor)
    texts = ("a good film", "a bad film", "a bad film of two")
    once = [Example(Document.from_text(text, id=text), "neg") for text in texts]
    assert not any("share" in note for note in evaluate(model, once).report.notes)
    more = [Example(Document.from_text("a bad film", id=str(number)), "pos") for number in range(4)]
    report = evaluate(model, [*once, *more]).report
    assert report.notes[:1] == ("7 documents share 3 texts. Intervals resample whole texts.",)
    answers = number_labels([item.prediction.label for item in model.explain([item.document for item in once])], LABELS)
    given, gold = answers[[0, 1, 2, 1, 1, 1, 1]], [0, 0, 0, 1, 1, 1, 1]
    expected = macro_f1_interval(gold, given, 2, texts=[0, 1, 2, 1, 1, 1, 1])
    assert report.rows[0].macro_f1_between == (expected.low, expected.high)
    alone = evaluate(model, more).report
    assert alone.notes[:1] == ("4 documents share 1 text. Intervals say nothing about other texts.",)


# What is shown is what was read, also where the support model reads only beginnings

LONG = 150
"""More words than the 64 positions of the tiny encoder."""


@pytest.fixture(scope="module", params=["top_k", "contiguous"])
def truncating(request: pytest.FixtureRequest, toy: Splits, encoders: dict[str, Path]) -> Rationalizer:
    some = small.some(toy, 24, 8)
    long = tuple(Example(lengthened(item.document), item.label) for item in some.train)
    settings: dict[str, Any] = small.run_settings(encoders["bert"], epochs=1, ratio=0.9, baseline=False)
    parts = Splits(long, some.dev, some.test)
    return train(parts, long="truncate", discretizer=request.param, progress=SILENT, **settings)


def lengthened(document: Document) -> Document:
    return Document.from_words([*document.words, *["film"] * LONG], id=document.id)


def test_a_word_that_was_not_read_is_neither_kept_nor_dropped(truncating: Rationalizer, toy: Splits) -> None:
    explained = truncating.explain([lengthened(example.document) for example in toy.test])
    assert all(0 < np.flatnonzero(item.mask.kept)[-1] < 62 for item in explained)
    long = [replace(item, document=lengthened(item.document), human=None) for item in toy.test]
    rows = {row.name: row.kept for row in evaluate(truncating, long).report.rows}
    assert rows["complement, same predictor"] == 0  # every word that was read is kept
    endless, bad = Document.from_words(["film"] * 5000), BadRows()
    assert list(drop_too_long(iter([endless]), truncating, bad)) == [endless]
    assert bad.count == 0
    assert 0 < truncating.explain(endless).mask.kept.sum() <= 62


def test_a_predictor_reads_every_word_that_is_shown(truncating: Rationalizer, toy: Splits) -> None:
    explained = truncating.explain([lengthened(example.document) for example in toy.test])
    texts = [*(Text(item.rationale.words) for item in explained), Text(("film",) * LONG)]
    table = truncating.predictor.classifier.tokenizer(texts)
    assert table.n_read.tolist() == table.n_words.tolist() == [len(text.words) for text in texts]

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import small
from fresh.attribution.random import Random
from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.document import Document, Example, Explanation, Mask, Saliency
from fresh.evaluation.baselines import cut_all
from fresh.evaluation.measures import (
    AGREEMENT_MEASURES,
    Answers,
    _agreement_measures,
    _calibration_measures,
    compute_measures,
    read_at_lengths,
)
from fresh.metrics.bootstrap import Interval, number_texts
from fresh.metrics.classification import brier_scores, calibration, confusion_matrix, macro_f1
from fresh.metrics.faithfulness import AOPC_RATIOS, Readings, aopc, drops
from fresh.metrics.plausibility import measure_agreement
from fresh.predictor import Predictor
from fresh.rationale import Prediction
from fresh.rationalizer import Rationalizer
from fresh.reporting.report import Figures
from fresh.selection.discretizers import GlobalTopK, Threshold, TopK
from fresh.selection.extractors import FullText, HumanRationales, SaliencyExtractor, with_ratio

LABELS = ("neg", "pos")


def measure(
    model: Rationalizer, examples: Sequence[Example], support: SupportModel | None = None
) -> tuple[Figures, list[Explanation], Answers | None, Answers]:
    """Measure everything of a model; also return what it was measured on."""
    documents = [item.document for item in examples]
    explained = model.explain(documents)
    full = None if support is None else support.predict(documents)
    dropped = model.predictor.predict([item.document.cut(~item.mask) for item in explained])
    by_ratio = read_at_lengths(model, explained, [Mask.full(len(item.mask)) for item in explained])
    complements = {"same predictor": dropped} if support else {}
    return compute_measures(LABELS, examples, explained, full, complements, by_ratio), explained, full, dropped


def test_each_figure_is_what_one_computes_by_hand(model: Rationalizer, toy: Splits, support: SupportModel) -> None:
    found, explained, full, dropped = measure(model, toy.test, support)
    gold, answers = [item.label for item in toy.test], [item.prediction for item in explained]
    assert full is not None
    assert found.labels == LABELS
    assert np.array_equal(found.confusion, confusion_matrix(gold, [answer.label for answer in answers], LABELS))
    assert [replace(one, accuracy_between=None) for one in found.bins] == list(calibration(gold, answers).bins)
    assert [one.accuracy_between is None for one in found.bins] == [one.count == 0 for one in found.bins]
    assert {measure.name: measure.figure.value for measure in found.calibration} == {
        "expected calibration error": pytest.approx(calibration(gold, answers).error),
        "Brier score": pytest.approx(brier_scores(gold, answers).mean()),
    }
    by_ratio = {ratio: read_at(model, explained, ratio) for ratio in AOPC_RATIOS}
    overall = aopc(by_ratio).overall
    assert {measure.name: measure.figure.value for measure in found.faithfulness} == {
        "from full text to rationale (two networks)": pytest.approx(drops(full, answers).mean()),
        "comprehensiveness (same predictor)": pytest.approx(drops(answers, dropped).mean()),
        "sufficiency, AOPC": pytest.approx(overall.sufficiency.mean()),
        "comprehensiveness, AOPC (same predictor)": pytest.approx(overall.comprehensiveness.mean()),
    }
    scores = [macro_f1(gold, [item.label for item in read.rationales], LABELS) for read in by_ratio.values()]
    assert [score.ratio for score in found.lengths] == list(AOPC_RATIOS)
    assert [score.macro_f1.value for score in found.lengths] == pytest.approx(scores)


def read_at(model: Rationalizer, explained: Sequence[Explanation], ratio: float) -> Readings:
    """Read rationales of another length, and what they leave."""
    documents = [item.document for item in explained]
    masks = with_ratio(model.extractor, ratio).extract(documents)
    kept, left = (model.predictor.predict(cut_all(documents, own)) for own in (masks, [~mask for mask in masks]))
    return Readings([item.prediction for item in explained], kept, left)


def test_agreement_is_measured_where_people_marked_words(model: Rationalizer, toy: Splits) -> None:
    examples = [*toy.test[:6], *(Example(item.document, item.label) for item in toy.test[6:])]
    explained = model.explain([item.document for item in examples])
    found = compute_measures(LABELS, examples, explained, None, {}, {})
    expected = measure_agreement(toy.test[:6], explained[:6])
    words = expected.token_macro
    assert found.n_marked == 6
    assert [measure.name for measure in found.agreement] == list(AGREEMENT_MEASURES)
    assert [measure.figure.value for measure in found.agreement] == pytest.approx(
        [words.precision, words.recall, words.f1, expected.iou_macro.f1, expected.auprc]
    )


def test_without_people_scores_or_full_text_less_is_measured(predictor: Predictor, toy: Splits) -> None:
    for extractor in (FullText(), HumanRationales.of(toy.test)):
        found, *_ = measure(Rationalizer(extractor, predictor), [small.unmarked(item) for item in toy.test])
        assert (found.agreement, found.n_marked, found.faithfulness, found.lengths) == ((), 0, (), ())
    found, *_ = measure(Rationalizer(extractor, predictor), toy.test)  # people agree with themselves
    assert [(one.name, one.figure.value) for one in found.agreement] == [(name, 1) for name in AGREEMENT_MEASURES[:4]]


def document(number: int, n_words: int) -> Document:
    return Document.from_words([f"{number}-{place}" for place in range(n_words)], id=str(number))


def explain(example: Example, mask: Mask) -> Explanation:
    return Explanation(example.document, mask, example.document.cut(mask), Prediction("pos", {"pos": 1.0}))


def test_intervals_hold_the_figure_and_are_narrower_with_more_documents() -> None:
    generator = np.random.default_rng(0)

    def widths(n: int) -> list[float]:
        examples, explained = [], []
        for number in range(n):
            human, kept = generator.random((2, 20)) < 0.3
            human[0] = kept[0] = True
            examples.append(Example(document(number, 20), "pos", Mask(human)))
            saliency = Saliency(kept + generator.random(20), "pos")
            explained.append(replace(explain(examples[-1], Mask(kept)), saliency=saliency))
        measures = _agreement_measures(examples, explained, None)
        assert all(item.figure.low <= item.figure.value <= item.figure.high for item in measures)
        return [item.figure.high - item.figure.low for item in measures]

    assert all(few > 2 * many > 0 for few, many in zip(widths(20), widths(500), strict=True))


def test_the_interval_of_the_calibration_error_is_that_of_resampled_answers() -> None:
    gold = ["pos"] * 30 + ["neg"] * 70
    answers = [Prediction("pos", {"pos": 0.75, "neg": 0.25})] * 100
    found = _calibration_measures(gold, answers)[0]
    assert found.value == pytest.approx(0.75 - 0.3)
    assert found.low == pytest.approx(0.75 - 0.39, abs=0.02)  # the share of right answers varies by .046
    assert found.high == pytest.approx(0.75 - 0.21, abs=0.02)


def test_the_error_of_a_calibrated_model_is_not_far_from_its_interval() -> None:
    generator = np.random.default_rng(1)
    for _ in range(8):
        sure = generator.uniform(0.5, 1, size=200)
        gold = np.where(generator.random(200) < sure, "pos", "neg").tolist()
        answers = [Prediction("pos", {"pos": share, "neg": 1 - share}) for share in sure]
        found, _ = _calibration_measures(gold, answers)
        assert found.low <= found.value <= found.high


def test_the_share_of_right_answers_in_a_bin_has_an_interval() -> None:
    gold = ["pos"] * 80 + ["neg"] * 20 + ["neg"]
    sure, unsure = Prediction("pos", {"pos": 0.85, "neg": 0.15}), Prediction("pos", {"pos": 0.55, "neg": 0.45})
    bins = [one for one in _calibration_measures(gold, [*[sure] * 100, unsure])[1] if one.count]
    assert [one.accuracy for one in bins] == [0, 0.8]
    few, many = (one.accuracy_between for one in bins)
    assert few == pytest.approx((0, 0))  # where it is in no resample, it is not measured
    assert many == pytest.approx((0.8 - 1.96 * 0.04, 0.8 + 1.96 * 0.04), abs=0.015)


@pytest.mark.parametrize("cut", [Threshold(0.5), GlobalTopK(0.2)])
def test_words_are_ranked_at_every_length_whatever_cuts_them(cut: Any, predictor: Predictor, toy: Splits) -> None:
    model = Rationalizer(SaliencyExtractor(Random(), cut), predictor)
    explained = model.explain([item.document for item in toy.test])
    found = read_at_lengths(model, explained, [Mask.full(len(item.mask)) for item in explained])
    masks = TopK(0.2).select([item.saliency for item in explained if item.saliency is not None])
    assert found[0.2].rationales == predictor.predict(cut_all([item.document for item in explained], masks))


@pytest.mark.parametrize("joined", [True, False])
def test_what_belongs_to_one_document_or_text_is_drawn_together(joined: bool) -> None:
    """Two parts of each document, or two documents of each text, agree half and not at all: their mean never varies."""
    examples: list[Example] = []
    for number in range(10):
        text = document(number if joined else number // 2, 4)
        half, none = Mask.from_spans([(0, 2)], 4), Mask.from_spans([(2, 4)], 4)
        parts = (("x", 2), ("y", 2)) if joined else ()
        human = Mask.full(4) if joined else (half, none)[number % 2]
        examples.append(Example(replace(text, parts=parts), "pos", human))
    explained = [explain(item, Mask.from_spans([(0, 2)], 4)) for item in examples]
    texts = number_texts(item.document.words for item in examples)
    found = {measure.name: measure.figure for measure in _agreement_measures(examples, explained, texts)}
    assert found["token recall"] == Interval(0.5, 0.5, 0.5)


def test_every_interval_draws_whole_texts(model: Rationalizer, toy: Splits, support: SupportModel) -> None:
    """Asked nine times, each text gives the intervals that it gives when it is asked once, or nearly."""

    def intervals(examples: Sequence[Example]) -> dict[str, Interval]:
        found, *_ = measure(model, examples, support)
        measures = (*found.calibration, *found.agreement, *found.faithfulness)
        lengths = {f"at {score.ratio}": score.macro_f1 for score in found.lengths}
        return {measure.name: measure.figure for measure in measures} | lengths

    once, often = intervals(toy.test[:20]), intervals(toy.test[:20] * 9)
    for name, figure in once.items():
        assert often[name].value == pytest.approx(figure.value)
        assert often[name].bounds == pytest.approx(figure.bounds, abs=0.15 * (figure.high - figure.low) + 1e-9)
    assert sum(figure.high > figure.low for figure in once.values()) > 8

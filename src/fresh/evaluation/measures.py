"""Figures of a model beside its scores: calibration, agreement with people, faithfulness, and scores by length."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fresh.document import Example, Explanation, Mask
from fresh.evaluation.baselines import cut_all, dropped_masks, is_contiguous
from fresh.metrics import bootstrap, classification
from fresh.metrics.bootstrap import Floats, Interval, Ints, LengthScore, Measure
from fresh.metrics.classification import Bin
from fresh.metrics.faithfulness import AOPC_RATIOS, Readings, aopc, drops
from fresh.metrics.plausibility import Agreement, measure_agreement, score_agreement
from fresh.progress import SILENT, Progress
from fresh.rationale import Prediction
from fresh.rationalizer import Rationalizer
from fresh.reporting.report import Figures
from fresh.selection.discretizers import Contiguous, TopK
from fresh.selection.extractors import select_masks

# Measures of agreement with people, in the order in which they are shown.
AGREEMENT_MEASURES = ("token precision", "token recall", "token F1", "IoU-F1 at .5", "AUPRC of scores")
Answers = Sequence[Prediction]


def compute_measures(
    labels: tuple[str, ...],
    examples: Sequence[Example],
    explained: Sequence[Explanation],
    full: Answers | None,
    complements: Mapping[str, Answers],
    by_ratio: Mapping[float, Readings],
) -> Figures:
    """Compute every measure that is possible.

    :param full: Predictions from full text.
    :param complements: Predictions from the complement, by who read it.
    :param by_ratio: Predictions from rationales of several lengths, and from their complements.
    """
    gold, answers = [item.label for item in examples], [item.prediction for item in explained]
    texts = bootstrap.number_texts(item.document.words for item in examples)
    n_marked = sum(item.human is not None for item in examples)
    error, bins = _calibration_measures(gold, answers, texts)
    numbers = bootstrap.number_labels(gold, labels)
    confusion = classification.confusion_matrix(gold, [answer.label for answer in answers], labels)
    losses: dict[str, Floats] = {}
    # Sufficiency at the model's own length is left out: the prediction is read from the rationale, so it is 0.
    if full is not None:
        losses["from full text to rationale (two networks)"] = drops(full, answers)
    # From the model's own answer: measured from the support model's, losses showed how the two networks differ (-.032
    # on toy data where both are always right).
    for reader, others in complements.items():
        losses[f"comprehensiveness ({reader})"] = drops(answers, others)
    if by_ratio:
        overall = aopc(by_ratio).overall
        losses["sufficiency, AOPC"] = overall.sufficiency
        losses["comprehensiveness, AOPC (same predictor)"] = overall.comprehensiveness
    lengths: list[LengthScore] = []
    for ratio, readings in by_ratio.items():
        predicted = bootstrap.number_labels([answer.label for answer in readings.rationales], labels)
        lengths.append(LengthScore(ratio, bootstrap.macro_f1_interval(numbers, predicted, len(labels), texts=texts)))
    return Figures(
        labels=labels,
        confusion=tuple(map(tuple, confusion.tolist())),
        calibration=(
            Measure("expected calibration error", error),
            Measure("Brier score", bootstrap.mean_interval(classification.brier_scores(gold, answers), texts=texts)),
        ),
        bins=bins,
        agreement=_agreement_measures(examples, explained, texts) if n_marked else (),
        n_marked=n_marked,
        faithfulness=tuple(Measure(name, bootstrap.mean_interval(row, texts=texts)) for name, row in losses.items()),
        lengths=tuple(lengths),
    )


def _calibration_measures(
    gold: Sequence[str], answers: Answers, texts: Ints | None = None
) -> tuple[Interval, tuple[Bin, ...]]:
    """Compute the expected calibration error, and the accuracy of each bin, with their intervals.

    :param texts: Number of the text of each prediction, where several share one; then whole texts are resampled.
    """
    places, confidences, right = classification.assign_bins(gold, answers)
    gaps, bins = confidences - right, classification.calibration(gold, answers).bins
    filled = np.unique(places)  # an empty bin has no accuracy to resample
    errors: list[float] = []
    shares: list[Floats] = []
    for rows in bootstrap.draw_rows(len(gold), bootstrap.N_RESAMPLES, 0, texts):
        errors.append(classification.calibration_error(places[rows], gaps[rows]))
        # A resample may leave a bin empty, which says nothing about its accuracy: NaN is left out of the interval.
        n_answers, n_right = (
            np.bincount(places[rows], weights, minlength=len(bins))[filled] for weights in (None, right[rows])
        )
        shares.append(np.where(n_answers > 0, n_right / np.maximum(n_answers, 1), np.nan))
    draws = np.array(errors)
    # Gaps add up whatever their sign, so a resample has a larger error than the sample: subtract the mean excess.
    draws[1:] = np.maximum(0, draws[1:] - max(0, draws[1:].mean() - draws[0]))
    between = dict(zip(filled.tolist(), bootstrap.percentile_intervals(np.array(shares)), strict=True))
    return bootstrap.percentile_interval(draws), tuple(
        replace(one, accuracy_between=between[place].bounds) if one.count else one for place, one in enumerate(bins)
    )


def _agreement_measures(
    examples: Sequence[Example], explained: Sequence[Explanation], texts: Ints | None
) -> tuple[Measure, ...]:
    """Measure agreement where people marked words; texts that were joined to one document are resampled together."""
    counts = measure_agreement(examples, explained).counts
    # An instance is one text of a joined document: resampling it alone would take it for independent of the others.
    groups = counts.example if texts is None else texts[counts.example]
    rows = bootstrap.draw_rows(len(groups), bootstrap.N_RESAMPLES, 0, groups)
    draws = [agreement_figures(score_agreement(counts.take(drawn))) for drawn in rows]
    return tuple(
        Measure(name, bootstrap.percentile_interval(np.array([draw[name] for draw in draws if name in draw])))
        for name in draws[0]
    )


def agreement_figures(found: Agreement) -> dict[str, float]:
    """Return the measures of agreement by name."""
    words = found.token_macro
    values = (words.precision, words.recall, words.f1, found.iou_macro.f1, found.auprc)
    return {name: value for name, value in zip(AGREEMENT_MEASURES, values, strict=True) if value is not None}


def read_at_lengths(
    model: Rationalizer, explained: Sequence[Explanation], read: Sequence[Mask], progress: Progress = SILENT
) -> dict[float, Readings]:
    """Have the predictor read rationales of several lengths, and their complements, where words have scores.

    Words are ranked one by one, or in runs if the model selects runs, whatever discretizer decides on the length.

    :param read: The words of each document that were read when they were scored.
    """
    saliencies = [item.saliency for item in explained if item.saliency is not None]
    if not saliencies:
        return {}
    # The discretizer of the model may decide on lengths itself, so its own kind of selection is redone at each ratio.
    discretizer = Contiguous if is_contiguous(model.extractor) else TopK
    answers, documents = [item.prediction for item in explained], [item.document for item in explained]
    by_ratio: dict[float, Readings] = {}
    with progress.task("reading less", len(AOPC_RATIOS) * len(explained)) as advance:
        for ratio in AOPC_RATIOS:
            masks = select_masks(discretizer(ratio), saliencies)
            parts = (cut_all(documents, chosen) for chosen in (masks, dropped_masks(read, masks)))
            by_ratio[ratio] = Readings(answers, *map(model.predictor.predict, parts))
            advance(len(explained), "")
    return by_ratio

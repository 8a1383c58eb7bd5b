"""Figures of a model beside its row of the table: how sure it is, what people say, what less reading costs, lengths."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fresh.document import Example, Explanation, Mask
from fresh.evaluation.baselines import dropped_masks
from fresh.evaluation.random_words import is_contiguous
from fresh.metrics.bootstrap import N_RESAMPLES, interval, intervals, macro_f1_interval, mean_interval, numbered
from fresh.metrics.classification import Bin, binned, brier_scores, calibration, calibration_error, confusion
from fresh.metrics.estimate import Interval, LengthScore, Measure
from fresh.metrics.faithfulness import AOPC_RATIOS, Readings, aopc, drops
from fresh.metrics.plausibility import Agreement, agreement, compare
from fresh.metrics.resampling import Numbers, Values, draw_rows, number_texts
from fresh.progress import SILENT, Progress
from fresh.rationale import Prediction
from fresh.rationalizer import Rationalizer
from fresh.reporting.report import Figures
from fresh.selection.discretizers import Contiguous, TopK
from fresh.selection.extractors import select_masks

AGREEMENT = ("token precision", "token recall", "token F1", "IoU-F1 at .5", "AUPRC of scores")
"""Figures of agreement with people, in the order in which they are shown."""
Answers = Sequence[Prediction]


def compute_measures(
    model: Rationalizer,
    examples: Sequence[Example],
    explained: Sequence[Explanation],
    full: Answers | None = None,
    complements: Mapping[str, Answers] | None = None,
    by_ratio: Mapping[float, Readings] | None = None,
) -> Figures:
    """Measure all that can be.

    :param full: Answers of a model of full text.
    :param complements: Answers to what was dropped, by who read it.
    :param by_ratio: Answers to rationales of several lengths, and to what they leave.
    """
    gold, answers = [item.label for item in examples], [item.prediction for item in explained]
    by_ratio, texts = by_ratio or {}, number_texts(item.document.words for item in examples)
    marked = [pair for pair in zip(examples, explained, strict=True) if pair[0].human is not None]
    table = confusion(gold, [answer.label for answer in answers], model.labels)
    return Figures(
        labels=model.labels,
        confusion=tuple(map(tuple, table.tolist())),
        calibration=(
            Measure("expected calibration error", _error_interval(gold, answers, texts)),
            Measure("Brier score", mean_interval(brier_scores(gold, answers), texts=texts)),
        ),
        bins=tuple(_bins_with_bounds(gold, answers, texts)),
        agreement=_agreement_measures(*unzipped(marked)) if marked else (),
        n_marked=len(marked),
        faithfulness=tuple(_faithfulness_measures(answers, full, complements or {}, by_ratio, texts)),
        lengths=tuple(
            _length_score(ratio, gold, read.rationales, model.labels, texts) for ratio, read in by_ratio.items()
        ),
    )


def unzipped(pairs: Sequence[tuple[Example, Explanation]]) -> tuple[list[Example], list[Explanation]]:
    """Take pairs apart."""
    return [example for example, _ in pairs], [explanation for _, explanation in pairs]


def _error_interval(gold: Sequence[str], answers: Answers, texts: Numbers | None = None) -> Interval:
    """Compute the expected calibration error and how far it may be off.

    Errors of resamples are larger than the error itself, since gaps add up whatever their sign: the mean excess is
    taken off.

    :param texts: Number of the text of each answer, where several have one text; then whole texts are drawn.
    """
    places, confidences, right = binned(gold, answers)
    gaps = confidences - right
    rows = draw_rows(len(gold), N_RESAMPLES, 0, texts)
    draws = np.array([calibration_error(places[drawn], gaps[drawn]) for drawn in rows])
    value = calibration_error(places, gaps)
    return interval(value, np.maximum(0, draws - max(0, draws.mean() - value)))


def _bins_with_bounds(gold: Sequence[str], answers: Answers, texts: Numbers | None = None) -> Iterator[Bin]:
    """Sort answers by how sure the model was, and say how far the share of right ones in each bin may be off."""
    places, _, right = binned(gold, answers)
    bins = calibration(gold, answers).bins
    filled = np.flatnonzero([one.count for one in bins])

    def shares(rows: Numbers) -> Values:
        counts = np.bincount(places[rows], minlength=len(bins))[filled]
        hits = np.bincount(places[rows], weights=right[rows], minlength=len(bins))[filled]
        return np.asarray(np.divide(hits, counts, out=np.full(len(filled), np.nan), where=counts > 0))

    draws = np.array([shares(rows) for rows in draw_rows(len(gold), N_RESAMPLES, 0, texts)])
    found = dict(zip(filled.tolist(), intervals(shares(np.arange(len(gold))), draws), strict=True))
    for place, one in enumerate(bins):
        yield replace(one, accuracy_between=found[place].bounds) if place in found else one


def _agreement_measures(examples: Sequence[Example], explained: Sequence[Explanation]) -> tuple[Measure, ...]:
    """Name the figures of agreement, each with its interval; texts that were joined to one document stay together."""
    found = compare(examples, explained)
    texts = number_texts(example.document.words for example in examples)
    whole = found.tally.example if texts is None else texts[found.tally.example]
    rows = draw_rows(len(whole), N_RESAMPLES, 0, whole)
    draws = [named(agreement(found.tally.take(drawn))) for drawn in rows]
    measures: list[Measure] = []
    for name, value in named(found).items():
        values = [draw[name] for draw in draws if name in draw]
        measures.append(Measure(name, interval(value, np.array(values))))
    return tuple(measures)


def named(found: Agreement) -> dict[str, float]:
    """List the figures of agreement by their names."""
    words = found.token_macro
    values = (words.precision, words.recall, words.f1, found.iou_macro.f1, found.auprc)
    return {name: value for name, value in zip(AGREEMENT, values, strict=True) if value is not None}


def read_at_lengths(
    model: Rationalizer, explained: Sequence[Explanation], read: Sequence[Mask], progress: Progress = SILENT
) -> dict[float, Readings]:
    """Have the predictor read rationales of several lengths, and what they leave, where words are ranked by scores.

    Words are ranked one by one, or in runs if the model keeps runs, whatever else decides on the length.

    :param read: The words of each document that were read when they were scored.
    """
    saliencies = [item.saliency for item in explained if item.saliency is not None]
    if not saliencies:
        return {}
    cut = Contiguous if is_contiguous(model.extractor) else TopK
    answers = [item.prediction for item in explained]
    found: dict[float, Readings] = {}
    with progress.task("reading less", len(AOPC_RATIOS) * len(explained)) as advance:
        for ratio in AOPC_RATIOS:
            masks = select_masks(cut(ratio), saliencies)
            documents = [item.document for item in explained]
            rationales, complements = (
                model.predictor.predict([item.cut(mask) for item, mask in zip(documents, given, strict=True)])
                for given in (masks, dropped_masks(read, masks))
            )
            found[ratio] = Readings(answers, rationales, complements)
            advance(len(explained), "")
    return found


def _length_score(
    ratio: float, gold: Sequence[str], answers: Answers, labels: Sequence[str], texts: Numbers | None
) -> LengthScore:
    """Measure the answers to rationales of one length."""
    numbers = numbered(gold, labels), numbered([answer.label for answer in answers], labels)
    return LengthScore(ratio, macro_f1_interval(*numbers, len(labels), texts=texts))


def _faithfulness_measures(
    answers: Answers,
    full: Answers | None,
    complements: Mapping[str, Answers],
    by_ratio: Mapping[float, Readings],
    texts: Numbers | None,
) -> Iterator[Measure]:
    """Name what less reading costs, each with its interval."""
    if full is not None:
        yield Measure("from full text to rationale (two networks)", mean_interval(drops(full, answers), texts=texts))
    for who, others in complements.items():
        yield Measure(f"comprehensiveness ({who})", mean_interval(drops(answers, others), texts=texts))
    if by_ratio:
        overall = aopc(by_ratio).overall
        yield Measure("sufficiency, AOPC", mean_interval(overall.sufficiency, texts=texts))
        comprehensiveness = mean_interval(overall.comprehensiveness, texts=texts)
        yield Measure("comprehensiveness, AOPC (same predictor)", comprehensiveness)

"""A run of a grid: its model trained, and tested."""

import contextlib
import time
from collections.abc import Iterator, Sequence

from torch import nn

from fresh.data.splits import Splits
from fresh.document import Document, Example, Explanation, Mask
from fresh.evaluation.evaluation import GoldLabels, explain_all, share_unread
from fresh.evaluation.measures import AGREEMENT_MEASURES, agreement_figures
from fresh.experiments.artifacts import Known
from fresh.experiments.grid import RunSpec
from fresh.experiments.results import EXPLAIN_SECONDS
from fresh.methods.baselines import train_full_text
from fresh.methods.config import FreshConfig, FullTextConfig
from fresh.methods.fresh import train_scored
from fresh.methods.rationales import SUPPORT, cut_examples, has_rationale, score_and_cut
from fresh.methods.registry import MethodResult, train_method
from fresh.metrics.plausibility import measure_agreement
from fresh.pipeline import RunSettings
from fresh.predictor import Predictor
from fresh.progress import SILENT
from fresh.rationale import Prediction
from fresh.rationalizer import Rationalizer
from fresh.selection.extractors import SaliencyExtractor
from fresh.selection.tagger import Tagger
from fresh.training.config import TrainConfig
from fresh.training.loop import RunContext, inference_precision

FIGURES = (
    *("macro-F1", "macro-F1 low", "macro-F1 high", "accuracy", "kept", "kept by gate", "dev macro-F1", "unread"),
    *AGREEMENT_MEASURES,
)
"""What is measured of a run, as far as it can be, beside how long it takes."""

Measured = tuple[dict[str, float], dict[str, float]]
"""Figures, and times."""


def train(splits: Splits, cell: RunSpec, run: RunSettings, known: Known | None, context: RunContext) -> MethodResult:
    """Train a model, from scores that are known where there are any."""
    if known is not None and isinstance(run.method, FreshConfig):
        return train_scored(splits, run.method, known, context)
    if isinstance(run.method, FullTextConfig):
        return train_full_text(splits, run.method, context, SUPPORT)
    return train_method(cell.method, splits, run.method, context, None)


def measure(splits: Splits, trained: MethodResult, config: TrainConfig) -> Measured:
    """Measure a model on test, and on dev, with the numbers that it was trained with."""
    with contextlib.ExitStack() as stack:
        for network in _networks_of(trained.model):
            stack.enter_context(inference_precision(network, config))
        return _measure_trained(splits, trained)


def _networks_of(model: Rationalizer) -> Iterator[nn.Module]:
    """List the networks of a model, of those that are at hand."""
    yield model.predictor.classifier
    scorer = model.extractor.scorer if isinstance(model.extractor, SaliencyExtractor) else None
    if isinstance(scorer, Tagger):
        yield scorer.network


def _measure_trained(splits: Splits, trained: MethodResult) -> Measured:
    """Measure a model."""
    model = trained.model
    documents = [example.document for example in splits.test]
    started = time.perf_counter()
    explained = explain_all(model, documents, SILENT, "")
    seconds = time.perf_counter() - started
    on_dev = model.predictor.predict([rationale for rationale, _ in cut_examples(splits.dev, trained.dev_masks)])
    answers, masks = [item.prediction for item in explained], [item.mask for item in explained]
    figures = {
        **_figures_of(splits, answers, masks, on_dev),
        **agreed(splits.test, explained),
        **({} if trained.kept_by_gate is None else {"kept by gate": trained.kept_by_gate}),
        "unread": _unread_by(model, documents),
    }
    return figures, {EXPLAIN_SECONDS: seconds}


def _unread_by(model: Rationalizer, documents: Sequence[Document]) -> float:
    """Compute the share of all words that truncating leaves unread, also where only scores are left of who reads."""
    scorer = model.extractor.scorer if isinstance(model.extractor, SaliencyExtractor) else None
    return scorer.share_unread(documents) if isinstance(scorer, Known) else share_unread(model, documents)


def measure_complement(splits: Splits, run: RunSettings, known: Known | None, context: RunContext) -> Measured:
    """Train and test a predictor that reads what was dropped."""
    assert isinstance(run.method, FreshConfig)
    assert known is not None
    marked = score_and_cut(splits, run.method, known, context, None)
    kept = marked.masks, marked.dev_masks, marked.extractor.extract([example.document for example in splits.test])
    dropped = [[~mask for mask in masks] for masks in kept]
    cuts = [
        cut_examples(part, masks) for part, masks in zip((splits.train, splits.dev, splits.test), dropped, strict=True)
    ]
    predictor = Predictor.train(cuts[0], cuts[1], run.method, context.with_name("complement"))
    with inference_precision(predictor.classifier, run.method.train):
        on_dev, on_test = (predictor.predict([rationale for rationale, _ in cut]) for cut in cuts[1:])
    return _figures_of(splits, on_test, dropped[2], on_dev), {}


def _figures_of(
    splits: Splits, answers: Sequence[Prediction], masks: Sequence[Mask], on_dev: Sequence[Prediction]
) -> dict[str, float]:
    """Hold answers against gold labels."""
    found = GoldLabels.of(splits.test, splits.labels).masked_row("", answers, masks)
    low, high = found.macro_f1_between or (found.macro_f1, found.macro_f1)
    return {
        "macro-F1": found.macro_f1,
        "macro-F1 low": low,
        "macro-F1 high": high,
        "accuracy": found.accuracy,
        "kept": found.kept,
        "dev macro-F1": GoldLabels.of(splits.dev, splits.labels).row("", on_dev, 0.0).macro_f1,
    }


def agreed(examples: Sequence[Example], explained: Sequence[Explanation]) -> dict[str, float]:
    """Measure how far rationales are what people marked, where they marked anything."""
    marked = [pair for pair in zip(examples, explained, strict=True) if has_rationale(pair[0])]
    return (
        agreement_figures(measure_agreement([example for example, _ in marked], [item for _, item in marked]))
        if marked
        else {}
    )

"""A run of a grid: its model trained, and tested."""

import time
from collections.abc import Sequence

from fresh.agreement import compare
from fresh.data import Splits
from fresh.document import Example, Explanation
from fresh.evaluate import explain_all, measured, row, share_unread
from fresh.experiment.grid import Cell
from fresh.experiment.shared import Known
from fresh.figures import named, unzipped
from fresh.methods.fresh import train_scored
from fresh.methods.marking import has_rationale, score_and_cut
from fresh.methods.named import train_method
from fresh.methods.outcome import Trained, cut_all
from fresh.methods.settings import FreshConfig
from fresh.predictor import Predictor
from fresh.progress import SILENT
from fresh.recipe import Run
from fresh.report import Row
from fresh.training import Watch


def train(splits: Splits, cell: Cell, run: Run, known: Known | None, watch: Watch) -> Trained:
    """Train a model, from scores that are known where there are any."""
    if known is not None and isinstance(run.method, FreshConfig):
        return train_scored(splits, run.method, known, watch)
    return train_method(cell.method, splits, run.method, watch, None)


def measure(splits: Splits, trained: Trained) -> dict[str, float]:
    """Measure a model on test, and on dev."""
    model = trained.model
    documents = [example.document for example in splits.test]
    started = time.perf_counter()
    explained = explain_all(model, documents, SILENT, "")
    seconds = time.perf_counter() - started
    on_dev = model.predictor.predict([rationale for rationale, _ in cut_all(splits.dev, trained.dev_masks)])
    dev = measured("", splits.dev, model.labels, on_dev, 0.0)
    return {
        **figures_of(row("", splits.test, model.labels, explained)),
        "dev macro-F1": dev.macro_f1,
        **agreed(splits.test, explained),
        "unread": share_unread(model, documents),
        "explain seconds": seconds,
    }


def measure_complement(splits: Splits, run: Run, known: Known | None, watch: Watch) -> dict[str, float]:
    """Train and test a predictor that reads what was dropped."""
    assert isinstance(run.method, FreshConfig)
    assert known is not None
    marked = score_and_cut(splits, run.method, known, watch, None)
    cuts = [
        cut_all(part, [~mask for mask in masks])
        for part, masks in (
            (splits.train, marked.masks),
            (splits.dev, marked.dev_masks),
            (splits.test, marked.extractor.extract([example.document for example in splits.test])),
        )
    ]
    predictor = Predictor.train(cuts[0], cuts[1], run.method.classifier, watch.named("complement"))
    rows = [
        measured("", part, splits.labels, predictor.predict([rationale for rationale, _ in cut]), 0.0)
        for part, cut in ((splits.dev, cuts[1]), (splits.test, cuts[2]))
    ]
    n_words = sum(len(example.document.words) for example in splits.test)
    kept = sum(len(rationale.words) for rationale, _ in cuts[2]) / n_words
    return {**figures_of(rows[1]), "kept": kept, "dev macro-F1": rows[0].macro_f1}


def figures_of(found: Row) -> dict[str, float]:
    """Name the figures of a row."""
    low, high = found.macro_f1_between or (found.macro_f1, found.macro_f1)
    return {
        "macro-F1": found.macro_f1,
        "macro-F1 low": low,
        "macro-F1 high": high,
        "accuracy": found.accuracy,
        "kept": found.kept,
    }


def agreed(examples: Sequence[Example], explained: Sequence[Explanation]) -> dict[str, float]:
    """Measure how far rationales are what people marked, where they marked anything."""
    marked = [pair for pair in zip(examples, explained, strict=True) if has_rationale(pair[0])]
    return named(compare(*unzipped(marked))) if marked else {}

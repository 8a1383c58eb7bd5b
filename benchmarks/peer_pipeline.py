"""Plain classification with transformers' own pipeline."""

from pathlib import Path

from transformers import pipeline

from fresh.metrics.classification import macro_f1
from fresh.nn.encoder import quiet
from measuring import Outcome, Settings, clocked
from our_side import sentences, warm_up


def run_classification(settings: Settings, folder: Path, n: int, batch_size: int, _seed: int) -> Outcome:
    """Classify raw sentences; what is chosen is the label."""
    with quiet():
        classify = pipeline("text-classification", model=str(folder / "peer"), device=settings.device)
    texts, gold = sentences(settings, n)
    classify(warm_up(settings), batch_size=batch_size)
    found, seconds = clocked(settings.device, lambda: classify(texts, batch_size=batch_size))
    given = [answer["label"] for answer in found]
    labels = list((classify.model.config.id2label or {}).values())
    chosen = tuple((labels.index(label),) for label in given)
    return Outcome(seconds, macro_f1(gold, given, labels), chosen)

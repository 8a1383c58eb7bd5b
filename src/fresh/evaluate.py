"""How well a rationalizer answers, beside full text, random words, what it dropped, and the most frequent class."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fresh.baselines import Baselines, drawn_masks, is_baseline, most_frequent
from fresh.cautions import cautions
from fresh.data import digest_of
from fresh.document import Document, Example, Explanation, Mask
from fresh.eraser_results import write_results
from fresh.extractor import KeepAll, SaliencyExtractor, at_ratio, select_read
from fresh.faithfulness import Readings
from fresh.figures import figures, read_at_lengths
from fresh.lengths import reader_of
from fresh.metrics import accuracy, class_scores, macro_f1
from fresh.progress import SILENT, Progress
from fresh.rationale import Prediction
from fresh.rationalizer import Rationalizer
from fresh.report import Report, Row
from fresh.scorers import scorer_to_dict
from fresh.support import Support, text_of
from fresh.tagger import Tagger
from fresh.uncertainty import accuracy_interval, macro_f1_interval, numbered

TAGGED = {"lei": "Lei et al.", "bastings": "Bastings et al."}
RANDOM, COMPLEMENT = "random words", "complement"
SAME, RETRAINED = "same predictor", "retrained"
"""Who reads them: the predictor of the rationales, or one that was trained for it."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What was measured, and the explanations it was measured on."""

    report: Report
    examples: Sequence[Example]
    explained: Sequence[Explanation]
    complements: Sequence[Prediction] | None = None
    """Answers to what was dropped, if anything was."""
    by_ratio: Mapping[float, Readings] = field(default_factory=dict)
    """Answers to rationales of several lengths, and to what they leave."""

    def write_eraser(self, path: Path) -> None:
        """Write answers and rationales as the scorer of the ERASER benchmark reads them.

        The scorer measures what less reading costs from the answers in the file, which are those to the rationales.
        """
        own = [item.prediction for item in self.explained]
        readings = None if self.complements is None else Readings(own, own, self.complements)
        write_results(path, self.explained, readings, (self.by_ratio or None) if readings else None)


def evaluate(
    rationalizer: Rationalizer,
    examples: Sequence[Example],
    progress: Progress = SILENT,
    baselines: Baselines | None = None,
) -> Report:
    """Measure a rationalizer on labelled documents.

    :param baselines: What was trained to compare with. Without a predictor of random words, or of what was dropped, the
        predictor at hand reads these; full text is read by the support model, if there is one.
    """
    return evaluate_whole(rationalizer, examples, progress, baselines).report


def evaluate_whole(
    rationalizer: Rationalizer,
    examples: Sequence[Example],
    progress: Progress = SILENT,
    baselines: Baselines | None = None,
) -> Evaluation:
    """Measure as :func:`evaluate` does, and return the explanations too."""
    if not examples:
        raise ValueError("There are no documents to measure on. Give some that can be used.")
    check_labels(rationalizer, examples)
    beside, labels = baselines or Baselines(), rationalizer.labels
    if beside.full_text is None:
        beside = replace(beside, full_text=own_support(rationalizer))
    documents = [example.document for example in examples]
    explained = explain_all(rationalizer, documents, progress, "explaining")
    full = beside.read_all(documents, progress)
    others = read_others(rationalizer, beside, explained, progress)
    rows = [] if full is None else [measured(full_text_name(beside), examples, labels, full, 1.0)]
    rows.append(replace(row(name_of(rationalizer), examples, labels, explained), own=True))
    rows += [row_at(rationalizer, examples, explained, ratio) for ratio in rationalizer.ratios or ()]
    rows += [measured(item.name, examples, labels, item.answers, item.kept) for item in others]
    rows.append(majority_row(examples, labels, beside.majority or most_frequent(examples)))
    dropped = {item.reader: item.answers for item in others if item.name.startswith(COMPLEMENT)}
    by_ratio = read_at_lengths(rationalizer, explained, progress)
    details = figures(rationalizer, examples, explained, full, dropped, by_ratio)
    notes = (*asked_often(documents), *cautions(rationalizer, examples))
    unread, digest = share_unread(rationalizer, documents), digest_of(examples)
    report = Report(len(examples), tuple(rows), unread, notes, details, measured_on=digest)
    return Evaluation(report, examples, explained, next(iter(dropped.values()), None), by_ratio)


def asked_often(documents: Sequence[Document]) -> tuple[str, ...]:
    """Warn of intervals where many documents are one text with several queries."""
    n_texts = len({document.words for document in documents})
    if n_texts == len(documents):
        return ()
    told = f"{len(documents):,} documents are only {n_texts:,} different texts"
    return (f"{told}. Intervals and tests take documents as independent, so they are too narrow here.",)


class Other(NamedTuple):
    """Answers to something else than the rationales."""

    name: str
    reader: str
    """Who read it."""
    kept: float
    answers: list[Prediction]


def read_others(
    rationalizer: Rationalizer, beside: Baselines, explained: Sequence[Explanation], progress: Progress
) -> list[Other]:
    """Have random words and what was dropped read, by predictors that were trained for it or by the one at hand."""
    if is_baseline(rationalizer):
        return []
    documents, masks = [item.document for item in explained], [item.mask for item in explained]
    drawn = drawn_masks(rationalizer, documents, masks)
    dropped = [~mask for mask in masks]
    found: list[Other] = []
    for name, given, trained in ((RANDOM, drawn, beside.random), (COMPLEMENT, dropped, beside.complement)):
        rationales = [document.cut(mask) for document, mask in zip(documents, given, strict=True)]
        with progress.task(name, len(rationales)) as advance:
            answers = (trained or rationalizer.predictor).predict(rationales)
            advance(len(rationales), "")
        reader = SAME if trained is None else RETRAINED
        shown = f"{name}, {SAME}" if trained is None else name
        found.append(Other(shown, reader, share_kept(given), answers))
    return found


def own_support(rationalizer: Rationalizer) -> Support | None:
    """Find the support model, if there is one."""
    return rationalizer.extractor.support if isinstance(rationalizer.extractor, SaliencyExtractor) else None


def full_text_name(beside: Baselines) -> str:
    """Say who read the full text."""
    return "full text (support model)" if isinstance(beside.full_text, Support) else "full text"


def majority_row(examples: Sequence[Example], labels: Sequence[str], label: str) -> Row:
    """Measure what always giving one label, without reading, is worth."""
    sure = Prediction(label, {name: float(name == label) for name in labels})
    return measured(f"majority class ({label})", examples, labels, [sure] * len(examples), 0.0)


def share_unread(rationalizer: Rationalizer, documents: Sequence[Document]) -> float:
    """Compute the share of all words that truncating leaves unread."""
    n_read, _ = reader_of(rationalizer).measure([text_of(document) for document in documents])
    return 1 - float(n_read.sum()) / sum(len(document.words) for document in documents)


def name_of(rationalizer: Rationalizer) -> str:
    """Say in a few words how the words are chosen."""
    extractor = rationalizer.extractor
    if isinstance(extractor, KeepAll):
        return "all words"
    if not isinstance(extractor, SaliencyExtractor):
        return "human rationales"
    if isinstance(extractor.scorer, Tagger):
        return TAGGED.get(str(rationalizer.settings.get("method")), "FRESH (tagger)")
    if rationalizer.settings.get("method") == "random":
        return "random words"
    return f"FRESH ({scorer_to_dict(extractor.scorer)['name']})"


def row_at(
    rationalizer: Rationalizer, examples: Sequence[Example], explained: Sequence[Explanation], ratio: float
) -> Row:
    """Measure a rationalizer that serves many lengths at one of them, from the scores that are there."""
    saliencies = [item.saliency for item in explained if item.saliency is not None]
    masks = select_read(at_ratio(rationalizer.extractor, ratio).discretizer, saliencies)
    rationales = [item.document.cut(mask) for item, mask in zip(explained, masks, strict=True)]
    answers = rationalizer.predictor.predict(rationales)
    return measured(f"the same, at {ratio:g}", examples, rationalizer.labels, answers, share_kept(masks))


def check_labels(rationalizer: Rationalizer, examples: Sequence[Example]) -> None:
    """Refuse labels that the model cannot give."""
    for example in examples:
        if example.label not in rationalizer.labels:
            raise ValueError(
                f"Document {example.document.id!r} has the label {example.label!r}, which this model was not trained "
                f"for. It knows: {', '.join(rationalizer.labels)}. Leave such documents out, or train a model for them."
            )


def explain_all(
    rationalizer: Rationalizer,
    documents: Sequence[Document],
    progress: Progress,
    name: str,
) -> list[Explanation]:
    """Explain documents while somebody watches."""
    found: list[Explanation] = []
    with progress.task(name, len(documents)) as advance:
        for explanation in rationalizer.explain_stream(iter(documents)):
            found.append(explanation)
            advance(1, "")
    return found


def row(name: str, examples: Sequence[Example], labels: Sequence[str], explained: Sequence[Explanation]) -> Row:
    """Compare answers with gold labels."""
    kept = share_kept([explanation.mask for explanation in explained])
    return measured(name, examples, labels, [explanation.prediction for explanation in explained], kept)


def share_kept(masks: Sequence[Mask]) -> float:
    """Compute the share of all words that is kept."""
    return float(np.concatenate([mask.kept for mask in masks]).mean())


def measured(
    name: str, examples: Sequence[Example], labels: Sequence[str], answers: Sequence[Prediction], kept: float
) -> Row:
    """Make a row of a table."""
    gold, given = [example.label for example in examples], [answer.label for answer in answers]
    numbers = numbered(gold, labels), numbered(given, labels)
    f1, share = macro_f1_interval(*numbers, len(labels)), accuracy_interval(*numbers)
    return Row(
        name,
        macro_f1(gold, given, labels),
        accuracy(gold, given),
        kept,
        tuple(class_scores(gold, given, labels)),
        (f1.low, f1.high),
        (share.low, share.high),
    )

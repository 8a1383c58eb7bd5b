"""How well a rationalizer answers, beside full text, random words, what it dropped, and the most frequent class."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from fresh.attribution.registry import scorer_to_dict
from fresh.attribution.support_model import SupportModel, text_of
from fresh.data.splits import dataset_digest
from fresh.document import Document, Example, Explanation, Mask
from fresh.evaluation.baselines import Baselines, drawn_masks, dropped_masks, is_baseline, most_frequent, read_masks
from fresh.evaluation.eraser import write_results
from fresh.evaluation.gold_labels import GoldLabels, check_labels
from fresh.evaluation.length_check import reader_of
from fresh.evaluation.measures import compute_measures, read_at_lengths
from fresh.evaluation.warnings import data_warnings
from fresh.metrics.faithfulness import Readings
from fresh.progress import SILENT, Progress
from fresh.rationale import Prediction
from fresh.rationalizer import Rationalizer
from fresh.reporting.report import Report, Row
from fresh.selection.extractors import FullText, SaliencyExtractor, select_masks, with_ratio
from fresh.selection.tagger import Tagger

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
    check_labels(rationalizer.labels, examples)
    beside, labels = baselines or Baselines(), rationalizer.labels
    if beside.full_text is None:
        beside = replace(beside, full_text=_own_support(rationalizer))
    documents = [example.document for example in examples]
    explained = explain_all(rationalizer, documents, progress, "explaining")
    read = read_masks(rationalizer, documents)
    full = beside.read_all(documents, read, progress)
    others = _read_others(rationalizer, beside, explained, read, progress)
    key = GoldLabels.of(examples, labels)
    rows = [] if full is None else [key.row(_full_text_name(beside), full, 1.0)]
    rows.append(_own_row(rationalizer, key, explained))
    rows += [_row_at(rationalizer, key, explained, ratio) for ratio in rationalizer.ratios or ()]
    rows += [key.row_of(item.name, item.answers, item.masks) for item in others]
    rows.append(_majority_row(key, beside.majority or most_frequent(examples)))
    dropped = {item.reader: item.answers for item in others if item.name.startswith(COMPLEMENT)}
    by_ratio = read_at_lengths(rationalizer, explained, read, progress)
    details = compute_measures(rationalizer, examples, explained, full, dropped, by_ratio)
    notes = (*key.notes, *data_warnings(rationalizer, examples))
    unread, digest = share_unread(rationalizer, documents), dataset_digest(examples)
    report = Report(len(examples), tuple(rows), unread, notes, details, measured_on=digest)
    return Evaluation(report, examples, explained, next(iter(dropped.values()), None), by_ratio)


class _Other(NamedTuple):
    """Answers to something else than the rationales."""

    name: str
    reader: str
    """Who read it."""
    masks: Sequence[Mask]
    """What was read."""
    answers: list[Prediction]


def _read_others(
    rationalizer: Rationalizer,
    beside: Baselines,
    explained: Sequence[Explanation],
    read: Sequence[Mask],
    progress: Progress,
) -> list[_Other]:
    """Have random words and what was dropped read, by predictors that were trained for it or by the one at hand."""
    if is_baseline(rationalizer):
        return []
    documents, masks = [item.document for item in explained], [item.mask for item in explained]
    drawn = drawn_masks(rationalizer, documents, masks)
    dropped = dropped_masks(read, masks)
    found: list[_Other] = []
    for name, given, trained in ((RANDOM, drawn, beside.random), (COMPLEMENT, dropped, beside.complement)):
        rationales = [document.cut(mask) for document, mask in zip(documents, given, strict=True)]
        with progress.task(name, len(rationales)) as advance:
            answers = (trained or rationalizer.predictor).predict(rationales)
            advance(len(rationales), "")
        reader = SAME if trained is None else RETRAINED
        shown = f"{name}, {SAME}" if trained is None else name
        found.append(_Other(shown, reader, given, answers))
    return found


def _own_support(rationalizer: Rationalizer) -> SupportModel | None:
    """Find the support model, if there is one."""
    return rationalizer.extractor.support if isinstance(rationalizer.extractor, SaliencyExtractor) else None


def _full_text_name(beside: Baselines) -> str:
    """Say who read the full text."""
    return "full text (support model)" if isinstance(beside.full_text, SupportModel) else "full text"


def _majority_row(key: GoldLabels, label: str) -> Row:
    """Measure what always giving one label, without reading, is worth."""
    sure = Prediction(label, {name: float(name == label) for name in key.labels})
    return key.row(f"majority class ({label})", [sure] * len(key.gold), 0.0)


def share_unread(rationalizer: Rationalizer, documents: Sequence[Document]) -> float:
    """Compute the share of all words that truncating leaves unread."""
    n_read, _ = reader_of(rationalizer).measure([text_of(document) for document in documents])
    return 1 - float(n_read.sum()) / sum(len(document.words) for document in documents)


def _name_of(rationalizer: Rationalizer) -> str:
    """Say in a few words how the words are chosen."""
    extractor = rationalizer.extractor
    if isinstance(extractor, FullText):
        return "all words"
    if not isinstance(extractor, SaliencyExtractor):
        return "human rationales"
    if isinstance(extractor.scorer, Tagger):
        return TAGGED.get(str(rationalizer.settings.get("method")), "FRESH (tagger)")
    if rationalizer.settings.get("method") == "random":
        return "random words"
    return f"FRESH ({scorer_to_dict(extractor.scorer)['name']})"


def _row_at(rationalizer: Rationalizer, key: GoldLabels, explained: Sequence[Explanation], ratio: float) -> Row:
    """Measure a rationalizer that serves many lengths at one of them, from the scores that are there."""
    saliencies = [item.saliency for item in explained if item.saliency is not None]
    masks = select_masks(with_ratio(rationalizer.extractor, ratio).discretizer, saliencies)
    rationales = [item.document.cut(mask) for item, mask in zip(explained, masks, strict=True)]
    answers = rationalizer.predictor.predict(rationales)
    return key.row_of(f"the same, at {ratio:g}", answers, masks)


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


def _own_row(rationalizer: Rationalizer, key: GoldLabels, explained: Sequence[Explanation]) -> Row:
    """Measure the rationalizer itself."""
    answers, masks = [item.prediction for item in explained], [item.mask for item in explained]
    return replace(key.row_of(_name_of(rationalizer), answers, masks), own=True)

"""How well a model answers, compared with full text, random words, the complement and the majority class."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fresh.attribution import scorer_to_dict
from fresh.attribution.support_model import SupportModel
from fresh.data.fingerprints import dataset_digest
from fresh.document import Document, Example, Explanation, Mask
from fresh.evaluation.baselines import (
    Baselines,
    cut_all,
    dropped_masks,
    is_baseline,
    is_contiguous,
    majority_label,
    random_masks,
    read_masks,
)
from fresh.evaluation.eraser import write_results
from fresh.evaluation.measures import compute_measures, read_at_lengths
from fresh.evaluation.warnings import data_warnings
from fresh.metrics import bootstrap
from fresh.metrics.bootstrap import Bounds, Ints, describe_shared_texts
from fresh.metrics.classification import accuracy, class_scores, macro_f1
from fresh.metrics.faithfulness import Readings
from fresh.predictor import Predictor
from fresh.progress import SILENT, Progress
from fresh.rationale import Prediction
from fresh.rationalizer import Rationalizer
from fresh.reporting.report import Report, Row
from fresh.selection.extractors import FullText, SaliencyExtractor, select_masks, with_ratio
from fresh.selection.tagger import Tagger

TAGGER_NAMES = {"lei": "Lei et al.", "bastings": "Bastings et al."}
# Who reads random words and the complement: the predictor of the rationales, or one that was trained on such words.
SAME, RETRAINED, READER = "same predictor", "retrained", "independent reader"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A report, with the explanations that it was measured on."""

    report: Report
    examples: Sequence[Example]
    explained: Sequence[Explanation]
    complements: Sequence[Prediction] | None = None
    """Predictions from the words that were not selected, unless the model is itself a baseline."""
    by_ratio: Mapping[float, Readings] = field(default_factory=dict)
    """Predictions from rationales of several lengths, and from their complements."""

    def write_eraser(self, path: Path) -> None:
        """Write predictions and rationales as the scorer of the ERASER benchmark reads them."""
        own = [item.prediction for item in self.explained]
        # The scorer measures faithfulness from the predictions in the file: they count as those from the full text.
        readings = None if self.complements is None else Readings(own, own, self.complements)
        write_results(path, self.explained, readings, self.by_ratio if readings else None)


def evaluate(
    model: Rationalizer, examples: Sequence[Example], progress: Progress = SILENT, baselines: Baselines | None = None
) -> Evaluation:
    """Measure a model on labeled documents.

    :param baselines: By default, the independent reader is that of the model, if it has one. Random words, where there
        is none, and the complement are read by the predictor of the model, full text by the support model.
    """
    if not examples:
        raise ValueError("examples must have at least one document to evaluate on.")
    check_labels(model.labels, examples)
    baselines = baselines or Baselines()
    if baselines.full_text is None and isinstance(model.extractor, SaliencyExtractor):
        baselines = replace(baselines, full_text=model.extractor.support)
    if baselines.independent is None:
        baselines = replace(baselines, independent=model.load_reader())
    documents, gold = [example.document for example in examples], GoldLabels.of(examples, model.labels)
    explained = explain_all(model, documents, progress, "explaining")
    answers, masks = [item.prediction for item in explained], [item.mask for item in explained]
    read = read_masks(model, documents)

    full, name = _read_full_text(baselines.full_text, documents, read, progress)
    rows = [] if full is None else [gold.row(name, full, 1.0)]
    rows.append(replace(gold.masked_row(_describe(model), answers, masks), own=True))
    if baselines.independent is not None:
        predictions = baselines.independent.predict([item.rationale for item in explained])
        rows.append(gold.masked_row(READER, predictions, masks))
    # A model that was trained for a range of lengths is measured at both ends, from the scores at hand.
    for ratio in model.ratios or ():
        saliencies = [item.saliency for item in explained if item.saliency is not None]
        chosen = select_masks(with_ratio(model.extractor, ratio).discretizer, saliencies)
        predictions = model.predictor.predict(cut_all(documents, chosen))
        rows.append(gold.masked_row(f"the same, at {ratio:g}", predictions, chosen))

    # From the words that were not selected, by who read them.
    complements: dict[str, list[Prediction]] = {}
    if not is_baseline(model):
        random = random_masks(documents, masks, is_contiguous(model.extractor), read)
        for name, chosen, other, trained in (
            ("random words", random, baselines.independent, "random words (independent)"),
            ("complement", dropped_masks(read, masks), baselines.complement, "complement"),
        ):
            with progress.task(name, len(documents)) as advance:
                predictions = (other or model.predictor).predict(cut_all(documents, chosen))
                advance(len(documents), "")
            rows.append(gold.masked_row(trained if other else f"{name}, {SAME}", predictions, chosen))
        complements = {RETRAINED if baselines.complement else SAME: predictions}
    majority = baselines.majority or majority_label(examples)
    certain = Prediction(majority, {label: float(label == majority) for label in model.labels})
    rows.append(gold.row(f"majority class ({majority})", [certain] * len(examples), 0.0))

    by_ratio = read_at_lengths(model, explained, read, progress)
    report = Report(
        len(examples),
        tuple(rows),
        share_unread(model, documents),
        tuple(_notes(model, examples, gold, answers)),
        compute_measures(model.labels, examples, explained, full, complements, by_ratio),
        measured_on=dataset_digest(examples),
    )
    return Evaluation(report, examples, explained, next(iter(complements.values()), None), by_ratio)


def _notes(
    model: Rationalizer, examples: Sequence[Example], gold: "GoldLabels", answers: Sequence[Prediction]
) -> Iterator[str]:
    if gold.n_texts is not None:  # for example, a text with several queries
        meaning = "resample whole texts" if gold.n_texts > 1 else "say nothing about other texts"
        yield f"{describe_shared_texts(len(examples), gold.n_texts)}. Intervals {meaning}."
    yield from data_warnings(model, examples)
    if len({answer.label for answer in answers}) == 1 < len(set(gold.gold)):
        yield (
            f"Every answer is {answers[0].label!r}: the model has not learned to tell the labels apart. Train it "
            "longer, with another learning_rate, or with class_weight=balanced."
        )


def _read_full_text(
    reader: SupportModel | Predictor | None, documents: Sequence[Document], read: Sequence[Mask], progress: Progress
) -> tuple[list[Prediction] | None, str]:
    if isinstance(reader, Predictor):
        return reader.predict(cut_all(documents, read), progress), "full text"
    return None if reader is None else reader.predict(documents, progress), "full text (support model)"


def explain_all(model: Rationalizer, documents: Sequence[Document], progress: Progress, name: str) -> list[Explanation]:
    """Explain documents and report progress after each."""
    explained: list[Explanation] = []
    with progress.task(name, len(documents)) as advance:
        for explanation in model.explain_stream(iter(documents)):
            explained.append(explanation)
            advance(1, "")
    return explained


def share_unread(model: Rationalizer, documents: Sequence[Document]) -> float:
    """Return the share of all words that truncation leaves unread."""
    masks = read_masks(model, documents)
    return 1 - sum(int(mask.kept.sum()) for mask in masks) / sum(map(len, masks))


def _describe(model: Rationalizer) -> str:
    extractor, method = model.extractor, model.settings.get("method")
    if isinstance(extractor, FullText):
        return "all words"
    if not isinstance(extractor, SaliencyExtractor):
        return "human rationales"
    if isinstance(extractor.scorer, Tagger):
        return TAGGER_NAMES.get(str(method), "FRESH (tagger)")
    return "random words" if method == "random" else f"FRESH ({scorer_to_dict(extractor.scorer)['name']})"


@dataclass(frozen=True, slots=True, eq=False)
class GoldLabels:
    """The gold labels of documents, and everything needed to score predictions against them."""

    gold: Sequence[str]
    labels: Sequence[str]
    """All classes, also those that no document has."""
    texts: Ints | None
    """Number of the text of each document, where several documents share one."""

    @classmethod
    def of(cls, examples: Sequence[Example], labels: Sequence[str]) -> "GoldLabels":
        """Take gold labels and texts from examples."""
        texts = bootstrap.number_texts(example.document.words for example in examples)
        return cls([example.label for example in examples], labels, texts)

    @property
    def n_texts(self) -> int | None:
        """The number of different texts, where several documents share one."""
        return None if self.texts is None else len(set(self.texts.tolist()))

    def numbered(self, labels: Sequence[str]) -> Ints:
        """Return the number of each label."""
        return bootstrap.number_labels(labels, self.labels)

    def row(self, name: str, answers: Sequence[Prediction], kept: float, kept_between: Bounds | None = None) -> Row:
        """Score predictions from this share of the words."""
        predicted = [answer.label for answer in answers]
        numbers = self.numbered(self.gold), self.numbered(predicted)
        intervals = bootstrap.class_intervals(*numbers, len(self.labels), texts=self.texts)
        scores = class_scores(self.gold, predicted, self.labels)
        classes = tuple(
            replace(score, precision_between=precision.bounds, recall_between=recall.bounds, f1_between=f1.bounds)
            for score, (precision, recall, f1) in zip(scores, intervals, strict=True)
        )
        return Row(
            name,
            macro_f1(self.gold, predicted, self.labels),
            accuracy(self.gold, predicted),
            kept,
            classes,
            bootstrap.macro_f1_interval(*numbers, len(self.labels), texts=self.texts).bounds,
            bootstrap.accuracy_interval(*numbers, texts=self.texts).bounds,
            kept_between,
        )

    def masked_row(self, name: str, answers: Sequence[Prediction], masks: Sequence[Mask]) -> Row:
        """Score predictions from the words that masks keep."""
        n_kept, n_words = [int(mask.kept.sum()) for mask in masks], [len(mask) for mask in masks]
        kept = bootstrap.ratio_interval(n_kept, n_words, texts=self.texts)
        return self.row(name, answers, kept.value, kept.bounds)


def check_labels(labels: Sequence[str], examples: Sequence[Example]) -> None:
    """Refuse labels that a model was not trained with."""
    unknown = [example for example in examples if example.label not in labels]
    if unknown:
        counts = Counter(example.label for example in unknown)
        named = ", ".join(f"{label} ({count:,})" for label, count in counts.items())
        raise ValueError(
            f"The model was trained with the labels {', '.join(labels)}, but the data also has {named}, first in "
            f"document {unknown[0].document.id!r}. Leave such documents out, or train a model with these labels."
        )

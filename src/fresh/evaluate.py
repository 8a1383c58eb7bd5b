"""How well a rationalizer answers, beside full text and random words."""

from collections.abc import Sequence

import numpy as np

from fresh.document import Document, Example, Explanation, Mask
from fresh.extractor import KeepAll, SaliencyExtractor
from fresh.lengths import reader_of
from fresh.metrics import accuracy, class_scores, macro_f1
from fresh.predictor import Predictor
from fresh.progress import SILENT, Progress
from fresh.random_words import cut_at_random, is_contiguous
from fresh.rationale import Prediction
from fresh.rationalizer import Rationalizer
from fresh.report import Report, Row
from fresh.scorers import scorer_to_dict
from fresh.support import Support, text_of
from fresh.tagger import Tagger


def evaluate(
    rationalizer: Rationalizer,
    examples: Sequence[Example],
    progress: Progress = SILENT,
    random: Predictor | None = None,
    support: Support | None = None,
) -> Report:
    """Measure a rationalizer on labelled documents.

    :param random: A predictor that was trained on random words, to compare with; without it, the predictor at hand
        reads random words. In both cases as many of each document as the rationale has.
    :param support: A model of full text, to compare with; that of the rationalizer if it has one.
    """
    if not examples:
        raise ValueError("There are no documents to measure on. Give some that can be used.")
    check_labels(rationalizer, examples)
    documents = [example.document for example in examples]
    explained = explain_all(rationalizer, documents, progress, "explaining")
    rows = [row(name_of(rationalizer), examples, rationalizer.labels, explained)]
    rows += [at_ratio(rationalizer, examples, ratio, progress) for ratio in rationalizer.ratios or ()]
    own = rationalizer.extractor.support if isinstance(rationalizer.extractor, SaliencyExtractor) else None
    support = support or own
    if support is not None:
        answers = support.predict(documents, progress)
        rows.insert(0, full_text_row(examples, rationalizer.labels, answers))
    unread = share_unread(rationalizer, documents)
    if isinstance(rationalizer.extractor, KeepAll) or rationalizer.settings.get("method") == "random":
        return Report(len(examples), tuple(rows), unread)
    masks = [explanation.mask for explanation in explained]
    drawn = cut_at_random(documents, masks, is_contiguous(rationalizer.extractor))
    name = "random words, same predictor" if random is None else "random words"
    answers = (random or rationalizer.predictor).predict(drawn, progress)
    rows.append(measured(name, examples, rationalizer.labels, answers, share_kept(masks)))
    return Report(len(examples), tuple(rows), unread)


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


def at_ratio(rationalizer: Rationalizer, examples: Sequence[Example], ratio: float, progress: Progress) -> Row:
    """Measure a rationalizer that serves many lengths at one of them."""
    documents = [example.document for example in examples]
    explained = explain_all(rationalizer, documents, progress, f"explaining at {ratio:g}", ratio)
    return row(f"{name_of(rationalizer)} at {ratio:g}", examples, rationalizer.labels, explained)


TAGGED = {"lei": "Lei et al.", "bastings": "Bastings et al."}


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
    ratio: float | None = None,
) -> list[Explanation]:
    """Explain documents while somebody watches."""
    found: list[Explanation] = []
    with progress.task(name, len(documents)) as advance:
        for explanation in rationalizer.explain_stream(iter(documents), ratio=ratio):
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


def full_text_row(examples: Sequence[Example], labels: Sequence[str], answers: Sequence[Prediction]) -> Row:
    """Compare the support model's answers with gold labels."""
    return measured("full text (support model)", examples, labels, answers, 1.0)


def measured(
    name: str, examples: Sequence[Example], labels: Sequence[str], answers: Sequence[Prediction], kept: float
) -> Row:
    """Make a row of a table."""
    gold, given = [example.label for example in examples], [answer.label for answer in answers]
    scores = tuple(class_scores(gold, given, labels))
    return Row(name, macro_f1(gold, given, labels), accuracy(gold, given), kept, scores)

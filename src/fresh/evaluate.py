"""How well a rationalizer answers, beside full text and random words."""

from collections.abc import Sequence

import numpy as np

from fresh.document import Document, Example, Explanation, Mask
from fresh.extractor import SaliencyExtractor
from fresh.metrics import accuracy, class_scores, macro_f1
from fresh.progress import SILENT, Progress
from fresh.rationale import Prediction
from fresh.rationalizer import Rationalizer
from fresh.report import Report, Row
from fresh.scorers import scorer_to_dict
from fresh.scorers.random import generator


def evaluate(
    rationalizer: Rationalizer,
    examples: Sequence[Example],
    progress: Progress = SILENT,
    random: Rationalizer | None = None,
) -> Report:
    """Measure a rationalizer on labelled documents.

    :param random: The same method trained on random words, to compare with; without it, the predictor at hand reads
        random words, as many as it would have read of each document.
    """
    check_labels(rationalizer, examples)
    documents = [example.document for example in examples]
    explained = explain_all(rationalizer, documents, progress, "explaining")
    rows = [row(name_of(rationalizer), examples, rationalizer.labels, explained)]
    support = rationalizer.extractor.support if isinstance(rationalizer.extractor, SaliencyExtractor) else None
    if support is not None:
        answers = support.predict(documents, progress)
        rows.insert(0, full_text_row(examples, rationalizer.labels, answers))
    if random is not None:
        rows.append(
            row("random words", examples, random.labels, explain_all(random, documents, progress, "random words"))
        )
    else:
        pairs = random_masks(explained)
        answers = rationalizer.predictor.predict([document.cut(mask) for document, mask in pairs])
        drawn = [Explanation(*pair, answer) for pair, answer in zip(pairs, answers, strict=True)]
        rows.append(row("random words, same predictor", examples, rationalizer.labels, drawn))
    return Report(len(examples), tuple(rows))


def name_of(rationalizer: Rationalizer) -> str:
    """Say in a few words how the words are chosen."""
    extractor = rationalizer.extractor
    if not isinstance(extractor, SaliencyExtractor):
        return "all words"
    return f"FRESH ({scorer_to_dict(extractor.scorer)['name']})"


def check_labels(rationalizer: Rationalizer, examples: Sequence[Example]) -> None:
    """Refuse labels that the model cannot give."""
    for example in examples:
        if example.label not in rationalizer.labels:
            raise ValueError(
                f"Document {example.document.id!r} has the label {example.label!r}, which this model was not trained "
                f"for. It knows: {', '.join(rationalizer.labels)}."
            )


def explain_all(
    rationalizer: Rationalizer, documents: Sequence[Document], progress: Progress, name: str
) -> list[Explanation]:
    """Explain documents while somebody watches."""
    found: list[Explanation] = []
    with progress.task(name, len(documents)) as advance:
        for explanation in rationalizer.explain_stream(iter(documents)):
            found.append(explanation)
            advance(1, "")
    return found


def random_masks(explained: Sequence[Explanation]) -> list[tuple[Document, Mask]]:
    """Draw as many words of each document as its rationale has; text order is kept."""
    drawn: list[tuple[Document, Mask]] = []
    for explanation in explained:
        kept = explanation.mask.kept.copy()
        generator(explanation.document, 0).shuffle(kept)
        drawn.append((explanation.document, Mask(kept)))
    return drawn


def row(name: str, examples: Sequence[Example], labels: Sequence[str], explained: Sequence[Explanation]) -> Row:
    """Compare answers with gold labels."""
    kept = float(np.concatenate([explanation.mask.kept for explanation in explained]).mean())
    return measured(name, examples, labels, [explanation.prediction for explanation in explained], kept)


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

"""Models with predefined answers: no network, and figures that can be computed by hand."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from fresh.document import Document, Example, Explanation, Mask
from fresh.rationale import Prediction
from fresh.rationalizer import Rationalizer

NAMES = {"p": "pos", "n": "neg", "x": "great"}


class Stub:
    """Answers documents in order from a string of letters, and keeps the first words of each."""

    check_query = Rationalizer.check_query

    def __init__(
        self, answers: str, labels: Sequence[str], needs_query: bool, n_kept: int, settings: Mapping[str, Any]
    ):
        self.answers = answers
        self.labels = tuple(labels)
        self.needs_query = needs_query
        self.fingerprints = None
        self.n_kept = n_kept
        self.settings = settings

    def explain_stream(self, documents: Iterator[Document], ratio: float | None = None) -> Iterator[Explanation]:
        for document, answer in zip(documents, self.answers, strict=True):
            if answer == "!":
                raise ValueError(f"Document {document.id!r} cannot be read.")
            prediction = Prediction(NAMES[answer], {label: float(label == NAMES[answer]) for label in self.labels})
            yield Explanation(
                document,
                Mask(np.arange(len(document.words)) < self.n_kept),
                document.cut(Mask(np.arange(len(document.words)) < self.n_kept)),
                prediction,
            )


def stub(
    answers: str,
    labels: Sequence[str] = ("neg", "pos"),
    needs_query: bool = False,
    n_kept: int = 1,
    settings: Mapping[str, Any] | None = None,
) -> Rationalizer:
    return cast("Rationalizer", Stub(answers, labels, needs_query, n_kept, settings or {}))


def examples(gold: str, n_marked: int = 0, query: str = "", n_asked: int = 1) -> list[Example]:
    """Make documents of four words with these labels; in the first of them people marked the first word.

    :param n_asked: So many documents, one after the other, are one text.
    """
    made: list[Example] = []
    for number, letter in enumerate(gold):
        document = Document.from_words(["a", "film", "of", str(number // n_asked)], query.split(), f"d-{number}")
        human = Mask.from_spans([(0, 1)], 4) if number < n_marked else None
        made.append(Example(document, NAMES[letter], human))
    return made

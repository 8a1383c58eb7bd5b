"""Models with predefined answers: no network, and figures that can be computed by hand."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from fresh.document import Document, Example, Explanation, Mask
from fresh.rationale import Prediction
from fresh.rationalizer import Rationalizer

NAMES = {"p": "pos", "n": "neg", "x": "great"}


@dataclass
class Stub:
    """Answers documents in order from a string of letters, and keeps the first words of each."""

    answers: str
    labels: tuple[str, ...] = ("neg", "pos")
    needs_query: bool = False
    n_kept: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    fingerprints: None = None

    check_query = Rationalizer.check_query

    def explain_stream(self, documents: Iterator[Document], ratio: float | None = None) -> Iterator[Explanation]:
        for document, answer in zip(documents, self.answers, strict=True):
            if answer == "!":
                raise ValueError(f"Document {document.id!r} cannot be read.")
            prediction = Prediction(NAMES[answer], {label: float(label == NAMES[answer]) for label in self.labels})
            mask = Mask(np.arange(len(document.words)) < self.n_kept)
            yield Explanation(document, mask, document.cut(mask), prediction)


def stub(*arguments: Any, **named: Any) -> Rationalizer:
    return cast("Rationalizer", Stub(*arguments, **named))


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

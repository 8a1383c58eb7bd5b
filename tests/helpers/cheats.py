"""Models that break the wall on purpose, each in its own way."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fresh.attribution.support_model import SupportModel
from fresh.document import Document, Explanation, Mask
from fresh.predictor import Predictor
from fresh.progress import SILENT, Progress
from fresh.rationale import Prediction, Rationale
from fresh.rationalizer import Rationalizer
from fresh.selection.extractors import Extractor


def sure(label: str) -> Prediction:
    return Prediction(label, {name: float(name == label) for name in ("neg", "pos")})


def explained(document: Document, mask: Mask, prediction: Prediction) -> Explanation:
    return Explanation(document, mask, document.cut(mask), prediction)


class FullTextReader(Rationalizer):
    """Shows a rationale, but lets the predictor read the whole text."""

    def explain(self, documents: Any, *_: Any, **__: Any) -> Any:
        answers = self.predictor.predict([item.cut(Mask.full(len(item.words))) for item in documents])
        shown = super().explain(documents)
        return [replace(item, prediction=answer) for item, answer in zip(shown, answers, strict=True)]


class PositionReader(Rationalizer):
    """Answers by the position of the first kept word."""

    def explain(self, documents: Any, *_: Any, **__: Any) -> Any:
        shown = super().explain(documents)
        return [replace(item, prediction=odd_or_even(int(item.mask.kept.argmax()))) for item in shown]


class Disobedient(Rationalizer):
    """Shows the first word instead of those that its extractor selected."""

    def explain(self, documents: Any, *_: Any, **__: Any) -> Any:
        masks = [Mask.from_spans([(0, 1)], len(document.words)) for document in documents]
        answers = self.predictor.predict([document.cut(mask) for document, mask in zip(documents, masks, strict=True)])
        return [explained(*row) for row in zip(documents, masks, answers, strict=True)]


@dataclass(frozen=True, slots=True)
class Smuggler:
    """An extractor that also passes on the positions of words."""

    own: Extractor
    passed: list[int]

    def extract(self, documents: Sequence[Document]) -> list[Mask]:
        masks = self.own.extract(documents)
        self.passed[:] = [int(mask.kept.argmax()) for mask in masks]
        return masks


@dataclass(frozen=True, slots=True)
class Teller:
    """An extractor that encodes the support model's answer in the number of words: odd or even."""

    support: SupportModel

    def extract(self, documents: Sequence[Document]) -> list[Mask]:
        masks: list[Mask] = []
        for number, answer in enumerate(self.support.predict(documents)):
            n_kept = 2 * (1 + number % 2) + (answer.label == "pos")
            masks.append(Mask(np.random.default_rng(number).permutation(len(documents[number].words)) < n_kept))
        return masks


Answer = Callable[[int, Rationale], Prediction]


@dataclass(frozen=True, slots=True)
class Answering(Predictor):
    """A predictor that answers as one likes, given the place and the content of each rationale."""

    answer: Answer = lambda *_: sure("neg")

    def predict(self, rationales: Sequence[Rationale], progress: Progress = SILENT) -> list[Prediction]:
        return [self.answer(place, rationale) for place, rationale in enumerate(rationales)]


def odd_or_even(number: int) -> Prediction:
    return sure(("neg", "pos")[number % 2])


def receiver(passed: list[int]) -> Answer:
    """Answer by the positions from a smuggler, whatever is read."""
    return lambda place, _: odd_or_even(passed[place % len(passed)])

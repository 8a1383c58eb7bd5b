"""Models that break the wall on purpose, each in its own way."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fresh.attribution.support_model import SupportModel
from fresh.document import Document, Mask
from fresh.predictor import Predictor
from fresh.progress import SILENT, Progress
from fresh.rationale import Prediction, Rationale
from fresh.rationalizer import Rationalizer
from fresh.selection.extractors import Extractor


def sure(label: str) -> Prediction:
    return Prediction(label, {name: float(name == label) for name in ("neg", "pos")})


class FullTextReader(Rationalizer):
    """Shows a rationale, but lets the predictor read the whole text."""

    def explain(self, documents: Any, query: str | None = None, ratio: float | None = None) -> Any:
        shown = super().explain(documents)
        read = [item.document.cut(Mask.full(len(item.mask))) for item in shown]
        return [
            replace(item, prediction=answer) for item, answer in zip(shown, self.predictor.predict(read), strict=True)
        ]


class PositionReader(Rationalizer):
    """Answers by the position of the first kept word."""

    def explain(self, documents: Any, query: str | None = None, ratio: float | None = None) -> Any:
        shown = super().explain(documents)
        return [replace(item, prediction=sure(("neg", "pos")[int(item.mask.kept.argmax()) % 2])) for item in shown]


class Disobedient(Rationalizer):
    """Shows the first word instead of those that its extractor selected."""

    def explain(self, documents: Any, query: str | None = None, ratio: float | None = None) -> Any:
        masks = [Mask.from_spans([(0, 1)], len(document.words)) for document in documents]
        answers = self.predictor.predict([document.cut(mask) for document, mask in zip(documents, masks, strict=True)])
        shown = super().explain(documents)
        return [
            replace(old, mask=mask, rationale=old.document.cut(mask), prediction=new)
            for old, mask, new in zip(shown, masks, answers, strict=True)
        ]


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
class Receiver(Predictor):
    """A predictor that answers by the positions from a smuggler, whatever it reads."""

    passed: list[int] = field(default_factory=list)

    def predict(self, rationales: Sequence[Rationale], progress: Progress = SILENT) -> list[Prediction]:
        return [sure(("neg", "pos")[self.passed[place % len(self.passed)] % 2]) for place in range(len(rationales))]


@dataclass(frozen=True, slots=True)
class Librarian(Predictor):
    """A predictor that recognizes documents by their ids."""

    known: dict[str, str] = field(default_factory=dict)

    def predict(self, rationales: Sequence[Rationale], progress: Progress = SILENT) -> list[Prediction]:
        return [sure(self.known.get(item.id, "neg")) for item in rationales]


@dataclass(frozen=True, slots=True)
class Teller:
    """An extractor that encodes the support model's answer in the number of words: odd or even."""

    support: SupportModel

    def extract(self, documents: Sequence[Document]) -> list[Mask]:
        masks: list[Mask] = []
        for number, answer in enumerate(self.support.predict(documents)):
            n_words = len(documents[number].words)
            n_kept = 2 * (1 + number % 2) + (answer.label == "pos")
            kept = np.random.default_rng(number).permutation(n_words) < n_kept
            masks.append(Mask(kept))
        return masks


@dataclass(frozen=True, slots=True)
class Counter(Predictor):
    """A predictor that answers by whether the number of words is odd."""

    def predict(self, rationales: Sequence[Rationale], progress: Progress = SILENT) -> list[Prediction]:
        return [sure(("neg", "pos")[len(item.words) % 2]) for item in rationales]


@dataclass(frozen=True, slots=True)
class LongOrShort(Predictor):
    """A predictor that answers by whether there are many words."""

    def predict(self, rationales: Sequence[Rationale], progress: Progress = SILENT) -> list[Prediction]:
        return [sure("pos" if len(item.words) > 3 else "neg") for item in rationales]

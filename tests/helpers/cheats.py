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
    """Answer without a doubt."""
    return Prediction(label, {name: float(name == label) for name in ("neg", "pos")})


class FullTextReader(Rationalizer):
    """Shows a rationale, and has the predictor read the whole text."""

    def explain(self, documents: Any, query: str | None = None, ratio: float | None = None) -> Any:
        shown = super().explain(documents)
        read = [item.document.cut(Mask.full(len(item.mask))) for item in shown]
        return [
            replace(item, prediction=answer) for item, answer in zip(shown, self.predictor.predict(read), strict=True)
        ]


class PositionReader(Rationalizer):
    """Answers by where the first kept word stands."""

    def explain(self, documents: Any, query: str | None = None, ratio: float | None = None) -> Any:
        shown = super().explain(documents)
        return [replace(item, prediction=sure(("neg", "pos")[int(item.mask.kept.argmax()) % 2])) for item in shown]


class Disobedient(Rationalizer):
    """Shows other words than its extractor chose: always the first."""

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
    """An extractor that also passes on where the words stand."""

    own: Extractor
    passed: list[int]

    def extract(self, documents: Sequence[Document]) -> list[Mask]:
        """Return one mask a document."""
        masks = self.own.extract(documents)
        self.passed[:] = [int(mask.kept.argmax()) for mask in masks]
        return masks


@dataclass(frozen=True, slots=True)
class Receiver(Predictor):
    """A predictor that answers by the positions that a smuggler passed on, whatever it is given to read."""

    passed: list[int] = field(default_factory=list)

    def predict(self, rationales: Sequence[Rationale], progress: Progress = SILENT) -> list[Prediction]:
        """Ignore the rationales."""
        return [sure(("neg", "pos")[self.passed[place % len(self.passed)] % 2]) for place in range(len(rationales))]


@dataclass(frozen=True, slots=True)
class Librarian(Predictor):
    """A predictor that knows documents by their names."""

    known: dict[str, str] = field(default_factory=dict)

    def predict(self, rationales: Sequence[Rationale], progress: Progress = SILENT) -> list[Prediction]:
        """Look the answer up."""
        return [sure(self.known.get(item.id, "neg")) for item in rationales]


@dataclass(frozen=True, slots=True)
class Teller:
    """An extractor that tells what the support model decided by the number of words it keeps: odd or even."""

    support: SupportModel

    def extract(self, documents: Sequence[Document]) -> list[Mask]:
        """Keep some words that nobody needs."""
        masks: list[Mask] = []
        for number, answer in enumerate(self.support.predict(documents)):
            n_words = len(documents[number].words)
            n_kept = 2 * (1 + number % 2) + (answer.label == "pos")
            kept = np.random.default_rng(number).permutation(n_words) < n_kept
            masks.append(Mask(kept))
        return masks


@dataclass(frozen=True, slots=True)
class Counter(Predictor):
    """A predictor that counts words and reads none."""

    def predict(self, rationales: Sequence[Rationale], progress: Progress = SILENT) -> list[Prediction]:
        """Tell odd from even."""
        return [sure(("neg", "pos")[len(item.words) % 2]) for item in rationales]


@dataclass(frozen=True, slots=True)
class LongOrShort(Predictor):
    """A predictor that counts words and reads none: many are positive."""

    def predict(self, rationales: Sequence[Rationale], progress: Progress = SILENT) -> list[Prediction]:
        """Tell many words from few."""
        return [sure("pos" if len(item.words) > 3 else "neg") for item in rationales]

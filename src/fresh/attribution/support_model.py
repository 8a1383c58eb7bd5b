"""The support model: reads whole documents and is asked only where to look."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fresh.document import Document, Example, Saliency
from fresh.nn.batch import Batch, IntArray
from fresh.nn.classifier import Classifier, predictions
from fresh.nn.tokenizer import Text
from fresh.progress import SILENT, Progress
from fresh.rationale import Prediction
from fresh.training.config import ClassifierConfig
from fresh.training.feature_cache import CachedTexts
from fresh.training.fit import TrainingPairs, train_classifiers
from fresh.training.loop import RunContext

WATCH = RunContext("support model")

Scores = tuple[list[NDArray[np.float64]], list[int]]
"""One array a text with one score a word, and the number of the label that they explain."""


@dataclass(frozen=True, slots=True)
class SupportModel:
    """A classifier of whole documents."""

    classifier: Classifier
    seen: CachedTexts | None = None
    """What it was trained with, as long as that is at hand: frozen layers need not read it again."""
    asked: str | None = None
    """The label that scores are to explain; for each document the one that is predicted if not given."""
    scored: Callable[[int], None] | None = None
    """What is told how many more documents have their scores."""

    def __post_init__(self) -> None:
        # It has learnt: gradients are taken by embeddings and attention, and layers remember nothing for weights. That
        # is decided here, once, since switching it for each scoring would not be safe from several threads.
        self.classifier.requires_grad_(False)

    @classmethod
    def train(
        cls,
        train: Sequence[Example],
        dev: Sequence[Example],
        config: ClassifierConfig,
        context: RunContext = WATCH,
        only: IntArray | None = None,
    ) -> Self:
        """Train it on whole documents.

        :param only: Numbers of the documents to train on; all if not given.
        """
        [support] = cls.train_many(train, dev, [config], context, only)
        return support

    @classmethod
    def train_many(
        cls,
        train: Sequence[Example],
        dev: Sequence[Example],
        configs: Sequence[ClassifierConfig],
        context: RunContext = WATCH,
        only: IntArray | None = None,
    ) -> list[Self]:
        """Train one for each of several settings, such as seeds, side by side."""
        pairs, dev_pairs = ([(text_of(item.document), item.label) for item in part] for part in (train, dev))
        data = TrainingPairs(pairs, dev_pairs, only=only)
        return [cls(*trained) for trained in train_classifiers([data] * len(configs), configs, context)]

    def predict(self, documents: Sequence[Document], progress: Progress = SILENT) -> list[Prediction]:
        """Classify whole documents."""
        table = self.classifier.probabilities([text_of(item) for item in documents], progress, "full text")
        return predictions(table, self.classifier.labels)

    def with_target(self, label: str) -> Self:
        """Make one that is asked about a given label, whatever it predicts."""
        if label not in self.classifier.labels:
            known = ", ".join(self.classifier.labels)
            raise ValueError(f"A support model cannot be asked about the label {label!r}. It knows: {known}.")
        return replace(self, asked=label)

    def with_callback(self, scored: Callable[[int], None]) -> Self:
        """Make one that tells how many more documents have their scores, whenever some have."""
        return replace(self, scored=scored)

    def tell(self, n_documents: int) -> None:
        """Tell, if anybody asked, that so many more documents have their scores."""
        if self.scored is not None:
            self.scored(n_documents)

    def targets(self, table: Tensor) -> Tensor:
        """Take the numbers of the labels that scores are to explain. Shape: (texts,).

        :param table: How probable each label is for each text, or logits of that. Shape: (texts, labels).
        """
        likeliest = table.argmax(-1)
        if self.asked is None:
            return likeliest
        return torch.full_like(likeliest, self.classifier.labels.index(self.asked))

    def score(
        self, documents: Sequence[Document], score: Callable[[Batch], Scores], part: float = 1, above: bool = False
    ) -> list[Saliency]:
        """Have documents scored batch by batch; the scores come in the order of the documents.

        :param part: Share of the usual size of batches, for what takes more memory than reading.
        :param above: Whether scores depend on the text only through what frozen layers make of it.
        """
        found: dict[int, Saliency] = {}
        texts = [text_of(document) for document in documents]
        known = self.seen.find(texts) if above and self.seen else None

        def work(numbers: IntArray, batch: Batch) -> None:
            if known is not None:
                reading, places = known
                batch = replace(batch, hidden=reading.gather(torch.from_numpy(places[numbers]), batch.ids.shape[1]))
            for number, values, target, n_read in zip(numbers.tolist(), *score(batch), batch.n_read, strict=True):
                found[number] = self.saliency(documents[number], values[:n_read], target)
            self.tell(len(numbers))

        self.classifier.work_through(self.classifier.words(texts), work, part)
        return [found[number] for number in range(len(documents))]

    def saliency(self, document: Document, scores: NDArray[np.float64], target: int) -> Saliency:
        """Give a document its scores; words that were not read come last."""
        whole = np.full(len(document.words), min(0.0, scores.min(initial=0.0)))
        whole[: len(scores)] = scores
        return Saliency(whole, self.classifier.labels[target], document.id, len(scores))


def text_of(document: Document) -> Text:
    """Take what a network reads of a document."""
    return Text(document.words, document.query, document.id)


def normalize(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Make scores that are not negative sum to 1; scores that are all 0 stay so."""
    total = scores.sum()
    return scores / total if total > 0 else scores

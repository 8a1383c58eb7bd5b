"""The support model: it reads whole documents, and only scorers use it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fresh.attribution.config import Evidence
from fresh.document import Document, Example, Saliency
from fresh.nn.batch import Batch, IntArray
from fresh.nn.classifier import Classifier, to_predictions
from fresh.nn.tokenizer import Text
from fresh.progress import SILENT, Progress
from fresh.rationale import Prediction
from fresh.training.config import ClassifierConfig
from fresh.training.feature_cache import FeatureStore, cache_inputs
from fresh.training.fit import TrainingPairs, train_classifiers
from fresh.training.loop import RunContext

SUPPORT = "support model"  # its name in checkpoints and messages
_CONTEXT = RunContext(SUPPORT)

Scores = tuple[list[NDArray[np.float64]], list[int]]
"""For each text of a batch, one score per word, and the number of the label that the scores explain."""


@dataclass(frozen=True, slots=True)
class SupportModel:
    """A classifier of whole documents."""

    classifier: Classifier
    target: str | None = None
    """The label that scores explain; by default, the one predicted for each document."""
    features: FeatureStore | None = None
    """The output of frozen layers for texts that the model was trained with."""
    on_scored: Callable[[int], None] | None = None
    """Called with the number of documents that were scored since the last call."""

    def __post_init__(self) -> None:
        # Scorers need gradients by embeddings and attention, not by weights. This is set once, here: switching it for
        # each call of a scorer is not safe from several threads.
        self.classifier.requires_grad_(False)

    @classmethod
    def train(
        cls,
        train: Sequence[Example],
        dev: Sequence[Example],
        config: ClassifierConfig,
        context: RunContext = _CONTEXT,
        only: IntArray | None = None,
    ) -> Self:
        """Train one on whole documents.

        :param only: Numbers of the documents to train on; by default all.
        """
        [support] = cls.train_many(train, dev, [config], context, only)
        return support

    @classmethod
    def train_many(
        cls,
        train: Sequence[Example],
        dev: Sequence[Example],
        configs: Sequence[ClassifierConfig],
        context: RunContext = _CONTEXT,
        only: IntArray | None = None,
    ) -> list[Self]:
        """Train one for each of several settings, such as seeds, side by side."""
        pairs, dev_pairs = ([(text_of(item.document), item.label) for item in part] for part in (train, dev))
        data = TrainingPairs(pairs, dev_pairs, only=only)
        return [cls(classifier) for classifier in train_classifiers([data] * len(configs), configs, context)]

    def predict(self, documents: Sequence[Document], progress: Progress = SILENT) -> list[Prediction]:
        """Classify whole documents."""
        table = self.classifier.probabilities([text_of(item) for item in documents], progress, "full text")
        return to_predictions(table, self.classifier.labels)

    def with_target(self, label: str) -> Self:
        """Return a copy that explains a given label instead of the predicted one."""
        if label not in self.classifier.labels:
            known = ", ".join(self.classifier.labels)
            raise ValueError(f"label must be one that the support model knows ({known}), got {label!r}.")
        return replace(self, target=label)

    def report(self, n_documents: int) -> None:
        """Report that documents were scored."""
        if self.on_scored is not None:
            self.on_scored(n_documents)

    def targets(self, table: Tensor) -> Tensor:
        """Return the numbers of the labels that scores explain. Shape: (texts,).

        :param table: Probabilities of labels for each text, or logits. Shape: (texts, labels).
        """
        predicted = table.argmax(-1)
        if self.target is None:
            return predicted
        return torch.full_like(predicted, self.classifier.labels.index(self.target))

    def score(
        self,
        documents: Sequence[Document],
        score_batch: Callable[[Batch], Scores],
        share: float = 1,
        above_frozen: bool = False,
        evidence: Evidence = "for",
    ) -> list[Saliency]:
        """Score documents batch by batch, and return saliencies in the order of the documents.

        :param share: Share of the usual size of batches, for scorers that take more memory than reading does.
        :param above_frozen: Whether all that is scored lies above the frozen layers, whose cached output then suffices.
        :param evidence: Whether the sign of scores counts (for) or only their size (both).
        """
        found: dict[int, Saliency] = {}
        texts = [text_of(document) for document in documents]

        def work(numbers: IntArray, batch: Batch) -> None:
            for number, scores, target, n_read in zip(numbers.tolist(), *score_batch(batch), batch.n_read, strict=True):
                label = self.classifier.labels[target]
                found[number] = saliency_of(documents[number], scores[:n_read], label, evidence)
            self.report(len(numbers))

        table, collate = self.classifier.tokenizer(texts), None
        if above_frozen and self.features is not None:
            # With 2 of 6 layers trained, FRESH on 1,200 sentences takes 16 s so, and 23 s if all layers run again.
            collate = cache_inputs(self.classifier, table, self.features, torch.float32, SILENT).collate
        self.classifier.for_each_batch(table, work, share, collate)
        return [found[number] for number in range(len(documents))]


def saliency_of(document: Document, scores: NDArray[np.float64], target: str, evidence: Evidence = "for") -> Saliency:
    """Make the saliency of a document from the scores of the words that were read."""
    scores = np.abs(scores) if evidence == "both" else scores
    # Words beyond a truncated text must not be selected before words that were read.
    whole = np.full(len(document.words), scores.min(initial=0.0))
    whole[: len(scores)] = scores
    return Saliency(whole, target, document.id, len(scores))


def text_of(document: Document) -> Text:
    """Return the part of a document that a network reads."""
    return Text(document.words, document.query, document.id)


def normalize(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Make nonnegative scores sum to 1; scores that are all 0 stay 0."""
    total = scores.sum()
    return scores / total if total > 0 else scores

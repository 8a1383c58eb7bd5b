"""The predictor: it reads rationales and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

from fresh.nn.classifier import Classifier, to_predictions
from fresh.nn.tokenizer import LongPolicy, Text
from fresh.progress import SILENT, Progress
from fresh.rationale import Prediction, Rationale
from fresh.training.config import ClassifierConfig
from fresh.training.fit import TrainingPairs, train_classifiers
from fresh.training.loop import RunContext

CONTEXT = RunContext("predictor")

LabeledRationales = Sequence[tuple[Rationale, str]]


@dataclass(frozen=True, slots=True)
class Predictor:
    """A classifier that reads rationales."""

    classifier: Classifier

    @classmethod
    def train(
        cls, train: LabeledRationales, dev: LabeledRationales, config: ClassifierConfig, context: RunContext = CONTEXT
    ) -> Self:
        """Train a predictor on rationales and their labels alone."""
        [predictor] = cls.train_many([TrainingPairs(train, dev)], [config], context)
        return predictor

    @classmethod
    def train_many(
        cls,
        data: Sequence[TrainingPairs[Rationale]],
        configs: Sequence[ClassifierConfig],
        context: RunContext = CONTEXT,
    ) -> list[Self]:
        """Train several predictors side by side, such as one for each seed.

        :param data: For each predictor, the rationales and labels of train and dev.
        """

        def read(pairs: LabeledRationales) -> list[tuple[Text, str]]:
            return [(rationale_text(rationale), label) for rationale, label in pairs]

        texts = [TrainingPairs(read(item.train), read(item.dev), item.n_versions, item.only) for item in data]
        return [cls(item) for item in train_classifiers(texts, list(map(reading_every_word, configs)), context)]

    def predict(self, rationales: Sequence[Rationale], progress: Progress = SILENT) -> list[Prediction]:
        """Classify rationales."""
        table = self.classifier.probabilities([rationale_text(item) for item in rationales], progress, "rationales")
        return to_predictions(table, self.classifier.labels)

    def token_ids(self, rationales: Sequence[Rationale]) -> list[tuple[int, ...]]:
        """List the token ids that the network receives for each rationale, special tokens included."""
        table = self.classifier.tokenizer([rationale_text(item) for item in rationales])
        return [tuple(table.ids[start:end].tolist()) for start, end in pairwise(table.starts.tolist())]


def reading_every_word(config: ClassifierConfig) -> ClassifierConfig:
    """Return settings for what reads rationales: every word that is shown, even if a support model truncates."""
    long: LongPolicy = "stagger" if config.network.long == "truncate" else config.network.long
    return ClassifierConfig(replace(config.network, long=long), config.train)


def rationale_text(item: object) -> Text:
    """Return the words of a rationale; raise for anything else."""
    if type(item) is Rationale:  # not isinstance: a subclass could carry more than its words
        return Text(item.words, item.query, item.id)
    raise TypeError(f"A predictor reads rationales only, got {type(item).__name__}. Use document.cut(mask).")

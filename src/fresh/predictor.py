"""The predictor: reads rationales, nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from fresh.nn.batch import IntArray
from fresh.nn.classifier import Classifier, predictions
from fresh.nn.tokenizer import LongPolicy, Text
from fresh.progress import SILENT, Progress
from fresh.rationale import Prediction, Rationale
from fresh.training.config import ClassifierConfig
from fresh.training.fit import FitRequest, train_classifiers
from fresh.training.loop import RunContext

CONTEXT = RunContext("predictor")

LabeledRationales = Sequence[tuple[Rationale, str]]


class TrainingPairs(NamedTuple):
    """What a predictor is trained on: rationales and labels of train and of dev."""

    train: LabeledRationales
    dev: LabeledRationales
    n_versions: int = 1
    """How many versions of all that is trained on stand one after the other; each epoch reads the next one."""

    def numbers(self, epoch: int) -> IntArray:
        """List what an epoch reads."""
        n_each = len(self.train) // self.n_versions
        return np.arange(n_each) + epoch % self.n_versions * n_each


@dataclass(frozen=True, slots=True)
class Predictor:
    """A classifier of rationales."""

    classifier: Classifier

    @classmethod
    def train(
        cls, train: LabeledRationales, dev: LabeledRationales, config: ClassifierConfig, context: RunContext = CONTEXT
    ) -> Self:
        """Train it on rationales and their labels alone."""
        [predictor] = cls.train_many([(train, dev)], [config], context)
        return predictor

    @classmethod
    def train_many(
        cls,
        data: Sequence[TrainingPairs | tuple[LabeledRationales, LabeledRationales]],
        configs: Sequence[ClassifierConfig],
        context: RunContext = CONTEXT,
    ) -> list[Self]:
        """Train one for each of several settings, such as seeds, side by side.

        :param data: For each, rationales and labels of train and of dev.
        """
        lessons: list[FitRequest] = []
        for item, config in zip(data, configs, strict=True):
            given = TrainingPairs(*item)
            labels = sorted({label for _, label in given.train})
            pairs, dev_pairs = ([(rationale_text(rationale), label) for rationale, label in part] for part in given[:2])
            # A predictor reads every word that is shown, also where the support model reads only beginnings.
            long: LongPolicy = "stagger" if config.network.long == "truncate" else config.network.long
            whole = replace(config, network=replace(config.network, long=long))
            numbers = given.numbers if given.n_versions > 1 else None
            lessons.append(FitRequest(pairs, dev_pairs, labels, whole, context, numbers))
        return [cls(taught.classifier) for taught in train_classifiers(lessons)]

    def predict(self, rationales: Sequence[Rationale], progress: Progress = SILENT) -> list[Prediction]:
        """Classify rationales."""
        table = self.classifier.probabilities([rationale_text(item) for item in rationales], progress, "rationales")
        return predictions(table, self.classifier.labels)

    def token_ids(self, rationales: Sequence[Rationale]) -> list[tuple[int, ...]]:
        """List the pieces of rationales as the network is given them, special ones included."""
        table = self.classifier.words([rationale_text(item) for item in rationales])
        return [tuple(text.ids.tolist()) for text in table]


def rationale_text(item: object) -> Text:
    """Take the words of a rationale, and of nothing but a rationale."""
    if type(item) is Rationale:
        return Text(item.words, item.query, item.id)
    found = type(item).__name__
    raise TypeError(f"A predictor reads rationales only, got {found}. Choose words first: document.cut(mask).")

"""The predictor: reads rationales, nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from fresh.classifier import Classifier, ClassifierConfig, predictions, train_classifier
from fresh.encoding import Text
from fresh.progress import SILENT, Progress
from fresh.rationale import Prediction, Rationale
from fresh.training import Watch

WATCH = Watch("predictor")


@dataclass(frozen=True, slots=True)
class Predictor:
    """A classifier of rationales."""

    classifier: Classifier

    @classmethod
    def train(
        cls,
        train: Sequence[tuple[Rationale, str]],
        dev: Sequence[tuple[Rationale, str]],
        config: ClassifierConfig,
        watch: Watch = WATCH,
    ) -> Self:
        """Train it on rationales and their labels alone."""
        labels = sorted({label for _, label in train})
        pairs, dev_pairs = ([(text_of(rationale), label) for rationale, label in part] for part in (train, dev))
        # A predictor reads every word that is shown, also where the support model reads only beginnings.
        whole = replace(config, network=replace(config.network, long="stagger"))
        return cls(train_classifier(pairs, dev_pairs, labels, whole, watch))

    def predict(self, rationales: Sequence[Rationale], progress: Progress = SILENT) -> list[Prediction]:
        """Classify rationales."""
        table = self.classifier.probabilities([text_of(item) for item in rationales], progress, "rationales")
        return predictions(table, self.classifier.labels)


def text_of(item: object) -> Text:
    """Take the words of a rationale, and of nothing but a rationale."""
    if type(item) is Rationale:
        return Text(item.words, item.query, item.id)
    found = type(item).__name__
    raise TypeError(f"A predictor reads rationales only, got {found}. Choose words first: document.cut(mask).")

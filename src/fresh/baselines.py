"""What a model is held against: all words, random ones, those that it dropped, and the most frequent class."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fresh.classifier import ClassifierConfig
from fresh.data import Splits
from fresh.document import Document, Example, Mask
from fresh.extractor import KeepAll
from fresh.lengths import reader_of
from fresh.predictor import Predictor
from fresh.progress import SILENT, Progress
from fresh.random_words import is_contiguous, random_masks
from fresh.rationale import Prediction
from fresh.rationalizer import Rationalizer
from fresh.support import Support, text_of
from fresh.training import Watch


@dataclass(frozen=True, slots=True)
class Baselines:
    """Models of the same kind that read something else, as far as they were trained."""

    full_text: Support | Predictor | None = None
    random: Predictor | None = None
    """Reads random words, as many as a rationale has."""
    complement: Predictor | None = None
    """Reads what was dropped."""
    majority: str | None = None
    """The most frequent label of the training documents."""

    def read_all(self, documents: Sequence[Document], progress: Progress = SILENT) -> list[Prediction] | None:
        """Have the model of full text answer, if there is one."""
        if isinstance(self.full_text, Predictor):
            return self.full_text.predict([item.cut(Mask.full(len(item.words))) for item in documents], progress)
        return None if self.full_text is None else self.full_text.predict(documents, progress)


def is_baseline(model: Rationalizer) -> bool:
    """Say whether a model is itself what others are held against."""
    return isinstance(model.extractor, KeepAll) or model.settings.get("method") == "random"


def drawn_masks(model: Rationalizer, documents: Sequence[Document], masks: Sequence[Mask]) -> list[Mask]:
    """Draw random words of each document: as many as its mask keeps, of those that the model has read."""
    n_read, _ = reader_of(model).measure([text_of(document) for document in documents])
    return random_masks(documents, masks, is_contiguous(model.extractor), n_read.tolist())


def train_baselines(
    splits: Splits,
    model: Rationalizer,
    masks: tuple[Sequence[Mask], Sequence[Mask]],
    full_text: Support | None,
    config: ClassifierConfig,
    watch: Watch,
) -> Baselines:
    """Train a predictor on random words, one on what was dropped, and one on all words if there is none yet.

    :param masks: Which words of train and of dev the model keeps.
    """
    majority = most_frequent(splits.train)
    if is_baseline(model):
        return Baselines(full_text, majority=majority)
    parts = [[example.document for example in part] for part in (splits.train, splits.dev)]

    def teach(name: str, chosen: Sequence[Sequence[Mask]]) -> Predictor:
        pairs, dev_pairs = (
            [(item.document.cut(mask), item.label) for item, mask in zip(part, given, strict=True)]
            for part, given in zip((splits.train, splits.dev), chosen, strict=True)
        )
        return Predictor.train(pairs, dev_pairs, config, watch.named(name))

    random = teach("random words", [drawn_masks(model, *pair) for pair in zip(parts, masks, strict=True)])
    complement = teach("complement", [[~mask for mask in given] for given in masks])
    whole: Support | Predictor | None = full_text
    if whole is None:
        whole = teach("full text", [[Mask.full(len(item.words)) for item in part] for part in parts])
    return Baselines(whole, random, complement, majority)


def most_frequent(examples: Sequence[Example]) -> str:
    """Find the most frequent label; the first in order of the alphabet where several are."""
    counts = Counter(example.label for example in examples)
    return min(counts, key=lambda label: (-counts[label], label))

"""What a model is held against: all words, random ones, those that it dropped, and the most frequent class."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fresh.attribution.support_model import SupportModel, text_of
from fresh.data.splits import Splits
from fresh.document import Document, Example, Mask
from fresh.evaluation.length_check import reader_of
from fresh.evaluation.random_words import is_contiguous, random_masks
from fresh.predictor import Predictor
from fresh.progress import SILENT, Progress
from fresh.rationale import Prediction
from fresh.rationalizer import Rationalizer
from fresh.selection.extractors import FullText
from fresh.training.config import ClassifierConfig
from fresh.training.loop import RunContext


@dataclass(frozen=True, slots=True)
class Baselines:
    """Models of the same kind that read something else, as far as they were trained."""

    full_text: SupportModel | Predictor | None = None
    random: Predictor | None = None
    """Reads random words, as many as a rationale has."""
    complement: Predictor | None = None
    """Reads what was dropped."""
    majority: str | None = None
    """The most frequent label of the training documents."""

    def read_all(
        self, documents: Sequence[Document], read: Sequence[Mask], progress: Progress = SILENT
    ) -> list[Prediction] | None:
        """Have the model of full text answer, if there is one.

        :param read: The words of each document that a model reads at all.
        """
        if isinstance(self.full_text, Predictor):
            cuts = [document.cut(mask) for document, mask in zip(documents, read, strict=True)]
            return self.full_text.predict(cuts, progress)
        return None if self.full_text is None else self.full_text.predict(documents, progress)


def is_baseline(model: Rationalizer) -> bool:
    """Say whether a model is itself what others are held against."""
    return isinstance(model.extractor, FullText) or model.settings.get("method") == "random"


def drawn_masks(model: Rationalizer, documents: Sequence[Document], masks: Sequence[Mask]) -> list[Mask]:
    """Draw random words of each document: as many as its mask keeps, of those that the model has read."""
    n_read = [int(mask.kept.sum()) for mask in read_masks(model, documents)]
    return random_masks(documents, masks, is_contiguous(model.extractor), n_read)


def read_masks(model: Rationalizer, documents: Sequence[Document]) -> list[Mask]:
    """Take the words of each document that what chooses the words has read: all, or, where it truncates, the first."""
    n_read, _ = reader_of(model).measure([text_of(document) for document in documents])
    lengths = [len(document.words) for document in documents]
    return [Mask(np.arange(length) < read) for length, read in zip(lengths, n_read.tolist(), strict=True)]


def dropped_masks(read: Sequence[Mask], masks: Sequence[Mask]) -> list[Mask]:
    """Take the words that were read and dropped; a beginning of a long text is not held against all of it."""
    return [Mask(seen.kept & ~mask.kept) for seen, mask in zip(read, masks, strict=True)]


def train_baselines(
    splits: Splits,
    model: Rationalizer,
    masks: tuple[Sequence[Mask], Sequence[Mask]],
    full_text: SupportModel | None,
    config: ClassifierConfig,
    context: RunContext,
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
        return Predictor.train(pairs, dev_pairs, config, context.with_name(name))

    random = teach("random words", [drawn_masks(model, *pair) for pair in zip(parts, masks, strict=True)])
    read = [read_masks(model, part) for part in parts]
    complement = teach("complement", [dropped_masks(*pair) for pair in zip(read, masks, strict=True)])
    whole: SupportModel | Predictor | None = full_text
    if whole is None:
        whole = teach("full text", read)
    return Baselines(whole, random, complement, majority)


def most_frequent(examples: Sequence[Example]) -> str:
    """Find the most frequent label; the first in order of the alphabet where several are."""
    counts = Counter(example.label for example in examples)
    return min(counts, key=lambda label: (-counts[label], label))

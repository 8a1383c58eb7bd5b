"""What a model is compared with: all words, random ones, those that it dropped, and the majority class."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fresh.attribution.random import generator
from fresh.attribution.support_model import SupportModel, text_of
from fresh.data.splits import Splits
from fresh.document import Document, Example, Mask
from fresh.evaluation.warnings import document_tokenizer
from fresh.methods.independent import is_independent, shared_config, train_readers
from fresh.methods.rationales import cut_examples
from fresh.predictor import Predictor
from fresh.rationale import Rationale
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import Contiguous, GlobalContiguous, LearnedContiguous
from fresh.selection.extractors import Extractor, FullText, SaliencyExtractor
from fresh.training.config import ClassifierConfig
from fresh.training.loop import RunContext


@dataclass(frozen=True, slots=True)
class Baselines:
    """Models of the same kind that read other words, as far as they were trained."""

    full_text: SupportModel | Predictor | None = None
    independent: Predictor | None = None
    """Reads the rationales, and as many random words; trained without any extractor (`fresh.methods.independent`)."""
    complement: Predictor | None = None
    """Reads the words that were not selected."""
    majority: str | None = None
    """The most frequent label of the training documents."""


def is_baseline(model: Rationalizer) -> bool:
    """Say whether a model is itself a baseline."""
    return isinstance(model.extractor, FullText) or model.settings.get("method") == "random"


def cut_all(documents: Sequence[Document], masks: Sequence[Mask]) -> list[Rationale]:
    """Cut each document to the words that its mask keeps."""
    return [document.cut(mask) for document, mask in zip(documents, masks, strict=True)]


def majority_label(examples: Sequence[Example]) -> str:
    """Return the most frequent label; of several, the first in alphabetical order."""
    labels = sorted(example.label for example in examples)
    return Counter(labels).most_common(1)[0][0]  # of equal counts, the one that was seen first


def read_masks(model: Rationalizer, documents: Sequence[Document]) -> list[Mask]:
    """Mark the words of each document that the extractor has read: all, or the first where it truncates."""
    n_read, _ = document_tokenizer(model).measure([text_of(document) for document in documents])
    lengths = [len(document.words) for document in documents]
    return [Mask(np.arange(length) < read) for length, read in zip(lengths, n_read.tolist(), strict=True)]


def dropped_masks(read: Sequence[Mask], masks: Sequence[Mask]) -> list[Mask]:
    """Mark the words that were read but not selected: words beyond a truncated beginning were never dropped."""
    return [Mask(seen.kept & ~mask.kept) for seen, mask in zip(read, masks, strict=True)]


def is_contiguous(extractor: Extractor) -> bool:
    """Say whether an extractor selects one run of words in each document."""
    runs = Contiguous | GlobalContiguous | LearnedContiguous
    return isinstance(extractor, SaliencyExtractor) and isinstance(extractor.discretizer, runs)


def random_masks(
    documents: Sequence[Document], masks: Sequence[Mask], contiguous: bool, read: Sequence[Mask] | None = None
) -> list[Mask]:
    """Sample as many words of each document as its mask keeps; the same document always gets the same words.

    :param contiguous: Sample one run of words.
    :param read: The words of each document, from the first, that may be sampled; all by default.
    """
    sampled: list[Mask] = []
    for number, (document, mask) in enumerate(zip(documents, masks, strict=True)):
        # Seeded by the document itself, so its words do not depend on which other documents are sampled.
        rng, n_kept = generator(document, 0), int(mask.kept.sum())
        # Words beyond a truncated beginning could not have been selected, so they are not sampled.
        n_words = len(mask) if read is None else max(int(read[number].kept.sum()), n_kept)
        kept = np.zeros(len(mask), dtype=np.bool_)
        if contiguous:
            start = int(rng.integers(n_words - n_kept + 1))
            kept[start : start + n_kept] = True
        else:
            kept[rng.choice(n_words, size=n_kept, replace=False)] = True
        sampled.append(Mask(kept))
    return sampled


def train_baselines(
    splits: Splits,
    model: Rationalizer,
    masks: tuple[Sequence[Mask], Sequence[Mask]],
    full_text: SupportModel | None,
    config: ClassifierConfig,
    context: RunContext,
) -> Baselines:
    """Train an independent reader, a predictor of the complement, and one of full text if none was trained yet.

    :param masks: The words that the model selects in train and in dev.
    """
    majority = majority_label(splits.train)
    if is_baseline(model):
        return Baselines(full_text, majority=majority)
    examples = (splits.train, splits.dev)
    documents = [[example.document for example in part] for part in examples]

    def train(name: str, chosen: Iterable[Sequence[Mask]]) -> Predictor:
        pairs, dev_pairs = map(cut_examples, examples, chosen)
        return Predictor.train(pairs, dev_pairs, config, context.with_name(name))

    read = [read_masks(model, part) for part in documents]
    reader = None
    if not is_independent(model):
        [reader] = train_readers(splits, [shared_config(config)], context)
    complement = train("complement", map(dropped_masks, read, masks))
    return Baselines(full_text or train("full text", read), reader, complement, majority)

"""Random words, as many as a rationale has: what any rationale must beat."""

from collections.abc import Sequence

import numpy as np

from fresh.classifier import ClassifierConfig
from fresh.discretize import Contiguous, GlobalContiguous, LearnedContiguous
from fresh.document import Document, Example, Mask
from fresh.extractor import Extractor, SaliencyExtractor
from fresh.predictor import Predictor
from fresh.rationale import Rationale
from fresh.scorers.random import generator
from fresh.training import Watch


def is_contiguous(extractor: Extractor) -> bool:
    """Say whether an extractor keeps one run of words in each document."""
    runs = Contiguous | GlobalContiguous | LearnedContiguous
    return isinstance(extractor, SaliencyExtractor) and isinstance(extractor.discretizer, runs)


def random_mask(document: Document, mask: Mask, contiguous: bool) -> Mask:
    """Draw as many words as a mask keeps, in one run if it keeps one; a document always gets the same."""
    source, n_kept = generator(document, 0), int(mask.kept.sum())
    if contiguous:
        start = int(source.integers(len(mask) - n_kept + 1))
        return Mask.from_spans([(start, start + n_kept)] if n_kept else [], len(mask))
    kept = np.zeros(len(mask), dtype=np.bool_)
    kept[source.choice(len(mask), size=n_kept, replace=False)] = True
    return Mask(kept)


def cut_at_random(documents: Sequence[Document], masks: Sequence[Mask], contiguous: bool) -> list[Rationale]:
    """Cut documents to random words; text order is kept."""
    pairs = zip(documents, masks, strict=True)
    return [document.cut(random_mask(document, mask, contiguous)) for document, mask in pairs]


def train_on_random_words(
    train: tuple[Sequence[Example], Sequence[Mask]],
    dev: tuple[Sequence[Example], Sequence[Mask]],
    contiguous: bool,
    config: ClassifierConfig,
    watch: Watch,
) -> Predictor:
    """Train a predictor on random words, as many as the masks of another method keep of each document."""

    def pairs(examples: Sequence[Example], masks: Sequence[Mask]) -> list[tuple[Rationale, str]]:
        rationales = cut_at_random([example.document for example in examples], masks, contiguous)
        return [(rationale, item.label) for rationale, item in zip(rationales, examples, strict=True)]

    return Predictor.train(pairs(*train), pairs(*dev), config, watch)

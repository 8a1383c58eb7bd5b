"""Random words, as many as a rationale has: what any rationale must beat."""

from collections.abc import Sequence

import numpy as np

from fresh.attribution.random import generator
from fresh.document import Document, Mask
from fresh.selection.discretizers import Contiguous, GlobalContiguous, LearnedContiguous
from fresh.selection.extractors import Extractor, SaliencyExtractor


def is_contiguous(extractor: Extractor) -> bool:
    """Say whether an extractor keeps one run of words in each document."""
    runs = Contiguous | GlobalContiguous | LearnedContiguous
    return isinstance(extractor, SaliencyExtractor) and isinstance(extractor.discretizer, runs)


def _random_mask(document: Document, mask: Mask, contiguous: bool, n_read: int | None = None) -> Mask:
    """Draw as many words as a mask keeps, in one run if it keeps one; a document always gets the same.

    :param n_read: How many words, from the first, may be drawn; all if not given.
    """
    source, n_kept = generator(document, 0), int(mask.kept.sum())
    n_words = len(mask) if n_read is None else max(n_read, n_kept)
    if contiguous:
        start = int(source.integers(n_words - n_kept + 1))
        return Mask.from_spans([(start, start + n_kept)] if n_kept else [], len(mask))
    kept = np.zeros(len(mask), dtype=np.bool_)
    kept[source.choice(n_words, size=n_kept, replace=False)] = True
    return Mask(kept)


def random_masks(
    documents: Sequence[Document], masks: Sequence[Mask], contiguous: bool, n_read: Sequence[int] | None = None
) -> list[Mask]:
    """Draw as many words of each document as its mask keeps."""
    limits = [None] * len(masks) if n_read is None else list(n_read)
    return [_random_mask(*item[:2], contiguous, item[2]) for item in zip(documents, masks, limits, strict=True)]

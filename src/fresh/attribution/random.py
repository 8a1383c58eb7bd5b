"""Random scores, as a baseline."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fresh.document import Document, Saliency


@dataclass(frozen=True, slots=True)
class Random:
    """Random numbers that depend on a seed and the document's words only, so that a document always gets the same."""

    seed: int = 0

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one number in [0, 1) per word; no label is explained."""
        return [
            Saliency(generator(document, self.seed).random(len(document.words)), "", document.id)
            for document in documents
        ]


def generator(document: Document, seed: int) -> np.random.Generator:
    """Make a random generator that depends on nothing but a seed and a document's words."""
    # By the words, not by order or id: a document gets the same numbers in any batch, split or process.
    words = "\x00".join((str(seed), *document.words, "\x01", *document.query))
    digest = hashlib.sha256(words.encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))

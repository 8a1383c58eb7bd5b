"""Extractors: which words of a document are kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fresh.discretize import Discretizer
from fresh.document import Document, Mask, Saliency
from fresh.scorers import SaliencyScorer
from fresh.support import Support


class Extractor(Protocol):
    """Chooses words, without a look at any label."""

    def extract(self, documents: Sequence[Document]) -> list[Mask]:
        """Return one mask a document."""
        ...


def checked_scores(scorer: SaliencyScorer, documents: Sequence[Document]) -> list[Saliency]:
    """Have documents scored, and see that the scores fit them, whoever wrote the scorer."""
    saliencies = scorer.score(documents)
    if len(saliencies) != len(documents):
        raise ValueError(f"The scorer scored {len(saliencies)} of {len(documents)} documents; it must score each one.")
    for document, saliency in zip(documents, saliencies, strict=True):
        if len(saliency) != len(document.words):
            raise ValueError(
                f"The scorer gave {len(saliency)} scores to document {document.id!r}, "
                f"which has {len(document.words)} words; it must give one a word."
            )
    return saliencies


def select_read(discretizer: Discretizer, saliencies: Sequence[Saliency]) -> list[Mask]:
    """Cut scores to masks; a word that the support model did not read is never kept."""
    masks = discretizer.select(saliencies)
    return [
        mask if saliency.n_read is None else Mask(mask.kept & (np.arange(len(mask)) < saliency.n_read))
        for mask, saliency in zip(masks, saliencies, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class SaliencyExtractor:
    """Scores words and cuts the scores to masks; nothing in it is trained but the support model."""

    scorer: SaliencyScorer
    discretizer: Discretizer
    support: Support | None = None
    """The support model that the scorer asks, if any."""

    def extract(self, documents: Sequence[Document]) -> list[Mask]:
        """Return one mask a document."""
        return select_read(self.discretizer, self.score(documents))

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return the scores that are cut."""
        return checked_scores(self.scorer, documents)


@dataclass(frozen=True, slots=True)
class KeepAll:
    """Keeps every word: the full-text baseline."""

    def extract(self, documents: Sequence[Document]) -> list[Mask]:
        """Return one mask a document."""
        return [Mask.full(len(document.words)) for document in documents]


def extract_with_scores(
    extractor: Extractor, documents: Sequence[Document]
) -> tuple[list[Mask], list[Saliency] | list[None]]:
    """Return the masks and, where the extractor cuts scores, the scores they were cut from."""
    if isinstance(extractor, SaliencyExtractor):
        saliencies = extractor.score(documents)
        return select_read(extractor.discretizer, saliencies), saliencies
    return extractor.extract(documents), [None] * len(documents)

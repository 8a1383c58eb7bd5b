"""Extractors: which words of a document are kept."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from fresh.attribution.registry import Scorer
from fresh.attribution.support_model import SupportModel
from fresh.document import Document, Example, Explanation, Mask, Saliency
from fresh.selection.discretizers import Contiguous, Discretizer, TopK, budget
from fresh.text import Spans


class Extractor(Protocol):
    """Chooses words, without a look at any label."""

    def extract(self, documents: Sequence[Document]) -> list[Mask]:
        """Return one mask a document."""
        ...


def score_validated(scorer: Scorer, documents: Sequence[Document]) -> list[Saliency]:
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


def select_masks(discretizer: Discretizer, saliencies: Sequence[Saliency]) -> list[Mask]:
    """Cut scores to masks; a word that the support model did not read is never kept."""
    masks = discretizer.select(saliencies)
    return [
        mask if saliency.n_read is None else Mask(mask.kept & (np.arange(len(mask)) < saliency.n_read))
        for mask, saliency in zip(masks, saliencies, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class SaliencyExtractor:
    """Scores words and cuts the scores to masks."""

    scorer: Scorer
    discretizer: Discretizer
    support: SupportModel | None = None
    """The support model that the scorer asks, if any."""

    def extract(self, documents: Sequence[Document]) -> list[Mask]:
        """Return one mask a document."""
        return select_masks(self.discretizer, self.score(documents))

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return the scores that are cut."""
        return score_validated(self.scorer, documents)


@dataclass(frozen=True, slots=True)
class HumanRationales:
    """Keeps what people marked; it knows only the documents that came with a rationale."""

    spans: Mapping[str, Spans]
    """Runs of marked words of each document, by the digest of its id, words and query, and, where all with the same
    words and query agree, by the digest of these alone."""

    @classmethod
    def of(cls, examples: Iterable[Example]) -> "HumanRationales":
        """Learn the rationales by heart."""
        known: dict[str, Spans] = {}
        by_words: dict[str, set[Spans]] = {}
        for item in examples:
            if item.human is not None:
                known[_digest_of(item.document)] = item.human.spans
                by_words.setdefault(_digest_of(replace(item.document, id="")), set()).add(item.human.spans)
        agreed = {digest: spans for digest, (spans, *others) in by_words.items() if not others}
        return cls({**agreed, **known})

    def extract(self, documents: Sequence[Document]) -> list[Mask]:
        """Return one mask a document."""
        masks: list[Mask] = []
        for document in documents:
            spans = self.spans.get(_digest_of(document), self.spans.get(_digest_of(replace(document, id=""))))
            if spans is None:
                raise ValueError(
                    f"Nobody had marked words of document {document.id!r} when this model was made, and people's "
                    "rationales are all that it reads. Train with method=fresh to explain new documents."
                )
            masks.append(Mask.from_spans(spans, len(document.words)))
        return masks


def _digest_of(document: Document) -> str:
    """Digest the words, the query and the id of a document."""
    text = "\x00".join((document.id, *document.words, "", *document.query))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class FullText:
    """Keeps every word: the full-text baseline."""

    def extract(self, documents: Sequence[Document]) -> list[Mask]:
        """Return one mask a document."""
        return [Mask.full(len(document.words)) for document in documents]


def with_ratio(extractor: Extractor, ratio: float) -> "SaliencyExtractor":
    """Have an extractor keep another share of the words."""
    if not isinstance(extractor, SaliencyExtractor) or not isinstance(extractor.discretizer, TopK | Contiguous):
        raise TypeError("Only rationales of top_k and contiguous have a ratio that can be changed.")
    return replace(extractor, discretizer=replace(extractor.discretizer, ratio=ratio))


def extract_with_scores(
    extractor: Extractor, documents: Sequence[Document]
) -> tuple[list[Mask], list[Saliency] | list[None]]:
    """Return the masks and, where the extractor cuts scores, the scores they were cut from."""
    if isinstance(extractor, SaliencyExtractor):
        saliencies = extractor.score(documents)
        return select_masks(extractor.discretizer, saliencies), saliencies
    return extractor.extract(documents), [None] * len(documents)


MAX_POINTS = 50


@dataclass(frozen=True, slots=True)
class Curve:
    """Explanations of one document, from its shortest rationale to its longest."""

    points: tuple[Explanation, ...]

    @property
    def minimal(self) -> Explanation:
        """The shortest rationale from which on every longer one has the answer of the longest: all that is needed."""
        label = self.points[-1].prediction.label
        differing = [place for place, point in enumerate(self.points) if point.prediction.label != label]
        return self.points[differing[-1] + 1 if differing else 0]

    def __len__(self) -> int:
        return len(self.points)


def curve_ratios(n_words: int, low: float, high: float, most: int = MAX_POINTS) -> list[float]:
    """List ratios that keep one word more each, or, beyond so many points, some more."""
    first, last = budget(n_words, low), budget(n_words, high)
    counts = np.unique(np.linspace(first, last, min(most, last - first + 1)).round().astype(np.int64))
    return [(count - 0.5) / n_words for count in counts.tolist()]  # a ratio's words are rounded up

"""Extractors, which select the words of a document, and curves of growing rationales."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from fresh.attribution import Scorer
from fresh.attribution.support_model import SupportModel
from fresh.document import Document, Example, Explanation, Mask, Saliency
from fresh.selection.discretizers import Contiguous, Discretizer, TopK, budget
from fresh.text import Spans, plural

MAX_POINTS = 50  # most explanations in a curve


class Extractor(Protocol):
    """Selects words without seeing any label."""

    def extract(self, documents: Sequence[Document]) -> list[Mask]:
        """Return one mask for each document."""


def score_validated(scorer: Scorer, documents: Sequence[Document]) -> list[Saliency]:
    """Score documents, and raise if a scorer does not give one score for each word."""
    # Users write scorers, and a list that is too short would pair documents with the scores of others.
    saliencies = scorer.score(documents)
    if len(saliencies) != len(documents):
        raise ValueError(f"The scorer must score each document, but it scored {len(saliencies)} of {len(documents)}.")
    for document, saliency in zip(documents, saliencies, strict=True):
        if len(saliency) != (n_words := len(document.words)):
            gave = f"{plural(len(saliency), 'score')} to the {plural(n_words, 'word')}"
            raise ValueError(f"The scorer gave {gave} of document {document.id!r}.")
    return saliencies


def select_masks(discretizer: Discretizer, saliencies: Sequence[Saliency]) -> list[Mask]:
    """Turn scores into masks; a word that the support model did not read is never kept."""
    masks = discretizer.select(saliencies)
    return [
        mask if saliency.n_read is None else Mask(mask.kept & (np.arange(len(mask)) < saliency.n_read))
        for mask, saliency in zip(masks, saliencies, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class SaliencyExtractor:
    """Scores words and turns the scores into masks."""

    scorer: Scorer
    discretizer: Discretizer
    support: SupportModel | None = None
    """The support model that the scorer explains, if any."""

    def extract(self, documents: Sequence[Document]) -> list[Mask]:
        """Return one mask for each document."""
        return select_masks(self.discretizer, self.score(documents))

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return the scores that the masks are made from."""
        return score_validated(self.scorer, documents)


@dataclass(frozen=True, slots=True)
class HumanRationales:
    """Keeps the words that people marked, and knows only the documents that came with a rationale."""

    spans: Mapping[str, Spans]
    """Runs of marked words by a digest of a document's id, words and query; also by a digest without the id, if all
    documents with the same words and query agree."""

    @classmethod
    def of(cls, examples: Iterable[Example]) -> "HumanRationales":
        """Store the rationales of examples."""
        own: dict[str, Spans] = {}
        by_words: dict[str, set[Spans]] = {}
        for example in examples:
            if example.human is not None:
                own[_document_digest(example.document)] = example.human.spans
                by_words.setdefault(_document_digest(example.document, ""), set()).add(example.human.spans)
        # Two examples with the same words may have different rationales; without an id, neither can be preferred.
        agreed = {digest: spans for digest, (spans, *others) in by_words.items() if not others}
        return cls({**agreed, **own})

    def extract(self, documents: Sequence[Document]) -> list[Mask]:
        """Return one mask for each document."""
        masks: list[Mask] = []
        for document in documents:
            spans = self.spans.get(_document_digest(document), self.spans.get(_document_digest(document, "")))
            if spans is None:
                raise ValueError(
                    f"Document {document.id!r} has no human rationale. Train with method=fresh to explain it."
                )
            masks.append(Mask.from_spans(spans, len(document.words)))
        return masks


def _document_digest(document: Document, id: str | None = None) -> str:
    text = "\x00".join((document.id if id is None else id, *document.words, "", *document.query))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class FullText:
    """Keeps every word: the full-text baseline."""

    def extract(self, documents: Sequence[Document]) -> list[Mask]:
        """Return one mask for each document."""
        return [Mask.full(len(document.words)) for document in documents]


def extract_with_scores(
    extractor: Extractor, documents: Sequence[Document]
) -> tuple[list[Mask], list[Saliency] | list[None]]:
    """Return masks, and the scores that they were made from where there are any."""
    if isinstance(extractor, SaliencyExtractor):
        saliencies = extractor.score(documents)
        return select_masks(extractor.discretizer, saliencies), saliencies
    return extractor.extract(documents), [None] * len(documents)


def with_ratio(extractor: Extractor, ratio: float) -> SaliencyExtractor:
    """Return an extractor that keeps another share of the words."""
    if not isinstance(extractor, SaliencyExtractor) or not isinstance(extractor.discretizer, TopK | Contiguous):
        raise TypeError("ratio can be changed for the discretizers top_k and contiguous only.")
    return replace(extractor, discretizer=replace(extractor.discretizer, ratio=ratio))


@dataclass(frozen=True, slots=True)
class Curve:
    """Explanations of one document, from its shortest rationale to its longest."""

    points: tuple[Explanation, ...]

    @property
    def minimal(self) -> Explanation:
        """The shortest rationale that has, like every longer one, the answer of the longest."""
        label = self.points[-1].prediction.label
        differing = [place for place, point in enumerate(self.points) if point.prediction.label != label]
        return self.points[differing[-1] + 1 if differing else 0]

    def __len__(self) -> int:
        return len(self.points)


def curve_ratios(n_words: int, low: float, high: float) -> list[float]:
    """List ratios that each keep one word more than the one before, or several if there would be too many points."""
    first, last = budget(n_words, low), budget(n_words, high)
    counts = np.unique(np.linspace(first, last, min(MAX_POINTS, last - first + 1)).round().astype(np.int64))
    # Half a word less than the count, since words are rounded up: no rounding of the ratio can then change the count.
    return [(count - 0.5) / n_words for count in counts.tolist()]

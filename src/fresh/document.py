"""Documents, scores and masks, and the only way to a rationale: `Document.cut`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from fresh.highlight import explanation_html
from fresh.rationale import Prediction, Rationale, Words, check_text, check_words, exact_str
from fresh.text import Spans, TextParts, plural, split_whitespace, split_words

_SUBCLASS = "{} cannot be subclassed: the wall depends on its exact type."
_SPAN_TYPES = (tuple, int, int)


def _read_only(values: NDArray[Any]) -> NDArray[Any]:
    """Copy an array into bytes: unlike an array's own memory, they cannot be made writable again."""
    return np.frombuffer(values.tobytes(), dtype=values.dtype).reshape(values.shape)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """The words of a document that are kept: one read-only flag for each word."""

    kept: NDArray[np.bool_]

    def __init_subclass__(cls) -> None:
        raise TypeError(_SUBCLASS.format("Mask"))

    def __post_init__(self) -> None:
        flags = np.array(self.kept)
        if flags.ndim != 1 or (flags.size and flags.dtype != np.bool_):
            raise ValueError(f"A mask is one row of booleans, got {flags.dtype} of shape {flags.shape}.")
        object.__setattr__(self, "kept", _read_only(flags.astype(np.bool_)))

    @classmethod
    def full(cls, n_words: int) -> Self:
        """Keep every word."""
        return cls(np.ones(n_words, dtype=np.bool_))

    @classmethod
    def from_spans(cls, spans: Iterable[tuple[int, int]], n_words: int) -> Self:
        """Keep the words in spans, which count words from 0 and exclude their end."""
        kept = np.zeros(n_words, dtype=np.bool_)
        for start, end in spans:
            if not 0 <= start < end <= n_words:
                problem = f"The span ({start}, {end}) does not fit a document of {plural(n_words, 'word')}."
                raise ValueError(f"{problem} Spans count words from 0 and exclude their end.")
            kept[start:end] = True
        return cls(kept)

    @classmethod
    def from_flags(cls, flags: NDArray[np.bool_], n_words: Iterable[int]) -> list["Mask"]:
        """Make the masks of many documents from one array of flags, far faster than one by one.

        :param n_words: Number of words of each document.
        """
        ends = np.cumsum([0, *n_words]).tolist()
        if flags.shape != (ends[-1],) or flags.dtype != np.bool_:
            raise ValueError(f"Masks need {ends[-1]} booleans in a row, got {flags.dtype} of shape {flags.shape}.")
        shared = _read_only(flags)  # and so is every part of it
        # Bypasses __init__, which would copy and check each part again. Reading scores and making masks takes 1 of the
        # 3.7 µs that Contiguous takes for a document of 300 words.
        masks = list(map(object.__new__, repeat(Mask, len(ends) - 1)))
        for mask, (start, end) in zip(masks, pairwise(ends), strict=True):
            object.__setattr__(mask, "kept", shared[start:end])
        return masks

    @property
    def spans(self) -> Spans:
        """Runs of kept words: first word, and the word after the last."""
        edges = np.flatnonzero(np.diff(np.concatenate(([False], self.kept, [False])).astype(np.int8)))
        return tuple((int(start), int(end)) for start, end in edges.reshape(-1, 2))

    @property
    def ratio(self) -> float:
        """Share of the words that is kept."""
        return float(self.kept.mean()) if self.kept.size else 0.0

    def __invert__(self) -> "Mask":
        return Mask(~self.kept)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mask) and np.array_equal(self.kept, other.kept)

    def __hash__(self) -> int:
        return hash(self.kept.tobytes())

    def __len__(self) -> int:
        return len(self.kept)

    # Copies and pickles go through __init__, so that they are read-only too.
    def __reduce__(self) -> tuple[type["Mask"], tuple[NDArray[np.bool_]]]:
        return Mask, (self.kept,)


@final
@dataclass(frozen=True, slots=True)
class Document:
    """A text, its words and where they are in it, and the query about it."""

    text: str
    words: Words
    spans: Spans
    query: Words = ()
    id: str = ""
    parts: TextParts = ()
    """Name and number of words of each published text that it was joined from; empty if unknown."""

    def __init_subclass__(cls) -> None:
        raise TypeError(_SUBCLASS.format("Document"))

    def __post_init__(self) -> None:
        check_text(f"text of document {self.id!r}", self.text)
        check_text("id of a document", self.id)
        name, n_words = f"Document {self.id!r}", len(self.words)
        n_in_parts = sum(n_in_part for _, n_in_part in self.parts)
        if self.parts and n_in_parts != n_words:
            raise ValueError(f"{name} has {plural(n_words, 'word')}, but its parts have {n_in_parts}.")
        if not self.words:
            raise ValueError(f"{name} has no words.")
        if n_words != len(self.spans):
            raise ValueError(f"{name} has {plural(n_words, 'word')} but {plural(len(self.spans), 'span')}.")
        # Tuples, since a list could be changed after the answer was computed.
        if type(self.spans) is not tuple or {(type(span), *map(type, span)) for span in self.spans} != {_SPAN_TYPES}:
            raise TypeError(f"{name}: spans must be a tuple of tuples of two integers, got {self.spans!r:.80}.")
        # Every word must be where its span says, in reading order: highlights show the text, predictors read the words.
        last_end = 0
        for word, (start, end) in zip(self.words, self.spans, strict=True):
            if self.text[start:end] != word:
                raise ValueError(f"{name}: characters {start} to {end} are not the word {word!r}.")
            if not last_end <= start < end:
                problem = f"the word {word!r} at characters {start} to {end} is empty or does not follow the last."
                raise ValueError(f"{name}: {problem}")
            last_end = end
        check_words(f"words of document {self.id!r}", self.words)
        check_words(f"query of document {self.id!r}", self.query)

    @classmethod
    def from_text(cls, text: str, query: str | None = None, id: str = "") -> Self:
        """Split raw text, and a raw query, as a reader would."""
        return cls(*split_text(exact_str(text)), split_text(exact_str(query or ""))[1], exact_str(id))

    @classmethod
    def from_tokenized(cls, text: str, query: str | None = None, id: str = "") -> Self:
        """Split text that is already tokenized at white space."""
        query_words = split_text(exact_str(query or ""), tokenised=True)[1]
        return cls(*split_text(exact_str(text), tokenised=True), query_words, exact_str(id))

    @classmethod
    def from_words(cls, words: Sequence[str], query: Sequence[str] = (), id: str = "") -> Self:
        """Take words as they are; the text is the words joined by single spaces."""
        words, query = (
            tuple(exact_str(word if isinstance(word, str) else str(word)) for word in sequence)
            for sequence in (words, query)
        )
        starts = np.cumsum([0, *(len(word) + 1 for word in words)])
        spans = tuple((int(start), int(start) + len(word)) for start, word in zip(starts, words, strict=False))
        return cls(" ".join(words), words, spans, query, exact_str(id))

    @property
    def part_ranges(self) -> Spans:
        """Range of words of each part; one range if the document was not joined."""
        ends = np.cumsum([n_words for _, n_words in self.parts] or [len(self.words)]).tolist()
        return tuple(pairwise((0, *ends)))

    def cut(self, mask: Mask) -> Rationale:
        """Return the kept words and forget the rest."""
        # Not isinstance: a subclass could show other flags to this method than to whoever looks at the mask.
        if type(mask) is not Mask:
            raise TypeError(f"cut() takes a Mask, got {type(mask).__name__}.")
        if len(mask) != len(self.words):
            n_flags, n_words = plural(len(mask), "flag"), plural(len(self.words), "word")
            raise ValueError(f"The mask has {n_flags} but document {self.id!r} has {n_words}.")
        kept = tuple(word for word, flag in zip(self.words, mask.kept, strict=True) if flag)
        return Rationale(kept, self.query, self.id)


def split_text(text: str, tokenised: bool = False) -> tuple[str, Words, Spans]:
    """Return a text, its words, and where they are in it."""
    spans = split_whitespace(text) if tokenised else split_words(text)
    return text, tuple(text[start:end] for start, end in spans), spans


@dataclass(frozen=True, slots=True, eq=False)
class Saliency:
    """How much each word of a document mattered to the support model, and to which answer."""

    scores: NDArray[np.float64]
    target: str
    """The label that the scores explain; empty for a tagger, which knows no labels."""
    id: str = ""
    n_read: int | None = None
    """Number of words from the first that the support model read, if not all; the others are never kept."""

    def __post_init__(self) -> None:
        scores = np.array(self.scores, dtype=np.float64)
        if scores.ndim != 1:
            raise ValueError(f"The scores of document {self.id!r} must be one for each word, got shape {scores.shape}.")
        # NaN compares false with every number, so which words are kept would depend on the order of comparisons.
        if not np.isfinite(scores).all():
            word = int(np.flatnonzero(~np.isfinite(scores))[0])
            rule = "Scores must be finite numbers: fix the scorer, or leave the document out."
            raise ValueError(f"The score of word {word} in document {self.id!r} is {scores[word]}. {rule}")
        object.__setattr__(self, "scores", _read_only(scores))

    def __len__(self) -> int:
        return len(self.scores)

    def __reduce__(self) -> tuple[type["Saliency"], tuple[NDArray[np.float64], str, str, int | None]]:
        return Saliency, (self.scores, self.target, self.id, self.n_read)


@dataclass(frozen=True, slots=True)
class Example:
    """A document with its label and, where people marked one, their rationale."""

    document: Document
    label: str
    human: Mask | None = None
    evidence: Spans | None = None
    """The spans that people marked, in words, as published: adjacent spans are not joined, empty ones are kept."""

    def __post_init__(self) -> None:
        human, name, n_words = self.human, f"document {self.document.id!r}", len(self.document.words)
        if human is not None and len(human) != n_words:
            raise ValueError(f"The human rationale has {len(human)} flags but {name} has {plural(n_words, 'word')}.")
        for start, end in self.evidence or ():
            if not (0 <= start <= end <= n_words and start < n_words):
                raise ValueError(f"The evidence span ({start}, {end}) does not fit {name} of length {n_words}.")
        marked = [span for span in self.evidence or () if span[0] != span[1]]
        if self.evidence is not None and Mask.from_spans(marked, n_words) != human:
            raise ValueError(f"The evidence and the human rationale of {name} mark different words.")

    @property
    def human_spans(self) -> Spans | None:
        """The spans that people marked or, if these are unknown, the runs of words in their rationale."""
        return self.human.spans if self.evidence is None and self.human is not None else self.evidence


@dataclass(frozen=True, slots=True)
class Explanation:
    """An answer with the words it was computed from."""

    document: Document
    mask: Mask
    rationale: Rationale
    """What the predictor read: the same object, not a copy."""
    prediction: Prediction
    saliency: Saliency | None = None

    def __post_init__(self) -> None:
        kinds = (Document, Mask, Rationale, Prediction)
        for part, kind in zip((self.document, self.mask, self.rationale, self.prediction), kinds, strict=True):
            if type(part) is not kind:
                raise TypeError(f"An explanation takes a {kind.__name__}, got {type(part).__name__}.")
        id = self.document.id
        # What is shown must be what was read, whoever puts an explanation together.
        if self.document.cut(self.mask) != self.rationale:
            raise ValueError(f"The rationale of document {id!r} differs from the words its mask keeps.")
        if self.saliency is not None and len(self.saliency) != len(self.mask):
            raise ValueError(f"There are {len(self.saliency)} scores but document {id!r} has {len(self.mask)} words.")

    @property
    def ratio(self) -> float:
        """Share of the words that was kept."""
        return self.mask.ratio

    @property
    def spans(self) -> Spans:
        """Places of the rationale in the text, in characters; adjacent words make one span."""
        places = self.document.spans
        return tuple((places[first][0], places[after - 1][1]) for first, after in self.mask.spans)

    def _repr_html_(self) -> str:
        return explanation_html(self.document.text, self.spans, self.rationale, self.prediction, self.ratio)

"""Hypothesis strategies for documents, masks and scores."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from fresh.document import Document, Mask, Saliency
from fresh.metrics.bootstrap import Ints

# Pieces of text that are hard to split: joined and coloured emoji, flags, keycaps, marks without a letter, scripts
# without spaces, every kind of space, controls, invisible signs, half a surrogate pair.
SHARDS = (
    *("a", "Z", "7", "_", "ß", "é", "e\u0301", "ﬁ", "Ω", "ж", "א", "ش", "中", "国", "か\u3099", "ー", "ไม่", "မြ", "한"),
    *("'", "’", "-", ".", "...", ",", ":", "!", "?", "«", "·", "$", "#", "*", "&", "/", "\\", "]", "^"),
    *("👍🏽", "👩\u200d🚀", "👨\u200d👩\u200d👧", "❤\ufe0f", "🇫🇷", "🇺"),
    *("3\ufe0f\u20e3", "🏴\U000e0067\U000e007f", "🏽"),
    *("\u0301", "\u093f", "\ufe0f", "\u20e3", "\u200d", "\u200c", "\u00ad", "\u0e31", "\U000e0100"),
    *(" ", "\n", "\t", "\u00a0", "\u2009", "\u3000", "\u200b", "\ufeff", "\u2028", "\x1c", "\x85"),
    *("\x00", "\x07", "\x7f", "\u200e", "\u202e", "\u2060", "\ud800", "\udc80", "\ue000", "\uffff"),
    *("U.S.", "e.g.", "don't", "3.14", "1,000", "12:30", "rock-n-roll", "中.国."),
)


def texts(min_size: int = 0, max_size: int = 12) -> st.SearchStrategy[str]:
    """Any text, most of it hard to split."""
    anything = st.text(st.characters(), max_size=3)
    shards = st.lists(st.sampled_from(SHARDS) | anything, min_size=min_size, max_size=max_size)
    return shards.map("".join)


def words() -> st.SearchStrategy[str]:
    """Words without spaces, as a reader sees them or as a tokenizer left them."""
    easy = st.text("abcXYZ0'-.!é中", min_size=1, max_size=8)
    hard = st.text(st.characters(exclude_categories=("Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=4)
    return easy | hard


def documents(max_words: int = 12) -> st.SearchStrategy[Document]:
    return st.builds(
        Document.from_words,
        st.lists(words(), min_size=1, max_size=max_words),
        st.lists(words(), max_size=3),
        st.text("abc123", max_size=4),
    )


def masks(document: Document) -> st.SearchStrategy[Mask]:
    """Masks that fit a document, including the empty and the full one."""
    return flags(len(document.words)).map(lambda row: Mask(np.array(row)))


def flags(n_words: int) -> st.SearchStrategy[list[bool]]:
    return st.lists(st.booleans(), min_size=n_words, max_size=n_words)


@st.composite
def with_other_dropped_words(draw: st.DrawFn, document: Document, mask: Mask) -> Document:
    """Documents that differ only in the dropped words, which may have other lengths."""
    changed = [word if kept else draw(words()) for word, kept in zip(document.words, mask.kept, strict=True)]
    return Document.from_words(changed, document.query, document.id)


def numbers() -> st.SearchStrategy[float]:
    """Integers, eighths and tiny steps: signed, full of ties, and exact in every sum of a few."""
    return st.integers(-3, 5).map(float) | st.integers(-24, 40).map(lambda n: n / 8)


def any_numbers() -> st.SearchStrategy[float]:
    """Any finite number, including the largest and the smallest."""
    return st.floats(allow_nan=False, allow_infinity=False)


def saliencies(
    scores: st.SearchStrategy[float] | None = None, min_words: int = 1, max_words: int = 8
) -> st.SearchStrategy[Saliency]:
    rows = st.lists(numbers() if scores is None else scores, min_size=min_words, max_size=max_words)
    return rows.map(saliency)


def saliency(scores: Sequence[float], id: str = "") -> Saliency:
    return Saliency(np.array(scores, dtype=np.float64), target="pos", id=id)


def labels_and_texts(max_size: int) -> st.SearchStrategy[list[Ints]]:
    """Numbers of gold labels, of the predictions of two models, and of texts, one each an instance."""
    row = st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 2), st.integers(0, 3))
    return st.lists(row, min_size=1, max_size=max_size).map(lambda rows: list(np.array(rows).T))


def ratios() -> st.SearchStrategy[float]:
    """Ratios, including those that floating point rounds the wrong way."""
    return st.sampled_from((0.05, 0.07, 0.1, 0.14, 0.2, 0.28, 0.3, 0.55, 0.56, 0.7, 1.0)) | st.floats(0.001, 1)

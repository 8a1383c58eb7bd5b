"""The pieces of every word met so far, and many texts cut by them at once."""

import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fresh.nn.batch import Flat, IntArray
from fresh.rationale import Words

Flags = NDArray[np.bool_]

_adding = threading.Lock()
"""Held while words are added to any bank; reading takes no lock."""


def ranges(starts: IntArray, counts: IntArray) -> IntArray:
    """Count up from each start, so many steps, one run after the other."""
    ends = np.cumsum(counts)
    found: IntArray = np.repeat(starts - ends + counts, counts) + np.arange(ends[-1] if len(ends) else 0)
    return found


@dataclass(frozen=True, slots=True)
class WordTokens:
    """The words of many texts, in pieces."""

    ids: Flat
    """All pieces of all texts."""
    by_word: IntArray
    """How many pieces each word has, text after text."""
    n_words: IntArray
    """How many words each text has."""

    @property
    def ends(self) -> IntArray:
        """Where the pieces of each text end, in the pieces of all. Shape: (texts + 1,)."""
        pieces = np.concatenate([[0], np.cumsum(self.by_word)])
        ends: IntArray = pieces[np.concatenate([[0], np.cumsum(self.n_words)])]
        return ends

    @property
    def n_pieces(self) -> IntArray:
        """How many pieces each text has."""
        n_pieces: IntArray = np.diff(self.ends)
        return n_pieces

    @property
    def owners(self) -> Flat:
        """Which word of its text each piece belongs to."""
        return np.repeat(ranges(np.zeros_like(self.n_words), self.n_words), self.by_word).astype(np.int32)

    def count_fitting(self, room: IntArray) -> IntArray:
        """Count the words of each text, from its beginning, whose pieces have room."""
        ends = np.cumsum(self.by_word) - np.repeat(self.ends[:-1], self.n_words)
        fits = np.concatenate([[0], np.cumsum(ends <= np.repeat(room, self.n_words))])
        n_fitting: IntArray = np.diff(fits[np.concatenate([[0], np.cumsum(self.n_words)])])
        return n_fitting

    def choose(self, texts: IntArray, kept: Flags) -> "WordTokens":
        """Take some texts, and of each the words that are kept.

        :param kept: One row a text, with as many flags as it has words and perhaps more. Shape: (texts, words).
        """
        rows, words = np.nonzero(kept & (np.arange(kept.shape[1]) < self.n_words[texts, None]))
        taken = (np.cumsum(self.n_words) - self.n_words)[texts[rows]] + words
        pieces = (np.cumsum(self.by_word) - self.by_word)[taken]
        ids = self.ids[ranges(pieces, self.by_word[taken])]
        return WordTokens(ids, self.by_word[taken], np.bincount(rows, minlength=len(texts)).astype(np.int64))

    def first(self, n_words: IntArray) -> "WordTokens":
        """Take so many words of each text."""
        if np.array_equal(n_words, self.n_words):
            return self
        taken = ranges(np.concatenate([[0], np.cumsum(self.n_words)[:-1]]), n_words)
        pieces = np.concatenate([[0], np.cumsum(self.by_word)[:-1]])[taken]
        return WordTokens(self.ids[ranges(pieces, self.by_word[taken])], self.by_word[taken], n_words)


class WordCache:
    """Remembers words by number, and their pieces in one flat array.

    Several threads may use it at once, and an interrupt at any line leaves it right: the arrays only grow, both are
    published in one assignment, and a word is known only once its pieces are there.
    """

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.n_characters = 0
        """Characters of all words, for those who limit what is remembered."""
        self.pieces: tuple[Flat, IntArray] = np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int64)
        """The pieces of all words, and where those of each word begin; then where the last ones end."""

    def __len__(self) -> int:
        return len(self.numbers)

    def add(self, words: Sequence[str], pieces: Sequence[Sequence[int]]) -> None:
        """Remember new words."""
        if not words:
            return
        with _adding:
            ids, starts = self.pieces
            more = np.fromiter(itertools.chain.from_iterable(pieces), dtype=np.int32)
            ends = starts[-1] + np.cumsum([len(item) for item in pieces])
            self.n_characters += sum(map(len, words))
            self.pieces = np.concatenate([ids, more]), np.concatenate([starts, ends])
            # Last: an interrupt before this line leaves pieces without a word, which nothing refers to.
            self.numbers.update(zip(words, range(len(starts) - 1, len(starts) - 1 + len(words)), strict=True))

    def cut(self, texts: Sequence[Words]) -> WordTokens:
        """Cut texts of words that are all known."""
        n_words = np.array([len(words) for words in texts], dtype=np.int64)
        found = map(self.numbers.__getitem__, itertools.chain.from_iterable(texts))
        numbers = np.fromiter(found, dtype=np.int64, count=int(n_words.sum()))
        ids, starts = self.pieces  # after the numbers, so that it has the pieces of all of them
        by_word = starts[numbers + 1] - starts[numbers]
        return WordTokens(ids[ranges(starts[numbers], by_word)], by_word, n_words)

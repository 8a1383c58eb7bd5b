"""Words to tokens: each word is tokenized by itself, once, and texts are assembled from arrays."""

import copy
import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fresh.errors import TooLongError
from fresh.nn.batch import NO_WORD, Flat, IntArray, TokenTable
from fresh.nn.encoder import Encoder
from fresh.rationale import Words
from fresh.text import plural

Flags = NDArray[np.bool_]
LongPolicy = Literal["stagger", "chunk", "truncate"]

# Most tokens in a window.
WINDOW = 512
# The cache is emptied when it has more words, or more characters: users of a server can send words of any length.
MAX_CACHED_WORDS = 1_000_000
MAX_CACHED_CHARACTERS = 10_000_000

_counting = threading.Lock()  # held while the characters of a cache are counted; words take no lock


class Text(NamedTuple):
    """Words to read, and a query about them."""

    words: Words
    query: Words = ()
    id: str = ""


def ranges(starts: IntArray, counts: IntArray) -> IntArray:
    """Concatenate ``arange(start, start + count)`` for all pairs."""
    ends = _starts(counts)
    return np.repeat(starts - ends[:-1], counts) + np.arange(ends[-1])


def _starts(counts: IntArray) -> IntArray:
    """Return where each of several runs begins in an array, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(counts)])


@dataclass(frozen=True, slots=True)
class WordTokens:
    """The tokens of the words of many texts, without special tokens."""

    ids: Flat
    per_word: IntArray
    """Number of tokens of each word, text after text."""
    n_words: IntArray
    """Number of words of each text."""

    @property
    def starts(self) -> IntArray:
        """Where the tokens of each text begin, and where the last ones end. Shape: (texts + 1,)."""
        return _starts(self.per_word)[_starts(self.n_words)]

    @property
    def n_tokens(self) -> IntArray:
        """Number of tokens of each text."""
        return np.diff(self.starts)

    @property
    def word_of(self) -> Flat:
        """The word of its text that each token belongs to."""
        return np.repeat(ranges(np.zeros_like(self.n_words), self.n_words), self.per_word).astype(np.int32)

    def select(self, texts: IntArray, kept: Flags) -> "WordTokens":
        """Take some texts, and only those of their words that are kept (texts, words)."""
        rows, words = np.nonzero(kept & (np.arange(kept.shape[1]) < self.n_words[texts, None]))
        n_words = np.bincount(rows, minlength=len(texts)).astype(np.int64)
        return self._take(_starts(self.n_words)[texts[rows]] + words, n_words)

    def truncate(self, n_words: IntArray) -> "WordTokens":
        """Take the first words of each text."""
        if np.array_equal(n_words, self.n_words):
            return self
        return self._take(ranges(_starts(self.n_words)[:-1], n_words), n_words)

    def _take(self, words: IntArray, n_words: IntArray) -> "WordTokens":
        per_word = self.per_word[words]
        return WordTokens(self.ids[ranges(_starts(self.per_word)[words], per_word)], per_word, n_words)


class WordCache(dict[str, bytes]):
    """The tokens of all words so far, each word's as the bytes of an int32 array."""

    # Bytes, since joining those of many words is one copy, and takes less memory than lists of numbers. Several threads
    # may use it, and an interrupt at any line leaves it valid: words are added, with their tokens, in one call.
    n_characters = 0

    def add(self, words: Sequence[str], tokens: Sequence[Sequence[int]]) -> None:
        """Add new words."""
        entries = [np.array(item, dtype=np.int32).tobytes() for item in tokens]
        with _counting:
            self.n_characters += sum(map(len, words))
        self.update(zip(words, entries, strict=True))

    def look_up(self, texts: Sequence[Words]) -> WordTokens:
        """Tokenize texts whose words are all known."""
        entries = list(map(self.__getitem__, itertools.chain.from_iterable(texts)))
        per_word = np.fromiter(map(len, entries), dtype=np.int64, count=len(entries)) // np.dtype(np.int32).itemsize
        n_words = np.array([len(words) for words in texts], dtype=np.int64)
        return WordTokens(np.frombuffer(b"".join(entries), dtype=np.int32), per_word, n_words)


class _Frame(NamedTuple):
    """The special tokens before, between and after a text and its query, the number of them, and the types of both."""

    ids: list[list[int]]
    size: int
    types: tuple[int, int]


class WordTokenizer:
    """Turns texts into tokens, each word by itself, as the encoder was trained to read them."""

    def __init__(self, encoder: Encoder, long: LongPolicy, max_pieces: int) -> None:
        """Prepare an encoder's tokenizer.

        :param long: How to read texts beyond the encoder's length.
        :param max_pieces: Most tokens of a text, with ``long="stagger"``.
        """
        self.tokenizer = encoder.tokenizer
        # A copy, since other users of the tokenizer may change its settings. transformers 5: `_tokenizer`.
        self._backend: Any = copy.deepcopy(encoder.tokenizer._tokenizer)
        self._backend.no_truncation()
        self._backend.no_padding()
        self._backend.encode_special_tokens = True  # a "[SEP]" in a text is text
        self.long = long
        self.max_pieces = max_pieces
        # RoBERTa and MPNet number positions from the one after that of padding.
        padding = getattr(getattr(encoder.embeddings, "position_embeddings", None), "padding_idx", None)
        self.first_position = 0 if padding is None else int(padding) + 1
        self.n_positions = int(encoder.model.config.max_position_embeddings) - self.first_position
        self.window = min(self.n_positions, WINDOW)
        # Tokens that must fit beside the query: with less than a quarter, windows would mostly hold the query.
        self._min_room = self.window // 4 if long == "chunk" else 1
        one, two = (self._backend.encode(text, add_special_tokens=False).ids for text in ("a", "a a"))
        self.prefix = "" if two == one + one else " "
        """What comes before a word: for byte-level tokenizers such as RoBERTa's, words differ after a space."""
        self._single = self._frame("a")
        self._pair = self._frame("a", "a")
        self.cache = WordCache()

    def _frame(self, *parts: str) -> _Frame:
        """Find the special tokens that the tokenizer puts around one text, or around two."""
        encoded = self._backend.encode(*parts)
        runs: list[list[int]] = [[]]
        types: list[int] = []
        previous: int | None = None
        for id, type, sequence in zip(encoded.ids, encoded.type_ids, encoded.sequence_ids, strict=True):
            if sequence is None:
                runs[-1].append(id)
            elif sequence != previous:
                runs.append([])
                types.append(type)
            previous = sequence
        return _Frame([*runs, []][:3], sum(map(len, runs)), (types[0], types[-1]))

    def __call__(self, texts: Sequence[Text]) -> TokenTable:
        """Encode texts; a text that is too long is an error."""
        words, queries = self._tokenize(texts)
        n_read, problems = self._fit(texts, words, queries)
        for problem in problems.values():
            raise problem
        return self._assemble(words.truncate(n_read), queries, words.n_words)

    def measure(self, texts: Sequence[Text]) -> tuple[IntArray, dict[int, TooLongError]]:
        """Count the words of each text that will be read; return errors of texts that are too long, by number."""
        return self._fit(texts, *self._tokenize(texts))

    def encode_subsets(self, texts: Sequence[Text]) -> Callable[[IntArray, Flags], TokenTable]:
        """Tokenize texts once, to encode them many times with some of their words.

        :return: A function that encodes texts, given by their numbers, as if they had only the words that are kept
            (texts, words).
        """
        words, queries = self._tokenize(texts)
        words = words.truncate(self._fit(texts, words, queries)[0])

        def encode(numbers: IntArray, kept: Flags) -> TokenTable:
            whole = np.ones((len(numbers), int(queries.n_words.max())), dtype=np.bool_)
            chosen = words.select(numbers, kept)
            return self._assemble(chosen, queries.select(numbers, whole), chosen.n_words)

        return encode

    def _tokenize(self, texts: Sequence[Text]) -> tuple[WordTokens, WordTokens]:
        if len(self.cache) > MAX_CACHED_WORDS or self.cache.n_characters > MAX_CACHED_CHARACTERS:
            self.cache = WordCache()
        cache = self.cache  # another thread may replace it
        # Only new words are tokenized, all at once; the rest is array arithmetic. AG News train (26,802 texts) takes
        # 2.8 s.
        new = sorted({word for text in texts for word in (*text.words, *text.query) if word not in cache})
        # No tokenizer accepts half of a surrogate pair.
        valid = [word.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for word in new]
        encoded = self._backend.encode_batch([self.prefix + word for word in valid], add_special_tokens=False)
        cache.add(new, [found.ids or [self.tokenizer.unk_token_id] for found in encoded])
        return cache.look_up([text.words for text in texts]), cache.look_up([text.query for text in texts])

    def _fit(
        self, texts: Sequence[Text], words: WordTokens, queries: WordTokens
    ) -> tuple[IntArray, dict[int, TooLongError]]:
        """Count the words that fit; windows and truncation make room, unless the query takes too much of it."""
        room = self._room(queries)
        if self.long == "chunk":
            n_read, fits = words.n_words, room >= self._min_room
        else:
            ends = np.cumsum(words.per_word) - np.repeat(words.starts[:-1], words.n_words)
            fits_word = (ends <= np.repeat(room, words.n_words)).astype(np.int64)
            n_read = np.diff(_starts(fits_word)[_starts(words.n_words)])
            fits = (n_read == words.n_words) & (room >= 0)
            if self.long == "truncate":
                fits |= room >= self._min_room
        return n_read, {
            number: self._too_long(texts[number], int(words.n_tokens[number]), max(int(room[number]), 0))
            for number in np.flatnonzero(~fits).tolist()
        }

    def _room(self, queries: WordTokens) -> IntArray:
        """Count the tokens that fit beside each query: in a window, or in the whole text."""
        size = {"stagger": self.max_pieces, "chunk": self.window, "truncate": self.n_positions}[self.long]
        return size - np.where(queries.n_words > 0, self._pair.size, self._single.size) - queries.n_tokens

    def _too_long(self, text: Text, n_tokens: int, room: int) -> TooLongError:
        n_words, n_query_words = plural(len(text.words), "word"), plural(len(text.query), "word")
        if self.long != "stagger":
            return TooLongError(
                f"The query of text {text.id!r} has {n_query_words}, which leaves room for {plural(room, 'token')} of "
                f"the text; it needs room for {self._min_room}. Shorten the query."
            )
        return TooLongError(
            f"Text {text.id!r} has {n_words}, or {plural(n_tokens, 'token')}, but at most {room} can be read. "
            "Split it, or train a model that reads it in windows (long=chunk), only its beginning (long=truncate) or "
            "more at once (a larger max_pieces)."
        )

    def _assemble(self, words: WordTokens, queries: WordTokens, n_words: IntArray) -> TokenTable:
        """Put special tokens, words and queries together, for all texts at once, window after window."""
        # Windows: all are full but the last of each text.
        room, n_windows = self._room(queries), np.ones(len(n_words), dtype=np.int64)
        if self.long == "chunk":
            n_windows = np.maximum(1, -(-words.n_tokens // np.maximum(1, room)))
        text_of = np.repeat(np.arange(len(room)), n_windows)
        n_tokens = room[text_of]
        n_tokens[np.cumsum(n_windows) - 1] = words.n_tokens - (n_windows - 1) * room
        # Each window is five segments: special tokens, words, special tokens, query, special tokens. All are gathered
        # from one pool of tokens; those of texts without a query have other special tokens, and fewer.
        special = [*self._single.ids, *self._pair.ids]
        special_ids = np.array(list(itertools.chain.from_iterable(special)), dtype=np.int32)
        pool = np.concatenate([words.ids, queries.ids, special_ids])
        word_of = np.full(len(pool), NO_WORD, dtype=np.int32)
        word_of[: len(words.ids)] = words.word_of
        has_query = (queries.n_words[text_of] > 0).astype(np.int64)
        sizes = np.array([len(run) for run in special])
        begins = len(words.ids) + len(queries.ids) + _starts(sizes)
        first, second, third = (3 * has_query + place for place in range(3))
        query_begins = len(words.ids) + queries.starts[text_of]
        segments = [begins[first], _starts(n_tokens)[:-1], begins[second], query_begins, begins[third]]
        counts = np.stack([sizes[first], n_tokens, sizes[second], queries.n_tokens[text_of], sizes[third]], 1)
        places = ranges(np.stack(segments, 1).ravel(), counts.ravel())
        types = np.array([self._single.types, self._pair.types], dtype=np.int32)[has_query][:, [0, 0, 0, 1, 1]]
        lengths = counts.sum(1)
        # Beyond the encoder's length, neighbors share a position.
        places_in_text, length = ranges(np.zeros_like(lengths), lengths), np.repeat(lengths, lengths)
        is_long = length > self.n_positions
        places_in_text[is_long] = places_in_text[is_long] * self.n_positions // length[is_long]
        windows = np.searchsorted(text_of, np.arange(len(n_words) + 1))  # where the windows of each text begin
        return TokenTable(
            ids=pool[places],
            types=np.repeat(types.ravel(), counts.ravel()),
            positions=(places_in_text + self.first_position).astype(np.int32),
            word_of=word_of[places],
            starts=_starts(lengths)[windows],
            n_words=n_words,
            n_read=words.n_words,
        )

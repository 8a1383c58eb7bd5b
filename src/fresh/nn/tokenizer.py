"""Words to pieces and back; the only user of tokenizers."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from fresh.errors import TooLongError
from fresh.nn.batch import NO_WORD, EncodedText, Flat, IntArray, TokenTable
from fresh.nn.encoder import Encoder
from fresh.nn.windows import WINDOW
from fresh.nn.word_cache import Flags, WordCache, WordTokens, ranges
from fresh.rationale import Words

LongPolicy = Literal["stagger", "chunk", "truncate"]

MOST_KNOWN = 1_000_000
"""Words whose pieces are remembered, at most, before all are forgotten."""
MOST_CHARACTERS = 10_000_000
"""Characters of words that are remembered, at most; users can make words of any length."""


class Text(NamedTuple):
    """Words to read, and what is asked about them."""

    words: Words
    query: Words = ()
    id: str = ""


@dataclass(frozen=True, slots=True)
class _Frame:
    """The special pieces around a text and its query, with the types of all pieces."""

    ids: tuple[tuple[int, ...], ...]
    types: tuple[int, ...]

    def __len__(self) -> int:
        return sum(map(len, self.ids))

    def places(self, begin: IntArray, n_pieces: IntArray, n_query: IntArray) -> list[IntArray]:
        """Say where each of its parts begins in each text."""
        after = begin + len(self.ids[0]) + n_pieces
        return [begin, after, after + len(self.ids[1]) + n_query][: len(self.ids)]


class WordTokenizer:
    """Turns texts into pieces, each word on its own, as the encoder was trained to see words."""

    def __init__(self, encoder: Encoder, long: LongPolicy, max_pieces: int) -> None:
        self.tokenizer = encoder.tokenizer
        self.backend: Any = copy.deepcopy(encoder.tokenizer._tokenizer)  # others may change the settings of theirs
        self.backend.no_truncation()
        self.backend.no_padding()
        self.backend.encode_special_tokens = True  # a "[SEP]" in a text is text
        self.long = long
        self.max_pieces = max_pieces
        self.first_position, self.n_positions = positions_of(encoder)
        self.window = min(self.n_positions, WINDOW)
        self.least = self.window // 4 if long == "chunk" else 1
        """Pieces of a text that must have room beside its query."""
        self.lead = self.leading_space()
        self.single = self.frame(pair=False)
        self.pair = self.frame(pair=True)
        self.bank = WordCache()

    def leading_space(self) -> str:
        """Find out whether pieces of a word differ after a space (as they do for RoBERTa)."""
        one, two = (self.backend.encode(text, add_special_tokens=False).ids for text in ("a", "a a"))
        return "" if two == one + one else " "

    def frame(self, pair: bool) -> _Frame:
        """Ask the tokenizer what it puts around one text, or around two."""
        parts = ("a", "a") if pair else ("a",)
        encoded = self.backend.encode(*parts)
        runs: list[list[int]] = [[]]
        types: list[list[int]] = [[]]
        previous: int | None = None
        for id, type, sequence in zip(encoded.ids, encoded.type_ids, encoded.sequence_ids, strict=True):
            if sequence is None:
                runs[-1].append(id)
            elif sequence != previous:
                runs.append([])
                types.append([type])
            previous = sequence
        return _Frame(tuple(map(tuple, runs)), tuple(kind for [kind] in types[1:]))

    def __call__(self, texts: Sequence[Text]) -> TokenTable:
        """Encode texts."""
        words, queries = self.cut(texts)
        n_read, problems = self.fit(texts, words, queries)
        for problem in problems.values():
            raise problem
        return self.lay_out(words.first(n_read), queries, words.n_words)

    def measure(self, texts: Sequence[Text]) -> tuple[IntArray, dict[int, TooLongError]]:
        """Count the words of each text that will be read, and say what is wrong with those that are too long."""
        return self.fit(texts, *self.cut(texts))

    def cut(self, texts: Sequence[Text]) -> tuple[WordTokens, WordTokens]:
        """Cut the words and the queries of texts into pieces."""
        if len(self.bank) > MOST_KNOWN or self.bank.n_characters > MOST_CHARACTERS:
            self.bank = WordCache()
        bank = self.bank  # another thread may begin another one
        known = bank.numbers
        self.learn(bank, {word for text in texts for word in (*text.words, *text.query) if word not in known})
        return bank.cut([text.words for text in texts]), bank.cut([text.query for text in texts])

    def learn(self, bank: WordCache, words: set[str]) -> None:
        """Cut new words into pieces; a word without any becomes an unknown piece."""
        new = sorted(words)
        encoded = self.backend.encode_batch([self.lead + _whole(word) for word in new], add_special_tokens=False)
        bank.add(new, [found.ids or [self.tokenizer.unk_token_id] for found in encoded])

    def fit(
        self, texts: Sequence[Text], words: WordTokens, queries: WordTokens
    ) -> tuple[IntArray, dict[int, TooLongError]]:
        """Count the words there is room for; windows and truncating make room unless the query takes too much of it."""
        room = self.room(queries)
        if self.long == "chunk":
            n_read, fits = words.n_words, room >= self.least
        else:
            n_read = words.count_fitting(room)
            fits = (n_read == words.n_words) & (room >= 0)
            if self.long == "truncate":
                fits |= room >= self.least
        return n_read, {
            number: TooLongError(self.too_long(texts[number], int(words.n_pieces[number]), int(max(room[number], 0))))
            for number in np.flatnonzero(~fits).tolist()
        }

    def room(self, queries: WordTokens) -> IntArray:
        """Count the pieces that fit beside each query: into a window, or into all that is read."""
        sizes = {"stagger": self.max_pieces, "chunk": self.window, "truncate": self.n_positions}
        room: IntArray = (
            sizes[self.long] - np.where(queries.n_words > 0, len(self.pair), len(self.single)) - queries.n_pieces
        )
        return room

    def too_long(self, text: Text, n_pieces: int, room: int) -> str:
        """Say why a text cannot be read."""
        if self.long != "stagger":
            return (
                f"The query of text {text.id!r} has {len(text.query)} words, which leaves room for {room} pieces of "
                f"the text beside it; there must be room for {self.least}. Shorten it."
            )
        return (
            f"Text {text.id!r} has {len(text.words)} words, or {n_pieces} pieces, but only {room} can be read. "
            "Split it, or train a model that reads it in windows (long=chunk), only its beginning (long=truncate) or "
            "more at once (a larger max_pieces)."
        )

    def lay_out(self, words: WordTokens, queries: WordTokens, n_words: IntArray) -> TokenTable:
        """Put special pieces, words and queries in their places, for all texts at once, window after window."""
        text_of, n_pieces = self.windows(words.n_pieces, self.room(queries))
        asks, n_query = queries.n_words[text_of] > 0, queries.n_pieces[text_of]
        lengths = n_pieces + n_query + np.where(asks, len(self.pair), len(self.single))
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        ids, types, owners = (np.full(starts[-1], value, dtype=np.int32) for value in (0, 0, NO_WORD))
        for frame, chosen in ((self.single, ~asks), (self.pair, asks)):
            begin = starts[:-1][chosen]
            for part, place in zip(frame.ids, frame.places(begin, n_pieces[chosen], n_query[chosen]), strict=True):
                ids[place[:, None] + np.arange(len(part))] = part
            seconds = n_query[chosen] + sum(map(len, frame.ids[2:]))
            types[ranges(begin, lengths[chosen] - seconds)] = frame.types[0]
            types[ranges(starts[1:][chosen] - seconds, seconds)] = frame.types[-1]
        before = np.where(asks, len(self.pair.ids[0]), len(self.single.ids[0]))
        places = ranges(starts[:-1] + before, n_pieces)
        ids[places], owners[places] = words.ids, words.owners
        asked = queries.ids[ranges(queries.ends[:-1][text_of], n_query)]
        ids[ranges(starts[:-1] + before + n_pieces + len(self.pair.ids[1]), n_query)] = asked
        ends = np.searchsorted(text_of, np.arange(len(n_words) + 1))  # where the windows of each text begin
        return TokenTable(ids, types, self.positions(lengths), owners, starts[ends], n_words, words.n_words)

    def windows(self, n_pieces: IntArray, room: IntArray) -> tuple[IntArray, IntArray]:
        """Cut texts into windows, all full but the last of each: the text of each window, and its pieces of words."""
        texts = np.arange(len(n_pieces))
        if self.long != "chunk":
            return texts, n_pieces
        n_windows = np.maximum(1, -(-n_pieces // np.maximum(1, room)))
        text_of = np.repeat(texts, n_windows)
        sizes = room[text_of]
        sizes[np.cumsum(n_windows) - 1] = n_pieces - (n_windows - 1) * room
        return text_of, sizes

    def reduced(self, texts: Sequence[Text]) -> Callable[[IntArray, Flags], TokenTable]:
        """Cut texts into pieces once, to have them again without some of their words.

        :return: Encodes some texts, given by their numbers, as if they had only the words that are kept (texts, words).
        """
        words, queries = self.cut(texts)
        words = words.first(self.fit(texts, words, queries)[0])

        def encode(numbers: IntArray, kept: Flags) -> TokenTable:
            asked = queries.choose(numbers, np.ones((len(numbers), int(queries.n_words.max())), dtype=np.bool_))
            chosen = words.choose(numbers, kept)
            return self.lay_out(chosen, asked, chosen.n_words)

        return encode

    def variants(self, text: EncodedText, kept: Flags) -> TokenTable:
        """Leave words out of an encoded text, in many ways at once.

        :param kept: Which words each variant has. Shape: (variants, words).
        """
        owned = text.word_of != NO_WORD
        by_word = np.bincount(text.word_of[owned], minlength=kept.shape[1])
        variant, word = np.nonzero(kept)
        ids = text.ids[owned][ranges((np.cumsum(by_word) - by_word)[word], by_word[word])]
        n_words = np.bincount(variant, minlength=len(kept)).astype(np.int64)
        query = self.query_of(text)
        asked = np.full(len(kept), min(1, len(query)), dtype=np.int64)
        queries = WordTokens(np.tile(query, len(kept)), np.full(int(asked.sum()), len(query), dtype=np.int64), asked)
        return self.lay_out(WordTokens(ids, by_word[word], n_words), queries, n_words)

    def query_of(self, text: EncodedText) -> Flat:
        """Take the pieces of the query out of an encoded text."""
        first = text.ids[: self.window if self.long == "chunk" else None]
        around = first[text.word_of[: len(first)] == NO_WORD]
        query: Flat = around[:0]
        if len(around) > len(self.single):
            query = around[len(self.pair.ids[0]) + len(self.pair.ids[1]) : len(around) - len(self.pair.ids[2])]
        return query

    def positions(self, lengths: IntArray) -> Flat:
        """Give each piece its place; beyond what the encoder knows, positions repeat so that all of them fit."""
        places = ranges(np.zeros_like(lengths), lengths)
        of_text = np.repeat(lengths, lengths)
        far = of_text > self.n_positions
        places[far] = places[far] * self.n_positions // of_text[far]
        return (places + self.first_position).astype(np.int32)


def _whole(word: str) -> str:
    """Put a replacement sign for each half of a surrogate pair, which no tokenizer takes."""
    return word.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def positions_of(encoder: Encoder) -> tuple[int, int]:
    """Find where an encoder's positions begin and how many there are."""
    config = encoder.model.config
    table = getattr(encoder.embeddings, "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    first = 0 if padding is None else int(padding) + 1
    return first, int(config.max_position_embeddings) - first

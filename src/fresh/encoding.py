"""Words to pieces and back; the only user of tokenizers."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fresh.bank import Bank, CutWords, ranges
from fresh.encoder import Encoder
from fresh.pieces import NO_WORD, Flat, Ints, Pieces, PieceTable
from fresh.rationale import Words

Flags = NDArray[np.bool_]
LongPolicy = Literal["stagger", "truncate"]

MOST_KNOWN = 1_000_000
"""Words whose pieces are remembered, at most."""


class Text(NamedTuple):
    """Words to read, and what is asked about them."""

    words: Words
    query: Words = ()
    id: str = ""


class TooLongError(ValueError):
    """A text that no encoder input can hold."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The special pieces around a text and its query, with the types of all pieces."""

    ids: tuple[tuple[int, ...], ...]
    types: tuple[int, ...]

    def __len__(self) -> int:
        return sum(map(len, self.ids))

    def places(self, begin: Ints, n_pieces: Ints, n_query: Ints) -> list[Ints]:
        """Say where each of its parts begins in each text."""
        after = begin + len(self.ids[0]) + n_pieces
        return [begin, after, after + len(self.ids[1]) + n_query][: len(self.ids)]


class WordEncoder:
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
        self.lead = self.leading_space()
        self.single = self.frame(pair=False)
        self.pair = self.frame(pair=True)
        self.bank = Bank()

    def leading_space(self) -> str:
        """Find out whether pieces of a word differ after a space (as they do for RoBERTa)."""
        one, two = (self.backend.encode(text, add_special_tokens=False).ids for text in ("a", "a a"))
        return "" if two == one + one else " "

    def frame(self, pair: bool) -> Frame:
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
        return Frame(tuple(map(tuple, runs)), tuple(kind for [kind] in types[1:]))

    def __call__(self, texts: Sequence[Text]) -> PieceTable:
        """Encode texts."""
        words, queries = self.cut(texts)
        n_read, problems = self.fit(texts, words, queries)
        for problem in problems.values():
            raise problem
        return self.lay_out(words.first(n_read), queries, words.n_words)

    def measure(self, texts: Sequence[Text]) -> tuple[Ints, dict[int, TooLongError]]:
        """Count the words of each text that will be read, and say what is wrong with those that are too long."""
        return self.fit(texts, *self.cut(texts))

    def cut(self, texts: Sequence[Text]) -> tuple[CutWords, CutWords]:
        """Cut the words and the queries of texts into pieces."""
        if len(self.bank) > MOST_KNOWN:
            self.bank = Bank()
        self.learn({word for text in texts for word in (*text.words, *text.query)} - self.bank.numbers.keys())
        return self.bank.cut([text.words for text in texts]), self.bank.cut([text.query for text in texts])

    def learn(self, words: set[str]) -> None:
        """Cut new words into pieces; a word without any becomes an unknown piece."""
        new = sorted(words)
        encoded = self.backend.encode_batch([self.lead + whole(word) for word in new], add_special_tokens=False)
        self.bank.add(new, [found.ids or [self.tokenizer.unk_token_id] for found in encoded])

    def fit(self, texts: Sequence[Text], words: CutWords, queries: CutWords) -> tuple[Ints, dict[int, TooLongError]]:
        """Count the words there is room for; truncating makes room unless the query takes all of it."""
        frames = np.where(queries.n_words > 0, len(self.pair), len(self.single))
        room = (self.n_positions if self.long == "truncate" else self.max_pieces) - frames - queries.n_pieces
        n_read = words.count_fitting(room)
        fits = (n_read == words.n_words) & (room >= 0)
        if self.long == "truncate":
            fits |= room > 0
        return n_read, {
            number: TooLongError(
                f"Text {texts[number].id!r} has {words.n_words[number]} words, or {words.n_pieces[number]} pieces, "
                f"but only {max(room[number], 0)} can be read. "
                "Split it, or train a model that reads only beginnings (long=truncate) or more (a larger max_pieces)."
            )
            for number in np.flatnonzero(~fits).tolist()
        }

    def lay_out(self, words: CutWords, queries: CutWords, n_words: Ints) -> PieceTable:
        """Put special pieces, words and queries in their places, for all texts at once."""
        asks = queries.n_words > 0
        lengths = words.n_pieces + queries.n_pieces + np.where(asks, len(self.pair), len(self.single))
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        ids, types, owners = (np.full(starts[-1], value, dtype=np.int32) for value in (0, 0, NO_WORD))
        for frame, chosen in ((self.single, ~asks), (self.pair, asks)):
            begin, n_pieces, n_query = starts[:-1][chosen], words.n_pieces[chosen], queries.n_pieces[chosen]
            for part, place in zip(frame.ids, frame.places(begin, n_pieces, n_query), strict=True):
                ids[place[:, None] + np.arange(len(part))] = part
            seconds = n_query + sum(map(len, frame.ids[2:]))
            types[ranges(begin, lengths[chosen] - seconds)] = frame.types[0]
            types[ranges(starts[1:][chosen] - seconds, seconds)] = frame.types[-1]
        before = np.where(asks, len(self.pair.ids[0]), len(self.single.ids[0]))
        places = ranges(starts[:-1] + before, words.n_pieces)
        ids[places], owners[places] = words.ids, words.owners
        ids[ranges(starts[:-1] + before + words.n_pieces + len(self.pair.ids[1]), queries.n_pieces)] = queries.ids
        return PieceTable(ids, types, self.positions(lengths), owners, starts, n_words, words.n_words)

    def variants(self, text: Pieces, kept: Flags) -> PieceTable:
        """Leave words out of an encoded text, in many ways at once.

        :param kept: Which words each variant has. Shape: (variants, words).
        """
        owned = text.word_of != NO_WORD
        there = np.ones((len(kept), len(text)), dtype=np.bool_)
        there[:, owned] = kept[:, text.word_of[owned]]
        variant, place = np.nonzero(there)
        lengths, n_words = there.sum(1, dtype=np.int64), kept.sum(1, dtype=np.int64)
        owners = np.full(len(place), NO_WORD, dtype=np.int32)
        numbers = np.cumsum(kept, axis=1) - 1  # (variants, words)
        owners[owned[place]] = numbers[variant[owned[place]], text.word_of[place[owned[place]]]]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        return PieceTable(text.ids[place], text.types[place], self.positions(lengths), owners, starts, n_words, n_words)

    def positions(self, lengths: Ints) -> Flat:
        """Give each piece its place; beyond what the encoder knows, positions repeat so that all of them fit."""
        places = ranges(np.zeros_like(lengths), lengths)
        of_text = np.repeat(lengths, lengths)
        far = of_text > self.n_positions
        places[far] = places[far] * self.n_positions // of_text[far]
        return (places + self.first_position).astype(np.int32)


def whole(word: str) -> str:
    """Put a replacement sign for each half of a surrogate pair, which no tokenizer takes."""
    return word.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def positions_of(encoder: Encoder) -> tuple[int, int]:
    """Find where an encoder's positions begin and how many there are."""
    config = encoder.model.config
    table = getattr(encoder.embeddings, "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    first = 0 if padding is None else int(padding) + 1
    return first, int(config.max_position_embeddings) - first

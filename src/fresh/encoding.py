"""Words to pieces and back; the only user of tokenizers."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fresh.encoder import Encoder
from fresh.rationale import Words

Ints = NDArray[np.int64]
LongPolicy = Literal["stagger", "truncate"]

NO_WORD = -1
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
class Pieces:
    """One text as an encoder reads it."""

    ids: Ints
    types: Ints
    positions: Ints
    word_of: Ints
    """Which word each piece belongs to; NO_WORD for the query and for special pieces."""
    n_words: int
    n_read: int
    """How many of the words were read: all, unless truncating was asked for."""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Batch:
    """Several texts side by side. All tensors have the shape (batch, pieces)."""

    ids: Tensor
    types: Tensor
    positions: Tensor
    word_of: Tensor
    mask: Tensor
    n_words: tuple[int, ...]
    n_read: tuple[int, ...]

    def to(self, device: torch.device) -> "Batch":
        """Move it to a device."""
        return Batch(
            self.ids.to(device),
            self.types.to(device),
            self.positions.to(device),
            self.word_of.to(device),
            self.mask.to(device),
            self.n_words,
            self.n_read,
        )


@dataclass(frozen=True, slots=True)
class Frame:
    """The special pieces around a text and its query, with the types of all pieces."""

    ids: tuple[tuple[int, ...], ...]
    types: tuple[int, ...]

    def __len__(self) -> int:
        return sum(map(len, self.ids))


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
        self.known: dict[str, Ints] = {}

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

    def __call__(self, texts: Sequence[Text]) -> list[Pieces]:
        """Encode texts."""
        if len(self.known) > MOST_KNOWN:
            self.known.clear()
        self.learn({word for text in texts for word in (*text.words, *text.query)} - self.known.keys())
        return [self.encode(text) for text in texts]

    def learn(self, words: set[str]) -> None:
        """Cut new words into pieces; a word without any becomes an unknown piece."""
        new = sorted(words)
        encoded = self.backend.encode_batch([self.lead + whole(word) for word in new], add_special_tokens=False)
        for word, found in zip(new, encoded, strict=True):
            self.known[word] = np.array(found.ids or [self.tokenizer.unk_token_id], dtype=np.int64)

    def encode(self, text: Text) -> Pieces:
        """Lay out one text with its query."""
        frame = self.pair if text.query else self.single
        query = [self.known[word] for word in text.query]
        room = (self.n_positions if self.long == "truncate" else self.max_pieces) - len(frame) - sum(map(len, query))
        words = self.fitting(text, room)
        pieces = [self.known[word] for word in words]
        before, *after = (np.array(ids, dtype=np.int64) for ids in frame.ids)
        parts = [before, *pieces, after[0], *(query if text.query else []), *after[1:]]
        ids = np.concatenate(parts)
        owners = np.repeat(np.arange(len(words)), [len(piece) for piece in pieces])
        word_of = np.full(len(ids), NO_WORD)
        word_of[len(before) : len(before) + len(owners)] = owners
        second = len(before) + len(owners) + len(after[0])
        types = np.full(len(ids), frame.types[0])
        types[second:] = frame.types[-1]
        return Pieces(ids, types, self.positions(len(ids)), word_of, len(text.words), len(words))

    def fitting(self, text: Text, room: int) -> Words:
        """Take the words there is room for: all of them, unless truncating was asked for."""
        ends = np.cumsum([0, *(len(self.known[word]) for word in text.words)])
        fits = int(np.searchsorted(ends, room, side="right")) - 1
        if fits == len(text.words) or (self.long == "truncate" and room > 0):
            return text.words[:fits]
        raise TooLongError(
            f"Text {text.id!r} has {len(text.words)} words, or {ends[-1]} pieces, but only {max(room, 0)} can be read. "
            "Split it, or train a model that reads only beginnings (long=truncate) or more (a larger max_pieces)."
        )

    def positions(self, n_pieces: int) -> Ints:
        """Give each piece its place; beyond what the encoder knows, positions repeat so that all of them fit."""
        places = np.arange(n_pieces)
        if n_pieces > self.n_positions:
            places = places * self.n_positions // n_pieces
        return places + self.first_position


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


def collate(pieces: Sequence[Pieces], padding: int) -> Batch:
    """Put texts side by side and fill the shorter ones up."""
    width = max(map(len, pieces))

    def fill(rows: Sequence[Ints], value: int) -> Tensor:
        table = np.full((len(rows), width), value, dtype=np.int64)
        for place, row in zip(table, rows, strict=True):
            place[: len(row)] = row
        return torch.from_numpy(table)

    return Batch(
        ids=fill([item.ids for item in pieces], padding),
        types=fill([item.types for item in pieces], 0),
        positions=fill([item.positions for item in pieces], int(pieces[0].positions[0])),
        word_of=fill([item.word_of for item in pieces], NO_WORD),
        mask=fill([np.ones_like(item.ids) for item in pieces], 0),
        n_words=tuple(item.n_words for item in pieces),
        n_read=tuple(item.n_read for item in pieces),
    )


def batches_by_budget(lengths: Sequence[int], budget: int, squared: int) -> Iterator[Ints]:
    """Group texts of like length so that a batch stays within two budgets, or is one text.

    :param budget: Pieces in a batch, filled up, at most.
    :param squared: The same for pairs of pieces, which attention compares.
    """
    order = np.argsort(lengths, kind="stable")
    batch: list[int] = []
    for index in order:
        n_pieces = (len(batch) + 1) * lengths[index]
        if batch and (n_pieces > budget or n_pieces * lengths[index] > squared):
            yield np.array(batch)
            batch = []
        batch.append(int(index))
    if batch:
        yield np.array(batch)


def sum_by_word(values: Tensor, batch: Batch) -> list[NDArray[np.float64]]:
    """Add up what the pieces of each word have; a word that was not read has nothing.

    :param values: One value a piece. Shape: (batch, pieces).
    :return: One array a text, one value a word.
    """
    owners = torch.where(batch.word_of == NO_WORD, max(batch.n_words), batch.word_of)
    sums = torch.zeros(len(values), max(batch.n_words) + 1, dtype=torch.float64, device=values.device)
    sums.scatter_add_(1, owners, values.detach().double())
    table = sums.cpu().numpy()
    return [table[row, :n_words] for row, n_words in enumerate(batch.n_words)]

"""Texts as an encoder reads them: pieces in flat arrays, and batches of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

IntArray = NDArray[np.int64]
Flat = NDArray[np.int32]

NO_WORD = -1


@dataclass(frozen=True, slots=True)
class EncodedText:
    """One text as an encoder reads it."""

    ids: Flat
    types: Flat
    positions: Flat
    word_of: Flat
    """Which word each piece belongs to; NO_WORD for the query and for special pieces."""
    n_words: int
    n_read: int
    """How many of the words were read: all, unless truncating was asked for."""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class TokenTable:
    """Many texts as an encoder reads them, one after the other in flat arrays."""

    ids: Flat
    types: Flat
    positions: Flat
    word_of: Flat
    starts: IntArray
    """Where each text begins, and where the last one ends. Shape: (texts + 1,)."""
    n_words: IntArray
    n_read: IntArray

    def __len__(self) -> int:
        return len(self.n_words)

    @property
    def lengths(self) -> IntArray:
        """How many pieces each text has."""
        lengths: IntArray = np.diff(self.starts)
        return lengths

    def __iter__(self) -> Iterator[EncodedText]:
        for number in range(len(self)):
            part = slice(self.starts[number], self.starts[number + 1])
            arrays = (self.ids[part], self.types[part], self.positions[part], self.word_of[part])
            yield EncodedText(*arrays, int(self.n_words[number]), int(self.n_read[number]))

    def on(self, device: torch.device, padding: int) -> "TokenTensors":
        """Put the pieces where they are computed with."""
        arrays = (self.ids, self.types, self.positions, self.word_of, self.starts[:-1], self.lengths)
        ids, types, positions, word_of, starts, lengths = (torch.from_numpy(item).to(device) for item in arrays)
        return TokenTensors(ids, types, positions, word_of, starts, lengths, padding)


def make_table(texts: Sequence[EncodedText]) -> TokenTable:
    """Put texts one after the other."""

    def joined(arrays: Iterator[Flat]) -> Flat:
        return np.concatenate([np.zeros(0, dtype=np.int32), *arrays]).astype(np.int32)

    return TokenTable(
        joined(text.ids for text in texts),
        joined(text.types for text in texts),
        joined(text.positions for text in texts),
        joined(text.word_of for text in texts),
        np.cumsum([0, *map(len, texts)], dtype=np.int64),
        np.array([text.n_words for text in texts], dtype=np.int64),
        np.array([text.n_read for text in texts], dtype=np.int64),
    )


def join_tables(tables: Sequence[TokenTable]) -> TokenTable:
    """Put the texts of several tables one after the other."""
    lengths = np.concatenate([table.lengths for table in tables])
    return TokenTable(
        np.concatenate([table.ids for table in tables]),
        np.concatenate([table.types for table in tables]),
        np.concatenate([table.positions for table in tables]),
        np.concatenate([table.word_of for table in tables]),
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate([table.n_words for table in tables]),
        np.concatenate([table.n_read for table in tables]),
    )


@dataclass(frozen=True, slots=True)
class Layout:
    """How several texts lie side by side. All tensors have the shape (batch, pieces)."""

    positions: Tensor
    mask: Tensor
    """1 for a piece, 0 where a shorter text was filled up."""
    dense: bool
    """Whether it is known that nothing was filled up."""
    word_of: Tensor
    """Which word each piece belongs to; NO_WORD for the query, for special pieces and where nothing is."""

    @property
    def attended(self) -> Tensor | None:
        """The mask, if there is anything to hide."""
        return None if self.dense else self.mask


@dataclass(frozen=True, slots=True)
class Batch(Layout):
    """Several texts side by side."""

    ids: Tensor
    types: Tensor
    n_words: tuple[int, ...] = ()
    n_read: tuple[int, ...] = ()
    hidden: Tensor | None = None
    """What frozen layers made of it, if that is known. Shape: (batch, pieces, width)."""

    def repeated(self, times: int) -> "Batch":
        """Have the whole batch several times, one after the other."""
        names = ("ids", "types", "positions", "word_of", "mask")
        tensors = {name: getattr(self, name).repeat(times, 1) for name in names}
        return replace(self, **tensors, n_words=self.n_words * times, n_read=self.n_read * times)


@dataclass(frozen=True, slots=True)
class TokenTensors:
    """The pieces of many texts on one device, from which batches are gathered there."""

    ids: Tensor
    types: Tensor
    positions: Tensor
    word_of: Tensor
    starts: Tensor
    lengths: Tensor
    padding: int

    def places(self, numbers: Tensor, width: int) -> tuple[Tensor, Tensor]:
        """Find some texts in the flat arrays: the places of pieces, and which are there. Shapes: (texts, width)."""
        steps = torch.arange(width, device=self.starts.device)
        there = steps < self.lengths[numbers].unsqueeze(1)
        return torch.where(there, self.starts[numbers].unsqueeze(1) + steps, 0), there

    def layout(self, numbers: Tensor, width: int, dense: bool) -> tuple[Layout, Tensor]:
        """Say how some texts lie side by side, and where their pieces are found. Shape: (texts, width)."""
        places, there = self.places(numbers, width)
        positions = torch.where(there, self.positions[places], self.positions[:1])
        owners = torch.where(there, self.word_of[places], NO_WORD)
        return Layout(positions.long(), there.long(), dense, owners.long()), places

    def batch(self, numbers: Tensor, width: int, dense: bool) -> Batch:
        """Put some texts side by side and fill the shorter ones up."""
        layout, places = self.layout(numbers, width, dense)
        there = layout.mask.bool()

        def fill(flat: Tensor, value: int) -> Tensor:
            return torch.where(there, flat[places], value).long()

        ids, types = fill(self.ids, self.padding), fill(self.types, 0)
        return Batch(layout.positions, layout.mask, dense, layout.word_of, ids, types)


class Gather:
    """Gathers texts of a table, given by their numbers, into batches."""

    def __init__(self, table: TokenTable, device: torch.device, padding: int) -> None:
        self.table = table
        self.lengths = table.lengths
        self.device = device
        self.tensors = table.on(device, padding)

    def __call__(self, numbers: IntArray) -> Batch:
        """Put some texts side by side."""
        width = int(self.lengths[numbers].max())
        dense = bool((self.lengths[numbers] == width).all())
        batch = self.tensors.batch(torch.from_numpy(numbers).to(self.device), width, dense)
        n_words, n_read = self.table.n_words[numbers], self.table.n_read[numbers]
        return replace(batch, n_words=tuple(n_words.tolist()), n_read=tuple(n_read.tolist()))


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

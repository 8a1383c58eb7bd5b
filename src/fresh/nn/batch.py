"""Texts as an encoder reads them: tokens in flat arrays, batches of them, and long texts in windows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

IntArray = NDArray[np.int64]
Flat = NDArray[np.int32]

NO_WORD = -1
WINDOW = 512
"""Tokens in a window, at most."""
_TOKEN_FIELDS = ("ids", "types", "positions", "word_of")


@dataclass(frozen=True, slots=True)
class EncodedText:
    """One text as an encoder reads it."""

    ids: Flat
    types: Flat
    positions: Flat
    word_of: Flat
    """Which word each token belongs to; NO_WORD for the query and for special tokens."""
    n_words: int
    n_read: int
    """How many of the words are read: all, unless the text was truncated."""

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

    @classmethod
    def of(cls, texts: Sequence[EncodedText]) -> "TokenTable":
        """Put texts one after the other."""
        empty = np.zeros(0, dtype=np.int32)
        joined = {name: np.concatenate([empty, *(getattr(text, name) for text in texts)]) for name in _TOKEN_FIELDS}
        return cls(
            **joined,
            starts=np.cumsum([0, *map(len, texts)], dtype=np.int64),
            n_words=np.array([text.n_words for text in texts], dtype=np.int64),
            n_read=np.array([text.n_read for text in texts], dtype=np.int64),
        )

    @classmethod
    def concatenate(cls, tables: Sequence["TokenTable"]) -> "TokenTable":
        """Put the texts of several tables one after the other."""
        names = (*_TOKEN_FIELDS, "n_words", "n_read")
        lengths = np.concatenate([table.lengths for table in tables])
        joined = {name: np.concatenate([getattr(table, name) for table in tables]) for name in names}
        return cls(starts=np.concatenate([[0], np.cumsum(lengths)]), **joined)

    def __len__(self) -> int:
        return len(self.n_words)

    @property
    def lengths(self) -> IntArray:
        """How many tokens each text has."""
        lengths: IntArray = np.diff(self.starts)
        return lengths

    def __iter__(self) -> Iterator[EncodedText]:
        for number in range(len(self)):
            part = slice(self.starts[number], self.starts[number + 1])
            arrays = {name: getattr(self, name)[part] for name in _TOKEN_FIELDS}
            yield EncodedText(**arrays, n_words=int(self.n_words[number]), n_read=int(self.n_read[number]))

    def to(self, device: torch.device, padding: int) -> "TokenTensors":
        """Copy the tokens to a device.

        :param padding: Id of the token that shorter texts are padded with.
        """
        arrays = {name: getattr(self, name) for name in _TOKEN_FIELDS}
        arrays |= {"starts": self.starts[:-1], "lengths": self.lengths}
        return TokenTensors(
            **{name: torch.from_numpy(item).to(device) for name, item in arrays.items()}, padding=padding
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """How several texts lie side by side. All tensors have the shape (batch, tokens)."""

    positions: Tensor
    mask: Tensor
    """1 for a token, 0 for padding."""
    dense: bool
    """Whether it is known that there is no padding."""
    word_of: Tensor
    """Which word each token belongs to; NO_WORD for the query, for special tokens and for padding."""

    @property
    def attention_mask(self) -> Tensor | None:
        """The mask, if there may be padding."""
        return None if self.dense else self.mask


@dataclass(frozen=True, slots=True)
class Batch(Layout):
    """Several texts side by side."""

    ids: Tensor
    types: Tensor
    n_words: tuple[int, ...] = ()
    n_read: tuple[int, ...] = ()
    hidden: Tensor | None = None
    """What the frozen layers put out for it, if that is known. Shape: (batch, tokens, width)."""

    def repeat(self, times: int) -> "Batch":
        """Repeat the whole batch several times, one after the other."""
        tensors = {name: getattr(self, name).repeat(times, 1) for name in (*_TOKEN_FIELDS, "mask")}
        return replace(self, **tensors, n_words=self.n_words * times, n_read=self.n_read * times)


@dataclass(frozen=True, slots=True)
class TokenTensors:
    """The tokens of many texts on one device, from which batches are gathered there."""

    ids: Tensor
    types: Tensor
    positions: Tensor
    word_of: Tensor
    starts: Tensor
    lengths: Tensor
    padding: int

    def places(self, numbers: Tensor, width: int) -> tuple[Tensor, Tensor]:
        """Find some texts in the flat arrays: the places of tokens, and which are real. Shapes: (texts, width)."""
        steps = torch.arange(width, device=self.starts.device)
        is_token = steps < self.lengths[numbers].unsqueeze(1)
        return torch.where(is_token, self.starts[numbers].unsqueeze(1) + steps, 0), is_token

    def layout(self, numbers: Tensor, width: int, dense: bool) -> tuple[Layout, Tensor]:
        """Lay some texts side by side, and return the places of their tokens too. Shape: (texts, width)."""
        places, is_token = self.places(numbers, width)
        # Padding needs a valid position; that of the first token exists in every encoder.
        positions = torch.where(is_token, self.positions[places], self.positions[:1])
        word_of = torch.where(is_token, self.word_of[places], NO_WORD)
        return Layout(positions.long(), is_token.long(), dense, word_of.long()), places

    def batch(self, numbers: Tensor, width: int, dense: bool) -> Batch:
        """Put some texts side by side and pad the shorter ones."""
        layout, places = self.layout(numbers, width, dense)
        is_token = layout.mask.bool()
        ids = torch.where(is_token, self.ids[places], self.padding).long()
        types = torch.where(is_token, self.types[places], 0).long()
        return Batch(layout.positions, layout.mask, dense, layout.word_of, ids, types)


class Collator:
    """Makes batches of the texts of a table, given by their numbers."""

    def __init__(self, table: TokenTable, device: torch.device, padding: int) -> None:
        self.table = table
        self.lengths = table.lengths
        self.device = device
        self.tensors = table.to(device, padding)

    def __call__(self, numbers: IntArray) -> Batch:
        """Put some texts side by side."""
        width = int(self.lengths[numbers].max())
        dense = bool((self.lengths[numbers] == width).all())
        batch = self.tensors.batch(torch.from_numpy(numbers).to(self.device), width, dense)
        n_words, n_read = self.table.n_words[numbers], self.table.n_read[numbers]
        return replace(batch, n_words=tuple(n_words.tolist()), n_read=tuple(n_read.tolist()))


def sum_by_word(values: Tensor, batch: Batch) -> list[NDArray[np.float64]]:
    """Sum over the tokens of each word; a word that was not read has 0.

    :param values: One value per token. Shape: (batch, tokens).
    :return: One array per text, one value per word.
    """
    owners = torch.where(batch.word_of == NO_WORD, max(batch.n_words), batch.word_of)
    # The last column collects tokens of no word, and is dropped.
    sums = torch.zeros(len(values), max(batch.n_words) + 1, dtype=torch.float64, device=values.device)
    sums.scatter_add_(1, owners, values.detach().double())
    table = sums.cpu().numpy()
    return [table[row, :n_words] for row, n_words in enumerate(batch.n_words)]


AnyLayout = TypeVar("AnyLayout", Layout, Batch)


@dataclass(frozen=True, slots=True)
class Windows:
    """Cuts rows of tokens into windows and joins them again; all windows of a text but its last are full."""

    size: int | None = None
    """Tokens in a full window; None to read texts whole."""
    padding: int = 0
    """Id of the token that shorter texts are padded with."""

    def fold(self, batch: AnyLayout) -> AnyLayout:
        """Make each window a row of its own. Shapes: (texts, tokens) to (texts * windows, size)."""
        width = batch.mask.shape[1]
        if self.size is None or width <= self.size:
            return batch
        mask = self.fold_rows(batch.mask)
        mask = torch.cat([torch.ones_like(mask[:, :1]), mask[:, 1:]], 1)  # an empty window must attend to something
        rows = replace(
            batch,
            positions=self.fold_rows(batch.positions),
            mask=mask,
            dense=batch.dense and width % self.size == 0,
            word_of=self.fold_rows(batch.word_of, NO_WORD),
        )
        if isinstance(rows, Batch) and isinstance(batch, Batch):
            return replace(rows, ids=self.fold_rows(batch.ids, self.padding), types=self.fold_rows(batch.types))
        return rows

    def fold_rows(self, values: Tensor, fill: int = 0) -> Tensor:
        """Fold one value or vector per token. Shapes: (texts, tokens, ...) to (texts * windows, size, ...)."""
        width = values.shape[1]
        if self.size is None or width <= self.size:
            return values
        n_windows = -(-width // self.size)
        missing = n_windows * self.size - width
        padded = functional.pad(values, (0, 0) * (values.dim() - 2) + (0, missing), value=fill)
        return padded.reshape(len(values) * n_windows, self.size, *values.shape[2:])

    def unfold(self, values: Tensor, n_texts: int, width: int) -> Tensor:
        """Put the windows of each text side by side: (texts * windows, size, ...) to (texts, width, ...)."""
        if len(values) == n_texts:
            return values
        return values.reshape(n_texts, -1, *values.shape[2:])[:, :width]

"""Texts as an encoder reads them: tokens in flat arrays, batches of them, and long texts in windows."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

IntArray = NDArray[np.int64]
Flat = NDArray[np.int32]

NO_WORD = -1
_TOKEN_FIELDS = ("ids", "types", "positions", "word_of")


@dataclass(frozen=True, slots=True)
class TokenTable:
    """The tokens of many texts, one text after the other in flat arrays."""

    ids: Flat
    types: Flat
    positions: Flat
    word_of: Flat
    """The word that each token belongs to; NO_WORD for the query and for special tokens."""
    starts: IntArray
    """Where each text begins, and where the last one ends. Shape: (texts + 1,)."""
    n_words: IntArray
    n_read: IntArray
    """How many words of each text are read: all, unless the text was truncated."""

    def __len__(self) -> int:
        return len(self.n_words)

    @property
    def lengths(self) -> IntArray:
        """Number of tokens of each text."""
        return np.diff(self.starts)


@functools.cache  # every batch asks, and inspecting a signature is slow
def _parameters(forward: Callable[..., Any]) -> frozenset[str]:
    return frozenset(signature(forward).parameters)


@dataclass(frozen=True, slots=True)
class Batch:
    """Several texts side by side. Tensors have the shape (batch, tokens) unless stated otherwise."""

    ids: Tensor
    types: Tensor
    positions: Tensor
    word_of: Tensor
    """The word that each token belongs to; NO_WORD for the query, special tokens and padding."""
    mask: Tensor
    """1 for a token, 0 for padding."""
    dense: bool
    """Whether it is known that there is no padding."""
    n_words: tuple[int, ...] = ()
    n_read: tuple[int, ...] = ()
    hidden: Tensor | None = None
    """Output of the frozen layers, if it is known. Shape: (batch, tokens, width)."""

    def encoder_inputs(self, encoder: nn.Module) -> dict[str, Tensor | None]:
        """Return the arguments of an encoder's forward method: tokens or their hidden states, mask, positions."""
        accepted = _parameters(type(encoder).forward)
        optional = {"position_ids": self.positions, "token_type_ids": self.types}
        tokens = {"input_ids": self.ids} if self.hidden is None else {"inputs_embeds": self.hidden}
        # Attention is faster without a mask, so a batch that has no padding passes none.
        mask = {"attention_mask": None if self.dense else self.mask}
        return tokens | mask | {name: values for name, values in optional.items() if name in accepted}

    def repeat(self, times: int) -> "Batch":
        """Repeat the tokens of the whole batch several times."""
        tensors = {name: getattr(self, name).repeat(times, 1) for name in (*_TOKEN_FIELDS, "mask")}
        return replace(self, **tensors, n_words=(), n_read=())


class FlatRows:
    """Where rows of different lengths are in a flat tensor, one after the other."""

    def __init__(self, lengths: IntArray, device: torch.device) -> None:
        self.lengths = torch.from_numpy(lengths).to(device)
        self.starts = torch.from_numpy(np.cumsum(lengths) - lengths).to(device)

    def places(self, numbers: Tensor, width: int) -> tuple[Tensor, Tensor]:
        """Put some rows side by side: where their values are, and which of these are real. Shapes: (rows, width)."""
        steps = torch.arange(width, device=self.starts.device)
        is_real = steps < self.lengths[numbers].unsqueeze(1)
        return torch.where(is_real, self.starts[numbers].unsqueeze(1) + steps, 0), is_real


MakeBatch = Callable[[Tensor, int, bool], Batch]
"""Makes a batch from the numbers of texts, its width, and whether all texts are that long."""


class Collator:
    """Makes batches of the texts of a table, given by their numbers, on a device.

    :param padding: Id of the token that shorter texts are padded with.
    """

    def __init__(self, table: TokenTable, device: torch.device, padding: int) -> None:
        self.table = table
        self.device = device
        self.lengths = table.lengths
        # One tensor of all four fields: a batch takes one gather, not four, which matters on a GPU.
        fields = np.stack([getattr(table, name) for name in _TOKEN_FIELDS])
        self._tokens = torch.from_numpy(fields).to(device)  # (fields, tokens)
        # Padding needs a valid position; that of the first token exists in every encoder.
        fill = [padding, 0, *table.positions[:1].tolist(), NO_WORD]
        self._padding = torch.tensor(fill, dtype=torch.int32, device=device)[:, None, None]
        self.rows = FlatRows(self.lengths, device)

    def __call__(self, numbers: IntArray, read: MakeBatch | None = None, device: torch.device | None = None) -> Batch:
        """Put some texts side by side, in a batch as wide as the longest.

        :param read: Makes the batch from numbers on a device; by default, `batch` on that of this collator.
        """
        lengths = self.lengths[numbers]
        width, dense = int(lengths.max()), bool((lengths == lengths.max()).all())
        batch = (read or self.batch)(torch.from_numpy(numbers).to(device or self.device), width, dense)
        n_words, n_read = self.table.n_words[numbers], self.table.n_read[numbers]
        return replace(batch, n_words=tuple(n_words.tolist()), n_read=tuple(n_read.tolist()))

    def batch(self, numbers: Tensor, width: int, dense: bool, states: Tensor | None = None) -> Batch:
        """Put some texts side by side without leaving the device.

        :param states: Output of the frozen layers for all tokens of the table, one row per token.
        """
        places, is_token = self.rows.places(numbers, width)
        ids, types, positions, word_of = torch.where(is_token, self._tokens[:, places], self._padding).long()
        hidden = None if states is None else states[places].float()
        return Batch(ids, types, positions, word_of, is_token.long(), dense, hidden=hidden)


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


@dataclass(frozen=True, slots=True)
class Windows:
    """Cuts rows of tokens into windows and joins them again; all windows of a text but its last are full."""

    size: int | None = None
    """Tokens in a full window; None to read texts whole."""

    def run(self, encoder: nn.Module, batch: Batch) -> Tensor:
        """Run an encoder, or a part of one, window by window. Shape: (batch, tokens, width)."""
        rows = self.fold(batch)
        return self.unfold(encoder(**rows.encoder_inputs(encoder)).last_hidden_state, *batch.mask.shape)

    def fold(self, batch: Batch) -> Batch:
        """Make each window a row of its own. Shapes: (texts, tokens) to (texts * windows, size)."""
        width = batch.mask.shape[1]
        if self.size is None or width <= self.size:
            return batch
        ids, types, positions = map(self.fold_rows, (batch.ids, batch.types, batch.positions))
        word_of, mask = self.fold_rows(batch.word_of, NO_WORD), self.fold_rows(batch.mask)
        # The softmax of an empty window, which attends to nothing, would be NaN: it attends to its first token.
        mask = torch.cat([torch.ones_like(mask[:, :1]), mask[:, 1:]], 1)
        hidden = None if batch.hidden is None else self.fold_rows(batch.hidden)
        return Batch(ids, types, positions, word_of, mask, batch.dense and width % self.size == 0, hidden=hidden)

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

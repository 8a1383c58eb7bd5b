"""Long texts in windows: each window is read by itself, as if it were a text."""

from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from fresh.nn.batch import NO_WORD, Batch, Layout

Laid = TypeVar("Laid", Layout, Batch)

WINDOW = 512
"""Pieces in a window, at most."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Cuts rows of pieces into windows and joins them again; every window of a text but its last is full."""

    size: int | None = None
    """Pieces in a full window; None to read texts whole."""
    padding: int = 0
    """The piece that shorter texts are filled up with."""

    def fold(self, batch: Laid) -> Laid:
        """Have each window as a row of its own. Shapes: (texts, pieces) to (texts * windows, size)."""
        width = batch.mask.shape[1]
        if self.size is None or width <= self.size:
            return batch
        mask = self.fold_rows(batch.mask, 0)
        mask = torch.cat([torch.ones_like(mask[:, :1]), mask[:, 1:]], 1)  # a window of nothing must look at something
        folded = replace(
            batch,
            positions=self.fold_rows(batch.positions, 0),
            mask=mask,
            dense=batch.dense and width % self.size == 0,
            word_of=self.fold_rows(batch.word_of, NO_WORD),
        )
        if isinstance(folded, Batch) and isinstance(batch, Batch):
            ids, types = self.fold_rows(batch.ids, self.padding), self.fold_rows(batch.types, 0)
            return replace(folded, ids=ids, types=types)
        return folded

    def fold_rows(self, values: Tensor, fill: int = 0) -> Tensor:
        """Fold what there is of each piece. Shapes: (texts, pieces, ...) to (texts * windows, size, ...)."""
        width = values.shape[1]
        if self.size is None or width <= self.size:
            return values
        n_windows = -(-width // self.size)
        more = n_windows * self.size - width
        padded = functional.pad(values, (0, 0) * (values.dim() - 2) + (0, more), value=fill)
        return padded.reshape(len(values) * n_windows, self.size, *values.shape[2:])

    def unfold(self, values: Tensor, n_texts: int, width: int) -> Tensor:
        """Put the windows of each text side by side: (texts * windows, size, ...) to (texts, width, ...)."""
        if len(values) == n_texts:
            return values
        return values.reshape(n_texts, -1, *values.shape[2:])[:, :width]

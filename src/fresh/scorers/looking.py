"""What a support model looks at: the attention of one layer, in the open, while all others run as usual."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from fresh.attention import OpenLayer, open_layer
from fresh.by_word import WeighingHead
from fresh.classifier import Classifier, Output, eager_attention
from fresh.pieces import Batch, sum_by_word


class Looking:
    """Reads batches and tells what one layer looks at."""

    def __init__(self, classifier: Classifier, layer: int) -> None:
        classifier.encoder.below(layer)  # refuses a layer that there is not
        n_layers = len(classifier.encoder.layers)
        self.classifier = classifier
        self.layer = layer % n_layers
        self.is_last = self.layer == n_layers - 1
        self.open: OpenLayer | None = None
        if self.weighs and not self.is_last:
            raise ValueError(
                f"layer must be -1 with long=chunk, got {layer}: attention is there what the head weighs words by."
            )
        if not self.comes_along:
            self.open = open_layer(classifier.encoder, layer)
            if self.open is None:
                warnings.warn(EAGER.format(classifier.encoder.name), RuntimeWarning, stacklevel=4)

    @property
    def weighs(self) -> bool:
        """Whether the head weighs words, so that its attention is asked for and no layer's."""
        return isinstance(self.classifier.head, WeighingHead)

    @property
    def comes_along(self) -> bool:
        """Whether the network computes what is wanted anyway: weights of words, or a row of the last layer."""
        if self.weighs:
            return True
        return self.is_last and self.classifier.halves is not None and self.classifier.halves.last is not None

    def is_above(self, layer: int) -> bool:
        """Say whether a layer and all that comes after it lie above the frozen ones, as the head does in any case."""
        halves = self.classifier.halves
        return halves is not None and (self.weighs or layer >= halves.n_below)

    def __call__(self, batch: Batch) -> tuple[Output, Tensor]:
        """Read a batch: what comes out, and what is looked at (batch, heads, rows, pieces), or (batch, words)."""
        if self.comes_along:
            output = self.classifier(batch)
            return output, output.by_word if self.weighs else output.weights
        if self.open is None:
            with eager_attention(self.classifier):
                output = self.classifier.show_attention(batch)
            return output, output.attentions[self.layer]
        with opened(self.classifier.encoder.layers[self.layer], self.open, batch) as found:
            output = self.classifier(batch)
        return output, found[0]

    def by_word(self, weights: Tensor, batch: Batch) -> list[NDArray[np.float64]]:
        """Say how much of what is looked at each word gets: one array a text."""
        if not self.weighs:
            return sum_by_word(self.by_piece(weights, batch), batch)
        rows = weights.detach().double().cpu().numpy()
        return [row[:n_words] for row, n_words in zip(rows, batch.n_read, strict=True)]

    def by_piece(self, weights: Tensor, batch: Batch) -> Tensor:
        """Take the mean over heads, and the rows that the head reads: the start, or all. Shape: (batch, pieces)."""
        rows = weights.mean(1)  # (batch, rows, pieces)
        if self.classifier.encoder.pooling == "start":
            return rows[:, 0]
        mask = batch.mask.to(rows.dtype).unsqueeze(-1)  # (batch, pieces, 1)
        mean: Tensor = (rows * mask).sum(1) / mask.sum(1)
        return mean


@contextmanager
def opened(layer: nn.Module, way: OpenLayer, batch: Batch) -> Iterator[list[Tensor]]:
    """Compute a layer in the open and collect what it looks at, for as long as the block lasts."""
    found: list[Tensor] = []

    def hook(_module: nn.Module, inputs: tuple[Any, ...], output: Any) -> Any:
        out, weights = way.read(inputs[0], batch.mask, batch.positions, "all")
        found.append(weights)
        return out if isinstance(output, Tensor) else (out, *output[1:])

    handle = layer.register_forward_hook(hook)
    try:
        yield found
    finally:
        handle.remove()


EAGER = (
    "The layers of {} are not of a kind whose attention can be computed apart: all of it is computed eagerly, "
    "which is slower."
)

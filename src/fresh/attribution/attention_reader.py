"""What a support model looks at: the attention of one layer or of all, in the open, while others run as usual."""

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fresh.nn.attention import open_layer
from fresh.nn.batch import Batch, sum_by_word
from fresh.nn.classifier import Classifier, Output, eager_attention
from fresh.nn.heads import AttentiveHead
from fresh.nn.intercept import call_intercepted

Layers = int | Literal["all"]


class AttentionReader:
    """Reads batches and tells what one layer, or each, looks at."""

    def __init__(self, classifier: Classifier, layer: Layers) -> None:
        n_layers = len(classifier.encoder.layers)
        if layer != "all":
            classifier.encoder.below(layer)  # refuses a layer that there is not
        self.classifier = classifier
        self.layers = list(range(n_layers)) if layer == "all" else [layer % n_layers]
        if self.weighs and self.layers != [n_layers - 1]:
            raise ValueError(
                f"layer must be -1 with long=chunk, got {layer}: attention is there what the head weighs words by."
            )
        ways = {
            number: open_layer(classifier.encoder, number) for number in self.layers if not self.comes_along(number)
        }
        self.open = {number: way for number, way in ways.items() if way is not None}
        self.is_eager = len(self.open) < len(ways)
        if self.is_eager:
            warnings.warn(EAGER.format(classifier.encoder.name), RuntimeWarning, stacklevel=4)

    @property
    def weighs(self) -> bool:
        """Whether the head weighs words, so that its attention is asked for and no layer's."""
        return isinstance(self.classifier.head, AttentiveHead)

    def comes_along(self, layer: int) -> bool:
        """Whether the network computes what is wanted anyway: weights of words, or a row of the last layer."""
        halves = self.classifier.halves
        is_last = layer == len(self.classifier.encoder.layers) - 1
        return self.weighs or (is_last and halves is not None and halves.last is not None)

    def is_above(self, n_before: int = 0) -> bool:
        """Say whether all layers that are asked, and so many before them, lie above the frozen ones.

        The head does in any case.
        """
        halves = self.classifier.halves
        return halves is not None and (self.weighs or self.layers[0] - n_before >= halves.n_below)

    def __call__(self, batch: Batch) -> tuple[Output, list[Tensor]]:
        """Read a batch: what comes out, and what each layer looks at.

        Shapes: (batch, heads, rows, pieces), or (batch, words) where the head weighs words.
        """
        if self.weighs:
            output = self.classifier(batch)
            return output, [output.by_word]
        if self.is_eager:
            with eager_attention(self.classifier):
                output = self.classifier.show_attention(batch)
            return output, [output.attentions[layer] for layer in self.layers]
        found: dict[int, Tensor] = {}

        def read_open(layer: int, inputs: tuple[Any, ...], output: Any) -> Any:
            out, found[layer] = self.open[layer].read(inputs[0], batch.mask, batch.positions, "all")
            return out if isinstance(output, Tensor) else (out, *output[1:])

        layers = self.classifier.encoder.layers
        output = call_intercepted(
            lambda: self.classifier(batch), {layers[layer]: partial(read_open, layer) for layer in self.open}
        )
        return output, [found[layer] if layer in self.open else output.weights for layer in self.layers]

    def together(self, found: Sequence[Tensor]) -> Tensor:
        """Add up what was found for each layer, wherever it is looked from, for `by_word`."""
        if not self.weighs and self.classifier.encoder.pooling == "start":
            found = [each.sum(2, keepdim=True) for each in found]  # (batch, heads, 1, pieces)
        return sum(found[1:], found[0])

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


EAGER = (
    "The layers of {} are not of a kind whose attention can be computed apart: all of it is computed eagerly, "
    "which is slower."
)

"""Scores from attention: the weights themselves, times their gradients, and the gradient before their softmax."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fresh.attribution.gradient import BUDGET_SHARE, explained_probabilities, leaf
from fresh.attribution.support_model import Scores, SupportModel, normalize
from fresh.document import Document, Saliency
from fresh.nn.attention import call_recording
from fresh.nn.batch import Batch, sum_by_word
from fresh.nn.classifier import Classifier, Output
from fresh.nn.heads import AttentiveHead
from fresh.nn.intercept import call_intercepted, on_tensor

Layers = int | Literal["all"]


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention of the last layer to each word, mean over heads (Jain et al., 2020, section 5.1).

    For texts in windows, it is the attention that the head weighs words by. The scores of a document are not negative
    and sum to 1.
    """

    support: SupportModel
    layer: int = -1
    """Layer whose attention is read: -1 is the last, -2 the one that the paper's text names."""

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score per word, for the label that the support model predicts."""
        reader = AttentionReader(self.support.classifier, self.layer)

        def score_batch(batch: Batch) -> Scores:
            output, [weights] = reader(batch)
            return [normalize(scores) for scores in reader.by_word(weights, batch)], output.logits.argmax(-1).tolist()

        with torch.inference_mode():
            return self.support.score(documents, score_batch)


@dataclass(frozen=True, slots=True)
class AttentionGradient:
    """Attention weight times the gradient of the predicted probability by it (Serrano and Smith, 2019).

    Signed: above 0, attending to the word raises the probability of the predicted label; below 0, it lowers it.
    Attention from all tokens counts.
    """

    support: SupportModel
    layer: Layers = -1
    """Layer whose attention is read: -1 is the last; or all, added up."""

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score per word, for the label that the support model predicts."""
        return _score_by_gradient(self.support, self.layer, documents, torch.mul)


@dataclass(frozen=True, slots=True)
class AttentionShift:
    """Gradient of the predicted probability by attention before its softmax.

    Signed: above 0, the probability of the predicted label rises when all tokens attend a little more to the word and,
    since weights sum to 1, less to everything else; below 0, it falls. What attending anywhere would change alike does
    not count.
    """

    support: SupportModel
    layer: Layers = -1
    """Layer whose attention is read: -1 is the last; or all, added up."""

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score per word, for the label that the support model predicts."""
        return _score_by_gradient(self.support, self.layer, documents, _softmax_gradient)


def _softmax_gradient(weights: Tensor, gradients: Tensor) -> Tensor:
    """Turn gradients by weights into gradients by what their softmax is taken of."""
    products = weights * gradients
    return products - weights * products.sum(-1, keepdim=True)


def _score_by_gradient(
    support: SupportModel, layer: Layers, documents: Sequence[Document], value: Callable[[Tensor, Tensor], Tensor]
) -> list[Saliency]:
    """Score words by all attention to them.

    :param value: Computes what each weight is worth from the weights and their gradients.
    """
    classifier = support.classifier
    reader = AttentionReader(classifier, layer)
    below = classifier.encoder.module_below(reader.layers[0])

    def score_batch(batch: Batch) -> Scores:
        # Gradients go back to the first layer that is read and no further: no lower layer keeps anything for them.
        output, weights = call_intercepted(lambda: reader(batch), {below: on_tensor(leaf)})
        probabilities, targets = explained_probabilities(support, output)
        gradients = torch.autograd.grad(probabilities.sum(), weights)
        values = [value(*pair).detach() for pair in zip(weights, gradients, strict=True)]
        return reader.by_word(reader.total(values), batch), targets.tolist()

    # With all layers, the weights of each are kept for the backward pass: tokens squared, times heads.
    share = BUDGET_SHARE / 4 if layer == "all" else 1
    with torch.enable_grad():
        return support.score(documents, score_batch, share)


class AttentionReader:
    """Runs batches and returns the attention weights of one layer, or of each."""

    def __init__(self, classifier: Classifier, layer: Layers) -> None:
        n_layers = len(classifier.encoder.layers)
        if layer != "all":
            classifier.encoder.module_below(layer)  # refuses a layer that does not exist
        self.classifier = classifier
        self.layers = list(range(n_layers)) if layer == "all" else [layer % n_layers]
        self.is_head = isinstance(classifier.head, AttentiveHead)
        """Whether the head weighs words, so that its attention is read instead of a layer's."""
        self.from_start = classifier.encoder.pooling == "start"
        """Whether the head reads the start token only, so that attention from it counts."""
        if self.is_head and self.layers != [n_layers - 1]:
            raise ValueError(
                f"layer must be -1 with long=chunk, got {layer}: with windows, attention is what the head weighs "
                "words by."
            )

    def __call__(self, batch: Batch) -> tuple[Output, list[Tensor]]:
        """Run a batch, and return the weights of each layer.

        Shapes: (batch, heads, tokens, tokens), or (batch, words) where the head weighs words.
        """
        if self.is_head:
            output: Output = self.classifier(batch)
            assert output.word_weights is not None
            return output, [output.word_weights]
        layers = self.classifier.encoder.layers
        return call_recording(lambda: self.classifier(batch), [layers[layer] for layer in self.layers])

    def total(self, values: Sequence[Tensor]) -> Tensor:
        """Add up what each layer's weights are worth, from all tokens, for `by_word`."""
        if not self.is_head and self.from_start:
            values = [value.sum(2, keepdim=True) for value in values]  # (batch, heads, 1, tokens)
        return sum(values[1:], values[0])

    def by_word(self, weights: Tensor, batch: Batch) -> list[NDArray[np.float64]]:
        """Sum the mean over heads by word: from the start token, or the mean from all, as the head pools."""
        if self.is_head:
            table = weights.detach().double().cpu().numpy()
            return [row[:n_words] for row, n_words in zip(table, batch.n_read, strict=True)]
        # The head reads the start token's row or the mean of all rows, so these are the weights that reach it.
        rows = weights.mean(1)  # (batch, rows, tokens)
        if self.from_start:
            return sum_by_word(rows[:, 0], batch)
        mask = batch.mask.to(rows.dtype).unsqueeze(-1)  # (batch, tokens, 1)
        return sum_by_word((rows * mask).sum(1) / mask.sum(1), batch)

"""Scores from attention: the weights themselves, times their gradients, and the gradient before their softmax."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fresh.attribution.config import Evidence
from fresh.attribution.gradient import BUDGET_SHARE, explained_probabilities, leaf
from fresh.attribution.support_model import Scores, SupportModel, normalize
from fresh.document import Document, Saliency
from fresh.nn.batch import Batch, sum_by_word
from fresh.nn.classifier import Classifier, Output
from fresh.nn.heads import AttentiveHead
from fresh.nn.intercept import call_intercepted, call_recording

Layers = int | Literal["all"]


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention of the last layer to each word, mean over heads (Jain et al., 2020, section 5.1).

    For texts in windows, it is the attention with which the head weights words. The scores of a document are not
    negative and sum to 1.
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
            return self.support.score(documents, score_batch, above_frozen=reader.n_above_frozen >= 0)


@dataclass(frozen=True, slots=True)
class AttentionGradient:
    """Attention weight times the gradient of the predicted probability by it (Serrano and Smith, 2019).

    Signed: above 0, attending to the word raises the probability of the predicted label; below 0, it lowers it.
    Attention from all tokens counts.
    """

    support: SupportModel
    layer: Layers = -1
    """Layer whose attention is read: -1 is the last; or all, added up."""
    evidence: Evidence = "for"
    """Score words for the label highest, or words for and against it (the absolute value of their scores)."""

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score per word, for the label that the support model predicts."""
        classifier = self.support.classifier
        reader = AttentionReader(classifier, self.layer)
        below = classifier.encoder.module_below(reader.layers[0])

        def score_batch(batch: Batch) -> Scores:
            # Gradients go back to the first layer that is read and no further: lower layers keep no activations.
            output, weights = call_intercepted(lambda: reader(batch), {below: leaf})
            probabilities, targets = explained_probabilities(self.support, output)
            gradients = torch.autograd.grad(probabilities.sum(), weights)
            values = [self._combine(*pair).detach() for pair in zip(weights, gradients, strict=True)]
            return reader.by_word(reader.total(values), batch), targets.tolist()

        # With all layers, the weights of each are kept for the backward pass: tokens squared, times heads.
        share = BUDGET_SHARE / 4 if self.layer == "all" else 1
        with torch.enable_grad():
            return self.support.score(documents, score_batch, share, reader.n_above_frozen > 0, self.evidence)

    def _combine(self, weights: Tensor, gradients: Tensor) -> Tensor:
        return weights * gradients


@dataclass(frozen=True, slots=True)
class AttentionShift(AttentionGradient):
    """Gradient of the predicted probability by attention before its softmax.

    Signed: above 0, the probability of the predicted label rises when all tokens attend a little more to the word and,
    since weights sum to 1, less to everything else; below 0, it falls. An effect that attending to any word has does
    not count.
    """

    def _combine(self, weights: Tensor, gradients: Tensor) -> Tensor:
        # The derivative of the softmax, by the chain rule.
        products = weights * gradients
        return products - weights * products.sum(-1, keepdim=True)


class AttentionReader:
    """Runs batches and returns the attention weights of one layer, or of each."""

    def __init__(self, classifier: Classifier, layer: Layers) -> None:
        n_layers = len(classifier.encoder.layers)
        if layer != "all":
            classifier.encoder.module_below(layer)  # refuses a layer that does not exist
        self.classifier = classifier
        self.layers = list(range(n_layers)) if layer == "all" else [layer % n_layers]
        self.is_head = isinstance(classifier.head, AttentiveHead)
        """Whether the head has attention over words, which is read instead of a layer's."""
        self.from_start = classifier.encoder.pooling == "start"
        """Whether the head reads the start token only, so that only attention from it counts."""
        self.n_above_frozen = self.layers[0] - classifier.n_frozen
        """Trained layers below the first layer that is read; gradients need one, at whose output they end."""
        if self.is_head and self.layers != [n_layers - 1]:
            raise ValueError(
                f"layer must be -1 with long=chunk, got {layer}: for texts in windows, the head's attention is read."
            )

    def __call__(self, batch: Batch) -> tuple[Output, list[Tensor]]:
        """Run a batch, and return the weights of each layer.

        Shapes: (batch, heads, tokens, tokens), or (batch, words) for the head's attention.
        """
        if self.is_head:
            output: Output = self.classifier(batch)
            assert output.word_weights is not None
            return output, [output.word_weights]
        layers = self.classifier.encoder.layers
        return call_recording(lambda: self.classifier(batch), [layers[layer] for layer in self.layers])

    def total(self, values: Sequence[Tensor]) -> Tensor:
        """Sum values of weights over layers and, for `by_word`, over the tokens that attend."""
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

"""A scorer that was tried and not taken over: attention times gradient, followed through all layers."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fresh.attribution.attention_reader import AttentionReader
from fresh.attribution.gradient import PART, begun_from, explained
from fresh.attribution.support_model import Scores, SupportModel
from fresh.document import Document, Saliency
from fresh.nn.batch import Batch, sum_by_word
from fresh.nn.classifier import eager_attention
from fresh.nn.intercept import call_intercepted, on_tensor


@dataclass(frozen=True, slots=True)
class PassedOn:
    """What raises the probability, followed from layer to layer down to the pieces (Chefer et al., 2021)."""

    support: SupportModel

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score a word, for the label the support model predicts."""
        classifier = self.support.classifier
        looking = AttentionReader(classifier, "all")

        def score_batch(batch: Batch) -> Scores:
            with eager_attention(classifier):
                output = call_intercepted(
                    lambda: classifier.show_attention(batch), {classifier.encoder.embeddings: on_tensor(begun_from)}
                )
            probabilities, targets = explained(self.support, output)
            gradients = torch.autograd.grad(probabilities.sum(), output.attentions)
            pairs = zip(output.attentions, gradients, strict=True)
            products = [(weights * gradient).detach() for weights, gradient in pairs]
            return sum_by_word(looking.by_piece(passed_on(products), batch), batch), targets.tolist()

        with torch.enable_grad():
            return self.support.score(documents, score_batch, PART / 4)


def passed_on(products: list[Tensor]) -> Tensor:
    """Follow attention times gradient, (batch, heads, rows, pieces) a layer. Shape: (batch, 1, rows, pieces)."""
    n_pieces = products[0].shape[-1]
    relevance = torch.eye(n_pieces, device=products[0].device, dtype=products[0].dtype)
    relevance = relevance.expand(len(products[0]), -1, -1)
    for product in products:
        relevance = relevance + product.clamp(min=0).mean(1) @ relevance
    return relevance.unsqueeze(1)

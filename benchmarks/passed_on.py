"""A scorer that was tried and not taken over: attention times gradient, followed through all layers."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fresh.attribution.attention import AttentionReader
from fresh.attribution.gradient import BUDGET_SHARE, explained_probabilities, leaf
from fresh.attribution.support_model import Scores, SupportModel
from fresh.document import Document, Saliency
from fresh.nn.batch import Batch
from fresh.nn.intercept import call_intercepted


@dataclass(frozen=True, slots=True)
class PassedOn:
    """What raises the probability, followed from layer to layer down to the tokens (Chefer et al., 2021)."""

    support: SupportModel

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score per word, for the label that the support model predicts."""
        classifier = self.support.classifier
        reader = AttentionReader(classifier, "all")

        def score_batch(batch: Batch) -> Scores:
            output, attentions = call_intercepted(lambda: reader(batch), {classifier.encoder.embeddings: leaf})
            probabilities, targets = explained_probabilities(self.support, output)
            gradients = torch.autograd.grad(probabilities.sum(), attentions)
            products = [(weights * gradient).detach() for weights, gradient in zip(attentions, gradients, strict=True)]
            return reader.by_word(passed_on(products), batch), targets.tolist()

        with torch.enable_grad():
            return self.support.score(documents, score_batch, BUDGET_SHARE / 4)


def passed_on(products: list[Tensor]) -> Tensor:
    """Follow attention times gradient, (batch, heads, rows, tokens) a layer. Shape: (batch, 1, rows, tokens)."""
    n_tokens = products[0].shape[-1]
    relevance = torch.eye(n_tokens, device=products[0].device, dtype=products[0].dtype)
    relevance = relevance.expand(len(products[0]), -1, -1)
    for product in products:
        relevance = relevance + product.clamp(min=0).mean(1) @ relevance
    return relevance.unsqueeze(1)

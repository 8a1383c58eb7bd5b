"""Attention times its own gradient."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fresh.classifier import eager_attention
from fresh.document import Document, Saliency
from fresh.encoding import Batch, sum_by_word
from fresh.scorers.attention import read_rows
from fresh.scorers.gradient import predicted, replaced
from fresh.support import Scores, Support


@dataclass(frozen=True, slots=True)
class AttentionGradient:
    """Attention weight times the gradient of the predicted probability by it (Serrano and Smith, 2019).

    Signed: above 0, looking at the word raises the probability of the predicted label; below 0, it lowers it.
    """

    support: Support
    layer: int = -1
    """Which layer's attention: -1 is the last."""

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score a word, for the label the support model predicts."""
        with eager_attention(self.support.classifier), torch.enable_grad():
            return self.support.score(documents, self.score_batch)

    def score_batch(self, batch: Batch) -> Scores:
        """Differentiate the probability of the predicted label by the attention of one layer."""
        classifier = self.support.classifier
        with replaced(classifier.encoder.below(self.layer), lambda output: output.detach().requires_grad_()):
            output = classifier(batch, attentions=True)
        probabilities, targets = predicted(output)
        weights = output.attentions[self.layer]  # (batch, heads, pieces, pieces)
        [gradient] = torch.autograd.grad(probabilities.sum(), weights)
        received = read_rows(classifier, (weights * gradient).detach().mean(1), batch)
        return sum_by_word(received, batch), targets.tolist()

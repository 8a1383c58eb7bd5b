"""Attention times its own gradient."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fresh.document import Document, Saliency
from fresh.pieces import Batch
from fresh.scorers.gradient import explained, replaced
from fresh.scorers.looking import Looking
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
        classifier = self.support.classifier
        looking = Looking(classifier, self.layer)

        def score_batch(batch: Batch) -> Scores:
            with replaced(classifier.encoder.below(self.layer), lambda output: output.detach().requires_grad_()):
                output, weights = looking(batch)
            probabilities, targets = explained(self.support, output)
            [gradient] = torch.autograd.grad(probabilities.sum(), weights)
            return looking.by_word((weights * gradient).detach(), batch), targets.tolist()

        with torch.enable_grad():
            return self.support.score(documents, score_batch, above=looking.is_above(looking.layer - 1))

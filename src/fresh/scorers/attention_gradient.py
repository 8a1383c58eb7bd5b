"""Attention times its own gradient."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fresh.document import Document, Saliency
from fresh.pieces import Batch
from fresh.scorers.gradient import PART, explained, replaced
from fresh.scorers.looking import Layers, Looking
from fresh.support import Scores, Support


@dataclass(frozen=True, slots=True)
class AttentionGradient:
    """Attention weight times the gradient of the predicted probability by it (Serrano and Smith, 2019).

    Signed: above 0, looking at the word raises the probability of the predicted label; below 0, it lowers it. All that
    looks at the word counts.
    """

    support: Support
    layer: Layers = -1
    """Which layer's attention: -1 is the last; or all, added up."""

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score a word, for the label the support model predicts."""
        classifier = self.support.classifier
        looking = Looking(classifier, self.layer)
        below = classifier.encoder.below(looking.layers[0])

        def score_batch(batch: Batch) -> Scores:
            with replaced(below, lambda output: output.detach().requires_grad_()):
                output, weights = looking(batch)
            probabilities, targets = explained(self.support, output)
            gradients = torch.autograd.grad(probabilities.sum(), weights)
            products = [(look * slope).detach() for look, slope in zip(weights, gradients, strict=True)]
            return looking.by_word(looking.together(products), batch), targets.tolist()

        part = PART / 4 if self.layer == "all" else 1
        with torch.enable_grad():
            return self.support.score(documents, score_batch, part, looking.is_above(n_before=1))

"""How strongly the predicted probability depends on each word's embedding."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fresh.attribution.support_model import Scores, SupportModel, normalize
from fresh.document import Document, Saliency
from fresh.nn.batch import Batch, sum_by_word
from fresh.nn.classifier import Output
from fresh.nn.intercept import call_intercepted, on_tensor

BUDGET_SHARE = 0.5
"""Share of the usual size of batches, since activations are kept for the backward pass."""


@dataclass(frozen=True, slots=True)
class Gradient:
    """Size of word embedding times gradient (the paper's gradient scores).

    The scores of a document are not negative and sum to 1. The support model is in evaluation mode, so they are the
    same each time.
    """

    support: SupportModel
    embeddings: Literal["words", "whole"] = "words"
    """What to differentiate by: the words' own embeddings, or all that enters the first layer."""

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score per word, for the label that the support model predicts."""
        with torch.enable_grad():
            return self.support.score(documents, self._score_batch, BUDGET_SHARE)

    def _score_batch(self, batch: Batch) -> Scores:
        classifier = self.support.classifier
        encoder = classifier.encoder
        module = encoder.word_embeddings if self.embeddings == "words" else encoder.embeddings
        leaves: list[Tensor] = []

        def replace_by_leaf(output: Tensor) -> Tensor:
            leaves.append(leaf(output))
            return leaves[-1]

        output = call_intercepted(lambda: classifier(batch), {module: on_tensor(replace_by_leaf)})
        probabilities, targets = explained_probabilities(self.support, output)
        [gradient] = torch.autograd.grad(probabilities.sum(), leaves)
        by_token = (leaves[0] * gradient).sum(-1).abs()
        by_token = classifier.windows.unfold(by_token, *batch.mask.shape)  # (batch, tokens)
        return [normalize(scores) for scores in sum_by_word(by_token, batch)], targets.tolist()


def leaf(hidden: Tensor) -> Tensor:
    """Start a new graph here, so that gradients go back no further."""
    return hidden.detach().requires_grad_()


def explained_probabilities(support: SupportModel, output: Output) -> tuple[Tensor, Tensor]:
    """Take the probability and the number of the label that is explained. Shapes: (batch,)."""
    # In double precision, since the gradient of a probability that rounds to 1 would be 0.
    probabilities = output.logits.double().softmax(-1)
    targets = support.targets(probabilities)
    return probabilities.gather(1, targets.unsqueeze(1)).squeeze(1), targets

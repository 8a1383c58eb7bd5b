"""How strongly the predicted probability reacts to each word."""

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

Embeddings = Literal["words", "whole"]

PART = 0.5
"""Share of the usual size of batches, since all that the layers put out is kept for the way back."""


@dataclass(frozen=True, slots=True)
class Gradient:
    """Size of word embedding times gradient (the paper's gradient scores).

    The scores of a document are not negative and sum to 1. The support model is in evaluation mode, so they are
    the same each time.
    """

    support: SupportModel
    embeddings: Embeddings = "words"
    """By what to differentiate: the words' own embeddings, or all that enters the first layer."""

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score a word, for the label the support model predicts."""
        with torch.enable_grad():
            return self.support.score(documents, self.score_batch, PART)

    def score_batch(self, batch: Batch) -> Scores:
        """Differentiate the probability of the predicted label by the embeddings."""
        classifier = self.support.classifier
        encoder = classifier.encoder
        module = encoder.word_embeddings if self.embeddings == "words" else encoder.embeddings
        leaves: list[Tensor] = []

        def begin(output: Tensor) -> Tensor:
            leaves.append(begun_from(output))
            return leaves[-1]

        output = call_intercepted(lambda: classifier(batch), {module: on_tensor(begin)})
        probabilities, targets = explained(self.support, output)
        [gradient] = torch.autograd.grad(probabilities.sum(), leaves)
        by_piece = (leaves[0] * gradient).sum(-1).abs()
        by_piece = classifier.windows.unfold(by_piece, *batch.mask.shape)  # (batch, pieces)
        return [normalize(scores) for scores in sum_by_word(by_piece, batch)], targets.tolist()


def begun_from(hidden: Tensor) -> Tensor:
    """Have gradients go back as far as here."""
    return hidden.detach().requires_grad_()


def explained(support: SupportModel, output: Output) -> tuple[Tensor, Tensor]:
    """Take the probability and the number of the label that is explained. Shapes: (batch,)."""
    # In double precision, since the gradient of a probability that rounds to 1 would be 0.
    probabilities = output.logits.double().softmax(-1)
    targets = support.targets(probabilities)
    return probabilities.gather(1, targets.unsqueeze(1)).squeeze(1), targets

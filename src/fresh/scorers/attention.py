"""How much the place that the head reads looks at each word."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fresh.classifier import Classifier, eager_attention
from fresh.document import Document, Saliency
from fresh.encoding import Batch, sum_by_word
from fresh.support import Scores, Support, normalised


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention of the last layer to each word, mean over heads (Jain et al., 2020, section 5.1).

    The scores of a document are not negative and sum to 1.
    """

    support: Support
    layer: int = -1
    """Which layer's attention: -1 is the last, -2 the one the paper's text names."""

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score a word, for the label the support model predicts."""
        self.support.classifier.encoder.below(self.layer)
        with eager_attention(self.support.classifier), torch.inference_mode():
            return self.support.score(documents, self.score_batch)

    def score_batch(self, batch: Batch) -> Scores:
        """Sum what the pieces of each word receive."""
        output = self.support.classifier(batch, attentions=True)
        received = read_rows(self.support.classifier, output.attentions[self.layer].mean(1), batch)
        return [normalised(scores) for scores in sum_by_word(received, batch)], output.logits.argmax(-1).tolist()


def read_rows(classifier: Classifier, weights: Tensor, batch: Batch) -> Tensor:
    """Take the rows of the places that the head reads: the start, or the mean over all pieces.

    :param weights: Shape: (batch, pieces, pieces).
    :return: Shape: (batch, pieces).
    """
    if classifier.encoder.pooling == "start":
        return weights[:, 0]
    mask = batch.mask.to(weights.dtype).unsqueeze(-1)  # (batch, pieces, 1)
    return (weights * mask).sum(1) / mask.sum(1)

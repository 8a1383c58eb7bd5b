"""Gradients gathered on the way from masked words to the document."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fresh.classifier import Classifier
from fresh.document import Document, Saliency
from fresh.encoding import NO_WORD, Batch, sum_by_word
from fresh.scorers.gradient import PIECES_AT_ONCE, replaced
from fresh.support import Scores, Support


@dataclass(frozen=True, slots=True)
class IntegratedGradients:
    """Mean gradient on the way from a document of masked words, times that way (Sundararajan et al., 2017).

    Signed: above 0, the word raises the probability of the predicted label; below 0, it lowers it. The scores of a
    document sum to about what its words add to that probability, compared with as many masked ones.
    """

    support: Support
    steps: int = 20
    """Points of the way at which gradients are taken (the middles of equal parts)."""

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score a word, for the label the support model predicts."""
        with torch.enable_grad():
            return self.support.score(documents, self.score_batch, PIECES_AT_ONCE)

    def score_batch(self, batch: Batch) -> Scores:
        """Differentiate the predicted label's probability at each point of the way."""
        classifier = self.support.classifier
        words = classifier.encoder.word_embeddings
        with torch.no_grad():
            targets = classifier(batch).logits.argmax(-1, keepdim=True)  # (batch, 1)
            end = words(batch.ids)  # (batch, pieces, width)
            way = end - words(masked(classifier, batch))
        total = torch.zeros_like(way)
        for share in (np.arange(self.steps) + 0.5) / self.steps:
            point = (end - float(1 - share) * way).requires_grad_()
            with replaced(words, lambda _output, point=point: point):  # type: ignore[misc]
                probabilities = classifier(batch).logits.double().softmax(-1).gather(1, targets)
            total += torch.autograd.grad(probabilities.sum(), point)[0]
        by_piece = (way * total / self.steps).sum(-1)  # (batch, pieces)
        return sum_by_word(by_piece, batch), targets.squeeze(1).tolist()


def masked(classifier: Classifier, batch: Batch) -> Tensor:
    """Put a mask (or, where an encoder has none, an unknown piece) in the place of each word; leave the query."""
    tokenizer = classifier.encoder.tokenizer
    nothing = tokenizer.unk_token_id if tokenizer.mask_token_id is None else tokenizer.mask_token_id
    return torch.where(batch.word_of == NO_WORD, batch.ids, nothing)

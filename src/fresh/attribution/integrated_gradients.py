"""Gradients gathered on the way from masked words to the document."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fresh.attribution.config import check_effort
from fresh.attribution.gradient import PART
from fresh.attribution.support_model import Scores, SupportModel
from fresh.document import Document, Saliency
from fresh.nn.batch import NO_WORD, Batch, sum_by_word
from fresh.nn.batching import pieces_at_once
from fresh.nn.classifier import Classifier
from fresh.nn.intercept import call_intercepted, on_tensor


@dataclass(frozen=True, slots=True)
class IntegratedGradients:
    """Mean gradient on the way from a document of masked words, times that way (Sundararajan et al., 2017).

    Signed: above 0, the word raises the probability of the predicted label; below 0, it lowers it. The scores of a
    document sum to about what its words add to that probability, compared with as many masked ones.
    """

    support: SupportModel
    steps: int = 20
    """Points of the way at which gradients are taken (the middles of equal parts)."""

    def __post_init__(self) -> None:
        check_effort(steps=self.steps)

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score a word, for the label the support model predicts."""
        with torch.enable_grad():
            return self.support.score(documents, self.score_batch, PART)

    def score_batch(self, batch: Batch) -> Scores:
        """Differentiate the predicted probability at all points of the way, as many at once as there is room."""
        classifier = self.support.classifier
        words = classifier.encoder.word_embeddings
        with torch.no_grad():
            targets = self.support.targets(classifier(batch).logits)  # (batch,)
            end = words(batch.ids)  # (batch, pieces, width)
            way = end - words(_masked(classifier, batch))
        total = torch.zeros(batch.ids.shape, dtype=torch.float64, device=way.device)
        room = int(PART * classifier.part * pieces_at_once(classifier.device))
        n_at_once = max(1, room // batch.ids.numel())
        shares = (np.arange(self.steps) + 0.5) / self.steps
        for some in np.array_split(shares, -(-self.steps // n_at_once)):
            total += self.slopes(batch, end, way, targets, torch.from_numpy(some).to(way)).double()
        return sum_by_word(total / self.steps, batch), targets.tolist()

    def slopes(self, batch: Batch, end: Tensor, way: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
        """Add up, over some points, how fast the probability rises along each piece's way. Shape: (batch, pieces)."""
        classifier, n_points = self.support.classifier, len(shares)
        points = (end - (1 - shares).view(-1, 1, 1, 1) * way).flatten(0, 1).requires_grad_()
        at_points = on_tensor(lambda _output: classifier.windows.fold_rows(points))
        output = call_intercepted(
            lambda: classifier(batch.repeated(n_points)), {classifier.encoder.word_embeddings: at_points}
        )
        logits = output.logits
        chosen = logits.double().softmax(-1).gather(1, targets.repeat(n_points).unsqueeze(1))
        [gradient] = torch.autograd.grad(chosen.sum(), points)
        return (gradient.view(n_points, *way.shape).sum(0) * way).sum(-1)


def _masked(classifier: Classifier, batch: Batch) -> Tensor:
    """Put a mask (or, where an encoder has none, an unknown piece) in the place of each word; leave the query."""
    tokenizer = classifier.encoder.tokenizer
    nothing = tokenizer.unk_token_id if tokenizer.mask_token_id is None else tokenizer.mask_token_id
    return torch.where(batch.word_of == NO_WORD, batch.ids, nothing)

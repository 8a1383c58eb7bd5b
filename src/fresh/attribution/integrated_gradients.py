"""Gradients averaged on the path from masked words to the document."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fresh.attribution.config import check_effort
from fresh.attribution.gradient import BUDGET_SHARE
from fresh.attribution.support_model import Scores, SupportModel
from fresh.document import Document, Saliency
from fresh.nn.batch import NO_WORD, Batch, sum_by_word
from fresh.nn.batching import tokens_at_once
from fresh.nn.intercept import call_intercepted, on_tensor


@dataclass(frozen=True, slots=True)
class IntegratedGradients:
    """Mean gradient on the path from a document of masked words, times that path (Sundararajan et al., 2017).

    Signed: above 0, the word raises the probability of the predicted label; below 0, it lowers it. The scores of a
    document sum to about what its words add to that probability, compared with as many masked ones.
    """

    support: SupportModel
    steps: int = 20
    """Points of the path at which gradients are taken (the middles of equal parts)."""

    def __post_init__(self) -> None:
        check_effort(steps=self.steps)

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score per word, for the label that the support model predicts."""
        with torch.enable_grad():
            return self.support.score(documents, self._score_batch, BUDGET_SHARE)

    def _score_batch(self, batch: Batch) -> Scores:
        classifier = self.support.classifier
        embeddings, tokenizer = classifier.encoder.word_embeddings, classifier.encoder.tokenizer
        mask = tokenizer.unk_token_id if tokenizer.mask_token_id is None else tokenizer.mask_token_id
        with torch.no_grad():
            targets = self.support.targets(classifier(batch).logits)  # (batch,)
            end = embeddings(batch.ids)  # (batch, tokens, width)
            path = end - embeddings(torch.where(batch.word_of == NO_WORD, batch.ids, mask))  # the query stays
        total = torch.zeros(batch.ids.shape, dtype=torch.float64, device=path.device)
        room = int(BUDGET_SHARE * classifier.budget_share * tokens_at_once(classifier.device))
        # Points are read like texts of a batch, as many as fit beside each other.
        n_at_once = max(1, room // batch.ids.numel())
        shares = (np.arange(self.steps) + 0.5) / self.steps
        for some in np.array_split(shares, -(-self.steps // n_at_once)):
            total += self._sum_slopes(batch, end, path, targets, torch.from_numpy(some).to(path)).double()
        return sum_by_word(total / self.steps, batch), targets.tolist()

    def _sum_slopes(self, batch: Batch, end: Tensor, path: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
        """Sum, over some points, how fast the probability rises along each token's path. Shape: (batch, tokens)."""
        classifier, n_points = self.support.classifier, len(shares)
        points = (end - (1 - shares).view(-1, 1, 1, 1) * path).flatten(0, 1).requires_grad_()
        replace_by_points = on_tensor(lambda _output: classifier.windows.fold_rows(points))
        output = call_intercepted(
            lambda: classifier(batch.repeat(n_points)), {classifier.encoder.word_embeddings: replace_by_points}
        )
        chosen = output.logits.double().softmax(-1).gather(1, targets.repeat(n_points).unsqueeze(1))
        [gradient] = torch.autograd.grad(chosen.sum(), points)
        return (gradient.view(n_points, *path.shape).sum(0) * path).sum(-1)

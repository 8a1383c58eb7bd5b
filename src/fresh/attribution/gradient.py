"""Gradients of the predicted probability by the embeddings of words: at the document, and on a path to it."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fresh.attribution.config import Evidence, check_effort
from fresh.attribution.support_model import Scores, SupportModel, normalize
from fresh.document import Document, Saliency
from fresh.nn.batch import NO_WORD, Batch, sum_by_word
from fresh.nn.batching import tokens_at_once
from fresh.nn.classifier import Output
from fresh.nn.intercept import call_intercepted
from fresh.training.step import Bf16Weights

# Share of the usual size of batches, since activations are kept for the backward pass.
BUDGET_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Gradient:
    """Size of word embedding times gradient (the paper's gradient scores).

    The scores of a document are not negative and sum to 1. The support model is in evaluation mode, so that they are
    reproducible.
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

        output = call_intercepted(lambda: classifier(batch), {module: replace_by_leaf})
        probabilities, targets = explained_probabilities(self.support, output)
        [gradient] = torch.autograd.grad(probabilities.sum(), leaves)
        by_token = (leaves[0] * gradient).sum(-1).abs()
        by_token = classifier.windows.unfold(by_token, *batch.mask.shape)  # (batch, tokens)
        return [normalize(scores) for scores in sum_by_word(by_token, batch)], targets.tolist()


@dataclass(frozen=True, slots=True)
class IntegratedGradients:
    """Mean gradient on the path from a document of masked words, times that path (Sundararajan et al., 2017).

    Signed: above 0, the word raises the probability of the predicted label; below 0, it lowers it. The scores of a
    document sum to about the difference in that probability between its words and as many masked ones.
    """

    support: SupportModel
    steps: int = 20
    """Points of the path at which gradients are taken (the middles of equal parts)."""
    evidence: Evidence = "for"
    """Score words for the label highest, or words for and against it (the absolute value of their scores)."""

    def __post_init__(self) -> None:
        check_effort(steps=self.steps)

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score per word, for the label that the support model predicts."""
        classifier = self.support.classifier
        # Under autocast, every layer would round its weights anew for each of many batches.
        is_bf16 = torch.is_autocast_enabled(classifier.device.type)
        with torch.enable_grad(), Bf16Weights(classifier).swapped_in() if is_bf16 else nullcontext():
            return self.support.score(documents, self._score_batch, BUDGET_SHARE, evidence=self.evidence)

    def _score_batch(self, batch: Batch) -> Scores:
        classifier = self.support.classifier
        embeddings, tokenizer = classifier.encoder.word_embeddings, classifier.encoder.tokenizer
        mask = tokenizer.unk_token_id if tokenizer.mask_token_id is None else tokenizer.mask_token_id
        with torch.no_grad():
            targets = self.support.targets(classifier(batch).logits)  # (batch,)
            start = embeddings(torch.where(batch.word_of == NO_WORD, batch.ids, mask)).float()  # the query stays
            end = embeddings(batch.ids).float()  # (batch, tokens, width)
            path = end - start
        total = torch.zeros(batch.ids.shape, dtype=torch.float64, device=path.device)
        room = int(BUDGET_SHARE * classifier.budget_share * tokens_at_once(classifier.device))
        # Several points are read in one batch, like texts.
        n_at_once = max(1, room // batch.ids.numel())
        shares = (np.arange(self.steps) + 0.5) / self.steps
        for some in np.array_split(shares, -(-self.steps // n_at_once)):
            rest = (1 - torch.from_numpy(some).to(path)).view(-1, 1, 1, 1)
            points = (end - rest * path).flatten(0, 1).requires_grad_()
            rows = classifier.windows.fold_rows(points).to(embeddings.weight.dtype)

            def replace_words(_output: Tensor, rows: Tensor = rows) -> Tensor:
                return rows

            output = call_intercepted(partial(classifier, batch.repeat(len(some))), {embeddings: replace_words})
            chosen = output.logits.double().softmax(-1).gather(1, targets.repeat(len(some)).unsqueeze(1))
            [gradient] = torch.autograd.grad(chosen.sum(), points)
            # How fast the probability rises along each token's path.
            total += (gradient.view(len(some), *path.shape).sum(0) * path).sum(-1).double()
        return sum_by_word(total / self.steps, batch), targets.tolist()


def leaf(hidden: Tensor) -> Tensor:
    """Start a new graph here, so that gradients do not go back further."""
    return hidden.detach().requires_grad_()


def explained_probabilities(support: SupportModel, output: Output) -> tuple[Tensor, Tensor]:
    """Take the probability and the number of the label that is explained. Shapes: (batch,)."""
    # In double precision, since the gradient of a probability that rounds to 1 would be 0.
    probabilities = output.logits.double().softmax(-1)
    targets = support.targets(probabilities)
    return probabilities.gather(1, targets.unsqueeze(1)).squeeze(1), targets

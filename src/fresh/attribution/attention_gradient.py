"""Attention times its own gradient, as it is and beside looking elsewhere."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fresh.attribution.attention_reader import AttentionReader, Layers
from fresh.attribution.gradient import PART, begun_from, explained
from fresh.attribution.support_model import Scores, SupportModel
from fresh.document import Document, Saliency
from fresh.nn.batch import Batch
from fresh.nn.intercept import call_intercepted, on_tensor


@dataclass(frozen=True, slots=True)
class AttentionGradient:
    """Attention weight times the gradient of the predicted probability by it (Serrano and Smith, 2019).

    Signed: above 0, looking at the word raises the probability of the predicted label; below 0, it lowers it. All that
    looks at the word counts.
    """

    support: SupportModel
    layer: Layers = -1
    """Which layer's attention: -1 is the last; or all, added up."""

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score a word, for the label the support model predicts."""
        return _score_looks(self.support, self.layer, documents, torch.mul)


@dataclass(frozen=True, slots=True)
class AttentionShift:
    """Gradient of the predicted probability by attention before its softmax.

    Signed: above 0, the probability of the predicted label rises when all look a little more at the word and, since
    weights sum to 1, less at everything else; below 0, it falls. What looking anywhere would do alike does not count.
    """

    support: SupportModel
    layer: Layers = -1
    """Which layer's attention: -1 is the last; or all, added up."""

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score a word, for the label the support model predicts."""
        return _score_looks(self.support, self.layer, documents, _gained)


def _gained(look: Tensor, slope: Tensor) -> Tensor:
    """Say what a look is worth beside looking as before. Shape: (batch, heads, rows, pieces), or (batch, words)."""
    worth = look * slope
    return worth - look * worth.sum(-1, keepdim=True)


def _score_looks(
    support: SupportModel, layer: Layers, documents: Sequence[Document], value: Callable[[Tensor, Tensor], Tensor]
) -> list[Saliency]:
    """Score words by all that looks at them.

    :param value: Makes of how much each piece is looked at, and of the gradient by it, what that look is worth.
    """
    classifier = support.classifier
    looking = AttentionReader(classifier, layer)
    below = classifier.encoder.below(looking.layers[0])

    def score_batch(batch: Batch) -> Scores:
        if batch.hidden is not None:  # read before, perhaps beyond the layer below
            batch = replace(batch, hidden=begun_from(batch.hidden))
        output, weights = call_intercepted(lambda: looking(batch), {below: on_tensor(begun_from)})
        probabilities, targets = explained(support, output)
        gradients = torch.autograd.grad(probabilities.sum(), weights)
        values = [value(look, slope).detach() for look, slope in zip(weights, gradients, strict=True)]
        return looking.by_word(looking.together(values), batch), targets.tolist()

    part = PART / 4 if layer == "all" else 1
    with torch.enable_grad():
        return support.score(documents, score_batch, part, looking.is_above(n_before=1))

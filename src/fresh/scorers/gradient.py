"""How strongly the predicted probability reacts to each word."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from fresh.classifier import Output
from fresh.document import Document, Saliency
from fresh.pieces import Batch, sum_by_word
from fresh.support import Scores, Support, normalised

Embeddings = Literal["words", "whole"]

PART = 0.5
"""Share of the usual size of batches, since all that the layers put out is kept for the way back."""


@dataclass(frozen=True, slots=True)
class Gradient:
    """Size of word embedding times gradient (the paper's gradient scores).

    The scores of a document are not negative and sum to 1. The support model is in evaluation mode, so they are
    the same each time.
    """

    support: Support
    embeddings: Embeddings = "words"
    """By what to differentiate: the words' own embeddings, or all that enters the first layer."""

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score a word, for the label the support model predicts."""
        with differentiating(self.support.classifier):
            return self.support.score(documents, self.score_batch, PART)

    def score_batch(self, batch: Batch) -> Scores:
        """Differentiate the probability of the predicted label by the embeddings."""
        classifier = self.support.classifier
        encoder = classifier.encoder
        module = encoder.word_embeddings if self.embeddings == "words" else encoder.embeddings
        with replaced(module, begun_from) as leaves:
            probabilities, targets = explained(self.support, classifier(batch))
        [gradient] = torch.autograd.grad(probabilities.sum(), leaves)
        by_piece = (leaves[0] * gradient).sum(-1).abs()
        by_piece = classifier.windows.unfold(by_piece, *batch.mask.shape)  # (batch, pieces)
        return [normalised(scores) for scores in sum_by_word(by_piece, batch)], targets.tolist()


@contextmanager
def differentiating(network: nn.Module) -> Iterator[None]:
    """Compute gradients inside the block, by something else than the weights of a network.

    What layers would have to remember for these is most of the memory that a gradient takes, and nobody asks for it.
    """
    learning = [weight for weight in network.parameters() if weight.requires_grad]
    for weight in learning:
        weight.requires_grad_(False)
    try:
        with torch.enable_grad():
            yield
    finally:
        for weight in learning:
            weight.requires_grad_(True)


def begun_from(hidden: Tensor) -> Tensor:
    """Have gradients go back as far as here."""
    return hidden.detach().requires_grad_()


def explained(support: Support, output: Output) -> tuple[Tensor, Tensor]:
    """Take the probability and the number of the label that is explained. Shapes: (batch,)."""
    # In double precision, since the gradient of a probability that rounds to 1 would be 0.
    probabilities = output.logits.double().softmax(-1)
    targets = support.targets(probabilities)
    return probabilities.gather(1, targets.unsqueeze(1)).squeeze(1), targets


@contextmanager
def replaced(module: nn.Module, replace: Callable[[Tensor], Tensor]) -> Iterator[list[Tensor]]:
    """Put something in the place of what a module puts out, and collect it, for as long as the block lasts."""
    put: list[Tensor] = []

    def hook(_module: nn.Module, _inputs: object, output: Tensor | tuple[Tensor, ...]) -> Tensor | tuple[Tensor, ...]:
        first, rest = (output[0], output[1:]) if isinstance(output, tuple) else (output, None)
        put.append(replace(first))
        return put[-1] if rest is None else (put[-1], *rest)

    handle = module.register_forward_hook(hook)
    try:
        yield put
    finally:
        handle.remove()

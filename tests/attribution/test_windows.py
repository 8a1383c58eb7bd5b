"""Scores of long documents that are read in windows, against the same numbers computed window by window."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fresh.attribution import SCORERS, make_scorer
from fresh.attribution.attention import Attention, AttentionGradient, AttentionShift
from fresh.attribution.gradient import Gradient, IntegratedGradients
from fresh.attribution.support_model import text_of
from fresh.document import Document
from fresh.nn.batch import NO_WORD
from fresh.nn.classifier import Classifier
from fresh.nn.heads import AttentiveHead
from networks import FEW, assert_same, both_ways, read, read_plainly, support_of, windows_of
from tiny import ARCHITECTURES, WORDS

QUERY = ("praise", "it")


def head_of(classifier: Classifier) -> AttentiveHead:
    assert isinstance(classifier.head, AttentiveHead)
    return classifier.head


def long_document(n_words: int, query: Sequence[str] = QUERY, seed: int = 0) -> Document:
    generator = np.random.default_rng(seed)
    words = generator.choice((*WORDS, "xy", "unheard-of"), n_words).tolist()
    return Document.from_words(words, query, f"of {n_words}")


class ByHand:
    """A document that is cut into windows by hand, and read window by window with the plain encoder."""

    def __init__(self, classifier: Classifier, document: Document) -> None:
        self.classifier, self.n_words = classifier, len(document.words)
        self.windows = windows_of(classifier.tokenizer([text_of(document)]))

    def embedded(self) -> list[Tensor]:
        """The words' own embeddings, window by window, to be differentiated by."""
        table = self.classifier.encoder.word_embeddings
        return [table(ids).detach().requires_grad_() for ids, _, _ in self.windows]

    def pool(self, embedded: Sequence[Tensor]) -> Tensor:
        """Read all windows and take the largest values of each word. Shape: (words, width)."""
        windows = zip(self.windows, embedded, strict=True)
        hidden = [read_plainly(self.classifier, types, inputs_embeds=values) for (_, types, _), values in windows]
        return torch.stack([torch.stack(vectors).amax(0) for vectors in self.by_word(hidden)])

    def weigh(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Read words in order: their vectors (1, words, wide) and weights (1, words)."""
        head = head_of(self.classifier)
        read = both_ways(head.recurrent)(words[None])[0]
        return read, head.importance(torch.tanh(head.key(read))).squeeze(-1).softmax(-1)

    def probability(self, read: Tensor, weights: Tensor) -> Tensor:
        """How probable the most probable label is."""
        head, summed = head_of(self.classifier), (weights.unsqueeze(-1) * read).sum(1)
        probabilities: Tensor = head.out(head.middle(summed).relu()).softmax(-1)
        return probabilities.max()

    def by_word(self, values: Sequence[Tensor]) -> list[list[Tensor]]:
        """List what the tokens of each word have, window by window."""
        found: list[list[Tensor]] = [[] for _ in range(self.n_words)]
        for (_, _, words), window in zip(self.windows, values, strict=True):
            for word, value in zip(words[0].tolist(), window, strict=True):
                if word != NO_WORD:
                    found[word].append(value)
        return found


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_attention_is_of_the_head_and_gradient_of_each_window(architecture: str, encoders: dict[str, Path]) -> None:
    support = support_of(encoders[architecture], long="chunk", layers=1)
    items = [long_document(150), long_document(3), long_document(90, ())]
    saliencies = zip(items, Attention(support).score(items), Gradient(support).score(items), strict=True)
    for document, attention, gradient in saliencies:
        by_hand = ByHand(support.classifier, document)
        leaves = by_hand.embedded()
        read, weights = by_hand.weigh(by_hand.pool(leaves))
        np.testing.assert_allclose(attention.scores, weights[0].detach().numpy(), atol=1e-9)
        assert attention.scores.sum() == pytest.approx(1, abs=1e-9)
        assert attention.n_read == len(document.words)
        gradients = torch.autograd.grad(by_hand.probability(read, weights), leaves)
        slopes = [(leaf * slope).sum(-1).abs()[0].detach() for leaf, slope in zip(leaves, gradients, strict=True)]
        expected = np.array([sum(each) for each in by_hand.by_word(slopes)])
        np.testing.assert_allclose(gradient.scores, expected / expected.sum(), atol=1e-9)


@pytest.mark.parametrize("kind", [AttentionGradient, AttentionShift])
def test_scores_are_slopes_along_each_weight_of_the_head(kind: Any, encoders: dict[str, Path]) -> None:
    """Times the weight itself; or, for shifts, before its softmax."""
    support = support_of(encoders["bert"], long="chunk", layers=1)
    items = [long_document(150), long_document(4)]
    for document, saliency in zip(items, kind(support).score(items), strict=True):
        by_hand = ByHand(support.classifier, document)
        read, weights = by_hand.weigh(by_hand.pool(by_hand.embedded()))
        is_shift = kind is AttentionShift
        leaf = (weights.detach().log() if is_shift else weights.detach()).requires_grad_()
        [gradient] = torch.autograd.grad(
            by_hand.probability(read.detach(), leaf.softmax(-1) if is_shift else leaf), leaf
        )
        expected = (gradient if is_shift else leaf * gradient)[0].detach().numpy()
        np.testing.assert_allclose(saliency.scores, expected, atol=1e-9)
        assert np.ptp(saliency.scores) > 1e-6
        if is_shift:
            assert saliency.scores.sum() == pytest.approx(0, abs=1e-6)


def test_integrated_gradients_add_up_to_what_the_words_add(encoders: dict[str, Path]) -> None:
    support = support_of(encoders["bert"], long="chunk", layers=1)
    classifier = support.classifier
    with torch.no_grad():
        head_of(classifier).out.weight *= 5
    items = [long_document(60), long_document(7)]
    batch = read(classifier, [text_of(item) for item in items])
    masks = torch.full_like(batch.ids, int(classifier.encoder.tokenizer.mask_token_id or 0))
    nothing = replace(batch, ids=torch.where(batch.word_of == NO_WORD, batch.ids, masks))
    with torch.no_grad():
        full, none = (classifier(given).logits.softmax(-1) for given in (batch, nothing))
    targets = full.argmax(-1, keepdim=True)
    added = (full - none).gather(1, targets).squeeze(1).numpy()
    assert np.abs(added).min() > 0.005
    few, many = (
        np.abs([found.scores.sum() for found in IntegratedGradients(support, steps=steps).score(items)] - added)
        for steps in (1, 20)
    )
    assert many.max() < 0.02 * np.abs(added).min()
    assert few.max() > 2 * many.max()


@pytest.mark.parametrize("kind", [Attention, AttentionGradient, AttentionShift])
@pytest.mark.parametrize("layer", [-2, 0])
def test_no_layer_but_the_last_can_be_asked_about(kind: Any, layer: int, encoders: dict[str, Path]) -> None:
    support = support_of(encoders["bert"], long="chunk", layers=1)
    kind(support, layer=1).score([long_document(3)])
    with pytest.raises(ValueError, match=rf"layer must be -1 with long=chunk, got {layer}"):
        kind(support, layer=layer).score([long_document(3)])


@pytest.mark.parametrize("name", SCORERS)
def test_every_scorer_reads_windows(name: str, encoders: dict[str, Path]) -> None:
    support = support_of(encoders["bert"], long="chunk", layers=1)
    items = [long_document(60), long_document(2)]
    scorer = make_scorer(name, support, FEW | {"samples": 64})
    found = scorer.score(items)
    assert [len(saliency) for saliency in found] == [60, 2]
    assert all(np.ptp(saliency.scores) > 0 for saliency in found)
    assert_same([saliency for item in items for saliency in scorer.score([item])], found, 1e-6)
    assert not any(isinstance(part, nn.Dropout) and part.training for part in support.classifier.modules())

"""Attention of all layers at once, whatever the encoder and however much of it is frozen."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fresh.attribution.attention_gradient import AttentionGradient
from fresh.attribution.attention_reader import AttentionReader
from fresh.attribution.registry import make_scorer
from fresh.attribution.support_model import SupportModel
from fresh.document import Document
from fresh.nn.batch import sum_by_word
from fresh.nn.classifier import eager_attention
from fresh.nn.encoder import Pooling
from fresh.nn.tokenizer import Text
from shared_scorers import assert_same, documents, support_of, trace
from tiny import ARCHITECTURES


def by_hand(support: SupportModel, document: Document) -> list[float]:
    """Compute all attention as the encoder's authors do, differentiate it, and add up what each word gets."""
    classifier = support.classifier
    batch = classifier.collate(classifier.words([Text(document.words, document.query)]))
    with eager_attention(classifier), torch.enable_grad():
        output = classifier.show_attention(batch)
        gradients = torch.autograd.grad(output.logits.softmax(-1).max(), output.attentions)
    total = torch.zeros(batch.ids.shape, dtype=torch.float64)
    for weights, gradient in zip(output.attentions, gradients, strict=True):
        looks = (weights * gradient).mean(1)  # (1, pieces, pieces)
        total += looks.sum(1) if classifier.encoder.pooling == "start" else looks.mean(1)
    found: list[float] = sum_by_word(total, batch)[0].tolist()
    return found


@pytest.mark.parametrize("layers", [0, 1, "all"])
@pytest.mark.parametrize("pooling", ["start", "mean"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_all_layers_say_together_what_attention_in_the_open_says(
    architecture: str, pooling: Pooling, layers: object, encoders: dict[str, Path]
) -> None:
    support = support_of(encoders[architecture], pooling, layers=layers)
    support.classifier.requires_grad_(True)  # so that what is computed by hand has a gradient everywhere
    items = documents(5)
    expected = [by_hand(support, document) for document in items]
    for found, hand in zip(AttentionGradient(support, "all").score(items), expected, strict=True):
        np.testing.assert_allclose(found.scores, hand, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_it_depends_on_no_neighbour_and_leaves_no_trace(architecture: str, encoders: dict[str, Path]) -> None:
    support = support_of(encoders[architecture], layers=1)
    items = documents(6)
    scorer = make_scorer("attention_gradient", support, {"layer": "all"})
    alone = [saliency for document in items for saliency in scorer.score([document])]
    before = trace(support.classifier)
    assert_same(scorer.score(items), alone, 1e-9)
    assert trace(support.classifier) == before


def test_layers_are_opened_one_by_one(encoders: dict[str, Path]) -> None:
    classifier = support_of(encoders["bert"], layers=1).classifier
    assert AttentionReader(classifier, "all").layers == [0, 1]
    assert AttentionReader(classifier, -2).layers == [0]
    assert not AttentionReader(classifier, -1).is_eager
    assert not AttentionReader(classifier, "all").is_above()

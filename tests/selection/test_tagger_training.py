import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fresh.attribution.support_model import text_of
from fresh.data.splits import Splits
from fresh.document import Document, Mask
from fresh.nn.batch import IntArray
from fresh.nn.config import NetworkConfig
from fresh.nn.heads import LinearChainCRF
from fresh.nn.token_classifier import Kind, TokenClassifier, WordValues
from fresh.selection.tagger import Tagger, _make_losses, build_tagger, positive_weight
from fresh.training.config import ClassifierConfig, EngineConfig, TrainConfig
from fresh.training.fit import encode, make_loss
from fresh.training.loop import RunContext
from fresh.training.step import Loss
from shared_tagger import KINDS, ONE_WORD, marks
from tiny import KEY_BIASES
from training_hooks import record_losses

# The loss


def loss_of(network: TokenClassifier, pairs: Sequence[tuple[Document, Mask]], only: IntArray | None = None) -> Loss:
    config = TrainConfig(device="cpu")
    inputs = encode(network, [text_of(document) for document, _ in pairs], config, RunContext())
    return make_loss(network, inputs, _make_losses(network, [mask for _, mask in pairs], only), config)


def logits_of(network: TokenClassifier, document: Document) -> list[float]:
    with torch.no_grad():
        outputs, n_words = network(network.collate(network.tokenizer([text_of(document)])))
    assert n_words.tolist() == [len(document.words)]
    return [float(value) for value in outputs[0, : len(document.words), 0]]


FEW = [
    (Document.from_words(["a", "good", "film"]), Mask(np.array([False, True, False]))),
    (Document.from_words(["it", "was", "incomprehensible", "in", "the", "sea"]), Mask.from_spans([(2, 4)], 6)),
    (Document.from_words(["awful"]), Mask(np.array([False]))),
]


def by_hand(logits: list[float], mask: Mask, weight: float) -> float:
    """A mean over words of what each costs by itself."""
    pairs = zip(logits, mask.kept, strict=True)
    costs = [weight * math.log1p(math.exp(-logit)) if kept else math.log1p(math.exp(logit)) for logit, kept in pairs]
    return sum(costs) / len(costs)


def chain_by_hand(chain: LinearChainCRF, logits: list[float], mask: Mask) -> float:
    """What the tags cost among all ways to tag a document, a word."""

    def score(tags: tuple[int, ...]) -> float:
        own = sum(logit for logit, tag in zip(logits, tags, strict=True) if tag)
        beside = sum(chain.change[pair].item() for pair in itertools.pairwise(tags))
        return own + beside + (chain.begin[tags[0]] + chain.end[tags[-1]]).item()

    total = sum(math.exp(score(tags)) for tags in itertools.product((0, 1), repeat=len(logits)))
    return (math.log(total) - score(tuple(mask.kept.astype(int).tolist()))) / len(logits)


def test_kept_words_count_as_many_times_more_as_they_are_fewer() -> None:
    assert positive_weight([mask for _, mask in FEW]) == pytest.approx(7 / 3)  # 3 of 10 are kept
    assert positive_weight([Mask.full(3)]) == 1
    assert positive_weight([Mask.from_spans([], 5)]) == 5


def test_the_loss_is_a_weighted_cross_entropy(quick: ClassifierConfig) -> None:
    network = build_tagger("words", quick)
    expected = [by_hand(logits_of(network, document), mask, 7 / 3) for document, mask in FEW]
    loss, width = loss_of(network, FEW), widest(network, FEW)
    assert loss(torch.arange(3), width, False).item() == pytest.approx(sum(expected), rel=1e-5)
    for number in range(3):
        assert loss(torch.tensor([number]), width, False).item() == pytest.approx(expected[number], rel=1e-5)


def test_the_loss_of_a_chain_is_the_likelihood_of_its_tags(quick: ClassifierConfig) -> None:
    network = build_tagger("chain", quick)
    chain = network.head.chain
    assert chain is not None
    with torch.no_grad():
        for weight in chain.parameters():
            weight.normal_(generator=torch.Generator().manual_seed(weight.numel()))
    expected = [chain_by_hand(chain, logits_of(network, document), mask) for document, mask in FEW]
    found = loss_of(network, FEW)(torch.arange(3), widest(network, FEW), False)
    assert found.item() == pytest.approx(sum(expected), rel=1e-5)


def widest(network: TokenClassifier, pairs: Sequence[tuple[Document, Mask]]) -> int:
    return int(network.tokenizer([text_of(document) for document, _ in pairs]).lengths.max())


@pytest.mark.parametrize("kind", KINDS)
def test_documents_that_count_for_nothing_add_nothing(kind: Kind, quick: ClassifierConfig) -> None:
    network = build_tagger(kind, quick)
    loss, width = loss_of(network, FEW), widest(network, FEW)
    found: list[list[Tensor]] = []
    for numbers in ([1, 2], [-1, 1, -1, 2, -1]):
        network.zero_grad()
        value = loss(torch.tensor(numbers), width, False)
        value.backward()  # type: ignore[no-untyped-call]
        found.append([value.detach(), *(w.grad for w in network.parameters() if w.grad is not None)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)
    assert loss(torch.tensor([-1, -1]), width, False).item() == 0


def test_the_weight_is_that_of_what_is_learnt_from(quick: ClassifierConfig) -> None:
    network = build_tagger("words", quick)
    [document, mask] = FEW[0]
    found = loss_of(network, FEW, np.array([0]))(torch.tensor([0]), widest(network, FEW), False)
    assert found.item() == pytest.approx(by_hand(logits_of(network, document), mask, 2), rel=1e-5)


def test_values_of_words_lie_side_by_side() -> None:
    values = WordValues.of([np.array([1.0, 2.0, 3.0]), np.array([4.0]), np.array([5.0, 6.0])], torch.device("cpu"))
    assert values.take(torch.tensor([2, 0, 1]), 4).tolist() == [[5, 6, 0, 0], [1, 2, 3, 0], [4, 0, 0, 0]]
    assert values.take(torch.tensor([0]), 2).tolist() == [[1, 2]]


# What it is trained on


def weights_of(tagger: Tagger) -> dict[str, Tensor]:
    return tagger.network.state_dict()


@pytest.mark.parametrize("kind", KINDS)
def test_training_on_some_documents_equals_training_without_the_others(
    kind: Kind, toy: Splits, quick: ClassifierConfig
) -> None:
    config = replace(quick, train=replace(quick.train, epochs=2))
    some, dev = marks(toy.train[:40]), marks(toy.dev[:8])
    spoilt = [pair if number % 3 else (pair[0], Mask.full(len(pair[0].words))) for number, pair in enumerate(some)]
    only = np.array([number for number in range(len(some)) if number % 3])
    one = Tagger.train(spoilt, dev, ONE_WORD, config, kind, only=only)
    other = Tagger.train([some[number] for number in only], dev, ONE_WORD, config, kind)
    for name, weight in weights_of(other).items():
        torch.testing.assert_close(weights_of(one)[name], weight, atol=0, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_training_from_the_store_equals_training_without_it(
    kind: Kind, toy_pairs: Splits, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = record_losses(monkeypatch)
    found: dict[str, tuple[list[float], dict[str, Tensor]]] = {}
    places: tuple[Any, ...] = ("off", "memory", "file")
    for place in places:
        losses.clear()
        config = ClassifierConfig(
            NetworkConfig(str(encoders["bert"]), layers=1, dropout=0.3),
            TrainConfig(epochs=3, batch_size=16, learning_rate=3e-3, device="cpu", engine=EngineConfig(frozen=place)),
        )
        trained = Tagger.train(marks(toy_pairs.train[:64]), marks(toy_pairs.dev[:16]), ONE_WORD, config, kind)
        found[place] = [value for _, value in losses], weights_of(trained)
    plain, weights = found["off"]
    assert np.std(plain) > 0
    for place in places[1:]:
        np.testing.assert_allclose(found[place][0], plain, atol=1e-5)
        for name, weight in weights.items():
            if not name.endswith(KEY_BIASES):
                torch.testing.assert_close(found[place][1][name], weight, atol=1e-4, rtol=1e-4)


def test_one_seed_gives_one_tagger_and_another_seed_another(toy: Splits, quick: ClassifierConfig) -> None:
    def trained(seed: int) -> Tensor:
        config = replace(quick, train=replace(quick.train, epochs=1, seed=seed))
        tagger = Tagger.train(marks(toy.train[:16]), marks(toy.dev[:8]), ONE_WORD, config)
        return weights_of(tagger)["head.out.weight"]

    assert torch.equal(trained(0), trained(0))
    assert not torch.equal(trained(0), trained(1))

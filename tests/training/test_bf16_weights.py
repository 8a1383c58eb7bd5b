"""Steps with 16 bits: what is read is rounded, what learns is exact."""

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

import small
from fresh.config import from_mapping
from fresh.data.splits import Splits
from fresh.document import Example
from fresh.methods import bastings, fresh, lei
from fresh.methods.config import FreshConfig
from fresh.methods.gate_config import BastingsConfig, LeiConfig
from fresh.methods.result import MethodResult
from fresh.metrics.classification import macro_f1
from fresh.nn.classifier import Classifier
from fresh.nn.config import NetworkConfig
from fresh.nn.encoder import load_encoder
from fresh.nn.tokenizer import Text
from fresh.training import step as update
from fresh.training.bf16_weights import Bf16Weights
from fresh.training.loop import RunContext

TEXTS = [Text(("good", "film")), Text(("bad", "old", "story", "of", "two", "men"))]


def classifier(place: Path, **settings: object) -> Classifier:
    torch.manual_seed(0)
    config = from_mapping(NetworkConfig, {"encoder": str(place), "layers": "all", "dropout": 0.0, **settings})
    return Classifier(load_encoder(str(place)), ["a", "b"], config)


def backward(network: Classifier) -> None:
    """Compute gradients as a training step does."""
    batch = network.collate(network.tokenizer(TEXTS))
    with torch.autocast("cpu", torch.bfloat16):
        logits = network(batch).logits
    nn.functional.cross_entropy(logits.float(), torch.tensor([0, 1])).backward()  # type: ignore[no-untyped-call]


def gradient_of(network: Classifier) -> torch.Tensor:
    gradient = network.encoder.word_embeddings.weight.grad
    assert gradient is not None
    return gradient


@pytest.mark.parametrize("kind", ["bert", "distilbert", "roberta", "mpnet", "modernbert"])
def test_gradients_are_those_of_an_encoder_of_16_bits(kind: str, encoders: dict[str, Path]) -> None:
    network = classifier(encoders[kind])
    half = copy.deepcopy(network)
    for weight in half.body.parameters():
        weight.data = weight.data.bfloat16()
    backward(half)
    rounded = Bf16Weights(network)
    with rounded.in_place():
        seen = network.body.dtype
        backward(network)
    assert (seen, network.body.dtype) == (torch.bfloat16, torch.float32)
    assert all(weight.grad is None for weight in network.body.parameters())
    rounded.hand_over()
    expected = {name: weight.grad for name, weight in half.named_parameters()}
    found = {name: weight.grad for name, weight in network.named_parameters()}
    assert any(gradient is not None and bool(gradient.any()) for gradient in found.values())
    for name, gradient in found.items():
        other = expected[name]
        assert (gradient is None) == (other is None), name
        if gradient is not None and other is not None:
            assert gradient.dtype == torch.float32
            assert torch.equal(gradient, other.float()), name


def test_gradients_of_parts_add_up_and_can_be_dropped(encoders: dict[str, Path]) -> None:
    network = classifier(encoders["bert"])
    rounded = Bf16Weights(network)
    for _ in range(2):
        with rounded.in_place():
            backward(network)
        rounded.hand_over()
    twice = gradient_of(network).clone()
    network.zero_grad()
    for keeps in (rounded.forget, rounded.hand_over):
        with rounded.in_place():
            backward(network)
        keeps()
    assert torch.equal(twice, 2 * gradient_of(network))


def test_rounded_weights_follow_the_exact_ones_and_give_way_to_them(encoders: dict[str, Path]) -> None:
    network = classifier(encoders["bert"])
    rounded = Bf16Weights(network)
    weight = network.encoder.word_embeddings.weight
    with torch.no_grad():
        weight.add_(1)
    with rounded.in_place():
        assert torch.equal(network.encoder.word_embeddings.weight, weight.bfloat16())
    assert network.encoder.word_embeddings.weight is weight
    with pytest.raises(KeyError), rounded.in_place():
        raise KeyError
    assert network.encoder.word_embeddings.weight is weight


def test_what_is_frozen_is_rounded_too_and_learns_nothing(encoders: dict[str, Path]) -> None:
    network = classifier(encoders["bert"], layers=1)
    rounded = Bf16Weights(network)
    with rounded.in_place():
        assert {weight.dtype for weight in network.body.parameters()} == {torch.bfloat16}
        backward(network)
    rounded.hand_over()
    learns = {name for name, weight in network.named_parameters() if weight.grad is not None}
    assert learns
    assert learns == {name for name, weight in network.named_parameters() if weight.requires_grad}


def answers(trained: MethodResult, examples: tuple[Example, ...]) -> list[str]:
    return [item.prediction.label for item in trained.model.explain([example.document for example in examples])]


def test_networks_learn_with_16_bits(toy: Splits, encoders: dict[str, Path]) -> None:
    settings = small.settings(encoders["bert"], epochs=6, precision="bf16", scorer="integrated_gradients")
    trained = fresh.train_and_mark(toy, from_mapping(FreshConfig, settings), RunContext())
    assert {weight.dtype for weight in trained.model.predictor.classifier.parameters()} == {torch.float32}
    gold = [example.label for example in toy.test]
    assert macro_f1(gold, answers(trained, toy.test), toy.labels) > 0.9


@pytest.mark.filterwarnings("ignore:The gate has collapsed")
def test_gates_read_their_exact_weights_others_rounded_ones(
    toy: Splits, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    rounded: list[type] = []

    def spy(network: nn.Module) -> Bf16Weights:
        rounded.append(type(network))
        return Bf16Weights(network)

    monkeypatch.setattr(update, "Rounded", spy)
    given = small.settings(encoders["bert"], epochs=1, precision="bf16")
    lei.train(toy, from_mapping(LeiConfig, given))
    bastings.train(toy, from_mapping(BastingsConfig, given))
    assert rounded == []
    fresh.train_and_mark(toy, from_mapping(FreshConfig, given), RunContext())
    assert rounded == [Classifier, Classifier]


@pytest.mark.filterwarnings("ignore:The gate has collapsed")
@pytest.mark.parametrize("layers", [1, "all"])
@pytest.mark.parametrize("long", ["stagger", "chunk"])
def test_all_kinds_of_networks_can_be_trained_with_16_bits(
    long: str, layers: int | str, toy: Splits, encoders: dict[str, Path]
) -> None:
    given = small.settings(encoders["bert"], epochs=1, precision="bf16", long=long, layers=layers)
    for made in (
        lei.train(toy, from_mapping(LeiConfig, given)),
        bastings.train(toy, from_mapping(BastingsConfig, given)),
        fresh.train_and_mark(toy, from_mapping(FreshConfig, {**given, "distil": True, "crf": True}), RunContext()),
    ):
        assert set(answers(made, toy.test)) <= set(toy.labels)

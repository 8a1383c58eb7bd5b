from inspect import signature
from pathlib import Path
from typing import Any, Literal
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import BertModel

import fresh.training.feature_cache
import fresh.training.fit
from fresh.nn.attention import open_layer
from fresh.nn.batch import Batch, Gather
from fresh.nn.classifier import Classifier
from fresh.nn.config import NetworkConfig
from fresh.nn.encoder import Encoder, Pooling, load_encoder
from fresh.nn.split_encoder import SplitEncoder, extras, split_encoder
from fresh.nn.tokenizer import Text, WordTokenizer
from fresh.training.config import ClassifierConfig, TrainConfig
from fresh.training.feature_cache import FeatureStore
from fresh.training.fit import TrainingPairs, encode, train_classifiers
from fresh.training.loop import RunContext
from shared_halves import texts
from shared_recipe_resume import Saying
from tiny import ARCHITECTURES, N_POSITIONS

POOLINGS: tuple[Pooling, ...] = ("start", "mean")
CPU = torch.device("cpu")


def batch_of(encoder: Encoder, *sizes: int) -> Batch:
    table = WordTokenizer(encoder, "stagger", 256)(texts(*sizes))
    return Gather(table, CPU, encoder.tokenizer.pad_token_id)(np.arange(len(table)))


BATCHES = {"filled up": (3, 9, 0, 6), "alike": (7, 7, 7), "staggered": (N_POSITIONS + 40, 5, 2 * N_POSITIONS)}
"""How many words some texts have."""


@torch.no_grad()
def read_whole(encoder: Encoder, batch: Batch) -> Tensor:
    accepted = {"token_type_ids", "position_ids"} & signature(encoder.model.forward).parameters.keys()
    found: Tensor = encoder.model(batch.ids, attention_mask=batch.mask, **extras(batch, accepted)).last_hidden_state
    return found


@torch.inference_mode()
def read_in_halves(halves: SplitEncoder, batch: Batch) -> Tensor:
    found, _ = halves.above(halves.below(batch), batch)
    return found


def distance(halves: SplitEncoder, encoder: Encoder, batch: Batch) -> float:
    """How far the halves are from the whole, where there are pieces."""
    found, whole = read_in_halves(halves, batch), read_whole(encoder, batch)
    there = batch.mask[:, : found.shape[1]].bool()
    return float((found - whole[:, : found.shape[1]])[there].abs().max())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("n_below", [0, 1, 2])
def test_the_halves_do_what_the_whole_does(
    architecture: str, pooling: Pooling, n_below: int, encoders: dict[str, Path]
) -> None:
    encoder = load_encoder(str(encoders[architecture]), pooling)
    halves = split_encoder(encoder, n_below, pooling == "start", batch_of(encoder, 3, 1))
    assert halves is not None
    assert halves.n_below == (min(n_below, 1) if pooling == "start" else n_below)
    for name, sizes in BATCHES.items():
        batch = batch_of(encoder, *sizes)
        assert batch.dense == (name == "alike")
        assert read_in_halves(halves, batch).shape[1] == (1 if pooling == "start" else batch.ids.shape[1])
        assert distance(halves, encoder, batch) < 1e-5, name


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_neither_half_is_idle(architecture: str, encoders: dict[str, Path]) -> None:
    encoder = load_encoder(str(encoders[architecture]))
    batch = batch_of(encoder, 5, 9)
    halves = [SplitEncoder(encoder, n_below, start_only=False) for n_below in range(3)]
    below = [half.below(batch) for half in halves]
    assert [len(list(layers_of(half.lower))) for half in halves] == [0, 1, 2]
    assert not torch.allclose(below[0], below[1], atol=1e-3)
    assert not torch.allclose(below[1], below[2], atol=1e-3)


def layers_of(body: nn.Module) -> nn.ModuleList:
    [found] = [module for module in body.modules() if isinstance(module, nn.ModuleList)]
    return found


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_start_token_alone_also_says_where_it_looks(architecture: str, encoders: dict[str, Path]) -> None:
    encoder = load_encoder(str(encoders[architecture]))
    batch = batch_of(encoder, 4, 9)
    halves = SplitEncoder(encoder, 1, start_only=True)
    with torch.inference_mode():
        _, weights = halves.above(halves.below(batch), batch)
    assert weights is not None
    assert weights.shape == (2, 2, 1, batch.ids.shape[1])
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 1))
    assert float(weights[0, ..., batch.mask[0] == 0].abs().max()) == 0


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("pooling", POOLINGS)
def test_the_halves_follow_the_encoder(architecture: str, pooling: Pooling, encoders: dict[str, Path]) -> None:
    encoder = load_encoder(str(encoders[architecture]), pooling)
    batch = batch_of(encoder, 5, 9)
    halves = SplitEncoder(encoder, 1, pooling == "start")
    before = read_in_halves(halves, batch)
    weights = {name: weight for name, weight in encoder.model.named_parameters() if "pooler" not in name}
    with torch.no_grad():
        for weight in weights.values():
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(len(weight))), alpha=0.05)
    assert not torch.allclose(read_in_halves(halves, batch), before, atol=1e-2)
    assert distance(halves, encoder, batch) < 1e-5
    encoder.model.double()  # as if it went to another device
    assert read_in_halves(halves, batch).dtype == torch.float64
    assert distance(halves, encoder, batch) < 1e-5


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_halves_add_no_weights(architecture: str, encoders: dict[str, Path]) -> None:
    folder = str(encoders[architecture])
    encoder = load_encoder(folder, "mean")
    names = {f"body.{name}" for name in encoder.model.state_dict()} | {"head.weight", "head.bias"}
    classifier = Classifier(encoder, ("neg", "pos"), NetworkConfig(folder, layers=1))
    assert classifier.halves is not None
    assert set(classifier.state_dict()) == names
    shared = {id(weight) for weight in classifier.parameters()}
    for half in (classifier.halves.lower, classifier.halves.upper):
        assert isinstance(half, nn.Module)
        assert {id(weight) for weight in half.parameters()} <= shared


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("layers", [0, 1, 2, "all"])
def test_the_frozen_layers_are_below_the_cut(
    architecture: str, layers: int | Literal["all"], encoders: dict[str, Path]
) -> None:
    folder = str(encoders[architecture])
    for pooling in POOLINGS:
        classifier = Classifier(load_encoder(folder, pooling), ("neg", "pos"), NetworkConfig(folder, layers=layers))
        halves = classifier.halves
        assert halves is not None
        frozen = 0 if layers == "all" else 2 - layers
        assert halves.n_below == (min(frozen, 1) if pooling == "start" else frozen)
        weights = halves.lower.named_parameters()
        learns = {weight.requires_grad for name, weight in weights if "relative_attention_bias" not in name}
        assert learns == {layers == "all"}


class Odd(BertModel):
    """Does something to what its layers put out, which nobody could guess from its parts."""

    def forward(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        token_type_ids: Any = None,
        position_ids: Any = None,
        **others: Any,
    ) -> Any:
        out = super().forward(input_ids, attention_mask, token_type_ids, position_ids, **others)
        out.last_hidden_state = 2 * out.last_hidden_state
        return out


class Picky(BertModel):
    """Takes pieces only, not what was made of them."""

    def forward(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        token_type_ids: Any = None,
        position_ids: Any = None,
        **others: Any,
    ) -> Any:
        if input_ids is None:
            raise ValueError("pieces, please")
        return super().forward(input_ids, attention_mask, token_type_ids, position_ids, **others)


def strange(kind: type[BertModel], folder: Path, pooling: Pooling = "start") -> Encoder:
    encoder = load_encoder(str(folder), pooling)
    encoder.model.__class__ = kind
    return encoder


@pytest.mark.parametrize("kind", [Odd, Picky])
@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("n_below", [0, 1])
def test_an_encoder_that_cannot_be_cut_is_left_whole(
    kind: type[BertModel], pooling: Pooling, n_below: int, encoders: dict[str, Path]
) -> None:
    encoder = strange(kind, encoders["bert"], pooling)
    found = split_encoder(encoder, n_below, pooling == "start", batch_of(encoder, 3, 1))
    if kind is Picky and pooling == "start" and n_below == 1:
        assert found is not None  # nothing but its own last layer is above the cut
    else:
        assert found is None


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("full"), RuntimeError("CUDA error: out of memory")])
def test_a_full_card_says_nothing_of_a_layer(
    error: RuntimeError, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = load_encoder(str(encoders["bert"]))
    monkeypatch.setattr(encoder.model, "forward", MagicMock(side_effect=error))
    with pytest.raises(type(error), match=f"^{error}$"):
        open_layer(encoder, -1)


def test_frozen_layers_of_a_large_encoder_read_fewer_pieces_at_once(
    encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, parts = NetworkConfig(str(encoders["bert"]), layers=1), list[float]()
    classifier = Classifier(load_encoder(config.encoder), ("neg", "pos"), config)
    monkeypatch.setattr(Classifier, "part", 0.25)
    monkeypatch.setattr(
        fresh.training.feature_cache, "run_batches", lambda _lengths, _device, _work, part=1: parts.append(part)
    )
    encode(classifier, texts(3, 9), TrainConfig(device="cpu"), RunContext(feature_store=FeatureStore("memory")))
    assert parts == [0.25]


@pytest.mark.parametrize("pooling", POOLINGS)
def test_an_encoder_that_cannot_be_cut_is_read_whole(pooling: Pooling, encoders: dict[str, Path]) -> None:
    encoder = strange(Odd, encoders["bert"], pooling)
    classifier = Classifier(encoder, ("neg", "pos"), NetworkConfig(str(encoders["bert"]), layers=1, dropout=0))
    assert classifier.halves is None
    batch = classifier.collate(classifier.words(texts(3, 9)))
    whole = read_whole(encoder, batch)
    expected = classifier.head(classifier.pool(whole, batch.mask))
    torch.testing.assert_close(classifier(batch).logits, expected)
    plain = load_encoder(str(encoders["bert"]), pooling)
    torch.testing.assert_close(whole, 2 * read_whole(plain, batch))


def test_an_encoder_that_cannot_be_cut_is_trained(
    quick: ClassifierConfig, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fresh.training.fit, "load_encoder", lambda *_given: strange(Odd, encoders["bert"]))
    network = NetworkConfig(str(encoders["bert"]), layers=1, dropout=0)
    pairs = [(Text(("good", "film")), "pos"), (Text(("bad", "film")), "neg")] * 20
    saying = Saying()
    config = ClassifierConfig(network, quick.train)
    [(classifier, _)] = train_classifiers([TrainingPairs(pairs, pairs)], [config], RunContext("odd one", saying))
    assert saying.lines == [
        "odd one: 40 texts, 0.0% padding; every step runs all layers (the layers of this encoder cannot be run "
        "separately)."
    ]
    right = classifier.probabilities([text for text, _ in pairs]).argmax(1) == [label == "pos" for _, label in pairs]
    assert right.all()

"""The two parts of an encoder give what the whole gives; encoders that cannot be split are run whole."""

from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import AlbertConfig, AlbertModel, BertModel, DebertaV2Config, DebertaV2Model, PreTrainedModel

import fresh.training.feature_cache
import fresh.training.fit
from fresh.errors import EncoderError
from fresh.methods.config import FreshConfig
from fresh.methods.fresh import check_ready
from fresh.nn.batch import Batch, Collator, Windows
from fresh.nn.classifier import Classifier
from fresh.nn.config import NetworkConfig
from fresh.nn.encoder import Encoder, load_encoder
from fresh.nn.split_encoder import SplitEncoder, split_encoder
from fresh.nn.tokenizer import Text, WordTokenizer
from fresh.training.config import ClassifierConfig, EngineConfig, TrainConfig
from fresh.training.feature_cache import FeatureStore
from fresh.training.fit import TrainingPairs, encode, train_classifiers
from fresh.training.loop import RunContext
from networks import texts_of
from small import Saying
from tiny import ARCHITECTURES, N_POSITIONS, SHAPE, bert_tokenizer

BATCHES = {"padded": (3, 9, 0, 6), "dense": (7, 7, 7), "staggered": (N_POSITIONS + 40, 5, 2 * N_POSITIONS)}
"""How many words some texts have."""

every_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES)


def batch_of(encoder: Encoder, *sizes: int) -> Batch:
    table = WordTokenizer(encoder, "stagger", 2048)(texts_of(*sizes))
    return Collator(table, torch.device("cpu"), encoder.tokenizer.pad_token_id)(np.arange(len(table)))


@torch.no_grad()
def run_whole(encoder: Encoder, batch: Batch) -> Tensor:
    accepted = signature(encoder.model.forward).parameters.keys()
    inputs = {"token_type_ids": batch.types, "position_ids": batch.positions}
    own = {name: values for name, values in inputs.items() if name in accepted}
    found: Tensor = encoder.model(batch.ids, attention_mask=batch.mask, **own).last_hidden_state
    return found


@torch.inference_mode()
def run_parts(split: SplitEncoder, batch: Batch) -> Tensor:
    return Windows().run(split.upper, replace(batch, hidden=Windows().run(split.lower, batch)))


def distance(split: SplitEncoder, encoder: Encoder, batch: Batch) -> float:
    """How far the parts are from the whole, where there are tokens."""
    return float((run_parts(split, batch) - run_whole(encoder, batch))[batch.mask.bool()].abs().max())


@every_architecture
@pytest.mark.parametrize("n_lower", [0, 1, 2])
def test_the_parts_give_what_the_whole_gives(architecture: str, n_lower: int, encoders: dict[str, Path]) -> None:
    encoder = load_encoder(str(encoders[architecture]))
    split = split_encoder(encoder, n_lower, batch_of(encoder, 3, 1), Windows())
    assert split is not None
    for name, sizes in BATCHES.items():
        batch = batch_of(encoder, *sizes)
        assert batch.dense == (name == "dense")
        assert distance(split, encoder, batch) < 1e-5, name


@every_architecture
def test_each_part_runs_its_layers(architecture: str, encoders: dict[str, Path]) -> None:
    encoder = load_encoder(str(encoders[architecture]))
    batch = batch_of(encoder, 5, 9)
    splits = [split_encoder(encoder, n_lower, batch, Windows()) for n_lower in range(3)]
    parts = [split.lower for split in splits if split is not None]
    layers = [[module for module in part.modules() if isinstance(module, nn.ModuleList)] for part in parts]
    assert [len(found) for [found] in layers] == [0, 1, 2]
    lower = [Windows().run(part, batch) for part in parts]
    assert not torch.allclose(lower[0], lower[1], atol=1e-3)
    assert not torch.allclose(lower[1], lower[2], atol=1e-3)


@every_architecture
def test_the_parts_share_the_encoders_weights(architecture: str, encoders: dict[str, Path]) -> None:
    folder = str(encoders[architecture])
    encoder = load_encoder(folder, "mean")
    classifier = Classifier(encoder, ("neg", "pos"), NetworkConfig(folder, layers=1))
    split, batch = classifier.split, batch_of(encoder, 5, 9)
    assert split is not None
    assert set(classifier.state_dict()) == {
        *(f"body.{name}" for name in encoder.model.state_dict()),
        *("head.weight", "head.bias"),
    }
    shared = {id(weight) for weight in classifier.parameters()}
    assert {id(weight) for part in (split.lower, split.upper) for weight in part.parameters()} <= shared
    before = run_parts(split, batch)
    with torch.no_grad():
        for name, weight in encoder.model.named_parameters():
            if "pooler" not in name:
                weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(len(weight))), alpha=0.05)
    assert not torch.allclose(run_parts(split, batch), before, atol=1e-2)
    assert distance(split, encoder, batch) < 1e-5
    encoder.model.double()  # as if it moved to another device
    assert run_parts(split, batch).dtype == torch.float64
    assert distance(split, encoder, batch) < 1e-5


class Odd(BertModel):
    """Changes what its layers put out, which cannot be seen from its parts."""

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
    """Takes tokens only, not their vectors."""

    def forward(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        token_type_ids: Any = None,
        position_ids: Any = None,
        **others: Any,
    ) -> Any:
        if input_ids is None:
            raise ValueError("tokens, please")
        return super().forward(input_ids, attention_mask, token_type_ids, position_ids, **others)


def strange(kind: type[BertModel], folder: Path) -> Encoder:
    encoder = load_encoder(str(folder), "start")
    encoder.model.__class__ = kind
    return encoder


@pytest.mark.parametrize("kind", [Odd, Picky])
@pytest.mark.parametrize("n_lower", [0, 1])
def test_an_encoder_that_cannot_be_split_is_left_whole(
    kind: type[BertModel], n_lower: int, encoders: dict[str, Path]
) -> None:
    encoder = strange(kind, encoders["bert"])
    assert split_encoder(encoder, n_lower, batch_of(encoder, 3, 1), Windows()) is None


def test_an_encoder_that_cannot_be_split_is_run_whole_and_trained(
    quick: ClassifierConfig, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    network = NetworkConfig(str(encoders["bert"]), layers=1, dropout=0)
    classifier = Classifier(strange(Odd, encoders["bert"]), ("neg", "pos"), network)
    assert classifier.split is None
    batch = classifier.collate(classifier.tokenizer(texts_of(3, 9)))
    whole = run_whole(classifier.encoder, batch)
    torch.testing.assert_close(classifier(batch).logits, classifier.head(classifier._pool(whole, batch.mask)))
    torch.testing.assert_close(whole, 2 * run_whole(load_encoder(str(encoders["bert"])), batch))

    monkeypatch.setattr(fresh.training.fit, "load_encoder", lambda *_given: strange(Odd, encoders["bert"]))
    pairs = [(Text(("good", "film")), "pos"), (Text(("bad", "film")), "neg")] * 20
    saying = Saying()
    config = ClassifierConfig(network, quick.train)
    [trained] = train_classifiers([TrainingPairs(pairs, pairs)], [config], RunContext("odd one", saying))
    [line] = saying.lines
    assert line.startswith("odd one: 40 texts, 0.0% padding; every step runs all layers (")
    predicted = trained.probabilities([text for text, _ in pairs]).argmax(1)
    assert [("neg", "pos")[number] for number in predicted] == [label for _, label in pairs]


def test_frozen_layers_of_a_large_encoder_read_smaller_batches(
    encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, shares = NetworkConfig(str(encoders["bert"]), layers=1), list[float]()
    classifier = Classifier(load_encoder(config.encoder), ("neg", "pos"), config)
    monkeypatch.setattr(Classifier, "budget_share", 0.25)
    monkeypatch.setattr(
        fresh.training.feature_cache, "run_batches", lambda _lengths, _device, _work, share=1: shares.append(share)
    )
    context = RunContext(feature_store=FeatureStore(EngineConfig(frozen="memory")))
    encode(classifier, texts_of(3, 9), TrainConfig(device="cpu"), context)
    assert shares == [0.25]


# Unusual encoders


def unusual(model: PreTrainedModel, folder: Path, layers: int | Literal["all"]) -> Classifier:
    model.save_pretrained(folder)
    bert_tokenizer().save_pretrained(folder)
    return Classifier(load_encoder(str(folder)), ("neg", "pos"), NetworkConfig(str(folder), layers=layers))


@pytest.mark.parametrize("layers", [0, 1, "all"])
def test_deberta_is_split_only_where_there_are_layers_on_both_sides(
    layers: int | Literal["all"], tmp_path: Path
) -> None:
    own: dict[str, Any] = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
    model = DebertaV2Model(DebertaV2Config(vocab_size=len(bert_tokenizer()), **SHAPE, **own))
    classifier = unusual(model, tmp_path, layers)
    assert (classifier.split is not None) == (layers == 1)
    assert classifier.probabilities(texts_of(3, 9)).shape == (2, 2)


def test_an_encoder_whose_layers_are_one_is_trained_whole_or_not_at_all(tmp_path: Path) -> None:
    model = AlbertModel(AlbertConfig(vocab_size=len(bert_tokenizer()), embedding_size=8, **SHAPE))
    classifier = unusual(model, tmp_path, "all")
    assert classifier.split is None
    batch = classifier.collate(classifier.tokenizer(texts_of(3, 9)))
    with torch.inference_mode():
        out = model.eval()(batch.ids, attention_mask=batch.mask, token_type_ids=batch.types)
        torch.testing.assert_close(classifier(batch).logits, classifier.head(out.pooler_output))
    with pytest.raises(EncoderError, match=rf"layers of {tmp_path} .*layers=all.*integrated_gradients"):
        unusual(model, tmp_path, 1)
    config = FreshConfig(network=NetworkConfig(str(tmp_path)))
    with pytest.raises(EncoderError, match=r"layers of .* cannot be told apart"):
        check_ready(config)
    check_ready(replace(config, scorer="gradient"))

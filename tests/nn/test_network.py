"""Windows are read as if each were a text; frozen and trained layers give together what the whole encoder gives."""

from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn
from transformers import AlbertConfig, AlbertModel, BertModel, DebertaV2Config, DebertaV2Model, PreTrainedModel

import fresh.nn.network
import fresh.training.fit
import networks
from fresh.errors import EncoderError
from fresh.methods.config import FreshConfig
from fresh.methods.fresh import check_ready
from fresh.nn.batch import Batch
from fresh.nn.classifier import Classifier
from fresh.nn.config import NetworkConfig
from fresh.nn.encoder import Encoder, load_encoder
from fresh.nn.tokenizer import Text
from fresh.training.config import ClassifierConfig, EngineConfig, TrainConfig
from fresh.training.feature_cache import FeatureStore
from fresh.training.fit import TrainingPairs, encode, train_classifiers
from fresh.training.loop import RunContext
from networks import read, read_plainly, split_table, texts_of, untrained, windows_of
from small import Saying
from tiny import ARCHITECTURES, N_POSITIONS, SHAPE, tokenizer_of

every_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES)


@every_architecture
@pytest.mark.parametrize("layers", [0, 1, "all"])
@torch.inference_mode()
def test_each_window_is_read_as_if_it_were_alone(architecture: str, layers: Any, encoders: dict[str, Path]) -> None:
    classifier = untrained(encoders[architecture], long="chunk", layers=layers)
    n_frozen = 0 if layers == "all" else 2 - layers
    assert (classifier.n_frozen if classifier.split else 0) == n_frozen
    for sizes in ((100, 3, 0, 151), (150,), (4, 5)):
        table = classifier.tokenizer(texts_of(*sizes))
        batch = classifier.collate(table)
        in_parts, whole = classifier.encode(batch), classifier.windows.run(classifier.body, batch)
        for row, text in enumerate(split_table(table)):
            windows = [read_plainly(classifier, types, input_ids=ids) for ids, types, _ in windows_of(text)]
            for hidden in (in_parts, whole):
                torch.testing.assert_close(hidden[row, : len(text.ids)], torch.cat(windows), atol=1e-5, rtol=1e-5)


# Frozen layers

BATCHES = {"padded": (3, 9, 0, 6), "dense": (7, 7, 7), "staggered": (N_POSITIONS + 40, 5, 2 * N_POSITIONS)}
"""How many words some texts have."""


def frozen(folder: Path, layers: int | Literal["all"] = 1) -> Classifier:
    """A classifier that pools by the mean and trains its top layers."""
    return untrained(folder, "mean", layers=layers, dropout=0)


def batch_of(classifier: Classifier, *sizes: int) -> Batch:
    return read(classifier, texts_of(*sizes))


def distance(classifier: Classifier, batch: Batch) -> float:
    """How far the parts are from the whole, where there are tokens."""
    assert classifier.split is not None
    with torch.inference_mode():
        whole = classifier.windows.run(classifier.body, batch)
        return float((classifier.encode(batch) - whole)[batch.mask.bool()].abs().max())


@every_architecture
@pytest.mark.parametrize("layers", [0, 1])
def test_the_parts_give_what_the_whole_gives(architecture: str, layers: int, encoders: dict[str, Path]) -> None:
    classifier = frozen(encoders[architecture], layers)
    for name, sizes in BATCHES.items():
        batch = batch_of(classifier, *sizes)
        assert batch.dense == (name == "dense")
        assert distance(classifier, batch) < 1e-5, name


@every_architecture
def test_the_lower_part_runs_the_frozen_layers(architecture: str, encoders: dict[str, Path]) -> None:
    found: list[Tensor] = []
    for layers in (0, 1):
        classifier = frozen(encoders[architecture], layers)
        assert classifier.split is not None
        [own] = [part for part in classifier.split.lower.modules() if isinstance(part, nn.ModuleList)]
        assert len(own) == classifier.n_frozen == 2 - layers
        found.append(classifier.windows.run(classifier.split.lower, batch_of(classifier, 5, 9)))
    assert not torch.allclose(found[0], found[1], atol=1e-3)


@every_architecture
def test_the_parts_share_the_encoders_weights(architecture: str, encoders: dict[str, Path]) -> None:
    classifier = frozen(encoders[architecture])
    model, split, batch = classifier.encoder.model, classifier.split, batch_of(classifier, 5, 9)
    assert split is not None
    own = {f"body.{name}" for name in model.state_dict()}
    assert set(classifier.state_dict()) == own | {"head.weight", "head.bias"}
    shared = {id(weight) for weight in classifier.parameters()}
    assert {id(weight) for part in split for weight in part.parameters()} <= shared
    with torch.no_grad():
        before = classifier.encode(batch)
        for name, weight in model.named_parameters():
            if "pooler" not in name:
                weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(len(weight))), alpha=0.05)
        assert not torch.allclose(classifier.encode(batch), before, atol=1e-2)
        assert distance(classifier, batch) < 1e-5
        model.double()  # as if it moved to another device
        assert classifier.encode(batch).dtype == torch.float64
    assert distance(classifier, batch) < 1e-5


class Odd(BertModel):
    """Changes what its layers put out, which cannot be seen from its parts."""

    @wraps(BertModel.forward)
    def forward(self, *given: Any, **others: Any) -> Any:  # type: ignore[override]
        out = super().forward(*given, **others)
        out.last_hidden_state = 2 * out.last_hidden_state
        return out


class Picky(BertModel):
    """Takes tokens only, not their vectors."""

    @wraps(BertModel.forward)
    def forward(self, *given: Any, **others: Any) -> Any:  # type: ignore[override]
        if not given and "input_ids" not in others:
            raise ValueError("tokens, please")
        return super().forward(*given, **others)


@pytest.mark.parametrize("kind", [Odd, Picky])
def test_an_encoder_that_cannot_be_split_is_run_whole_and_trained(
    kind: type[BertModel], quick: ClassifierConfig, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = frozen(encoders["bert"], "all")

    def load(name: str, *_given: Any) -> Encoder:
        encoder = load_encoder(name, "mean")
        encoder.model.__class__ = kind
        return encoder

    for module in (networks, fresh.training.fit):
        monkeypatch.setattr(module, "load_encoder", load)
    classifier = frozen(encoders["bert"])
    assert classifier.split is None
    batch = batch_of(classifier, 3, 9)
    torch.testing.assert_close(classifier.encode(batch), (2 if kind is Odd else 1) * usual.encode(batch))
    pairs = [(Text(("good", "film")), "pos"), (Text(("bad", "film")), "neg")] * 20
    saying, config = Saying(), ClassifierConfig(classifier.config, quick.train)
    [trained] = train_classifiers([TrainingPairs(pairs, pairs)], [config], RunContext("odd one", saying))
    [line] = saying.lines
    assert line.startswith("odd one: 40 texts, 0.0% padding; every step runs all layers (")
    predicted = trained.probabilities([text for text, _ in pairs]).argmax(1)
    assert [("neg", "pos")[number] for number in predicted] == [label for _, label in pairs]


def test_large_frozen_layers_read_smaller_batches(encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    classifier, shares = frozen(encoders["bert"]), list[float]()
    monkeypatch.setattr(Classifier, "budget_share", 0.25)
    monkeypatch.setattr(fresh.nn.network, "run_batches", lambda _lengths, _device, _work, share: shares.append(share))
    context = RunContext(feature_store=FeatureStore(EngineConfig()))
    encode(classifier, texts_of(3, 9), TrainConfig(device="cpu"), context)
    assert shares == [0.25]


# Unusual encoders


def unusual(model: PreTrainedModel, folder: Path, layers: int | Literal["all"]) -> Classifier:
    model.save_pretrained(folder)
    tokenizer_of("bert").save_pretrained(folder)
    return untrained(folder, layers=layers)


@pytest.mark.parametrize("layers", [0, 1, "all"])
def test_deberta_is_split_where_there_are_layers_on_both_sides(layers: int | Literal["all"], tmp_path: Path) -> None:
    own: dict[str, Any] = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
    model = DebertaV2Model(DebertaV2Config(vocab_size=len(tokenizer_of("bert")), **SHAPE, **own))
    classifier = unusual(model, tmp_path, layers)
    assert (classifier.split is not None) == (layers == 1)
    assert classifier.probabilities(texts_of(3, 9)).shape == (2, 2)


def test_an_encoder_whose_layers_are_one_is_trained_whole_or_not_at_all(tmp_path: Path) -> None:
    model = AlbertModel(AlbertConfig(vocab_size=len(tokenizer_of("bert")), embedding_size=8, **SHAPE))
    classifier = unusual(model, tmp_path, "all")
    assert classifier.split is None
    batch = batch_of(classifier, 3, 9)
    with torch.inference_mode():
        out = model.eval()(batch.ids, attention_mask=batch.mask, token_type_ids=batch.types)
        torch.testing.assert_close(classifier(batch).logits, classifier.head(out.pooler_output))
    with pytest.raises(EncoderError, match=rf"layers of {tmp_path} .*layers=all.*integrated_gradients"):
        unusual(model, tmp_path, 1)
    config = FreshConfig(network=NetworkConfig(str(tmp_path)))
    with pytest.raises(EncoderError, match=r"layers of .* cannot be told apart"):
        check_ready(config)
    check_ready(replace(config, scorer="gradient"))

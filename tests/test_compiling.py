"""Compiled layers learn what others learn. No machine code is made here: layers are only taken apart and run."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import small
from fresh import compiling
from fresh.classifier import Classifier
from fresh.config import from_mapping
from fresh.data import Splits
from fresh.encoder import load_encoder
from fresh.encoding import Text
from fresh.methods import lei
from fresh.methods.gate_settings import LeiConfig
from fresh.methods.settings import FreshConfig
from fresh.network_config import NetworkConfig
from fresh.quick import QuickDropout
from fresh.support import Support

KINDS = ("bert", "distilbert", "roberta", "mpnet", "modernbert")


class Counting:
    """A backend that runs layers as they are, and counts the forms that it was given."""

    def __init__(self) -> None:
        self.n_forms = 0

    def __call__(self, graph: Any, _inputs: Any) -> Any:
        self.n_forms += 1
        return graph.forward


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Counting:
    torch._dynamo.reset()
    counting = Counting()
    monkeypatch.setattr(compiling, "BACKEND", counting)
    return counting


def without_dropout(encoder: Path, place: Path) -> Path:
    """Copy an encoder, but for its dropout, which draws in another order when it is compiled."""
    shutil.copytree(encoder, place)
    config = json.loads((place / "config.json").read_text(encoding="utf-8"))
    changed = {name: 0.0 if "dropout" in name else value for name, value in config.items()}
    (place / "config.json").write_text(json.dumps(changed), encoding="utf-8")
    return place


def trained(splits: Splits, encoder: Path, compiled: bool) -> dict[str, Tensor]:
    """Train a support model."""
    given = small.settings(encoder) | {"epochs": 2, "dropout": 0.0, "layers": "all", "compiled": compiled}
    config = from_mapping(FreshConfig, given)
    return Support.train(splits.train, splits.dev, config.classifier).classifier.state_dict()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_learnt_is_the_same(
    kind: str, toy: Splits, encoders: dict[str, Path], backend: Counting, tmp_path: Path
) -> None:
    splits, encoder = small.some(toy, 32, 8), without_dropout(encoders[kind], tmp_path / kind)
    expected = trained(splits, encoder, compiled=False)
    assert backend.n_forms == 0
    found = trained(splits, encoder, compiled=True)
    assert 0 < backend.n_forms <= compiling.MOST_FORMS
    assert {name for name, weight in found.items() if not torch.equal(weight, expected[name])} == set()


def test_dropout_is_compiled_with_the_layer_that_it_is_in(encoders: dict[str, Path], backend: Counting) -> None:
    config = from_mapping(NetworkConfig, {"encoder": str(encoders["bert"]), "layers": "all"})
    network = Classifier(load_encoder(str(encoders["bert"])), ["a", "b"], config).train()
    parts = [part for part in network.body.modules() if isinstance(part, QuickDropout)]
    assert any(part.p > 0 for part in parts)
    batch = network.collate(network.words([Text(("good", "film")), Text(("bad",))]))
    with compiling.compiled(network):
        network(batch)
    assert backend.n_forms == 1


def test_a_gate_and_its_reader_are_compiled(toy: Splits, encoders: dict[str, Path], backend: Counting) -> None:
    given = small.settings(encoders["bert"]) | {"epochs": 1, "compiled": True, "learning_rate": 1e-4}
    lei.train(small.some(toy, 16, 8), from_mapping(LeiConfig, given))
    assert backend.n_forms > 0


def test_layers_are_as_before_when_the_block_ends(encoders: dict[str, Path], backend: Counting) -> None:
    config = from_mapping(NetworkConfig, {"encoder": str(encoders["bert"]), "layers": "all"})
    network = Classifier(load_encoder(str(encoders["bert"])), ["a", "b"], config)
    batch = network.collate(network.words([Text(("good", "film"))]))
    with compiling.compiled(network, wanted=False):
        network(batch)
    with pytest.raises(AttributeError), compiling.compiled(network):
        network(batch).nothing  # noqa: B018
    n_forms = backend.n_forms
    assert n_forms > 0
    network(batch)
    assert backend.n_forms == n_forms
    assert all(layer._compiled_call_impl is None for layer in network.encoder.layers)


def test_what_cannot_be_compiled_says_how_to_do_without(
    toy: Splits, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_graph: Any, _inputs: Any) -> Any:
        raise RuntimeError("no compiler\nwas found")

    torch._dynamo.reset()
    monkeypatch.setattr(compiling, "BACKEND", broken)
    told = "The encoder's layers could not be compiled here: no compiler. Train without: compiled=false."
    with pytest.raises(ValueError, match=f"^{re.escape(told)}$"):
        trained(small.some(toy, 16, 8), encoders["bert"], compiled=True)

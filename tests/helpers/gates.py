"""Gates and readers for tests: tiny real ones, and ones whose answers can be computed by hand."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor

from fresh.attribution.support_model import text_of
from fresh.data.splits import Splits
from fresh.methods.bastings import Bastings
from fresh.methods.config import BastingsConfig, GateConfig, LeiConfig
from fresh.methods.joint import GateOutputs, JointModel, make_losses
from fresh.methods.lei import Lei
from fresh.nn.batch import Batch
from fresh.nn.classifier import Classifier, Output
from fresh.nn.token_classifier import TokenClassifier
from fresh.training.feature_cache import CachedInputs
from fresh.training.fit import build, encode, make_loss
from fresh.training.loop import RunContext
from fresh.training.step import Loss

MODELS: dict[type[GateConfig], type[JointModel]] = {LeiConfig: Lei, BastingsConfig: Bastings}


def untrained(splits: Splits, config: GateConfig) -> tuple[Any, CachedInputs]:
    """Make an untrained gate and reader, and encode the training texts for the gate."""
    kind = MODELS[type(config)]
    model = kind(build(TokenClassifier, kind.kind, config), build(Classifier, splits.labels, config), config)
    texts = [text_of(example.document) for example in splits.train]
    return model, encode(model.gate, texts, config.train, RunContext())


def loss_of(splits: Splits, config: GateConfig, cost: float = 0.0) -> Loss:
    """Make the loss of an untrained model in whose own loss each text costs the same."""
    model, inputs = untrained(splits, config)
    model.loss = lambda gated: torch.full((len(gated.counted),), cost)
    return make_loss(model.gate, inputs, make_losses(model, inputs, splits), config.train)


def seen_by_gate(splits: Splits, config: GateConfig) -> tuple[Any, GateOutputs]:
    """Let an untrained gate read all training texts in one batch."""
    model, inputs = untrained(splits, config)
    seen: list[GateOutputs] = []

    def record(gated: GateOutputs) -> Tensor:
        seen.append(gated)
        return torch.zeros(len(gated.counted))

    own, model.loss = model.loss, record
    width = int(inputs.table.lengths.max())
    losses = make_losses(model, inputs, splits)
    make_loss(model.gate, inputs, losses, config.train)(torch.arange(len(splits.train)), width, False)
    model.loss = own
    [gated] = seen
    return model, gated


def by_hand(config: GateConfig, reader: Any = None) -> Any:
    """Make a model that has only its running state, and the answers of its reader."""
    return MODELS[type(config)](cast("Any", SimpleNamespace(device=torch.device("cpu"))), reader, config)


def answering(table: Tensor) -> Callable[[Tensor], Output]:
    """Make a reader that looks up its logits by which words are kept.

    :param table: Logits for each set of words, the first word counting most. Shape: (sets, labels).
    """
    n_words = (len(table) - 1).bit_length()
    places = 2 ** torch.arange(n_words - 1, -1, -1)
    return lambda kept: Output(table[(kept[:, :n_words] * places).sum(1)])


def gated_by(outputs: Tensor, n_words: Sequence[int], labels: Sequence[int]) -> GateOutputs:
    """Make texts of which only the gate's outputs are known; a batch of them is the kept words."""
    counted = torch.ones(len(outputs), dtype=torch.bool)
    return GateOutputs(outputs, torch.tensor(n_words), torch.tensor(labels), counted, lambda kept: cast("Batch", kept))

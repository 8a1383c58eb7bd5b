"""Gates and readers for tests: tiny real ones, and ones whose answers can be computed by hand."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

import small
from fresh.attribution.support_model import text_of
from fresh.config import from_mapping
from fresh.data.splits import Splits
from fresh.methods import bastings, lei
from fresh.methods.config import BastingsConfig, GateConfig
from fresh.methods.joint import GateObjective, GateOutputs, JointModel, RunningState, make_losses
from fresh.nn.batch import Batch
from fresh.nn.classifier import Output
from fresh.nn.token_classifier import Kind
from fresh.selection.tagger import build_tagger as build_gate
from fresh.training.feature_cache import CachedInputs
from fresh.training.fit import build as build_reader
from fresh.training.fit import encode, make_loss
from fresh.training.loop import RunContext
from fresh.training.step import Loss, RunningMean

Config = TypeVar("Config", bound=GateConfig)
GateLoss = Callable[[JointModel, GateOutputs], Tensor]


def configured(kind: type[Config], encoder: Path, **others: Any) -> Config:
    return from_mapping(kind, {**small.settings(encoder), **others})


def untrained(splits: Splits, config: GateConfig, kind: Kind) -> tuple[JointModel, CachedInputs]:
    """Make an untrained gate and reader, and encode the training texts for the gate."""
    model = JointModel(build_gate(kind, config), build_reader(splits.labels, config), state_of(config))
    texts = [text_of(example.document) for example in splits.train]
    return model, encode(model.gate, texts, config.train, RunContext())


def loss_of(splits: Splits, config: GateConfig, kind: Kind, loss: GateLoss) -> Loss:
    model, inputs = untrained(splits, config, kind)
    objective = GateObjective("any", kind, loss, state_of(config))
    return make_loss(model.gate, inputs, make_losses(model, inputs, splits, config, objective), config.train)


def seen_by_gate(splits: Splits, config: GateConfig, kind: Kind) -> tuple[JointModel, GateOutputs]:
    """Let an untrained gate read all training texts in one batch."""
    model, inputs = untrained(splits, config, kind)
    seen: list[GateOutputs] = []

    def loss(_model: JointModel, gated: GateOutputs) -> Tensor:
        seen.append(gated)
        return torch.zeros(len(gated.counted))

    objective = GateObjective("any", kind, loss, state_of(config))
    losses = make_losses(model, inputs, splits, config, objective)
    width = int(inputs.tokens.lengths.max())
    make_loss(model.gate, inputs, losses, config.train)(torch.arange(len(splits.train)), width, False)
    [gated] = seen
    return model, gated


def by_hand(state: RunningState, reader: Any = None) -> JointModel:
    """Make a stand-in for a gate and a reader that has only their running state, or only answers."""
    moving = torch.zeros(state.size)

    def update(mean: Tensor) -> None:
        moving.copy_(state.update(moving.clone(), mean))

    running_mean = RunningMean(update, moving.device)
    return cast("JointModel", SimpleNamespace(moving=moving, running_mean=running_mean, reader=reader))


def state_of(config: GateConfig) -> RunningState:
    kind = bastings if isinstance(config, BastingsConfig) else lei
    state: RunningState = kind.make_objective(cast("Any", config)).state
    return state


def answering(table: Tensor) -> Any:
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

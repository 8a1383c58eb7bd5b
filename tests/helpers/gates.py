"""Gates and readers for tests: tiny real ones, and ones whose answers can be computed by hand."""

from collections.abc import Callable, Sequence
from dataclasses import replace
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
from fresh.methods.joint import GateObjective, GateOutputs, JointModel, make_losses
from fresh.nn.batch import Batch
from fresh.nn.classifier import Output
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


def objective_of(config: GateConfig) -> GateObjective:
    kind = bastings if isinstance(config, BastingsConfig) else lei
    objective: GateObjective = kind.make_objective(cast("Any", config))
    return objective


def untrained(splits: Splits, config: GateConfig) -> tuple[JointModel, CachedInputs]:
    """Make an untrained gate and reader, and encode the training texts for the gate."""
    objective = objective_of(config)
    model = JointModel(build_gate(objective.kind, config), build_reader(splits.labels, config), objective)
    texts = [text_of(example.document) for example in splits.train]
    return model, encode(model.gate, texts, config.train, RunContext())


def loss_of(splits: Splits, config: GateConfig, loss: GateLoss) -> Loss:
    model, inputs = untrained(splits, config)
    losses = make_losses(model, inputs, splits, config, replace(objective_of(config), loss=loss))
    return make_loss(model.gate, inputs, losses, config.train)


def seen_by_gate(splits: Splits, config: GateConfig) -> tuple[JointModel, GateOutputs]:
    """Let an untrained gate read all training texts in one batch."""
    model, inputs = untrained(splits, config)
    seen: list[GateOutputs] = []

    def loss(_model: JointModel, gated: GateOutputs) -> Tensor:
        seen.append(gated)
        return torch.zeros(len(gated.counted))

    losses = make_losses(model, inputs, splits, config, replace(objective_of(config), loss=loss))
    width = int(inputs.table.lengths.max())
    make_loss(model.gate, inputs, losses, config.train)(torch.arange(len(splits.train)), width, False)
    [gated] = seen
    return model, gated


def by_hand(config: GateConfig, reader: Any = None) -> JointModel:
    """Make a stand-in for a gate and a reader that has only their running state, or only answers."""
    objective = objective_of(config)
    moving = torch.zeros(objective.n_moving)

    def update(mean: Tensor) -> None:
        moving.copy_(objective.update(moving.clone(), mean))

    running_mean = RunningMean(update, moving.device)
    return cast("JointModel", SimpleNamespace(moving=moving, running_mean=running_mean, reader=reader))


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

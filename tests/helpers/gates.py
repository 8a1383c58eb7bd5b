"""Gates and readers for tests: tiny ones that are real, and ones whose answers can be worked out by hand."""

from collections.abc import Sequence
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
from fresh.methods.gate_config import BastingsConfig, GateConfig
from fresh.methods.joint import Cost, GateOutputs, JointModel, RunningState, _follow, _make_loss
from fresh.nn.batch import Batch
from fresh.nn.classifier import Output
from fresh.nn.token_classifier import Kind
from fresh.selection.tagger import build_tagger as build_gate
from fresh.training.feature_cache import CachedInputs
from fresh.training.fit import build as build_reader
from fresh.training.fit import run_frozen
from fresh.training.loop import RunContext
from fresh.training.step import Loss, RunningMean

Config = TypeVar("Config", bound=GateConfig)


def configured(kind: type[Config], encoder: Path, **others: Any) -> Config:
    """Settings of a gate that train on some dozen documents in a second."""
    return from_mapping(kind, {**small.settings(encoder), **others})


def untrained(splits: Splits, config: GateConfig, kind: Kind) -> tuple[JointModel, CachedInputs]:
    """Make a gate and a reader that have learnt nothing, and let the gate's frozen layers read the training texts."""
    model = JointModel(
        build_gate(kind, config.classifier), build_reader(splits.labels, config.classifier), account_of(config)
    )
    table = model.gate.words([text_of(example.document) for example in splits.train])
    return model, run_frozen(model.gate, table, config.train, RunContext(), config.train.engine.feature_store())


def loss_of(splits: Splits, config: GateConfig, kind: Kind, cost: Cost) -> Loss:
    """Make the loss of an untrained gate and reader."""
    model, reading = untrained(splits, config, kind)
    return _make_loss(model, reading, splits, config, cost)


def seen_by_gate(splits: Splits, config: GateConfig, kind: Kind) -> tuple[JointModel, GateOutputs]:
    """Have all training texts gated in one batch."""
    model, reading = untrained(splits, config, kind)
    seen: list[GateOutputs] = []

    def cost(_model: JointModel, gated: GateOutputs) -> Tensor:
        seen.append(gated)
        return torch.zeros(len(gated.numbers))

    numbers = torch.arange(len(splits.train))
    width = int(reading.pieces.lengths.max())
    _make_loss(model, reading, splits, config, cost)(numbers, width, False)
    [gated] = seen
    return model, gated


def by_hand(account: RunningState, reader: Any = None) -> JointModel:
    """Make what stands for a gate and a reader where only their moving numbers, or only answers, are wanted."""
    moving = torch.zeros(account.n_numbers)
    tally = RunningMean(lambda now: _follow(moving, account, now), moving.device)
    return cast("JointModel", SimpleNamespace(moving=moving, tally=tally, reader=reader))


def account_of(config: GateConfig) -> RunningState:
    """Make what a gate with these settings keeps from step to step."""
    if isinstance(config, BastingsConfig):
        return RunningState(3, lambda moving, now: bastings._of_late(moving, now, config))
    return RunningState(2, lei._of_late)


def answering(table: Tensor) -> Any:
    """Make a reader that looks up its logits by which words are kept.

    :param table: Logits for each set of words, the first word counting most. Shape: (sets, labels).
    """
    n_words = (len(table) - 1).bit_length()
    places = 2 ** torch.arange(n_words - 1, -1, -1)
    return lambda kept: Output(table[(kept[:, :n_words] * places).sum(1)])


def gated_by(outputs: Tensor, n_words: Sequence[int], answers: Sequence[int]) -> GateOutputs:
    """Have texts of which nothing is known but how a gate answered; what is left of them is which words are kept."""
    numbers = torch.arange(len(outputs))
    return GateOutputs(numbers, outputs, torch.tensor(n_words), torch.tensor(answers), lambda kept: cast("Batch", kept))

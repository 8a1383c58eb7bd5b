"""Bastings et al. (2019): a gate of HardKuma numbers, through which the reader's errors pass back to it."""

import math

import torch
from torch import Tensor

from fresh.data.splits import Splits
from fresh.methods.gate_config import BastingsConfig
from fresh.methods.joint import GateObjective, GateOutputs, JointModel, RunningState, cross_entropies, train_joint
from fresh.methods.result import MethodResult
from fresh.nn.batch import NO_WORD, Batch
from fresh.nn.hardkuma import HardKuma
from fresh.nn.intercept import call_intercepted, on_tensor
from fresh.training.loop import RunContext

LEAST, MOST = 1e-12, 5.0
"""Between which the Lagrange multiplier stays."""


def train(splits: Splits, config: BastingsConfig, context: RunContext | None = None) -> MethodResult:
    """Train a gate and a reader together."""
    return train_joint(splits, config, scheme(config), context or RunContext())


def scheme(config: BastingsConfig) -> GateObjective:
    """Say how the gate learns."""

    def cost(model: JointModel, gated: GateOutputs) -> Tensor:
        return _through_gate(model, gated, config)

    return GateObjective(
        "bastings", "hardkuma", cost, RunningState(3, lambda moving, beyond: _of_late(moving, beyond, config))
    )


def _through_gate(model: JointModel, gated: GateOutputs, config: BastingsConfig) -> Tensor:
    """Draw a number for each word, read the words above 0 by it, and compute the loss. Shape: (texts,)."""
    gate = HardKuma.of(gated.outputs)
    numbers = gate.sample(torch.rand_like(gate.a)) * gated.there
    kept = numbers > 0
    batch = gated.reduce(kept)
    factors = model.reader.windows.fold_rows(_by_piece(numbers, kept, batch)).unsqueeze(-1)
    weighed = on_tensor(lambda output: output * factors.to(output.dtype))
    wrong = call_intercepted(
        lambda: cross_entropies(model.reader, batch, gated.answers), {model.reader.encoder.embeddings: weighed}
    )
    likely = (1 - gate.zero()) * gated.there  # (texts, words)
    beyond = likely.sum(1) / gated.n_words.clamp(min=1) - config.one_ratio
    breaks = _expected_changes(1 - gate.zero(), gated) if config.lambda_2 else 0.0
    return wrong + _length_cost(model, gated, beyond, config) + config.lambda_2 * breaks


def _length_cost(model: JointModel, gated: GateOutputs, beyond: Tensor, config: BastingsConfig) -> Tensor:
    """Compute what the length costs each text: a multiplier, and, from both sides, a square. Shape: (texts,)."""
    if not config.two_sided:
        beyond = beyond.clamp(min=0)
    model.tally.add(beyond, gated.numbers >= 0)
    cost = _multiplier(model, config) * beyond
    return cost + config.lagrange_square / 2 * gated.mean(beyond) ** 2 if config.two_sided else cost


def _by_piece(numbers: Tensor, kept: Tensor, batch: Batch) -> Tensor:
    """Give each piece of the words that are kept the number of its word, and all other pieces 1."""
    order = torch.argsort((~kept).to(torch.int8), dim=1, stable=True)  # kept words first, in their order
    own = numbers.gather(1, order).gather(1, batch.word_of.clamp(min=0, max=numbers.shape[1] - 1))
    return torch.where(batch.word_of == NO_WORD, 1.0, own)


def _expected_changes(likely: Tensor, gated: GateOutputs) -> Tensor:
    """Compute how probable it is that neighbours differ, over one less than there are words. Shape: (texts,)."""
    both = gated.there[:, 1:]
    apart = likely[:, 1:] * (1 - likely[:, :-1]) + likely[:, :-1] * (1 - likely[:, 1:])
    return (apart * both).sum(1) / (gated.n_words - 1).clamp(min=1)


def _multiplier(model: JointModel, config: BastingsConfig) -> Tensor:
    """Say how much length costs now."""
    grown = model.moving[1].clone()
    if config.two_sided:
        return config.lagrange_start + grown
    return (math.log(config.lagrange_start) + grown).exp().clamp(LEAST, MOST)


def _of_late(moving: Tensor, beyond: Tensor, config: BastingsConfig) -> Tensor:
    """Take note of how much too long rationales were in a step: moving mean, growth of the multiplier, steps."""
    mean, grown, n_steps = moving
    mean = torch.where(n_steps > 0, config.lagrange_decay * mean + (1 - config.lagrange_decay) * beyond, beyond)
    if config.two_sided:
        floor, ceiling = -MOST, MOST
    else:
        floor, ceiling = (math.log(edge / config.lagrange_start) for edge in (LEAST, MOST))
    return torch.stack([mean, (grown + config.rate * mean).clamp(floor, ceiling), n_steps + 1])

"""Lei et al. (2016), as the paper has it: a gate draws words and learns by REINFORCE what it should have drawn."""

import torch
from torch import Tensor
from torch.nn import functional

from fresh.data.splits import Splits
from fresh.methods.gate_config import LeiConfig
from fresh.methods.joint import (
    GateObjective,
    GateOutputs,
    JointModel,
    RunningState,
    changes,
    cross_entropies,
    train_joint,
)
from fresh.methods.result import MethodResult
from fresh.nn.heads import word_mask
from fresh.training.loop import RunContext

DECAY = 0.9
"""Share of a moving mean that stays in each step."""


def train(splits: Splits, config: LeiConfig, context: RunContext | None = None) -> MethodResult:
    """Train a gate and a reader together."""
    return train_joint(splits, config, scheme(config), context or RunContext())


def scheme(config: LeiConfig) -> GateObjective:
    """Say how the gate learns."""

    def cost(model: JointModel, gated: GateOutputs) -> Tensor:
        found = [draw(model, gated, config) for _ in range(config.draws)]
        return torch.stack(found).mean(0)

    return GateObjective("lei", "words", cost, RunningState(2, _of_late))


def draw(model: JointModel, gated: GateOutputs, config: LeiConfig) -> Tensor:
    """Draw words from each text and compute the loss of reader and gate. Shape: (texts,)."""
    logits = gated.outputs.squeeze(-1)
    kept = (torch.rand_like(logits) < logits.sigmoid()) & gated.there  # a gate that is no number any more keeps nothing
    wrong = cross_entropies(model.reader, gated.reduce(kept), gated.answers)
    unlikely = functional.binary_cross_entropy_with_logits(logits, kept.float(), reduction="none")
    likely = -(unlikely * gated.there).sum(1)
    costs = wrong.detach() + _regulariser(kept.float(), gated.n_words, config)
    model.tally.add(costs, gated.numbers >= 0)
    usual = _expected(model, gated.mean(costs)) if config.reward_baseline else 0.0
    return wrong + (costs - usual) * likely


def _regulariser(kept: Tensor, n_words: Tensor, config: LeiConfig) -> Tensor:
    """Compute what a draw costs beside its errors: words beyond the ratio, and breaks. Shape: (texts,)."""
    share = (kept * word_mask(n_words, kept.shape[1])).sum(1) / n_words.clamp(min=1)
    beyond = (share - config.one_ratio).clamp(min=0)
    return config.lambda_1 * beyond + config.lambda_2 * changes(kept, n_words)


def _expected(model: JointModel, cost: Tensor) -> Tensor:
    """Say what a draw has cost of late, or, in the first step, what it costs now."""
    mean, n_steps = model.moving
    return torch.where(n_steps > 0, mean, cost)


def _of_late(moving: Tensor, cost: Tensor) -> Tensor:
    """Take note of what draws cost in a step: a moving mean, and how many steps there were."""
    mean, n_steps = moving
    before = torch.where(n_steps > 0, mean, cost)
    return torch.stack([DECAY * before + (1 - DECAY) * cost, n_steps + 1])

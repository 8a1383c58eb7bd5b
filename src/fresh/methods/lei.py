"""Lei et al. (2016): a gate samples words, and learns by REINFORCE."""

import torch
from torch import Tensor
from torch.nn import functional

from fresh.data.splits import Splits
from fresh.methods.config import LeiConfig
from fresh.methods.joint import GateObjective, GateOutputs, JointModel, cross_entropies, mean_changes, train_joint
from fresh.methods.registry import MethodResult
from fresh.nn.heads import word_mask
from fresh.training.loop import RunContext

_DECAY = 0.9
"""Decay of the moving average of costs."""


def train(splits: Splits, config: LeiConfig, context: RunContext | None = None) -> MethodResult:
    """Train a gate and a reader together."""
    return train_joint(splits, config, make_objective(config), context or RunContext())


def make_objective(config: LeiConfig) -> GateObjective:
    """Define the loss of the gate, and the moving average of costs."""

    def loss(model: JointModel, gated: GateOutputs) -> Tensor:
        return torch.stack([sample_loss(model, gated, config) for _ in range(config.draws)]).mean(0)

    return GateObjective("lei", "words", loss, 2, update_baseline)


def sample_loss(model: JointModel, gated: GateOutputs, config: LeiConfig) -> Tensor:
    """Sample words from each text, and compute the loss of reader and gate. Shape: (texts,)."""
    logits = gated.outputs.squeeze(-1)
    kept = (torch.rand_like(logits) < logits.sigmoid()) & gated.is_word  # with NaN logits, nothing is kept
    errors = cross_entropies(model.reader, gated.reduce(kept), gated.labels)
    negative = functional.binary_cross_entropy_with_logits(logits, kept.float(), reduction="none")
    log_probability = -(negative * gated.is_word).sum(1)
    # Detached: the reader learns from its errors alone. The gate learns from (cost - baseline) x the gradient of
    # log p(sample), whose expectation is the gradient of the expected cost, whatever the baseline is (REINFORCE).
    costs = errors.detach() + regularizer(kept.float(), gated.n_words, config)
    model.running_mean.add(costs, gated.counted)
    baseline = reward_baseline(model, gated.mean(costs)) if config.reward_baseline else 0.0
    return errors + (costs - baseline) * log_probability


def regularizer(kept: Tensor, n_words: Tensor, config: LeiConfig) -> Tensor:
    """Compute the cost of words beyond the ratio, and of each beginning and end of a run. Shape: (texts,)."""
    share = (kept * word_mask(n_words, kept.shape[1])).sum(1) / n_words.clamp(min=1)
    excess = (share - config.one_ratio).clamp(min=0)
    return config.lambda_1 * excess + config.lambda_2 * mean_changes(kept, n_words)


def reward_baseline(model: JointModel, cost: Tensor) -> Tensor:
    """Return the moving average of costs; in the first step, the cost itself."""
    mean, n_steps = model.moving
    return torch.where(n_steps > 0, mean, cost)


def update_baseline(moving: Tensor, cost: Tensor) -> Tensor:
    """Return the moving average and the number of steps after a step with this cost."""
    mean, n_steps = moving
    before = torch.where(n_steps > 0, mean, cost)
    return torch.stack([_DECAY * before + (1 - _DECAY) * cost, n_steps + 1])

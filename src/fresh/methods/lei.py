"""Lei et al. (2016): a gate samples words, and learns by REINFORCE."""

import torch
from torch import Tensor
from torch.nn import functional

from fresh.methods.config import LeiConfig
from fresh.methods.joint import GateOutputs, JointModel, cross_entropies, mean_changes
from fresh.nn.heads import word_mask

_DECAY = 0.9  # of the moving average of costs


class Lei(JointModel):
    """A gate that learns by REINFORCE; it carries the moving average of costs and the number of steps."""

    name = "lei"
    kind = "words"
    n_moving = 2
    config: LeiConfig

    def loss(self, gated: GateOutputs) -> Tensor:
        """Average the losses of reader and gate over several samples of words. Shape: (texts,)."""
        logits, losses = gated.outputs.squeeze(-1), list[Tensor]()
        for _ in range(self.config.draws):
            kept = (torch.rand_like(logits) < logits.sigmoid()) & gated.is_word  # with NaN logits, nothing is kept
            errors = cross_entropies(self.reader, gated.reduce(kept), gated.labels)
            negative = functional.binary_cross_entropy_with_logits(logits, kept.float(), reduction="none")
            log_probability = -(negative * gated.is_word).sum(1)
            # Detached: the reader learns from its errors alone. The gate learns from (cost - baseline) x the gradient
            # of log p(sample), whose expectation is the gradient of the expected cost, for any baseline (REINFORCE).
            costs = errors.detach() + regularizer(kept.float(), gated.n_words, self.config)
            self.running_mean.add(costs, gated.counted)
            baseline = self.baseline(gated.mean(costs)) if self.config.reward_baseline else 0.0
            losses.append(errors + (costs - baseline) * log_probability)
        return torch.stack(losses).mean(0)

    def baseline(self, cost: Tensor) -> Tensor:
        """Return the moving average of costs; in the first step, the cost itself."""
        mean, n_steps = self.moving
        return torch.where(n_steps > 0, mean, cost)

    def update_moving(self, cost: Tensor, /) -> None:
        """Update the moving average and the number of steps after a step with this cost."""
        self.moving.copy_(torch.stack([_DECAY * self.baseline(cost) + (1 - _DECAY) * cost, self.moving[1] + 1]))


def regularizer(kept: Tensor, n_words: Tensor, config: LeiConfig) -> Tensor:
    """Compute the cost of words beyond the ratio, and of each beginning and end of a run. Shape: (texts,)."""
    share = (kept * word_mask(n_words, kept.shape[1])).sum(1) / n_words.clamp(min=1)
    excess = (share - config.one_ratio).clamp(min=0)
    return config.lambda_1 * excess + config.lambda_2 * mean_changes(kept, n_words)

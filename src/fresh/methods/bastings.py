"""Bastings et al. (2019): a gate of HardKuma numbers, through which the reader's gradients flow."""

import math

import torch
from torch import Tensor

from fresh.methods.config import BastingsConfig
from fresh.methods.joint import GateOutputs, JointModel, cross_entropies, mean_changes
from fresh.nn.batch import NO_WORD, Batch
from fresh.nn.hardkuma import HardKuma
from fresh.nn.intercept import call_intercepted

# Without bounds, a gate that is at the wrong length for long could not come back: the multiplier reacts late.
MIN_MULTIPLIER, MAX_MULTIPLIER = 1e-12, 5.0


class Bastings(JointModel):
    """A gate of HardKuma numbers.

    It carries the moving average of the excess length, the growth of the multiplier and the number of steps.
    """

    name = "bastings"
    kind = "hardkuma"
    n_moving = 3
    config: BastingsConfig

    def loss(self, gated: GateOutputs) -> Tensor:
        """Sample a number for each word; the reader reads the words above 0, scaled by it. Shape: (texts,)."""
        gate = HardKuma.of(gated.outputs)
        numbers = gate.sample(torch.rand_like(gate.a)) * gated.is_word
        kept = numbers > 0
        batch = gated.reduce(kept)
        factors = self.reader.windows.fold_rows(token_factors(numbers, kept, batch)).unsqueeze(-1)
        errors = call_intercepted(
            lambda: cross_entropies(self.reader, batch, gated.labels),
            {self.reader.encoder.embeddings: lambda output: output * factors.to(output.dtype)},
        )
        probability = 1 - gate.zero()  # of keeping each word: (texts, words)
        share = (probability * gated.is_word).sum(1) / gated.n_words.clamp(min=1)
        breaks = mean_changes(probability, gated.n_words) if self.config.lambda_2 else 0.0
        return errors + self.length_cost(gated, share - self.config.one_ratio) + self.config.lambda_2 * breaks

    def length_cost(self, gated: GateOutputs, excess: Tensor) -> Tensor:
        """Compute the cost of keeping too many words, or, with two sides, too few. Shape: (texts,)."""
        if not self.config.two_sided:
            excess = excess.clamp(min=0)
        self.running_mean.add(excess, gated.counted)
        cost = self.multiplier() * excess
        return cost + self.config.lagrange_square / 2 * gated.mean(excess) ** 2 if self.config.two_sided else cost

    def multiplier(self) -> Tensor:
        """Return the Lagrange multiplier of the length."""
        growth = self.moving[1].clone()
        if self.config.two_sided:
            return self.config.lagrange_start + growth
        # On a logarithmic scale it is always positive, as in the code of the FRESH paper. Such a multiplier can push a
        # gate down but not up again: on SST, gates ended at 0 % or 99.8 % of the words, so two sides are the default.
        return (math.log(self.config.lagrange_start) + growth).exp().clamp(MIN_MULTIPLIER, MAX_MULTIPLIER)

    def update_moving(self, excess: Tensor, /) -> None:
        """Update the moving average of the excess length, the growth of the multiplier and the number of steps."""
        mean, growth, n_steps = self.moving
        decay = self.config.lagrange_decay
        mean = torch.where(n_steps > 0, decay * mean + (1 - decay) * excess, excess)
        # The growth is bounded too, so that the multiplier turns back as soon as the excess changes its sign.
        if self.config.two_sided:
            low, high = -MAX_MULTIPLIER, MAX_MULTIPLIER
        else:
            low, high = (math.log(edge / self.config.lagrange_start) for edge in (MIN_MULTIPLIER, MAX_MULTIPLIER))
        self.moving.copy_(torch.stack([mean, (growth + self.config.rate * mean).clamp(low, high), n_steps + 1]))


def token_factors(numbers: Tensor, kept: Tensor, batch: Batch) -> Tensor:
    """Return the number of its word for each token of a kept word, and 1 for all others. Shape: (texts, tokens)."""
    order = torch.argsort((~kept).to(torch.int8), dim=1, stable=True)  # kept words first, in their order
    of_words = numbers.gather(1, order).gather(1, batch.word_of.clamp(min=0, max=numbers.shape[1] - 1))
    return torch.where(batch.word_of == NO_WORD, 1.0, of_words)

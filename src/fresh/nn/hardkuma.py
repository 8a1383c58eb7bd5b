"""The HardKuma distribution (Bastings et al., 2019): differentiable samples from 0 to 1, with mass at both ends."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

# The interval that the Kumaraswamy distribution is stretched to before it is clipped to 0 and 1 (the paper's l and r).
LOW, HIGH = -0.1, 1.1
MIN_SHAPE, MAX_SHAPE = 1e-6, 100.0
# Distance of values from 0 and 1, where logarithms and gradients are infinite.
EDGE = 1e-6
# Points of the Gauss-Legendre quadrature of the mean.
N_POINTS = 64


@dataclass(frozen=True, slots=True)
class HardKuma:
    """Stretched and rectified Kumaraswamy distributions, one for each pair of shapes."""

    a: Tensor
    b: Tensor

    @classmethod
    def of(cls, outputs: Tensor) -> "HardKuma":
        """Make distributions from the outputs of a network. Shape: (..., 2)."""
        # Powers and logarithms of shapes lose too much in bf16.
        exact = outputs.to(torch.promote_types(outputs.dtype, torch.float32))
        a, b = torch.nn.functional.softplus(exact).clamp(MIN_SHAPE, MAX_SHAPE).unbind(-1)
        return cls(a, b)

    def zero(self) -> Tensor:
        """Probability of exactly 0."""
        return self._cdf((0 - LOW) / (HIGH - LOW))

    def mean(self) -> Tensor:
        """Compute the expected value."""
        # For a variable between 0 and 1, it is the integral of the probability of exceeding each point.
        points, weights = np.polynomial.legendre.leggauss(N_POINTS)
        inside = (torch.from_numpy((points + 1) / 2).to(self.a) - LOW) / (HIGH - LOW)
        above = 1 - HardKuma(self.a.unsqueeze(-1), self.b.unsqueeze(-1))._cdf(inside)
        return (above * torch.from_numpy(weights / 2).to(self.a)).sum(-1)

    def sample(self, uniform: Tensor) -> Tensor:
        """Turn uniform numbers into samples, through which gradients pass.

        :param uniform: Numbers between 0 and 1, in the shape of the distributions.
        """
        safe = uniform.clamp(EDGE, 1 - EDGE)
        kuma = (1 - (torch.log1p(-safe) / self.b).exp()).clamp(EDGE, 1 - EDGE) ** (1 / self.a)
        return (LOW + (HIGH - LOW) * kuma).clamp(0, 1)

    def _cdf(self, value: Tensor | float) -> Tensor:
        """Probability of at most a value between 0 and 1, before stretching."""
        inside = value if isinstance(value, Tensor) else torch.full_like(self.a, value)
        inside = inside.clamp(EDGE, 1 - EDGE)
        return 1 - (self.b * torch.log1p(-(inside**self.a).clamp(max=1 - EDGE))).exp()

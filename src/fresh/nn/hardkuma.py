"""The HardKuma distribution (Bastings et al., 2019): numbers from 0 to 1, with mass at both ends, to be learnt."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

LOW, HIGH = -0.1, 1.1
"""What the Kumaraswamy distribution is stretched to before it is cut off at 0 and 1."""
LEAST, MOST = 1e-6, 100.0
EDGE = 1e-6
N_POINTS = 64


@dataclass(frozen=True, slots=True)
class HardKuma:
    """Stretched and rectified Kumaraswamy distributions, one for each pair of shapes."""

    a: Tensor
    b: Tensor

    @classmethod
    def of(cls, outputs: Tensor) -> "HardKuma":
        """Make them from what a network says of each word. Shape: (..., 2)."""
        exact = outputs.to(torch.promote_types(outputs.dtype, torch.float32))
        a, b = torch.nn.functional.softplus(exact).clamp(LEAST, MOST).unbind(-1)
        return cls(a, b)

    def kuma_below(self, value: Tensor | float) -> Tensor:
        """Probability of at most a value between 0 and 1, before stretching."""
        inside = value if isinstance(value, Tensor) else torch.full_like(self.a, value)
        inside = inside.clamp(EDGE, 1 - EDGE)
        return 1 - (self.b * torch.log1p(-(inside**self.a).clamp(max=1 - EDGE))).exp()

    def zero(self) -> Tensor:
        """Probability of exactly 0."""
        return self.kuma_below((0 - LOW) / (HIGH - LOW))

    def one(self) -> Tensor:
        """Probability of exactly 1."""
        return 1 - self.kuma_below((1 - LOW) / (HIGH - LOW))

    def density(self, value: Tensor) -> Tensor:
        """Density between 0 and 1, both left out."""
        inside = (value - LOW) / (HIGH - LOW)
        kuma = self.a * self.b * inside ** (self.a - 1) * (1 - inside**self.a) ** (self.b - 1)
        return kuma / (HIGH - LOW)

    def mean(self) -> Tensor:
        """Compute the expected value: the probability of more than each point from 0 to 1, summed up."""
        points, weights = _gauss_legendre(self.a)
        inside = (points - LOW) / (HIGH - LOW)
        above = 1 - HardKuma(self.a.unsqueeze(-1), self.b.unsqueeze(-1)).kuma_below(inside)
        return (above * weights).sum(-1)

    def draw(self, uniform: Tensor) -> Tensor:
        """Turn uniform numbers into draws; gradients pass through them.

        :param uniform: Numbers between 0 and 1, both left out, in the shape of the distributions.
        """
        safe = uniform.clamp(EDGE, 1 - EDGE)
        kuma = (1 - (torch.log1p(-safe) / self.b).exp()).clamp(EDGE, 1 - EDGE) ** (1 / self.a)
        return (LOW + (HIGH - LOW) * kuma).clamp(0, 1)


def _gauss_legendre(like: Tensor) -> tuple[Tensor, Tensor]:
    """Points and weights that sum up a function over 0 to 1."""
    points, weights = np.polynomial.legendre.leggauss(N_POINTS)
    return torch.from_numpy((points + 1) / 2).to(like), torch.from_numpy(weights / 2).to(like)

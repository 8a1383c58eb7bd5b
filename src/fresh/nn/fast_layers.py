"""Parts of networks that do as torch's do in less time, where torch's hold up a whole step."""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor, empty, int16, int64, nn
from torch.autograd import Function
from torch.nn import functional

STEPS = 1 << 16
"""Into how many steps a probability is rounded."""
FEW = 8
"""Rows of a table up to which all texts ask for the same ones, and a GPU adds up their gradients one by one."""


class QuickDropout(nn.Dropout):
    """Does as dropout does; on a CPU with cheaper random numbers, which take a good part of a training step there."""

    def forward(self, values: Tensor) -> Tensor:
        """Set some values to 0 and make up for it in the others."""
        n_dropped = round(self.p * STEPS)
        if not self.training or n_dropped in (0, STEPS) or values.device.type != "cpu":
            return super().forward(values)
        kept = drawn(values.shape, n_dropped)
        return values * kept.to(values.dtype).mul_(STEPS / (STEPS - n_dropped))


def drawn(shape: Sequence[int], n_dropped: int) -> Tensor:
    """Draw what is kept: each True with the same probability, and independently.

    :param n_dropped: Out of `STEPS`, how many are to be dropped.
    """
    n_values = prod(shape)
    numbers = empty(-(-n_values // 4), dtype=int64).random_(-(2**63), None).view(int16)
    return numbers[:n_values].view(shape) >= n_dropped - STEPS // 2


class QuickLinear(nn.Linear):
    """Does as a linear layer does; on a GPU that learns, gradients of biases are added up by a product."""

    def forward(self, values: Tensor) -> Tensor:
        """Multiply by the weights and add the bias."""
        coarse = values.dtype == torch.bfloat16 or torch.is_autocast_enabled(values.device.type)
        if self.bias is None or not (values.is_cuda and self.training and coarse):
            return super().forward(values)
        return _with_bias(values, self.weight, self.bias)


def _with_bias(values: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Multiply by the weights and add the bias, which learns by a product. Shapes: (..., wide) to (..., high)."""
    multiplied = functional.linear(values, weight, bias.detach())
    out: Tensor = _SummedByProduct.apply(multiplied, bias)  # type: ignore[no-untyped-call]
    return out


class _SummedByProduct(Function):
    """Passes on what a bias was added to; what the bias would have to change by is summed by a product.

    A GPU sums over the first dimension of many rows slowly, and multiplies fast.
    """

    @staticmethod
    def forward(_context: Any, out: Tensor, _bias: Tensor) -> Tensor:
        """Pass it on."""
        return out.detach()  # no view: some encoders change it in place

    @staticmethod
    def backward(_context: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Sum over all rows."""
        rows = gradient.reshape(-1, gradient.shape[-1])
        with torch.autocast(gradient.device.type, enabled=False):
            return gradient, (rows.new_ones(1, len(rows)) @ rows).squeeze(0)


class _QuickEmbedding(nn.Embedding):
    """Does as a table of few rows does; on a GPU that learns, gradients are added up all at once."""

    def forward(self, numbers: Tensor) -> Tensor:
        """Take rows by their numbers."""
        return _rows_by_product(numbers, self.weight) if numbers.is_cuda and self.training else super().forward(numbers)


def _rows_by_product(numbers: Tensor, table: Tensor) -> Tensor:
    """Take rows of a table by multiplying it. Shapes: (...) and (rows, wide) to (..., wide)."""
    chosen = numbers.unsqueeze(-1) == torch.arange(len(table), device=numbers.device)
    with torch.autocast(numbers.device.type, enabled=False):
        return chosen.to(table.dtype) @ table


def swap_fast_layers(module: nn.Module) -> None:
    """Have all dropout in a network, all tables of few rows and all linear layers do so."""
    for parent in list(module.modules()):
        for name, child in parent.named_children():
            if type(child) is nn.Dropout:
                setattr(parent, name, QuickDropout(child.p, child.inplace))
            elif type(child) is nn.Linear:
                child.__class__ = QuickLinear
            elif type(child) is nn.Embedding and child.num_embeddings <= FEW and child.padding_idx is None:
                setattr(parent, name, _QuickEmbedding(child.num_embeddings, child.embedding_dim, _weight=child.weight))

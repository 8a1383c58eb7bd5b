"""What tests of update share with others."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fresh.nn.batching import BatchSpec
from fresh.training.distributed import ProcessGroup
from fresh.training.step import Loss, TrainStep

INPUTS = torch.randn(24, 3, generator=torch.Generator().manual_seed(0))


TARGETS = torch.arange(24) % 2


RATES = (0.05, 0.01, 0.3)
"""Learning rate, weight decay, and a norm that clips some steps."""


def network() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    model[0].bias.requires_grad_(False)
    return model


def dealt(numbers: range, dense: bool = True) -> BatchSpec:
    return BatchSpec(np.array(numbers), 5, dense, 6, len(numbers))


class Limited:
    """A loss that has memory for so many texts at once, and notes what it was asked for."""

    def __init__(self, model: nn.Module, most: int = 1000) -> None:
        self.model, self.most = model, most
        self.calls: list[list[int]] = []
        self.given: set[tuple[int, bool]] = set()

    def __call__(self, numbers: Tensor, width: int, dense: bool) -> Tensor:
        self.calls.append(numbers.tolist())
        self.given.add((width, dense))
        if len(numbers) > self.most:
            raise torch.OutOfMemoryError("full")
        return functional.cross_entropy(self.model(INPUTS[numbers]), TARGETS[numbers], reduction="sum")


def step_through(model: nn.Module, loss: Loss, sizes: list[int], n_parts: int = 1) -> TrainStep:
    """Make one step for each size of batch."""
    update = TrainStep(model, loss, RATES, ProcessGroup())
    update.n_parts = n_parts
    with torch.random.fork_rng(devices=[]):
        for seed, size in enumerate(sizes):
            batch = dealt(range(size))
            update(batch, torch.from_numpy(batch.numbers), 1 / 8, seed)
    return update


def far_apart(first: nn.Module, second: nn.Module) -> float:
    weights = zip(first.parameters(), second.parameters(), strict=True)
    return max(float((one - other).detach().abs().max()) for one, other in weights)


SIZES = [8, 8, 3, 16, 1, 8]

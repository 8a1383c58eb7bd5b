"""A network with three inputs, and ways to train it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fresh.nn.batch import TokenTable
from fresh.nn.batching import BatchSpec
from fresh.training.checkpoint import Retention
from fresh.training.config import TrainConfig
from fresh.training.distributed import ProcessGroup
from fresh.training.feature_cache import CachedInputs
from fresh.training.loop import RunContext, TrainingJob, fit
from fresh.training.step import Loss, TrainStep

CPU = torch.device("cpu")
CONFIG = TrainConfig(epochs=4, batch_size=8, learning_rate=0.05, device="cpu")
STEP_CONFIG = replace(CONFIG, max_grad_norm=0.3)
"""Clips some steps, and not all."""
N_TEXTS = 40
STEPS = 5
"""Steps in an epoch."""
INPUTS = torch.randn(N_TEXTS, 3, generator=torch.Generator().manual_seed(0))
TARGETS = (INPUTS[:, 0] > 0).float()
SIZES = [8, 8, 3, 16, 1, 8]
"""Sizes of some batches."""


def network(dropout: float = 0.5) -> nn.Sequential:
    """Make a network with dropout, so that randomness matters."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 1))
    model[0].bias.requires_grad_(False)
    return model


def loss_of(model: nn.Module) -> Loss:
    def loss(numbers: Tensor, _width: int, _dense: bool) -> Tensor:
        return nn.functional.binary_cross_entropy_with_logits(
            model(INPUTS[numbers])[:, 0], TARGETS[numbers], reduction="sum"
        )

    return loss


class Limited:
    """A loss with memory for a limited number of texts, which records its calls."""

    def __init__(self, model: nn.Module, most: int = 1000) -> None:
        self.loss, self.most = loss_of(model), most
        self.calls: list[list[int]] = []
        self.shapes: set[tuple[int, bool]] = set()

    def __call__(self, numbers: Tensor, width: int, dense: bool) -> Tensor:
        self.calls.append(numbers.tolist())
        self.shapes.add((width, dense))
        if len(numbers) > self.most:
            raise torch.OutOfMemoryError("full")
        return self.loss(numbers, width, dense)


def inputs_of(lengths: Sequence[int]) -> CachedInputs:
    """Texts of which only the lengths matter."""
    nothing: Any = None
    starts, n_words = np.cumsum([0, *lengths]), np.array(lengths)
    table = TokenTable(nothing, nothing, nothing, nothing, starts, n_words, n_words)
    return CachedInputs(table, nothing, CPU, nothing, "")


def make_job(
    model: nn.Module, loss: Loss, validate: Callable[[], float], config: TrainConfig = CONFIG, **others: Any
) -> TrainingJob:
    context = others.pop("context", None) or RunContext()
    return TrainingJob(model, inputs_of([3] * N_TEXTS), loss, validate, config, context, **others)


def train(
    config: TrainConfig = CONFIG, scores: list[float] | None = None, context: RunContext | None = None
) -> nn.Sequential:
    """Train the network with given scores on dev."""
    model, left = network(), iter(scores or [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    fit(make_job(model, loss_of(model), lambda: next(left), config, context=context))
    return model


def train_judged(
    folder: Path, scores: dict[str, list[float]], n_epochs: int = 4, retention: Retention = "all"
) -> nn.Sequential:
    """Train the network with several measures, the first of which chooses the best epoch."""
    model, left = network(), {name: iter(values) for name, values in scores.items()}
    measures = {name: lambda name=name: next(left[name]) for name in scores}
    config = replace(CONFIG, epochs=n_epochs, patience=4)
    context = RunContext("net", folder=folder, retention=retention)
    first = measures.pop(next(iter(scores)))
    fit(make_job(model, loss_of(model), first, config, context=context, other_measures=measures))
    return model


def same(first: nn.Module, second: nn.Module) -> bool:
    return all(torch.equal(weight, second.state_dict()[name]) for name, weight in first.state_dict().items())


def distance(first: nn.Module, second: nn.Module) -> float:
    weights = zip(first.parameters(), second.parameters(), strict=True)
    return max(float((one - other).detach().abs().max()) for one, other in weights)


def make_steps(
    step: TrainStep, sizes: list[int], factors: list[float] | None = None, seeds: list[int] | None = None
) -> TrainStep:
    with torch.random.fork_rng(devices=[]):
        for size, factor, seed in zip(sizes, factors or [1.0] * len(sizes), seeds or range(len(sizes)), strict=True):
            step(BatchSpec(np.arange(size), 5, True, 6, size), torch.arange(size), factor, seed)
    return step


def step_through(model: nn.Module, loss: Loss, sizes: list[int], n_parts: int = 1) -> TrainStep:
    step = TrainStep(model, loss, STEP_CONFIG, ProcessGroup())
    step.n_parts = n_parts
    return make_steps(step, sizes)

"""What tests of training share with others."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from fresh.training.config import TrainConfig
from fresh.training.loop import RunContext, TrainingJob, fit
from fresh.training.step import Loss

CONFIG = TrainConfig(epochs=4, batch_size=8, learning_rate=0.05, device="cpu")


INPUTS = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))


TARGETS = (INPUTS[:, 0] > 0).float()


def network() -> nn.Sequential:
    """Something to train, with dropout, so that randomness matters."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    model[0].bias.requires_grad_(False)
    return model


def loss_of(model: nn.Module) -> Loss:
    def loss(numbers: Tensor, _width: int, _dense: bool) -> Tensor:
        found = model(INPUTS[numbers])[:, 0]
        return nn.functional.binary_cross_entropy_with_logits(found, TARGETS[numbers], reduction="sum")

    return loss


def fit_on(
    model: nn.Module, loss: Loss, validate: Callable[[], float], config: TrainConfig, context: RunContext
) -> tuple[float, ...]:
    return fit(TrainingJob(model, [3] * 40, loss, validate, config, context, torch.device("cpu")))


def train(
    config: TrainConfig = CONFIG, scores: list[float] | None = None, context: RunContext | None = None
) -> nn.Sequential:
    model = network()
    left = iter(scores or [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    fit_on(model, loss_of(model), lambda: next(left), config, context or RunContext())
    return model


def same(first: nn.Module, second: nn.Module) -> bool:
    return all(torch.equal(weight, second.state_dict()[name]) for name, weight in first.state_dict().items())

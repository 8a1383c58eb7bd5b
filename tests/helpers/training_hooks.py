"""Ways to interrupt and to observe training."""

import signal
from types import SimpleNamespace
from typing import Any

import pytest
from torch import Tensor, nn

import fresh.training.loop
from fresh.training.step import Loss, TrainStep


def interrupt_training(
    patch: pytest.MonkeyPatch, epochs: int, steps: int = 0, by: signal.Signals = signal.SIGINT
) -> None:
    """Send a signal after some epochs, counted over all networks, and some steps of the next epoch."""
    real, whole_epochs = fresh.training.loop.train_epoch, iter(range(epochs))

    def train_epoch(job: Any, step: TrainStep, epoch: int, advance: Any) -> Any:
        if next(whole_epochs, None) is not None:
            return real(job, step, epoch, advance)
        steps_left = iter(range(steps - 1))

        def advance_or_stop(n_steps: int, note: str) -> None:
            advance(n_steps, note)
            if next(steps_left, None) is None:
                signal.raise_signal(by)

        if not steps:
            signal.raise_signal(by)
        return real(job, step, epoch, advance_or_stop)

    patch.setattr(fresh.training.loop, "train_epoch", train_epoch)


def limit_memory(patch: pytest.MonkeyPatch, n_bytes: int) -> None:
    """Say that so many bytes of memory are free from now on."""
    patch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=n_bytes))


def record_losses(patch: pytest.MonkeyPatch) -> list[tuple[list[int], float]]:
    """Record the text numbers and the loss of every training step from now on."""
    recorded: list[tuple[list[int], float]] = []
    real = TrainStep.__init__

    def init(self: TrainStep, model: nn.Module, loss: Loss, *rest: Any) -> None:
        def recording(numbers: Tensor, width: int, dense: bool) -> Tensor:
            value = loss(numbers, width, dense)
            recorded.append((numbers.tolist(), value.item()))
            return value

        real(self, model, recording, *rest)

    patch.setattr(TrainStep, "__init__", init)
    return recorded


def list_epochs(patch: pytest.MonkeyPatch) -> list[str]:
    """Record the name of the network of every finished epoch from now on."""
    names: list[str] = []
    real = fresh.training.loop._train

    def train(job: fresh.training.loop.TrainingJob, advance: Any) -> Any:
        def noting(n_steps: int, note: str) -> None:
            names.extend([job.context.name] if note else [])
            advance(n_steps, note)

        return real(job, noting)

    patch.setattr(fresh.training.loop, "_train", train)
    return names

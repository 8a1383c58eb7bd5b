"""The best state of a training, and how one that was broken off goes on."""

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

Weights = dict[str, Tensor]


def trained(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """List the weights that training changes."""
    return [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]


def moving(model: nn.Module) -> list[tuple[str, Tensor]]:
    """List what a training keeps account of beside its weights, such as a moving mean: buffers called moving."""
    return [(name, value) for name, value in model.named_buffers() if name.rpartition(".")[2] == "moving"]


@dataclass(slots=True)
class Best:
    """The best state so far, and the dev scores of all epochs."""

    scores: list[float] = field(default_factory=list)
    weights: Weights = field(default_factory=dict)

    @property
    def epoch(self) -> int:
        """The earliest epoch with the highest score."""
        return int(np.argmax(self.scores))

    def add(self, score: float, model: nn.Module) -> None:
        """Note an epoch's score and, if it is the best one, its weights."""
        self.scores.append(score)
        if self.epoch == len(self.scores) - 1:
            self.weights = {name: weight.detach().clone() for name, weight in trained(model)}

    def finished(self, epochs: int, patience: int) -> bool:
        """Say whether more epochs are neither allowed nor worth while."""
        n_epochs = len(self.scores)
        return n_epochs >= epochs or (n_epochs > 0 and n_epochs - 1 - self.epoch >= patience)


@dataclass(frozen=True, slots=True)
class State:
    """All that is needed to go on after an epoch."""

    tensors: Weights
    scores: tuple[float, ...]

    def copied(self) -> "State":
        """Have it as it is now, whatever training does next."""
        return State({name: value.clone() for name, value in self.tensors.items()}, self.scores)

    def write(self, path: Path) -> None:
        """Write it down in one move."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        save_file(self.tensors, partial, {"scores": json.dumps(self.scores)})
        partial.replace(path)


def state_of(model: nn.Module, optimizer: torch.optim.Optimizer, best: Best) -> State:
    """Gather all that is needed to go on after this epoch."""
    names = [name for name, _ in trained(model)]
    tensors = {f"now/{name}": weight.detach().contiguous() for name, weight in trained(model)}
    tensors |= {f"best/{name}": weight for name, weight in best.weights.items()}
    tensors |= {f"moving/{name}": value.contiguous() for name, value in moving(model)}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{names[index]}/{key}": value.contiguous() for key, value in state.items()}
    return State(tensors, tuple(best.scores))


class Keeper:
    """Writes down the state after an epoch, now and then; the last one in any case."""

    def __init__(self, path: Path | None, every: float) -> None:
        self.path = path
        self.every = every
        self.last = time.monotonic()
        self.waiting: State | None = None

    def keep(self, model: nn.Module, optimizer: torch.optim.Optimizer, best: Best, done: bool) -> None:
        """Take the state after an epoch: write it if it is time to or all is done, else have it at hand."""
        if self.path is None:
            return
        self.waiting = state_of(model, optimizer, best)
        if done or time.monotonic() - self.last >= self.every:
            self.write()
        else:
            self.waiting = self.waiting.copied()

    def write(self) -> None:
        """Write down the state that is not written yet, if any."""
        if self.path is not None and self.waiting is not None:
            self.waiting.write(self.path)
            self.waiting, self.last = None, time.monotonic()


@contextmanager
def keeping(path: Path | None, every: float) -> Iterator[Keeper]:
    """Keep states while the block lasts; however it ends, that of the last whole epoch is written."""
    keeper = Keeper(path, every)
    try:
        yield keeper
    finally:
        keeper.write()


def restore(path: Path | None, model: nn.Module, optimizer: torch.optim.Optimizer) -> Best:
    """Go on from what was kept, or begin."""
    best = Best()
    if path is None or not path.is_file():
        return best
    tensors, best.scores = read_kept(path)
    parts = {
        kind: {name.removeprefix(f"{kind}/"): value for name, value in tensors.items() if name.startswith(f"{kind}/")}
        for kind in ("now", "best", "moving")
    }
    if shapes([*trained(model), *moving(model)]) != shapes([*parts["now"].items(), *parts["moving"].items()]):
        raise ValueError(f"The state kept in {path} is of another network. Delete the file to begin anew.")
    model.load_state_dict(parts["now"], strict=False)
    best.weights = parts["best"]
    for name, value in moving(model):
        value.copy_(parts["moving"][name])
    state = optimizer.state_dict()
    state["state"] = {
        index: {key: tensors[f"optimizer/{name}/{key}"] for key in ("step", "exp_avg", "exp_avg_sq")}
        for index, (name, _) in enumerate(trained(model))
        if f"optimizer/{name}/step" in tensors
    }
    optimizer.load_state_dict(state)
    return best


def shapes(tensors: Iterable[tuple[str, Tensor]]) -> dict[str, torch.Size]:
    """Say how large each tensor is."""
    return {name: value.shape for name, value in tensors}


def read_kept(path: Path) -> tuple[Weights, list[float]]:
    """Read what was kept: all tensors, and the dev scores."""
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, json.loads(file.metadata()["scores"])
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"The state kept in {path} is damaged: {error}. Delete the file to begin anew.") from error

"""The best state of a training, and how one that was broken off goes on."""

import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from fresh._io import atomic_write

Weights = dict[str, Tensor]
Over = Literal["all", "best", "nothing"]
"""What is kept of a training that is over: all, to go on with more epochs; the best state; or nothing."""

OS_ERROR = re.compile(r"\(os error (\d+)\)")
OTHER = "The state kept in {} is of another network. Delete the file to begin anew."


def trained_parameters(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """List the weights that training changes."""
    return [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]


def _moving(model: nn.Module) -> list[tuple[str, Tensor]]:
    """List what a training keeps account of beside its weights, such as a moving mean: buffers called moving."""
    return [(name, value) for name, value in model.named_buffers() if name.rpartition(".")[2] == "moving"]


@dataclass(slots=True)
class BestState:
    """The best state so far, and the dev scores of all epochs."""

    scores: list[float] = field(default_factory=list)
    weights: Weights = field(default_factory=dict)
    others: dict[str, "BestState"] = field(default_factory=dict)
    """The same by other measures of the same training; they do not decide when it ends."""

    @property
    def epoch(self) -> int:
        """The earliest epoch with the highest score."""
        return int(np.argmax(self.scores))

    def add(self, score: float, model: nn.Module) -> None:
        """Note an epoch's score and, if it is the best one, its weights."""
        self.scores.append(score)
        if self.epoch == len(self.scores) - 1:
            self.weights = {name: weight.detach().clone() for name, weight in trained_parameters(model)}

    def finished(self, epochs: int, patience: int) -> bool:
        """Say whether more epochs are neither allowed nor worth while."""
        n_epochs = len(self.scores)
        return n_epochs >= epochs or (n_epochs > 0 and n_epochs - 1 - self.epoch >= patience)


@dataclass(frozen=True, slots=True)
class _TrainState:
    """All that is needed to go on after an epoch."""

    tensors: Weights
    scores: tuple[float, ...]
    others: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The scores by other measures."""

    def copied(self) -> "_TrainState":
        """Have it as it is now, whatever training does next."""
        return replace(self, tensors={name: value.clone() for name, value in self.tensors.items()})

    def write(self, path: Path) -> None:
        """Write it down in one move."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as partial, _told_as_usual(path):
            save_file(self.tensors, partial, {"scores": json.dumps(self.scores), "others": json.dumps(self.others)})

    def part(self, kind: str) -> Weights:
        """Take the tensors of one kind, by their own names."""
        return {
            name.removeprefix(f"{kind}/"): value for name, value in self.tensors.items() if name.startswith(f"{kind}/")
        }


@contextmanager
def _told_as_usual(path: Path) -> Iterator[None]:
    """Have what a disk says come as it does elsewhere: as an error of the system, with the name of the file."""
    try:
        yield
    except SafetensorError as error:
        reason = OS_ERROR.search(str(error))
        if reason is None:
            raise
        raise OSError(int(reason[1]), os.strerror(int(reason[1])), str(path)) from error


def _state_of(model: nn.Module, optimizer: torch.optim.Optimizer, best: BestState) -> _TrainState:
    """Gather all that is needed to go on after this epoch."""
    names = [name for name, _ in trained_parameters(model)]
    tensors = {f"now/{name}": weight.detach().contiguous() for name, weight in trained_parameters(model)}
    tensors |= {f"best/{name}": weight for name, weight in best.weights.items()}
    tensors |= {f"moving/{name}": value.contiguous() for name, value in _moving(model)}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{names[index]}/{key}": value.contiguous() for key, value in state.items()}
    return _with_others(_TrainState(tensors, tuple(best.scores)), best)


def best_state(model: nn.Module, best: BestState) -> _TrainState:
    """Gather what is needed of a training that is over."""
    tensors = {f"best/{name}": weight for name, weight in best.weights.items()}
    tensors |= {f"moving/{name}": value.contiguous() for name, value in _moving(model)}
    return _with_others(_TrainState(tensors, tuple(best.scores)), best)


def _with_others(state: _TrainState, best: BestState) -> _TrainState:
    """Add the best states by other measures."""
    tensors = {
        f"best by {other}/{name}": weight for other, its in best.others.items() for name, weight in its.weights.items()
    }
    scores = {name: tuple(its.scores) for name, its in best.others.items()}
    return replace(state, tensors=state.tensors | tensors, others=scores)


class _CheckpointWriter:
    """Writes down the state after an epoch, now and then, and what is wanted of the last one."""

    def __init__(self, path: Path | None, every: float, over: Over = "all") -> None:
        self.path = path
        self.every = every
        self.over = over
        self.last = time.monotonic()
        self.waiting: _TrainState | None = None

    def keep(self, model: nn.Module, optimizer: torch.optim.Optimizer, best: BestState, done: bool) -> None:
        """Take the state after an epoch: write it if it is time to or all is done, else have it at hand."""
        if self.path is None:
            return
        if done and self.over == "nothing":
            self.waiting = None
            return
        only_best = done and self.over == "best"
        self.waiting = best_state(model, best) if only_best else _state_of(model, optimizer, best)
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
def keeping(path: Path | None, every: float, over: Over = "all") -> Iterator[_CheckpointWriter]:
    """Keep states while the block lasts; if it is broken off, that of the last whole epoch is written."""
    keeper = _CheckpointWriter(path, every, over)
    try:
        yield keeper
    finally:
        keeper.write()


def restore(
    path: Path | None, model: nn.Module, optimizer: torch.optim.Optimizer, others: Iterable[str] = ()
) -> BestState:
    """Go on from what was kept, or begin.

    :param others: Names of other measures by which states are judged too.
    """
    if path is None or not path.is_file():
        return BestState(others={name: BestState() for name in others})
    kept = _read_kept(path)
    now, averages = kept.part("now") or kept.part("best"), kept.part("moving")
    same = _shapes([*trained_parameters(model), *_moving(model)]) == _shapes([*now.items(), *averages.items()])
    if not same or not kept.others.keys() >= {*others}:
        raise ValueError(OTHER.format(path))
    model.load_state_dict(now, strict=False)
    for name, value in _moving(model):
        value.copy_(averages[name])
    state = optimizer.state_dict()
    state["state"] = {
        index: {key: kept.tensors[f"optimizer/{name}/{key}"] for key in ("step", "exp_avg", "exp_avg_sq")}
        for index, (name, _) in enumerate(trained_parameters(model))
        if f"optimizer/{name}/step" in kept.tensors
    }
    optimizer.load_state_dict(state)
    rest = {name: BestState(list(kept.others[name]), kept.part(f"best by {name}")) for name in others}
    return BestState(list(kept.scores), kept.part("best"), rest)


def load_finished(path: Path | None, model: nn.Module, epochs: int, patience: int) -> bool:
    """Leave a network with the weights that did best in a training that is over; False if there was none."""
    if not is_training_complete(path, epochs, patience):
        return False
    assert path is not None
    weights = _read_kept(path, "best/").part("best")
    if _shapes(trained_parameters(model)) != _shapes(weights.items()):
        raise ValueError(OTHER.format(path))
    model.load_state_dict(weights, strict=False)
    model.eval()
    return True


def is_training_complete(path: Path | None, epochs: int, patience: int) -> bool:
    """Say whether a network is kept that was trained to its end."""
    return path is not None and path.is_file() and BestState(_scores_kept(path)).finished(epochs, patience)


def _shapes(tensors: Iterable[tuple[str, Tensor]]) -> dict[str, torch.Size]:
    """Say how large each tensor is."""
    return {name: value.shape for name, value in tensors}


def _read_kept(path: Path, beginning: str = "") -> _TrainState:
    """Read what was kept: the tensors whose names begin so."""
    with _opened(path) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys() if name.startswith(beginning)}  # noqa: SIM118
        about = file.metadata()
        scores = tuple(json.loads(about["scores"]))
        others = {name: tuple(its) for name, its in json.loads(about.get("others", "{}")).items()}
        return _TrainState(tensors, scores, others)


def _scores_kept(path: Path) -> list[float]:
    """Read only the scores of what was kept."""
    with _opened(path) as file:
        return list(json.loads(file.metadata()["scores"]))


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open what was kept."""
    try:
        with safe_open(path, "pt") as file:
            yield file
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"The state kept in {path} is damaged: {error}. Delete the file to begin anew.") from error

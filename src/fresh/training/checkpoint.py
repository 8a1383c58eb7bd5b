"""Checkpoints: the best state of a training, and all that it needs to resume."""

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
from torch.optim import Optimizer

from fresh._io import atomic_write
from fresh.errors import ModelError

Weights = dict[str, Tensor]
# A checkpoint to resume from has four times the size of the weights: the best, the current, and two moments of AdamW.
Retention = Literal["all", "best", "nothing"]
"""What to keep of a finished training: everything, to train more epochs later; the best state; or nothing."""


def trained_parameters(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """List the weights that training changes."""
    return [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]


def _running_state(model: nn.Module) -> list[tuple[str, Tensor]]:
    """List what training updates beside the weights: the buffers named `moving`."""
    return [(name, value) for name, value in model.named_buffers() if name.rpartition(".")[2] == "moving"]


@dataclass(slots=True)
class BestState:
    """The weights with the best dev score so far, and the dev scores of all epochs."""

    scores: list[float] = field(default_factory=list)
    weights: Weights = field(default_factory=dict)
    others: dict[str, "BestState"] = field(default_factory=dict)
    """The best states by other measures; they do not decide when training ends."""

    @property
    def epoch(self) -> int:
        """The earliest epoch with the highest score."""
        return int(np.argmax(self.scores))

    def add(self, score: float, model: nn.Module) -> None:
        """Add the score of an epoch, and keep its weights if it is the best one."""
        self.scores.append(score)
        if self.epoch == len(self.scores) - 1:
            self.weights = {name: weight.detach().clone() for name, weight in trained_parameters(model)}

    def is_finished(self, epochs: int, patience: int) -> bool:
        """Whether all epochs are done, or too many of them brought no better score."""
        n_epochs = len(self.scores)
        return n_epochs >= epochs or (n_epochs > 0 and n_epochs - 1 - self.epoch >= patience)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The contents of a checkpoint file."""

    tensors: Weights
    """Tensors by section and name, such as `best/head.weight`."""
    scores: tuple[float, ...]
    others: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The scores by other measures."""

    @classmethod
    def of(cls, model: nn.Module, best: BestState, optimizer: Optimizer | None = None) -> "Checkpoint":
        """Collect the best state; with an optimizer, also all that is needed to resume."""
        tensors = {f"best/{name}": weight for name, weight in best.weights.items()}
        tensors |= {f"moving/{name}": value.contiguous() for name, value in _running_state(model)}
        for other, state in best.others.items():
            tensors |= {f"best by {other}/{name}": weight for name, weight in state.weights.items()}
        if optimizer is not None:
            parameters = trained_parameters(model)
            tensors |= {f"now/{name}": weight.detach().contiguous() for name, weight in parameters}
            # By the names of weights and not by their numbers, as torch has it: a file can then be checked.
            for index, moments in optimizer.state_dict()["state"].items():
                name = parameters[index][0]
                tensors |= {f"optimizer/{name}/{key}": value.contiguous() for key, value in moments.items()}
        return cls(tensors, tuple(best.scores), {name: tuple(state.scores) for name, state in best.others.items()})

    @classmethod
    def read(cls, path: Path, prefix: str = "") -> "Checkpoint":
        """Read the tensors whose names begin with a prefix."""
        with _open_checkpoint(path) as file:
            tensors = {name: file.get_tensor(name) for name in file.keys() if name.startswith(prefix)}  # noqa: SIM118
            metadata = file.metadata() or {}
            others = {name: tuple(scores) for name, scores in json.loads(metadata.get("others", "{}")).items()}
            return cls(tensors, tuple(json.loads(metadata["scores"])), others)

    def write(self, path: Path) -> None:
        """Write the file atomically."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as partial:
            try:
                save_file(self.tensors, partial, {"scores": json.dumps(self.scores), "others": json.dumps(self.others)})
            except SafetensorError as error:
                # safetensors reports a full disk in text only. As an OSError, it names the file like all other writers.
                code = re.search(r"\(os error (\d+)\)", str(error))
                if code is None:
                    raise
                raise OSError(int(code[1]), os.strerror(int(code[1])), str(path)) from error

    def section(self, name: str) -> Weights:
        """Return the tensors of one section, such as `best`, by their own names."""
        start = f"{name}/"
        return {key.removeprefix(start): value for key, value in self.tensors.items() if key.startswith(start)}


@dataclass(slots=True)
class CheckpointWriter:
    """Writes a checkpoint after an epoch, but not too often, and what is kept of a finished training."""

    path: Path | None
    """The file; None to write nothing."""
    every: float
    """Minimum number of seconds between two writes."""
    retention: Retention
    last_write: float = field(default_factory=time.monotonic)
    pending: Checkpoint | None = None

    def add(self, model: nn.Module, optimizer: Optimizer, best: BestState, done: bool) -> None:
        """Take the state after an epoch: write it if it is due or training is done, otherwise hold a copy."""
        if self.path is None:
            return
        if done and self.retention == "nothing":
            self.pending = None
            return
        self.pending = Checkpoint.of(model, best, None if done and self.retention == "best" else optimizer)
        if done or time.monotonic() - self.last_write >= self.every:
            self.flush()
        else:  # the next epoch changes these tensors
            copies = {name: value.clone() for name, value in self.pending.tensors.items()}
            self.pending = replace(self.pending, tensors=copies)

    def flush(self) -> None:
        """Write the state that is not written yet, if any."""
        if self.path is not None and self.pending is not None:
            self.pending.write(self.path)
            self.pending, self.last_write = None, time.monotonic()


def restore(path: Path | None, model: nn.Module, optimizer: Optimizer, others: Iterable[str] = ()) -> BestState:
    """Resume from a checkpoint, or begin if there is none.

    :param others: Names of other measures that keep a best state of their own.
    """
    if path is None or not path.is_file():
        return BestState(others={name: BestState() for name in others})
    saved = Checkpoint.read(path)
    # A finished training that kept only its best state goes on from there.
    weights, running = saved.section("now") or saved.section("best"), saved.section("moving")
    _check(path, _shapes([*trained_parameters(model), *_running_state(model)]) == _shapes((weights | running).items()))
    _check(path, saved.others.keys() >= {*others})
    # Not strict: a checkpoint has no frozen weights, which are those of the encoder.
    model.load_state_dict(weights | running, strict=False)
    state = optimizer.state_dict()
    state["state"] = {
        index: {key: saved.tensors[f"optimizer/{name}/{key}"] for key in ("step", "exp_avg", "exp_avg_sq")}
        for index, (name, _) in enumerate(trained_parameters(model))
        if f"optimizer/{name}/step" in saved.tensors
    }
    optimizer.load_state_dict(state)
    other_states = {name: BestState(list(saved.others[name]), saved.section(f"best by {name}")) for name in others}
    return BestState(list(saved.scores), saved.section("best"), other_states)


def load_finished(path: Path | None, model: nn.Module, epochs: int, patience: int) -> bool:
    """Load the best weights of a finished training into a network; False if there is none."""
    if path is None or not is_training_complete(path, epochs, patience):
        return False
    weights = Checkpoint.read(path, "best/").section("best")
    _check(path, _shapes(trained_parameters(model)) == _shapes(weights.items()))
    model.load_state_dict(weights, strict=False)
    model.eval()
    return True


def is_training_complete(path: Path | None, epochs: int, patience: int) -> bool:
    """Whether a checkpoint holds a training that has ended."""
    return path is not None and path.is_file() and BestState(read_scores(path)).is_finished(epochs, patience)


def read_scores(path: Path) -> list[float]:
    """Read the dev scores of all epochs."""
    return list(Checkpoint.read(path, "no tensors").scores)


def _shapes(weights: Iterable[tuple[str, Tensor]]) -> dict[str, torch.Size]:
    return {name: weight.shape for name, weight in weights}


def _check(path: Path, is_same_network: bool) -> None:
    if not is_same_network:
        raise ModelError(f"The checkpoint {path} is of another network. Delete the file to start over.")


@contextmanager
def _open_checkpoint(path: Path) -> Iterator[Any]:
    try:
        with safe_open(path, "pt") as file:
            yield file
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ModelError(f"The checkpoint {path} is damaged: {error}. Delete the file to start over.") from error

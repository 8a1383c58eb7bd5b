"""The one training loop, its settings, and how a broken-off training goes on."""

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from fresh.config import below, refuse
from fresh.progress import SILENT, Progress

Weights = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """How one network is trained."""

    epochs: int = 8
    """Passes over the training data, at most."""
    batch_size: int = 32
    """Texts in a training step."""
    learning_rate: float = 1e-4
    """Learning rate of AdamW."""
    weight_decay: float = 0.01
    """Weight decay of AdamW, decoupled."""
    max_grad_norm: float = 5.0
    """Gradients are clipped to this norm."""
    patience: int = 10
    """Epochs without a better dev macro-F1 after which training stops."""
    seed: int = 0
    """Seeds weights, order, dropout, and splits where files give none."""
    device: str = "auto"
    """Where to compute: auto, cpu, cuda, cuda:1, mps."""

    def __post_init__(self) -> None:
        above = {"learning_rate": self.learning_rate, "max_grad_norm": self.max_grad_norm}
        refuse(
            *below(1, epochs=self.epochs, batch_size=self.batch_size, patience=self.patience),
            *(f"{name} must be above 0, got {value}." for name, value in above.items() if not value > 0),
            *below(0, weight_decay=self.weight_decay, seed=self.seed),
        )


@dataclass(frozen=True, slots=True)
class Watch:
    """Who looks on while a network is trained, and where it is kept meanwhile."""

    name: str = "network"
    progress: Progress = SILENT
    folder: Path | None = None
    """Folder for the state after each whole epoch; None to keep nothing."""

    def named(self, name: str) -> "Watch":
        """Watch another network in the same way."""
        return replace(self, name=name)

    @property
    def kept(self) -> Path | None:
        """File that holds the state of this network."""
        return None if self.folder is None else self.folder / f"{self.name.replace(' ', '_')}.safetensors"


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
            self.weights = {name: weight.detach().cpu().clone() for name, weight in trained(model)}

    def finished(self, config: TrainConfig) -> bool:
        """Say whether more epochs are neither allowed nor worth while."""
        n_epochs = len(self.scores)
        return n_epochs >= config.epochs or (n_epochs > 0 and n_epochs - 1 - self.epoch >= config.patience)


def fit(
    model: nn.Module,
    lengths: Sequence[int],
    step: Callable[[NDArray[np.int64]], Tensor],
    validate: Callable[[], float],
    config: TrainConfig,
    watch: Watch,
) -> tuple[float, ...]:
    """Train a network and leave it with the weights that did best.

    :param lengths: How long each training text is; texts of like length share a batch.
    :param step: Returns the loss of some training texts, given by their numbers.
    :param validate: Returns the score to be maximised.
    :return: The score of each epoch.
    """
    weights = [weight for _, weight in trained(model)]
    optimizer = torch.optim.AdamW(weights, lr=config.learning_rate, weight_decay=config.weight_decay)
    best = restore(watch.kept, model, optimizer)
    n_batches = -(-len(lengths) // config.batch_size)
    with watch.progress.task(watch.name, n_batches * config.epochs) as advance:
        advance(n_batches * len(best.scores), "")
        while not best.finished(config):
            model.train()
            with seeded(config.seed, len(best.scores)):
                for batch in shuffled(lengths, config.batch_size, config.seed, len(best.scores)):
                    loss = step(batch)
                    loss.backward()  # type: ignore[no-untyped-call]
                    nn.utils.clip_grad_norm_(weights, config.max_grad_norm)
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=True)
                    advance(1, "")
            model.eval()
            best.add(validate(), model)
            keep(watch.kept, model, optimizer, best)
            advance(0, f"dev F1 {best.scores[-1]:.3f}, best {max(best.scores):.3f}")
    model.load_state_dict(best.weights, strict=False)
    model.eval()
    return tuple(best.scores)


def trained(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """List the weights that training changes."""
    return [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]


def shuffled(lengths: Sequence[int], batch_size: int, seed: int, epoch: int) -> Iterator[NDArray[np.int64]]:
    """Deal texts into batches at random, so that those of like length mostly meet."""
    generator = np.random.default_rng((seed, epoch))
    order = generator.permutation(len(lengths))
    stretch = 50 * batch_size
    for start in range(0, len(order), stretch):
        part = order[start : start + stretch]
        order[start : start + stretch] = part[np.argsort(np.asarray(lengths)[part], kind="stable")]
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    for number in generator.permutation(len(batches)):
        yield batches[number]


@contextmanager
def seeded(seed: int, epoch: int) -> Iterator[None]:
    """Draw all that is random inside the block from a seed, repeatably, and leave no trace of it outside."""
    strict, warn = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    devices = list(range(torch.cuda.device_count()))
    with torch.random.fork_rng(devices=devices), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*deterministic")  # what has no repeatable form is used as it is
        torch.manual_seed(int(np.random.SeedSequence((seed, epoch)).generate_state(1)[0]))
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(strict, warn_only=warn)


def choose_device(name: str) -> torch.device:
    """Turn a device's name into a device; ``auto`` takes the fastest there is."""
    if name == "auto":
        has_mps = torch.backends.mps.is_available()
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if has_mps else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = str(error).partition("\n")[0].partition(". ")[0].rstrip(".")
        raise ValueError(f"device {name!r} cannot be used here: {reason}. Try --device auto.") from error
    return device


def keep(path: Path | None, model: nn.Module, optimizer: torch.optim.Optimizer, best: Best) -> None:
    """Write down, in one move, all that is needed to go on after this epoch."""
    if path is None:
        return
    names = [name for name, _ in trained(model)]
    tensors = {f"now/{name}": weight.detach().contiguous() for name, weight in trained(model)}
    tensors |= {f"best/{name}": weight for name, weight in best.weights.items()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{names[index]}/{key}": value.contiguous() for key, value in state.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    save_file(tensors, partial, {"scores": json.dumps(best.scores)})
    partial.replace(path)


def restore(path: Path | None, model: nn.Module, optimizer: torch.optim.Optimizer) -> Best:
    """Go on from what was kept, or begin."""
    best = Best()
    if path is None or not path.is_file():
        return best
    tensors, best.scores = read_kept(path)
    parts: dict[Literal["now", "best"], Weights] = {
        "now": {name[4:]: value for name, value in tensors.items() if name.startswith("now/")},
        "best": {name[5:]: value for name, value in tensors.items() if name.startswith("best/")},
    }
    if {name: weight.shape for name, weight in trained(model)} != {
        name: weight.shape for name, weight in parts["now"].items()
    }:
        raise ValueError(f"The state kept in {path} is of another network. Delete the file to begin anew.")
    model.load_state_dict(parts["now"], strict=False)
    best.weights = parts["best"]
    state = optimizer.state_dict()
    state["state"] = {
        index: {key: tensors[f"optimizer/{name}/{key}"] for key in ("step", "exp_avg", "exp_avg_sq")}
        for index, (name, _) in enumerate(trained(model))
        if f"optimizer/{name}/step" in tensors
    }
    optimizer.load_state_dict(state)
    return best


def read_kept(path: Path) -> tuple[Weights, list[float]]:
    """Read what was kept: all tensors, and the dev scores."""
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, json.loads(file.metadata()["scores"])
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"The state kept in {path} is damaged: {error}. Delete the file to begin anew.") from error

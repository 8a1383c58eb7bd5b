"""The one training loop and its settings."""

import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from fresh.batching import Dealt, deal, padding_share
from fresh.config import below, refuse
from fresh.kept import keeping, restore
from fresh.pieces import Ints
from fresh.progress import SILENT, Advance, Progress
from fresh.recording import Recording
from fresh.store import Place, Shelf
from fresh.team import own_device, team
from fresh.update import Loss, Update


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How the hardware is used; none of it changes what is learnt, but for rounding."""

    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Numbers that training computes with: auto takes bf16 on an NVIDIA GPU and fp32 elsewhere."""
    frozen: Place = "auto"
    """Where the output of frozen layers is kept, so that they run once: memory (of the GPU, if there is one), file, off
    (they run in each step), or auto: memory while it lasts, then a file."""
    frozen_gb: float | None = None
    """Most gigabytes of memory that auto takes for that; half of what is free if not given."""
    frozen_folder: str | None = None
    """Folder to keep it in for later runs; nothing outlives the run if not given."""
    recording: bool = True
    """Record the work of a training step on a GPU and replay it, which spares the launching."""

    def __post_init__(self) -> None:
        folder = self.frozen_folder
        refuse(
            *below(0, frozen_gb=0 if self.frozen_gb is None else self.frozen_gb),
            "frozen_folder is empty. Name a folder, or leave it out." if folder == "" else None,
            "frozen_folder cannot be had with frozen=off, which keeps nothing."
            if folder and self.frozen == "off"
            else None,
        )

    def shelf(self) -> Shelf:
        """Make the place where frozen outputs are kept."""
        return Shelf(self.frozen, self.frozen_gb, self.frozen_folder)


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """How one network is trained."""

    epochs: int = 8
    """Passes over the training data, at most."""
    batch_size: int = 32
    """Texts in a training step, on average: short texts come in larger batches, long ones in smaller."""
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
    engine: EngineConfig = field(default_factory=EngineConfig)

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
    shelf: Shelf | None = None
    """What frozen layers put out, for all networks of a run; None to have it for one network only."""
    every: float = 0.0
    """Seconds between two states that are kept, at least; the last one is always kept."""

    def named(self, name: str) -> "Watch":
        """Watch another network in the same way."""
        return replace(self, name=name)

    @property
    def kept(self) -> Path | None:
        """File that holds the state of this network."""
        return None if self.folder is None else self.folder / f"{self.name.replace(' ', '_')}.safetensors"


@dataclass(frozen=True, slots=True)
class Job:
    """A network to be trained."""

    model: nn.Module
    lengths: Sequence[int] | Ints
    """How long each training text is; texts of like length share a batch."""
    loss: Loss
    validate: Callable[[], float]
    """Returns the score to be maximised."""
    config: TrainConfig
    watch: Watch
    on: torch.device
    """Where the numbers of texts are wanted: where what the texts are made from is."""

    @property
    def recorded(self) -> bool:
        """Whether steps are recorded and replayed: on a GPU, if all that they need is there."""
        return self.on.type == "cuda" and self.config.engine.recording and team().size == 1

    @property
    def n_batches(self) -> int:
        """How many steps an epoch has, about."""
        return len(deal(self.lengths, self.config.batch_size, self.config.seed, 0))


def fit(job: Job) -> tuple[float, ...]:
    """Train a network and leave it with the weights that did best.

    :return: The score of each epoch.
    """
    [scores] = fit_side_by_side([job])
    return scores


def fit_side_by_side(jobs: Sequence[Job]) -> list[tuple[float, ...]]:
    """Train several networks, on a GPU at the same time, since it is too large for one to keep it busy."""
    watch = jobs[0].watch
    name = watch.name if len(jobs) == 1 else f"{watch.name} x {len(jobs)}"
    with settled(), watch.progress.task(name, sum(job.n_batches * job.config.epochs for job in jobs)) as advance:
        if all(job.recorded for job in jobs):
            broken_off = threading.Event()
            with ThreadPoolExecutor(len(jobs)) as threads:  # handing work to a GPU takes time of its own
                try:
                    return list(threads.map(lambda job: run(training(job), advance, broken_off), jobs))
                except BaseException:
                    broken_off.set()
                    raise
        return [run(training(job), advance) for job in jobs]


def run(
    steps: Generator[tuple[int, str], None, tuple[float, ...]],
    advance: Advance,
    broken_off: threading.Event | None = None,
) -> tuple[float, ...]:
    """Go through a training to its end, or until it is broken off, and show how it goes."""
    while broken_off is None or not broken_off.is_set():
        try:
            advance(*next(steps))
        except StopIteration as end:
            scores: tuple[float, ...] = end.value
            return scores
    steps.close()
    return ()


def training(job: Job) -> Generator[tuple[int, str], None, tuple[float, ...]]:
    """Train step by step: how many steps were made and how it goes; at the end, the score of each epoch."""
    config, watch, members = job.config, job.watch, team()
    kind = Recording if job.recorded else Update
    update = kind(job.model, job.loss, (config.learning_rate, config.weight_decay, config.max_grad_norm), members)
    best = restore(watch.kept, job.model, update.optimizer)
    yield job.n_batches * len(best.scores), ""
    with keeping(watch.kept if members.leads else None, watch.every) as keeper:
        while not best.finished(config.epochs, config.patience):
            job.model.train()
            epoch = len(best.scores)
            batches = deal(job.lengths, config.batch_size, config.seed, epoch)
            for _ in run_epoch(update, batches, config, epoch, job.on):
                yield 1, ""
            job.model.eval()
            best.add(job.validate(), job.model)
            keeper.keep(job.model, update.optimizer, best, done=best.finished(config.epochs, config.patience))
            yield 0, f"dev F1 {best.scores[-1]:.3f}, best {max(best.scores):.3f}"
    job.model.load_state_dict(best.weights, strict=False)
    job.model.eval()
    return tuple(best.scores)


def run_epoch(
    update: Update, batches: Sequence[Dealt], config: TrainConfig, epoch: int, on: torch.device
) -> Iterator[None]:
    """Make a step for each batch."""
    seeds = np.random.SeedSequence((config.seed, epoch)).generate_state(len(batches), np.uint64)
    numbers = torch.from_numpy(np.concatenate([batch.numbers for batch in batches])).to(on)
    start = 0
    for batch, seed in zip(batches, seeds.tolist(), strict=True):
        end = start + len(batch.numbers)
        update(batch, numbers[start:end], 1 / config.batch_size, seed >> 1)
        start = end
        yield
    update.finish()


def padding_of(job: Job) -> float:
    """Say which share of what an epoch computes is only filled up."""
    batches = deal(job.lengths, job.config.batch_size, job.config.seed, 0)
    return padding_share(job.lengths, batches, rounded=job.recorded)


@contextmanager
def settled() -> Iterator[None]:
    """Compute repeatably inside the block, and leave no trace of what is random in it outside."""
    strict, warn = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    memory: Any = torch.utils.deterministic
    filled = memory.fill_uninitialized_memory
    devices = list(range(torch.cuda.device_count()))
    planned = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    with torch.random.fork_rng(devices=devices), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*deterministic")  # what has no repeatable form is used as it is
        torch.use_deterministic_algorithms(True, warn_only=True)
        memory.fill_uninitialized_memory = False
        torch.backends.cuda.enable_cudnn_sdp(False)  # it plans each shape of batch anew, for longer than it saves
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(strict, warn_only=warn)
            memory.fill_uninitialized_memory = filled
            torch.backends.cuda.enable_cudnn_sdp(planned)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw all that is random inside the block from a seed, repeatably, and leave no trace of it outside."""
    with settled():
        torch.manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
        yield


def choose_device(name: str) -> torch.device:
    """Turn a device's name into a device; ``auto`` takes the fastest there is."""
    if name == "auto":
        if team().size > 1:
            return own_device()
        has_mps = torch.backends.mps.is_available()
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if has_mps else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = str(error).partition("\n")[0].partition(". ")[0].rstrip(".")
        raise ValueError(f"device {name!r} cannot be used here: {reason}. Try --device auto.") from error
    return device

"""The one training loop."""

import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from fresh.nn.batch import IntArray
from fresh.nn.batching import BatchSpec, bucketed_batches, padding_share
from fresh.nn.memory import without_cudnn_attention
from fresh.nn.varlen_attention import without_padding
from fresh.progress import SILENT, Advance, Progress
from fresh.training.checkpoint import BestState, Over, best_state, keeping, restore
from fresh.training.config import TrainConfig
from fresh.training.cuda_graphs import GraphedTrainStep
from fresh.training.distributed import process_group
from fresh.training.feature_store import FeatureStore
from fresh.training.step import Loss, TrainStep


@dataclass(frozen=True, slots=True)
class RunContext:
    """Who looks on while a network is trained, and where it is kept meanwhile."""

    name: str = "network"
    progress: Progress = SILENT
    folder: Path | None = None
    """Folder for the state after each whole epoch; None to keep nothing."""
    feature_store: FeatureStore | None = None
    """What frozen layers put out, for all networks of a run; None to have it for one network only."""
    every: float = 0.0
    """Seconds between two states that are kept, at least."""
    over: Over = "all"
    """What is kept of a training that is over."""
    notes: list[str] = field(default_factory=list)
    """What somebody should know who relies on what was trained; all networks of a run write here."""

    def note(self, text: str) -> None:
        """Warn, and write it down."""
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        self.notes.append(text)

    def named(self, name: str) -> "RunContext":
        """Watch another network in the same way."""
        return replace(self, name=name)

    def within(self, name: str) -> "RunContext":
        """Watch the same network, but keep it in a folder of its own inside this one's."""
        return replace(self, folder=None if self.folder is None else self.folder / name)

    @property
    def kept(self) -> Path | None:
        """File that holds the state of this network."""
        return None if self.folder is None else self.folder / f"{self.name.replace(' ', '_')}.safetensors"


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A network to be trained."""

    model: nn.Module
    lengths: Sequence[int] | IntArray
    """How long each training text is; texts of like length share a batch."""
    loss: Loss
    validate: Callable[[], float]
    """Returns the score to be maximised."""
    config: TrainConfig
    context: RunContext
    on: torch.device
    """Where the numbers of texts are wanted: where what the texts are made from is."""
    recordable: bool = True
    """Whether a step does the same on the GPU each time, so that it can be recorded."""
    roundable: bool = True
    """Whether encoders may read weights of 16 bits where training computes with them."""
    numbers: Callable[[int], IntArray] | None = None
    """Lists which texts an epoch reads; all if not given."""
    others: Mapping[str, Callable[[], float]] = field(default_factory=dict)
    """Other measures of the same training, asked after the first: the best state by each is kept in a folder of its
    name, as if the training had gone by it."""

    @property
    def recorded(self) -> bool:
        """Whether steps are recorded and replayed: on a GPU, if all that they need is there."""
        one = self.recordable and self.config.engine.recording and process_group().size == 1
        return self.on.type == "cuda" and one

    def deal(self, epoch: int) -> list[BatchSpec]:
        """Deal the texts that an epoch reads into batches."""
        lengths = np.asarray(self.lengths, dtype=np.int64)
        if self.numbers is None:
            return bucketed_batches(lengths, self.config.batch_size, self.config.seed, epoch)
        numbers = self.numbers(epoch)
        batches = bucketed_batches(lengths[numbers], self.config.batch_size, self.config.seed, epoch)
        return [batch._replace(numbers=numbers[batch.numbers]) for batch in batches]

    @property
    def n_batches(self) -> int:
        """How many steps an epoch has, about."""
        return len(self.deal(0))


def fit(job: TrainingJob) -> tuple[float, ...]:
    """Train a network and leave it with the weights that did best.

    :return: The score of each epoch.
    """
    [scores] = fit_side_by_side([job])
    return scores


def fit_side_by_side(jobs: Sequence[TrainingJob]) -> list[tuple[float, ...]]:
    """Train several networks, on a GPU at the same time, since it is too large for one to keep it busy."""
    context = jobs[0].context
    name = context.name if len(jobs) == 1 else f"{context.name} x {len(jobs)}"
    with (
        _deterministic(),
        context.progress.task(name, sum(job.n_batches * job.config.epochs for job in jobs)) as advance,
    ):
        if all(job.recorded for job in jobs):
            broken_off = threading.Event()
            with ThreadPoolExecutor(len(jobs)) as threads:  # handing work to a GPU takes time of its own
                try:
                    return list(threads.map(lambda job: _run(_training(job), advance, broken_off), jobs))
                except BaseException:  # also Ctrl-C: the threads must hear of it, or they would train to the end
                    broken_off.set()
                    raise
        return [_run(_training(job), advance) for job in jobs]


def _run(
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


def _training(job: TrainingJob) -> Generator[tuple[int, str], None, tuple[float, ...]]:
    """Train step by step: how many steps were made and how it goes; at the end, the score of each epoch."""
    config, context, members = job.config, job.context, process_group()
    rates = config.learning_rate, config.weight_decay, config.max_grad_norm
    device = next(job.model.parameters()).device
    half = uses_bf16(config, device)
    kind, rounds, paced = (
        GraphedTrainStep if job.recorded else TrainStep,
        half and job.roundable,
        config.schedule != "constant",
    )
    update = kind(job.model, job.loss, rates, members, rounds, paced)
    best = restore(context.kept, job.model, update.optimizer, job.others)
    yield job.n_batches * len(best.scores), ""
    with keeping(context.kept if members.is_main else None, context.every, context.over) as keeper:
        while not best.finished(config.epochs, config.patience):
            job.model.train()
            epoch = len(best.scores)
            with without_padding(job.model, half):
                for _ in run_epoch(update, job.deal(epoch), config, epoch, job.on):
                    yield 1, ""
            job.model.eval()
            if update.broken_step is not None:
                context.note(_diverged(context.name, update.broken_step, best))
                break
            with inference_precision(job.model, config):
                best.add(job.validate(), job.model)
                for name, measure in job.others.items():
                    best.others[name].add(measure(), job.model)
            keeper.keep(job.model, update.optimizer, best, done=best.finished(config.epochs, config.patience))
            yield 0, f"dev F1 {best.scores[-1]:.3f}, best {max(best.scores):.3f}"
    if members.is_main:
        _keep_others(job, best)
    job.model.load_state_dict(best.weights, strict=False)
    job.model.eval()
    return tuple(best.scores)


def _keep_others(job: TrainingJob, best: BestState) -> None:
    """Write down the best states by other measures, each as a training of its own that is over."""
    for name, other in best.others.items():
        place = job.context.within(name).kept
        if place is not None:
            best_state(job.model, other).write(place)


def _diverged(name: str, step: int, best: BestState) -> str:
    """Say that a training broke down, and what is left of it; refuse to go on with nothing."""
    epoch = len(best.scores) + 1
    what = f"{name}: training diverged in step {step} of epoch {epoch}, its loss or gradients are no longer numbers."
    if not best.scores:
        raise ValueError(f"{what} Lower the learning_rate.")
    return (
        f"{what} The best state before that is kept (epoch {best.epoch + 1}, dev score {max(best.scores):.3f}). "
        "Lower the learning_rate."
    )


def run_epoch(
    update: TrainStep, batches: Sequence[BatchSpec], config: TrainConfig, epoch: int, on: torch.device
) -> Iterator[None]:
    """Make a step for each batch."""
    seeds = np.random.SeedSequence((config.seed, epoch)).generate_state(len(batches), np.uint64)
    numbers = torch.from_numpy(np.concatenate([batch.numbers for batch in batches])).to(on)
    start = 0
    update.begin()
    for place, (batch, seed) in enumerate(zip(batches, seeds.tolist(), strict=True)):
        end = start + len(batch.numbers)
        update.set_share(config.rate_share(epoch + (place + 0.5) / len(batches)))
        update(batch, numbers[start:end], 1 / config.batch_size, seed >> 1)
        start = end
        yield
    update.finish()


def padding_of(job: TrainingJob) -> float:
    """Say which share of what an epoch computes is only filled up."""
    batches = job.deal(0)
    lengths = np.asarray(job.lengths)[np.concatenate([batch.numbers for batch in batches])]
    return padding_share(lengths, batches, rounded=job.recorded)


@contextmanager
def _deterministic() -> Iterator[None]:
    """Compute repeatably inside the block, and leave no trace of what is random in it outside."""
    strict, warn = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    memory: Any = torch.utils.deterministic
    filled = memory.fill_uninitialized_memory
    devices = list(range(torch.cuda.device_count()))
    with torch.random.fork_rng(devices=devices), without_cudnn_attention(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*deterministic")  # what has no repeatable form is used as it is
        torch.use_deterministic_algorithms(True, warn_only=True)
        memory.fill_uninitialized_memory = False
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(strict, warn_only=warn)
            memory.fill_uninitialized_memory = filled


@contextmanager
def fixed_seed(seed: int) -> Iterator[None]:
    """Draw all that is random inside the block from a seed, repeatably, and leave no trace of it outside."""
    with _deterministic():
        torch.manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
        yield


def uses_bf16(config: TrainConfig, device: torch.device) -> bool:
    """Say whether training computes with bf16."""
    wanted = config.engine.precision
    return wanted == "bf16" or (wanted == "auto" and device.type == "cuda" and torch.cuda.is_bf16_supported())


@contextmanager
def inference_precision(network: nn.Module, config: TrainConfig) -> Iterator[None]:
    """Compute inside the block with the numbers that training computes with, and attend to no padding."""
    device = next(network.parameters()).device
    half = uses_bf16(config, device)
    with torch.autocast(device.type, torch.bfloat16, enabled=half), without_padding(network, half):
        yield

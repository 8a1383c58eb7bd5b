"""The training loop."""

import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from fresh.nn.attention import without_padding
from fresh.nn.batch import IntArray
from fresh.nn.batching import BatchSpec, bucketed_batches, padding_share
from fresh.nn.device import without_cudnn_attention
from fresh.progress import SILENT, Advance, Progress
from fresh.training.checkpoint import BestState, Checkpoint, Retention, checkpoint_writer, restore
from fresh.training.config import TrainConfig
from fresh.training.cuda_graphs import GraphedTrainStep
from fresh.training.distributed import process_group
from fresh.training.feature_cache import FeatureStore
from fresh.training.step import Loss, TrainStep


@dataclass(frozen=True, slots=True)
class RunContext:
    """What surrounds the training of a network: its name, progress, checkpoints and warnings."""

    name: str = "network"
    progress: Progress = SILENT
    folder: Path | None = None
    """Folder of checkpoints; None to write none."""
    feature_store: FeatureStore | None = None
    """Cache of what frozen layers put out, for all networks of a run; None for one of its own for each network."""
    checkpoint_every: float = 0.0
    """Minimum number of seconds between two checkpoints."""
    retention: Retention = "all"
    """What to keep of a finished training."""
    notes: list[str] = field(default_factory=list)
    """Warnings for whoever relies on the networks; all networks of a run share the list."""

    def warn(self, text: str) -> None:
        """Warn, and add the text to the notes."""
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        self.notes.append(text)

    def with_name(self, name: str) -> "RunContext":
        """Return the context of another network of the same run."""
        return replace(self, name=name)

    def in_subfolder(self, name: str) -> "RunContext":
        """Return the same context with checkpoints in a subfolder."""
        return replace(self, folder=None if self.folder is None else self.folder / name)

    def store(self, config: TrainConfig) -> FeatureStore:
        """Return the feature store of the run, or a new one by the settings."""
        return self.feature_store or FeatureStore.from_config(config.engine)

    @property
    def checkpoint_path(self) -> Path | None:
        """The checkpoint file of this network."""
        return None if self.folder is None else self.folder / f"{self.name.replace(' ', '_')}.safetensors"


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A network to train, and on what."""

    model: nn.Module
    lengths: Sequence[int] | IntArray
    """Tokens of each training text; texts of similar length share a batch."""
    loss: Loss
    validate: Callable[[], float]
    """Returns the dev score, which training maximizes."""
    config: TrainConfig
    context: RunContext
    device: torch.device
    """Where the loss wants the numbers of texts: where batches are gathered."""
    can_record: bool = True
    """Whether a step of one shape always does the same work, so that a CUDA graph can replay it."""
    can_round: bool = True
    """Whether encoders may compute with bf16 weights where training computes in bf16."""
    texts_of_epoch: Callable[[int], IntArray] | None = None
    """Returns the numbers of the texts that an epoch reads; all texts by default."""
    other_measures: Mapping[str, Callable[[], float]] = field(default_factory=dict)
    """Other scores of the same training, computed after the first: the best state by each is kept in a subfolder of its
    name, as if training had gone by it."""

    @property
    def uses_graphs(self) -> bool:
        """Whether steps are recorded as CUDA graphs."""
        is_possible = self.device.type == "cuda" and process_group().size == 1
        return is_possible and self.can_record and self.config.engine.recording

    def batches(self, epoch: int) -> list[BatchSpec]:
        """Put the texts of an epoch into batches."""
        lengths = np.asarray(self.lengths, dtype=np.int64)
        if self.texts_of_epoch is None:
            return bucketed_batches(lengths, self.config.batch_size, self.config.seed, epoch)
        numbers = self.texts_of_epoch(epoch)
        batches = bucketed_batches(lengths[numbers], self.config.batch_size, self.config.seed, epoch)
        return [batch._replace(numbers=numbers[batch.numbers]) for batch in batches]

    @property
    def n_batches(self) -> int:
        """The number of batches of an epoch; it differs a little from epoch to epoch."""
        return len(self.batches(0))

    @property
    def padding(self) -> float:
        """The share of all computation that is padding."""
        batches = self.batches(0)
        lengths = np.asarray(self.lengths)[np.concatenate([batch.numbers for batch in batches])]
        return padding_share(lengths, batches, rounded=self.uses_graphs)


def fit(job: TrainingJob) -> tuple[float, ...]:
    """Train a network, and leave it with its best weights.

    :return: The dev score of each epoch.
    """
    [scores] = fit_side_by_side([job])
    return scores


def fit_side_by_side(jobs: Sequence[TrainingJob]) -> list[tuple[float, ...]]:
    """Train several networks: on a GPU at the same time, in a thread each, as one alone does not keep it busy."""
    context, stop = jobs[0].context, threading.Event()
    name = context.name if len(jobs) == 1 else f"{context.name} x {len(jobs)}"
    n_steps = sum(job.n_batches * job.config.epochs for job in jobs)
    with _deterministic(), context.progress.task(name, n_steps) as advance:
        if not all(job.uses_graphs for job in jobs):
            return [_train(job, advance, stop) for job in jobs]
        # Five seeds on SST (H200): 57 s one after the other, 41.5 s by turns in one thread, 36.7 s in a thread each.
        with ThreadPoolExecutor(len(jobs)) as threads:
            try:
                return list(threads.map(lambda job: _train(job, advance, stop), jobs))
            except BaseException:  # also Ctrl-C, which threads do not see: without this they would train to the end
                stop.set()
                raise


def _train(job: TrainingJob, advance: Advance, stop: threading.Event) -> tuple[float, ...]:
    """Train a network to its end, or until it is to stop, and return the dev score of each epoch."""
    config, context, model = job.config, job.context, job.model
    step = make_step(job)
    best = restore(context.checkpoint_path, model, step.optimizer, job.other_measures)
    advance(job.n_batches * len(best.scores), "")
    path = context.checkpoint_path if process_group().is_main else None
    with checkpoint_writer(path, context.checkpoint_every, context.retention) as writer:
        while not best.is_finished(config.epochs, config.patience):
            model.train()
            with without_padding(model, uses_bf16(config, step.device)):
                diverged = train_epoch(job, step, len(best.scores), advance, stop)
            model.eval()
            if stop.is_set():
                return tuple(best.scores)
            if diverged is not None:
                context.warn(_divergence(context.name, diverged, best))
                break
            with inference_precision(model, config):
                best.add(job.validate(), model)
                for name, measure in job.other_measures.items():
                    best.others[name].add(measure(), model)
            writer.add(model, step.optimizer, best, done=best.is_finished(config.epochs, config.patience))
            advance(0, f"dev F1 {best.scores[-1]:.3f}, best {max(best.scores):.3f}")
    # A state of its own for each other measure, as if training had gone by it: see `other_measures`.
    if path is not None:
        for name, other in best.others.items():
            Checkpoint.of(model, other).write(path.parent / name / path.name)
    model.load_state_dict(best.weights, strict=False)
    model.eval()
    return tuple(best.scores)


def train_epoch(
    job: TrainingJob, step: TrainStep, epoch: int, advance: Advance, stop: threading.Event | None = None
) -> int | None:
    """Make a step for each batch, and return the first one whose gradients were not finite, if any."""
    batches = job.batches(epoch)
    # A seed for each step, so that a resumed run, and one beside others on a GPU, samples the same numbers.
    seeds = np.random.SeedSequence((job.config.seed, epoch)).generate_state(len(batches), np.uint64) >> 1
    factors = job.config.rate_factors(epoch, len(batches))
    # All numbers go to the device at once: a transfer for each step would wait for the step before it.
    numbers = torch.from_numpy(np.concatenate([batch.numbers for batch in batches])).to(job.device)
    chunks = torch.split(numbers, [len(batch.numbers) for batch in batches])
    step.start_epoch()
    for batch, chunk, factor, seed in zip(batches, chunks, factors, seeds.tolist(), strict=True):
        step(batch, chunk, factor, seed)  # loss, backward, clip and update; on a GPU one replayed graph
        advance(1, "")
        if stop is not None and stop.is_set():
            break
    return step.finish_epoch()


def make_step(job: TrainingJob) -> TrainStep:
    """Make the optimizer and the step of a job."""
    kind = GraphedTrainStep if job.uses_graphs else TrainStep
    bf16_weights = job.can_round and uses_bf16(job.config, next(job.model.parameters()).device)
    return kind(job.model, job.loss, job.config, process_group(), bf16_weights)


def _divergence(name: str, step: int, best: BestState) -> str:
    """Say that training diverged and what is left of it; raise if that is nothing."""
    epoch = len(best.scores) + 1
    problem = f"{name}: training diverged in step {step} of epoch {epoch}: its loss or gradients are not finite."
    if not best.scores:
        raise ValueError(f"{problem} Lower the learning_rate.")
    return (
        f"{problem} The best state before that is kept (epoch {best.epoch + 1}, dev score {max(best.scores):.3f}). "
        "Lower the learning_rate."
    )


@contextmanager
def _deterministic() -> Iterator[None]:
    """Compute repeatably inside the block, and leave the state of random generators as it was."""
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
    """Sample all that is random inside the block from a seed, and leave the state of random generators as it was."""
    with _deterministic():
        torch.manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
        yield


def uses_bf16(config: TrainConfig, device: torch.device) -> bool:
    """Whether training computes in bf16 on a device."""
    wanted = config.engine.precision
    return wanted == "bf16" or (wanted == "auto" and device.type == "cuda" and torch.cuda.is_bf16_supported())


@contextmanager
def inference_precision(network: nn.Module, config: TrainConfig) -> Iterator[None]:
    """Compute inside the block in the number format of training, without attention to padding."""
    device = next(network.parameters()).device
    bf16 = uses_bf16(config, device)
    with torch.autocast(device.type, torch.bfloat16, enabled=bf16), without_padding(network, bf16):
        yield

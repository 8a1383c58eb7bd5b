"""The training loop."""

import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
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
from fresh.nn.network import Network
from fresh.progress import SILENT, Advance, Progress
from fresh.text import plural
from fresh.training.checkpoint import BestState, Checkpoint, CheckpointWriter, Retention, restore
from fresh.training.config import TrainConfig
from fresh.training.cuda_graphs import GraphedTrainStep
from fresh.training.distributed import process_group
from fresh.training.feature_cache import CachedInputs, FeatureStore
from fresh.training.step import Loss, TrainStep


@dataclass(frozen=True, slots=True)
class RunContext:
    """What surrounds the training of a network: its name, progress, checkpoints and warnings."""

    name: str = "network"
    progress: Progress = SILENT
    folder: Path | None = None
    """Folder of checkpoints; None to write none."""
    feature_store: FeatureStore | None = None
    """Cache of the output of frozen layers for all networks of a run; None for a separate one for each network."""
    checkpoint_every: float = 0.0
    """Minimum number of seconds between two checkpoints."""
    retention: Retention = "all"
    """What to keep of a finished training."""
    notes: list[str] = field(default_factory=list)
    """Warnings for the report; all networks of a run share the list."""

    def warn(self, text: str) -> None:
        """Warn, and add the text to the notes."""
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        self.notes.append(text)

    def with_name(self, name: str) -> "RunContext":
        """Return the context of another network of the same run."""
        return replace(self, name=name)

    def store(self, config: TrainConfig) -> FeatureStore:
        """Return the feature store of the run, or a new one."""
        return self.feature_store or FeatureStore(config.engine)

    @property
    def checkpoint_path(self) -> Path | None:
        """The checkpoint file of this network."""
        return None if self.folder is None else self.folder / f"{self.name.replace(' ', '_')}.safetensors"


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A network, and all that its training needs."""

    model: nn.Module
    inputs: CachedInputs
    """The training texts; those of similar length share a batch."""
    loss: Loss
    validate: Callable[[], float]
    """Returns the dev score, which training maximizes."""
    config: TrainConfig
    context: RunContext
    can_round: bool = True
    """Whether encoders may compute with bf16 weights where training computes in bf16."""
    texts_of_epoch: Callable[[int], IntArray] | None = None
    """Returns the numbers of the texts that an epoch reads; all texts by default."""
    other_measures: Mapping[str, Callable[[], float]] = field(default_factory=dict)
    """Other dev scores, computed after the first. The best state by each is saved in a subfolder of its name, as if
    training had maximized it."""

    @property
    def uses_graphs(self) -> bool:
        """Whether steps are recorded as CUDA graphs."""
        # In windows, steps of one shape differ: each batch has windows of its own.
        in_windows = any(isinstance(part, Network) and part.windows.size for part in self.model.modules())
        is_possible = self.inputs.device.type == "cuda" and process_group().size == 1 and not in_windows
        return is_possible and self.config.engine.recording

    def batches(self, epoch: int) -> list[BatchSpec]:
        """Put the texts of an epoch into batches."""
        lengths = self.inputs.table.lengths
        numbers = np.arange(len(lengths)) if self.texts_of_epoch is None else self.texts_of_epoch(epoch)
        batches = bucketed_batches(lengths[numbers], self.config.batch_size, self.config.seed, epoch)
        return [batch._replace(numbers=numbers[batch.numbers]) for batch in batches]

    def n_steps(self, n_epochs: int) -> int:
        """Count the steps of the first epochs; epochs may differ, since they combine and may read other texts."""
        return sum(len(self.batches(epoch)) for epoch in range(n_epochs))

    def describe(self) -> str:
        """Say what is trained, how much of it is padding, and how often the layers run."""
        batches, lengths = self.batches(0), self.inputs.table.lengths
        lengths = lengths[np.concatenate([batch.numbers for batch in batches])]
        padding = padding_share(lengths, batches, rounded=self.uses_graphs)
        n_texts = plural(len(self.inputs.table), "text")
        return f"{self.context.name}: {n_texts}, {padding:.1%} padding; {self.inputs.about}."


def fit(*jobs: TrainingJob) -> None:
    """Train networks, and leave them with their best weights: on a GPU side by side, elsewhere one after the other."""
    context, stop = jobs[0].context, threading.Event()
    for job in jobs:
        job.context.progress.say(job.describe())
    name = context.name if len(jobs) == 1 else f"{context.name} x {len(jobs)}"
    n_steps = sum(job.n_steps(job.config.epochs) for job in jobs)
    with _deterministic(), context.progress.task(name, n_steps) as advance:
        if not all(job.uses_graphs for job in jobs):
            for job in jobs:
                _train(job, advance)
            return

        def advance_unless_stopped(n_steps: int, note: str) -> None:
            if stop.is_set():
                raise KeyboardInterrupt
            advance(n_steps, note)

        # One small network does not keep a GPU busy. Five seeds on SST (H200): 57 s one after the other, 41.5 s in
        # turns in one thread, 36.7 s in a thread each.
        with ThreadPoolExecutor(len(jobs)) as threads:
            try:
                list(threads.map(lambda job: _train(job, advance_unless_stopped), jobs))
            except BaseException:  # also Ctrl-C, which only the main thread gets: others would train to the end
                stop.set()
                raise


def _train(job: TrainingJob, advance: Advance) -> None:
    config, context, model, group = job.config, job.context, job.model, process_group()
    bf16 = uses_bf16(config, next(model.parameters()).device)
    kind = GraphedTrainStep if job.uses_graphs else TrainStep
    step = kind(model, job.loss, config, group, bf16 and job.can_round)
    best = restore(context.checkpoint_path, model, step.optimizer, job.other_measures)
    advance(job.n_steps(len(best.scores)), "")
    path = context.checkpoint_path if group.is_main else None
    writer = CheckpointWriter(path, context.checkpoint_every, context.retention)
    try:
        while not best.is_finished(config.epochs, config.patience):
            model.train()
            with without_padding(model, bf16):
                diverged = train_epoch(job, step, len(best.scores), advance)
            model.eval()
            if diverged is not None:
                context.warn(_divergence(context.name, diverged, best))
                break
            with inference_precision(model, config):
                best.add(job.validate(), model)
                for name, measure in job.other_measures.items():
                    best.others[name].add(measure(), model)
            writer.add(model, step.optimizer, best, done=best.is_finished(config.epochs, config.patience))
            advance(0, f"dev F1 {best.scores[-1]:.3f}, best {max(best.scores):.3f}")
    finally:  # after Ctrl-C too, the last whole epoch is kept
        writer.flush()
    if path is not None:
        for name, other in best.others.items():
            Checkpoint.of(model, other).write(path.parent / name / path.name)
    model.load_state_dict(best.weights, strict=False)
    model.eval()


def train_epoch(job: TrainingJob, step: TrainStep, epoch: int, advance: Advance) -> int | None:
    """Make a step for each batch, and return the first one whose gradients were not finite, if any."""
    batches = job.batches(epoch)
    # A seed for each step: a resumed run, and one beside others on a GPU, samples the same numbers.
    seeds = np.random.SeedSequence((job.config.seed, epoch)).generate_state(len(batches), np.uint64) >> 1
    factors = job.config.rate_factors(epoch, len(batches))
    # All numbers go to the device at once: a transfer for each step would wait for the step before it.
    numbers = torch.from_numpy(np.concatenate([batch.numbers for batch in batches])).to(job.inputs.device)
    chunks = torch.split(numbers, [len(batch.numbers) for batch in batches])
    step.start_epoch()
    for batch, chunk, factor, seed in zip(batches, chunks, factors, seeds.tolist(), strict=True):
        step(batch, chunk, factor, seed)  # loss, backward, clip and update; on a GPU one replayed graph
        advance(1, "")
    return step.finish_epoch()


def _divergence(name: str, step: int, best: BestState) -> str:
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
    """Compute deterministically inside the block, and restore the state of random generators after it."""
    strict, warn = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    memory: Any = torch.utils.deterministic
    filled = memory.fill_uninitialized_memory
    devices = list(range(torch.cuda.device_count()))
    with torch.random.fork_rng(devices=devices), without_cudnn_attention(), warnings.catch_warnings():
        # An operation without a deterministic form is used as it is.
        warnings.filterwarnings("ignore", message=".*deterministic")
        torch.use_deterministic_algorithms(True, warn_only=True)
        # On by default in deterministic mode: every `torch.empty` would be filled with NaN first.
        memory.fill_uninitialized_memory = False
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(strict, warn_only=warn)
            memory.fill_uninitialized_memory = filled


@contextmanager
def fixed_seed(seed: int) -> Iterator[None]:
    """Sample everything inside the block from a seed, and restore the state of random generators after it."""
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

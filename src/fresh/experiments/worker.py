"""One task of a grid, done: what every worker does, on whatever machine."""

import contextlib
import importlib.metadata
import platform
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import torch

from fresh._io import disk_hint
from fresh.errors import DataError
from fresh.experiments.artifacts import (
    drop_shared,
    is_trained,
    keep_scores,
    kept_for,
    read_scores,
    support_of,
    train_gate,
)
from fresh.experiments.grid import RunSpec, lasting, shares_gate, shares_scores
from fresh.experiments.heartbeat import heartbeat
from fresh.experiments.measure import measure, measure_complement, train
from fresh.experiments.plan import Task, gate_key, scores_key, support_key, tasks_of
from fresh.experiments.sources import Sources
from fresh.experiments.store import TIMES, BusyError, RunStore
from fresh.methods.config import RATIO_DISCRETIZERS, FreshConfig, FullTextConfig, GateConfig
from fresh.methods.rationales import SUPPORT
from fresh.nn.device import is_out_of_memory
from fresh.persistence import remove_folder
from fresh.pipeline import RunSettings
from fresh.progress import SILENT, Progress
from fresh.training.feature_cache import FeatureStore
from fresh.training.loop import RunContext

KEPT_EVERY = 60.0
"""Seconds between two states of a network that are kept: many networks are trained at once, and share a disk."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a task ended."""

    status: Literal["done", "busy", "crowded", "failed"]
    """busy: somebody else is at it; crowded: it found no room on the card, which others share."""
    error: str = ""
    seconds: float = 0.0
    where: str = ""
    """Where it broke, if that is not written down yet."""


@dataclass(slots=True)
class Worker:
    """Does one task after the other, and keeps at hand what the next may need too."""

    runs: RunStore
    data_dir: Path | None
    sources: Sources = field(init=False)
    feature_store: tuple[str, FeatureStore] | None = None
    """What frozen layers put out for whole documents, and the digest of these."""
    progress: Progress = SILENT
    """Whom to tell how far the task has come that it is at."""

    def __post_init__(self) -> None:
        self.sources = Sources(self.data_dir)

    def perform(self, task: Task) -> Outcome:
        """Do a task unless it is done, or somebody else is at it."""
        started = time.perf_counter()
        try:
            with self.told(task), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what matters stands in the notes of the report
                worked = self.do(task)
                if worked and task.kind != "run":
                    self.runs.took(task.key, time.perf_counter() - started)
        except BusyError:
            return Outcome("busy")
        except Exception as error:  # noqa: BLE001 - whatever it is, the other runs go on
            told = f"{type(error).__name__}: {error}{disk_hint(error)}"
            seconds = time.perf_counter() - started
            if is_out_of_memory(error):
                self.feature_store = None
                return Outcome("crowded", told, seconds, traceback.format_exc())
            if task.kind == "run":
                self.write_failure(task.key, told)
            return Outcome("failed", told, seconds)
        finally:
            torch.cuda.empty_cache()  # others share the card
        return Outcome("done", seconds=time.perf_counter() - started if worked else 0.0)

    @contextlib.contextmanager
    def told(self, task: Task) -> Iterator[None]:
        """Be at a task alone, and tell how far it has come."""
        with self.runs.claimed(task.key), heartbeat(self.runs.pulse(task.key)) as pulse:
            self.progress = pulse
            try:
                yield
            finally:
                self.progress = SILENT

    def write_failure(self, key: str, told: str) -> None:
        """Write down why a run failed, if the disk takes it."""
        with contextlib.suppress(OSError):  # a full disk is perhaps why it failed; who asked is told all the same
            self.runs.fail(key, told, traceback.format_exc())

    def do(self, task: Task) -> bool:
        """Do a task that nobody else is at, if it is not done yet; say whether there was anything to do."""
        run = task.cell.resolve(self.data_dir)
        digest = self.sources.about(task.cell, run).digest
        if task.key not in {planned.key for planned in tasks_of(task.cell, run, digest)}:
            raise DataError(
                f"The data of {task.cell.corpus} or its encoder has changed since the experiment began. Begin it again."
            )
        if task.kind == "support":
            return self.do_support(task.cell, run, digest)
        if task.kind == "gate":
            return self.do_gate(task, run, digest)
        if task.kind == "scores":
            return self.do_scores(task, run, digest)
        if self.runs.report(task.key) is not None:
            return False
        self.runs.finish(task.key, self.report(task.cell, run, task.key, digest))
        remove_folder(self.runs.of(task.key) / "partial")
        if shares_gate(run) and self.all_cut(task.cell, digest):
            drop_shared(self.runs, gate_key(task.cell, run, digest))  # it is large, and nobody needs it any more
        return True

    def all_cut(self, cell: RunSpec, digest: str) -> bool:
        """Say whether a gate has been cut in all ways, so that every run is done that could need it."""
        cells = [replace(cell, settings={**cell.settings, "discretizer": cut}) for cut in RATIO_DISCRETIZERS]
        return all(self.runs.report(own.key(own.resolve(self.data_dir), digest)) is not None for own in cells)

    def do_support(self, cell: RunSpec, run: RunSettings, digest: str) -> bool:
        """Train a support model unless it is trained."""
        context = self.context(self.runs.shared(support_key(cell, run, digest)), run, digest)
        if is_trained(run.method.train, context.with_name(SUPPORT)):
            return False
        support_of(self.sources.usable(cell, run), run.method, context)
        return True

    def do_gate(self, task: Task, run: RunSettings, digest: str) -> bool:
        """Train a gate unless it is trained, or others have done all that it is for."""
        assert isinstance(run.method, GateConfig)
        if self.all_cut(task.cell, digest):
            return False
        context = self.context(self.runs.shared(task.key), run, digest).with_name(task.cell.method)
        if all(is_trained(run.method.train, kept_for(cut, context)) for cut in RATIO_DISCRETIZERS):
            return False
        train_gate(self.sources.usable(task.cell, run), run.method, context)
        return True

    def do_scores(self, task: Task, run: RunSettings, digest: str) -> bool:
        """Score all documents unless their scores are there; the support model goes on if it is not trained yet."""
        assert isinstance(run.method, FreshConfig)
        splits, place = self.sources.usable(task.cell, run), self.runs.shared(task.key)
        if read_scores(place, splits) is not None:
            return False
        support = support_key(task.cell, run, digest)
        context = self.context(self.runs.shared(support), run, digest)
        trained = is_trained(run.method.train, context.with_name(SUPPORT))
        alone = contextlib.nullcontext() if trained else self.runs.claimed(support)
        with alone:
            asked = support_of(splits, run.method, context)
        keep_scores(place, splits, run.method, asked, context)
        return True

    def context(self, folder: Path, run: RunSettings, digest: str, whole: bool = True) -> RunContext:
        """Keep the states of networks in a folder.

        :param whole: Whole documents are read: what frozen layers make of them is kept for as long as the corpus stays.
        """
        if whole and (self.feature_store is None or self.feature_store[0] != digest):
            self.feature_store = digest, FeatureStore.from_config(run.method.train.engine)
        folder.mkdir(parents=True, exist_ok=True)
        feature_store = self.feature_store[1] if whole and self.feature_store is not None else None
        return RunContext(
            progress=self.progress,
            folder=folder,
            feature_store=feature_store,
            checkpoint_every=KEPT_EVERY,
            retention="best",
        )

    def report(self, cell: RunSpec, run: RunSettings, key: str, digest: str) -> dict[str, Any]:
        """Train, test, and write down what was found."""
        started = time.perf_counter()
        splits, known = self.sources.usable(cell, run), None
        if shares_scores(run):
            known = read_scores(self.runs.shared(scores_key(cell, run, digest)), splits)
            if known is None:
                raise ValueError("The scores that it needs are missing or damaged. Try again what failed: retry=True.")
        context = self.watch_run(cell, run, key, digest)
        if cell.reads == "complement":
            figures, times = measure_complement(splits, run, known, context)
        else:
            figures, times = measure(splits, train(splits, cell, run, known, context), run.method.train)
        return {
            "key": key,
            "corpus": cell.corpus,
            "row": cell.row,
            "seed": cell.seed,
            "reads": cell.reads,
            "settings": cell.told(run),
            "all settings": {"method": cell.method, **lasting(run)},
            "documents": [len(splits.train), len(splits.dev), len(splits.test)],
            "data": digest,
            "figures": figures,
            "notes": [*(() if known is None else known.notes), *context.notes],
            "machine": machine(),
            TIMES: {
                **times,
                "seconds": time.perf_counter() - started,
                "shared seconds": self.shared_seconds(cell, run, digest),
                "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            },
        }

    def watch_run(self, cell: RunSpec, run: RunSettings, key: str, digest: str) -> RunContext:
        """Keep the states of a run's networks in its folder, or take the one that others share, if it is trained."""
        own = self.context(self.runs.of(key) / "partial", run, digest, _reads_whole(cell, run))
        own = replace(own, retention="nothing")  # the report follows at once
        if isinstance(run.method, FullTextConfig):
            shared = replace(own, name=SUPPORT, folder=self.runs.shared(support_key(cell, run, digest)))
        elif isinstance(run.method, GateConfig):
            everyones = replace(own, name=cell.method, folder=self.runs.shared(gate_key(cell, run, digest)))
            shared = kept_for(run.method.discretizer, everyones)
        else:
            return own
        return shared if is_trained(run.method.train, shared) else own

    def shared_seconds(self, cell: RunSpec, run: RunSettings, digest: str) -> float:
        """Say how long it took to make what the run shares with others."""
        return sum(self.runs.seconds(task.key) for task in tasks_of(cell, run, digest) if task.kind != "run")


def _reads_whole(cell: RunSpec, run: RunSettings) -> bool:
    """Say whether a run reads more than rationales, which are its own."""
    tags = isinstance(run.method, FreshConfig) and run.method.tagging.has_tagger
    return cell.method not in ("random", "human") and (tags or not shares_scores(run))


def machine() -> dict[str, str]:
    """Say what this runs on."""
    card = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    versions = {name: importlib.metadata.version(name) for name in ("torch", "transformers", "numpy")}
    return {"card": card, "python": platform.python_version(), "processor": platform.machine(), **versions}

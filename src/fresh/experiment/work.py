"""One task of a grid, done: what every worker does, on whatever machine."""

import contextlib
import importlib.metadata
import platform
import time
import traceback
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import torch

from fresh.experiment.folder import BusyError, Runs
from fresh.experiment.grid import Cell, lasting, shares_scores
from fresh.experiment.measure import measure, measure_complement, train
from fresh.experiment.plan import Task, scores_key, support_key
from fresh.experiment.shared import is_kept, keep_scores, read_scores, support_of
from fresh.experiment.sources import source_of, usable
from fresh.methods.settings import FreshConfig
from fresh.model_folder import drop_folder
from fresh.recipe import KEPT_EVERY, Run
from fresh.store import Shelf
from fresh.training import Watch


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a task ended."""

    status: Literal["done", "busy", "failed"]
    error: str = ""
    seconds: float = 0.0


@dataclass(slots=True)
class Worker:
    """Does one task after the other, and keeps at hand what the next may need too."""

    runs: Runs
    data_dir: Path | None
    shelf: tuple[str, Shelf] | None = None

    def perform(self, task: Task) -> Outcome:
        """Do a task unless it is done, or somebody else is at it."""
        started = time.perf_counter()
        try:
            with self.runs.claimed(task.key), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what matters stands in the notes of the report
                self.do(task)
        except BusyError:
            return Outcome("busy")
        except Exception as error:  # noqa: BLE001 - whatever it is, the other runs go on
            told = f"{type(error).__name__}: {error}"
            if task.kind == "run":
                self.write_failure(task.key, told)
            return Outcome("failed", told, time.perf_counter() - started)
        return Outcome("done", seconds=time.perf_counter() - started)

    def write_failure(self, key: str, told: str) -> None:
        """Write down why a run failed, if the disk takes it."""
        with contextlib.suppress(OSError):  # a full disk is perhaps why it failed; who asked is told all the same
            self.runs.fail(key, told, traceback.format_exc())

    def do(self, task: Task) -> None:
        """Do a task that nobody else is at, if it is not done yet."""
        run = task.cell.resolve(self.data_dir)
        if task.kind == "run":
            if self.runs.report(task.key) is None:
                self.runs.finish(task.key, self.report(task.cell, run, task.key))
                drop_folder(self.runs.of(task.key) / "partial")
            return
        splits = usable(task.cell, run, self.data_dir)
        assert isinstance(run.method, FreshConfig)
        place = self.runs.shared(support_key(task.cell, run, self.data_dir))
        watch = self.watch(place, task.cell, run)
        if task.kind == "support":
            support_of(splits, run.method, watch)
        elif not is_kept(self.runs.shared(task.key)):
            keep_scores(self.runs.shared(task.key), splits, run.method, support_of(splits, run.method, watch))

    def watch(self, folder: Path, cell: Cell, run: Run) -> Watch:
        """Keep the states of networks in a folder, and what frozen layers put out for as long as the corpus stays."""
        digest = source_of(cell, self.data_dir).digest
        if self.shelf is None or self.shelf[0] != digest:
            self.shelf = digest, run.method.train.engine.shelf()
        folder.mkdir(parents=True, exist_ok=True)
        return Watch(folder=folder, shelf=self.shelf[1], every=KEPT_EVERY)

    def report(self, cell: Cell, run: Run, key: str) -> dict[str, Any]:
        """Train, test, and write down what was found."""
        started = time.perf_counter()
        splits = usable(cell, run, self.data_dir)
        watch = self.watch(self.runs.of(key) / "partial", cell, run)
        known = None
        if shares_scores(run):
            known = read_scores(self.runs.shared(scores_key(cell, run, self.data_dir)), splits)
        if cell.reads == "complement":
            figures = measure_complement(splits, run, known, watch)
        else:
            figures = measure(splits, train(splits, cell, run, known, watch))
        return {
            "key": key,
            "corpus": cell.corpus,
            "row": cell.row,
            "seed": cell.seed,
            "reads": cell.reads,
            "settings": dict(cell.settings),
            "all settings": {"method": cell.method, **lasting(run)},
            "documents": [len(splits.train), len(splits.dev), len(splits.test)],
            "data": source_of(cell, self.data_dir).digest,
            "figures": figures,
            "notes": watch.notes,
            "seconds": time.perf_counter() - started,
            "machine": machine(),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        }


def machine() -> dict[str, str]:
    """Say what this runs on."""
    card = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    versions = {name: importlib.metadata.version(name) for name in ("torch", "transformers", "numpy")}
    return {"card": card, "python": platform.python_version(), "processor": platform.machine(), **versions}

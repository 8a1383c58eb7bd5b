"""Runs for which a card has no room, at first or ever."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from fresh.experiments.grid import RunSpec
from fresh.experiments.plan import Task
from fresh.pipeline import RunSettings


@dataclass(frozen=True, slots=True)
class Crowded(RunSpec):
    """A run that is told so many times that the card is full."""

    n_times: int = 1
    tries: Path = Path("tries")
    """A file that is one character longer with each time it was tried."""

    def resolve(self, data_dir: Path | None) -> RunSettings:
        """Fail, or do as others do."""
        with self.tries.open("a+", encoding="utf-8") as file:
            file.write("x")
        if len(self.tries.read_text(encoding="utf-8")) <= self.n_times:
            raise torch.OutOfMemoryError("full")
        return RunSpec.resolve(self, data_dir)


def crowd(task: Task, n_times: int, tries: Path) -> Task:
    """Have a card full for a task."""
    cell = task.cell
    same = (cell.row, cell.corpus, cell.settings, cell.reads, cell.documents, cell.data)
    return replace(task, cell=Crowded(*same, n_times=n_times, tries=tries))

"""What has to be done for a grid, and in which order: support models, scores, runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fresh.config import to_mapping
from fresh.data import DataError
from fresh.experiment.folder import Runs
from fresh.experiment.grid import Cell, Grid, checked, impossible, lasting, shares_scores, short_hash
from fresh.experiment.sources import source_of
from fresh.methods.marking import check_rationales
from fresh.methods.settings import FreshConfig
from fresh.recipe import Run
from fresh.scorers import settings_of_scorer

Kind = Literal["support", "scores", "run"]


@dataclass(frozen=True, slots=True)
class Task:
    """A piece of work that is done once, whoever needs it."""

    kind: Kind
    key: str
    cell: Cell
    """The run that it is for, or one of them."""
    needs: tuple[str, ...] = ()
    """Keys of what must be done before."""

    def __str__(self) -> str:
        if self.kind == "run":
            return str(self.cell)
        scorer = f" of {self.cell.settings.get('scorer', 'the scorer')}" if self.kind == "scores" else ""
        return f"{self.cell.corpus}, {KIND_NAMES[self.kind]}{scorer}, seed {self.cell.seed}"


KIND_NAMES = {"support": "support model", "scores": "scores", "run": "run"}


def plan(grid: Grid, data_dir: Path | None, runs: Runs) -> list[Task]:
    """List all tasks of a grid, each once, what is needed before what needs it; refuse a grid with impossible runs.

    The plan is also written to the folder of the runs, for tables.
    """
    pairs = checked(grid, data_dir)
    check_humans(pairs, data_dir)
    tasks: dict[str, Task] = {}
    planned: list[dict[str, Any]] = []
    for cell, run in pairs:
        key = cell.key(run, source_of(cell, data_dir).digest)
        for task in tasks_of(cell, run, key, data_dir):
            tasks.setdefault(task.key, task)
        planned.append({"key": key, "row": cell.row, "corpus": cell.corpus, "seed": cell.seed, **told(cell, run)})
    runs.write_plan(grid.name, grid.about, planned, grid.figure)
    return list(tasks.values())


def told(cell: Cell, run: Run) -> dict[str, Any]:
    """Write down the settings that the grid gives, with those that a table needs in any case."""
    ratio = getattr(run.method, "ratio", None)
    return {"settings": {"method": cell.method, "ratio": ratio, "reads": cell.reads, **cell.settings}}


def tasks_of(cell: Cell, run: Run, key: str, data_dir: Path | None) -> Iterable[Task]:
    """List what one run needs, and the run."""
    if not shares_scores(run):
        yield Task("run", key, cell)
        return
    support, scores = support_key(cell, run, data_dir), scores_key(cell, run, data_dir)
    yield Task("support", support, cell)
    yield Task("scores", scores, cell, (support,))
    yield Task("run", key, cell, (scores,))


def support_key(cell: Cell, run: Run, data_dir: Path | None) -> str:
    """Name a support model by all that decides on it."""
    classifier = {name: value for name, value in lasting(run).items() if name.startswith(("network.", "train."))}
    return "support-" + short_hash([source_of(cell, data_dir).digest, cell.documents, classifier])


def scores_key(cell: Cell, run: Run, data_dir: Path | None) -> str:
    """Name the scores of all documents by all that decides on them."""
    assert isinstance(run.method, FreshConfig)
    settings = to_mapping(run.method.scoring)
    own = {name: settings[name] for name in settings_of_scorer(run.method.scorer) if name in settings}
    return "scores-" + short_hash([support_key(cell, run, data_dir), run.method.scorer, own])


def check_humans(pairs: Sequence[tuple[Cell, Run]], data_dir: Path | None) -> None:
    """Refuse a grid that asks for people's rationales where nobody made any."""
    wrong: dict[str, list[str]] = {}
    for cell, run in pairs:
        try:
            splits = source_of(cell, data_dir).splits
            if isinstance(run.method, FreshConfig):
                check_rationales(splits, run.method.tagging.human)
            elif getattr(run.method, "human", 0) or cell.method == "human":
                check_rationales(splits, 1.0)
        except DataError as error:
            wrong.setdefault(str(error), []).append(str(cell))
    if wrong:
        raise impossible(wrong)

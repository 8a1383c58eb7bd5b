"""Grids that run in seconds, on toy data in files."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import small
from fresh.data.splits import Splits
from fresh.document import Example
from fresh.experiments.grid import Grid, check_grid
from fresh.experiments.grid_file import read_grid
from fresh.experiments.plan import Task, plan_all
from fresh.experiments.run import GridResult, run_grids
from fresh.experiments.scheduler import TaskEnd
from fresh.experiments.store import REPORT, RunStore
from fresh.experiments.worker import Worker

Writer = Callable[..., Path]
"""Writes a grid file from rows and other parts."""


def write_toy(folder: Path, toy: Splits, n_train: int = 48, n_rest: int = 16) -> Path:
    """Write a toy corpus to a folder: a file for each split, with human rationales as character spans."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, examples in (("train", toy.train[:n_train]), ("dev", toy.dev[:n_rest]), ("test", toy.test[:n_rest])):
        small.write_jsonl(folder / f"{name}.jsonl", [row(example) for example in examples])
    return folder


def row(example: Example) -> dict[str, Any]:
    document, human = example.document, example.human
    spans = [] if human is None else [(document.spans[a][0], document.spans[b - 1][1]) for a, b in human.spans]
    marked = {"rationale": spans} if spans else {}
    return {"id": document.id, "text": document.text, "label": example.label, **marked}


def write_grid(path: Path, *rows: Mapping[str, Any], **parts: Any) -> Path:
    lines = [f"{name} = {inline(value)}" for name, value in parts.items()]
    for own in rows:
        lines += ["[[rows]]", *(f"{name} = {inline(value)}" for name, value in own.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {inline(item)}" for name, item in value.items()) + " }"
    return json.dumps(value)


def toy_grid(folder: Path, toy: Splits, encoder: Path, *rows: Mapping[str, Any], **parts: Any) -> Path:
    """Write a grid over a toy corpus beside it, with settings that train in less than a second."""
    write_toy(folder / "toy", toy)
    settings = {**small.settings(encoder), **parts.pop("settings", {})}
    corpora = parts.pop("corpora", {"toy": {"data": "toy", "ratio": 0.2}})
    return write_grid(folder / "grid.toml", *rows, settings=settings, corpora=corpora, **parts)


@contextmanager
def full_disk() -> Iterator[None]:
    """Fill the disk up within each text file that the block writes."""
    write = Path.write_text

    def full(path: Path, text: str, *args: Any, **more: Any) -> int:
        write(path, text[:10], *args, **more)
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        yield


def metrics(store: RunStore, keys: Sequence[str]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for key in keys:
        report = store.read_report(key)
        assert report is not None, f"{key} is not done"
        found[key] = report["figures"]
    return found


def read_reports(path: Path, out: str | Path = "runs") -> list[dict[str, Any]]:
    """Read the reports of a grid in a folder beside its file; empty for runs that are not done."""
    return [RunStore(path.parent / out).read_report(key) or {} for key in run_keys(path)]


def reports(folder: Path) -> dict[str, int]:
    """Find all finished runs, and when they were written."""
    return {place.parent.name: place.stat().st_mtime_ns for place in (folder / "runs").glob(f"*/{REPORT}")}


def start(grid: Path, out: Path, *options: str, **variables: str) -> subprocess.Popen[str]:
    """Start `fresh run` in a new process group."""
    command = [sys.executable, "-m", "fresh", "run", str(grid), "--out", str(out), *options]
    told = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env={**os.environ, **variables}, start_new_session=True, **told)  # type: ignore[call-overload, no-any-return]


class Inline:
    """An executor that runs its tasks in this process, one after the other."""

    n_workers = 1

    def __init__(self, out: Path, data_dir: Path | None = None) -> None:
        self.worker = Worker(RunStore(out), data_dir)
        self.tasks: list[Task] = []
        self.n_expected = 0

    def prepare(self, n_tasks: int) -> None:
        self.n_expected = n_tasks

    def start(self, task: Task) -> None:
        self.tasks.append(task)

    def wait(self) -> TaskEnd:
        task = self.tasks.pop()
        return TaskEnd(task, self.worker.perform(task))

    def release_idle(self) -> None:
        pass

    def close(self) -> None:
        self.tasks.clear()


def run(path: Path, out: str = "runs", **how: Any) -> GridResult:
    """Run a grid in this process, in a folder beside its file."""
    return run_grid(path, path.parent / out, executor=Inline(path.parent / out), **how)


def run_grid(path: Path, out: Path, **how: Any) -> GridResult:
    [result] = run_grids([path], out, **how)
    return result


def tasks_of(path: Path) -> list[Task]:
    return plan(read_grid(path), None, RunStore(path.parent / "planned"))


def plan(grid: Grid, data_dir: Path | None, store: RunStore) -> list[Task]:
    return plan_all([check_grid(grid, data_dir)], data_dir, store)[grid.name]


def keys(path: Path) -> dict[str, str]:
    """Find the keys of all tasks of a grid, by their names."""
    return {str(task): task.key for task in tasks_of(path)}


def run_keys(path: Path) -> list[str]:
    return [task.key for task in tasks_of(path) if task.kind == "run"]

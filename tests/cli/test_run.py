import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fresh.experiments.local
import fresh.experiments.run
from command import Command
from experiments import Inline, reports, toy_grid
from fresh.data.splits import Splits
from fresh.training.checkpoint import is_training_complete

Grid = Callable[..., Path]
FEW = ("--out", "runs", "--documents", "12", "--set", "epochs=1")


@pytest.fixture
def grid(toy: Splits, encoders: dict[str, Path], here: Path) -> Grid:
    """Writes a grid over a toy corpus."""
    return lambda *rows, **parts: toy_grid(here, toy, encoders["bert"], *rows, **parts)


@pytest.fixture(autouse=True)
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run tasks in this process, which saves the time to start others."""
    monkeypatch.setattr(
        fresh.experiments.local, "LocalExecutor", lambda out, data_dir, _n_workers: Inline(out, data_dir)
    )


def done(n_done: int, n_runs: int, name: str = "main") -> str:
    return f"{n_done} of {n_runs} {'run' if n_runs == 1 else 'runs'} done. Table: fresh table runs {name}\n"


def test_runs_that_leave_the_table_are_counted(grid: Grid, command: Command) -> None:
    run = ("run", grid({"method": "full_text", "seed": [0, 1, 2]}, name="main"), *FEW)
    assert command(*run).out == done(3, 3)
    assert command(*run, "--set", "seed=1").out == (
        f"{done(1, 1)}Runs of an earlier plan of main that are no longer in its table: 2. "
        "The command that planned them brings them back.\n"
    )
    assert command(*run, "--set", "seed=1,2") == (done(2, 2), "")
    assert command(*run).out == done(3, 3)


def test_all_runs_are_done_once(grid: Grid, command: Command) -> None:
    path = grid({"name": "ours", "scorer": "attention"}, {"method": "full_text"}, name="main")
    shown = command("run", path, *FEW)
    assert shown.out == done(2, 2)
    assert [re.sub(r"\.\d{3}|1\.000", "F1", line) for line in shown.err.splitlines()] == [
        "main: 2 of 2 runs to do (4 of 4 tasks), 1 at a time.",
        "[1/4] toy, support model, seed 0: done",
        "[2/4] toy, scores of attention, seed 0: done",
        "[3/4] toy, ours, seed 0: macro-F1 F1",
        "[4/4] toy, full_text, seed 0: macro-F1 F1",
    ]
    before = reports(Path("runs"))
    assert command("run", path, *FEW) == (done(2, 2), "")
    assert reports(Path("runs")) == before
    command("run", path, "--out", "runs", "--set", "epochs=1")
    assert len(reports(Path("runs"))) == 4


def test_failures_are_listed_and_can_be_retried(grid: Grid, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(*_given: Any) -> None:
        raise RuntimeError("out of luck")

    run = ("run", grid({"method": ["human", "random"]}, settings={"epochs": 1}), "--out", "runs")
    with monkeypatch.context() as patch:
        patch.setattr(fresh.experiments.worker, "train", train)
        shown = command(*run, status=1)
    start = "grid: 2 of 2 runs to do (2 of 2 tasks), 1 at a time.\n"
    failures = (
        "failed: toy, human, seed 0: RuntimeError: out of luck\n"
        "failed: toy, random, seed 0: RuntimeError: out of luck\n"
        "To retry failed runs, repeat the command with --retry.\n"
    )
    assert shown == (
        done(0, 2, "grid"),
        f"{start}[1/2] toy, human, seed 0: failed: RuntimeError: out of luck\n"
        f"[2/2] toy, random, seed 0: failed: RuntimeError: out of luck\n{failures}",
    )
    assert command(*run, status=1) == (done(0, 2, "grid"), failures)
    shown = command(*run, "--retry")
    assert shown.out == done(2, 2, "grid")
    assert (shown.err.startswith(start), shown.err.count("\n")) == (True, 3)


def test_problems_that_need_a_fix_come_before_the_retry(
    grid: Grid, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = Path("kept.safetensors")
    damaged.write_text("no state", encoding="utf-8")
    monkeypatch.setattr(fresh.experiments.worker, "train", lambda *_given: is_training_complete(damaged, 1, 1))
    *_, failure, last = command("run", grid({"method": "random"}), "--out", "runs", status=1).err.splitlines()
    assert failure.endswith(" Delete the file to start over.")
    assert last == "Fix the problems above first. To retry failed runs, repeat the command with --retry."


def test_a_repeated_setting_is_refused_before_torch_is_loaded(tmp_path: Path) -> None:
    given = ["run", "grid.toml", "--out", str(tmp_path), "--set", "seed=0", "--set", "seed=1"]
    code = f"import sys; from fresh.cli.main import main; sys.exit(10 * main({given!r}) + ('torch' in sys.modules))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    message = "fresh run: seed is given twice. List all of its values together: seed=one,two.\n"
    assert (ended.returncode, ended.stderr) == (10, message)


def test_a_full_disk_is_named(grid: Grid, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_text(*_given: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fresh.experiments.store, "write_text", write_text)
    shown = command("run", grid({"method": "full_text"}), "--out", "runs", status=1)
    message = "fresh run: [Errno 28] No space left on device. Free some space on that disk, or choose another place.\n"
    assert shown == ("", message)


def test_an_interrupt_is_not_a_failure(grid: Grid, command: Command, interrupt: Callable[[object, str], None]) -> None:
    interrupt(Inline, "start")
    shown = command("run", grid({"method": "full_text"}), "--out", "runs", status=130)
    assert shown.out == ""
    assert shown.err.endswith("\n\nInterrupted. To do the remaining runs, repeat the same command.\n")
    assert reports(Path("runs")) == {}

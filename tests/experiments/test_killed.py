import json
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest

from experiments import Inline, figures, plan, reports, run_grid, start, toy_grid
from fresh.data.splits import Splits
from fresh.experiments.grid_file import read_grid
from fresh.experiments.store import RunStore

ROWS = (
    {"name": "ours", "scorer": ["attention", "gradient"], "discretizer": ["top_k", "contiguous"]},
    {"name": "all", "method": "full_text"},
    {"name": "gate", "method": "lei", "discretizer": ["top_k", "contiguous"]},
)
ENDLESS = {"method": "lei", "epochs": 99999, "patience": 99999}
COUNTING = """
import os, sys
def hook(event, given):
    if event == "open" and str(given[0]).endswith(("report.json.partial", "scores.npz.partial")):
        with os.fdopen(os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "w") as file:
            file.write(str(given[0]) + "\\n")
sys.addaudithook(hook)
"""


@pytest.fixture(scope="module")
def undisturbed(toy: Splits, encoders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grid that was done in one go."""
    folder = tmp_path_factory.mktemp("undisturbed")
    path = toy_grid(folder, toy, encoders["bert"], *ROWS, grid={"seed": [0, 1]})
    assert run_grid(path, folder / "runs", executor=Inline(folder / "runs")).failures == {}
    return path


@pytest.fixture
def endless(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> Path:
    """A grid that never ends."""
    return toy_grid(tmp_path, toy, encoders["bert"], ENDLESS)


def expected(path: Path) -> dict[str, dict[str, float]]:
    runs = RunStore(path.parent / "runs")
    return figures(runs, [item["key"] for item in runs.read_plan("grid")["runs"]])


def until(true: Callable[[], object], seconds: float = 120) -> None:
    """Wait until something is true, but not for ever."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


def alive(group: int) -> list[int]:
    """List the processes of a group that are not dead."""
    found: list[int] = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def check_kills(path: Path, out: Path, n_rounds: int, seed: int) -> None:
    """Kill all processes of a grid at random moments, again and again, and see what they leave; then let it end."""
    whole, chance, seen = expected(path), np.random.default_rng(seed), dict[str, int]()
    for _ in range(n_rounds):
        if len(seen) == len(whole):
            shutil.rmtree(out)
            seen = {}
        plans = out / "plans/grid.json"
        before = plans.stat().st_mtime_ns if plans.exists() else None
        process = start(path, out, "--workers", "2")
        try:
            until(lambda: plans.exists() and plans.stat().st_mtime_ns != before)  # noqa: B023 - called at once
            time.sleep(chance.uniform(0, 5))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        now = reports(out)
        assert {key: now.get(key) for key in seen} == seen
        assert figures(RunStore(out), list(now)) == {key: whole[key] for key in now}
        seen = now
    assert run_grid(path, out, executor=Inline(out)).failures == {}
    assert figures(RunStore(out), list(whole)) == whole
    assert {key: reports(out)[key] for key in seen} == seen


def test_killed_at_random_a_run_never_looks_done_that_is_not(undisturbed: Path, tmp_path: Path) -> None:
    check_kills(undisturbed, tmp_path / "runs", 5, seed=0)


@pytest.mark.slow
def test_killed_at_random_fifty_times(undisturbed: Path, tmp_path: Path) -> None:
    check_kills(undisturbed, tmp_path / "runs", 50, seed=1)


def test_two_processes_do_not_repeat_each_others_work(undisturbed: Path, tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "runs"
    (tmp_path / "sitecustomize.py").write_text(COUNTING.format(log=str(log)), encoding="utf-8")
    seen_from = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    both = [start(undisturbed, out, "--workers", "1", PYTHONPATH=seen_from) for _ in range(2)]
    told = [(process.communicate()[0], process.returncode) for process in both]
    assert told == [(f"14 of 14 runs are done. Table: fresh table {out} grid\n", 0)] * 2
    written = Counter(log.read_text(encoding="utf-8").splitlines())
    assert len(written) == 14 + 4
    assert set(written.values()) == {1}
    whole = expected(undisturbed)
    assert figures(RunStore(out), list(whole)) == whole


def test_an_interrupt_leaves_nobody_behind_and_can_be_gone_on_from(endless: Path, tmp_path: Path) -> None:
    process = start(endless, tmp_path / "runs", "--workers", "1")
    gate, _ = plan(read_grid(endless), None, RunStore(tmp_path / "planned"))
    state = RunStore(tmp_path / "runs").shared_folder(gate.key) / "lei.safetensors"
    until(state.is_file)
    os.killpg(process.pid, signal.SIGINT)
    said, told = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "")
    *between, blank, last = told.splitlines()[1:]
    assert (blank, last) == ("", "Interrupted. Give the same command again to go on with what is left.")
    assert [line for line in between if not line.startswith(("grid: 0/2 tasks", "  toy, gate of lei, seed 0 ("))] == []
    until(lambda: not alive(process.pid), 5)
    assert reports(tmp_path / "runs") == {}
    before = state.stat().st_mtime_ns
    process = start(endless, tmp_path / "runs", "--workers", "1")
    until(lambda: state.stat().st_mtime_ns != before)
    os.kill(process.pid, signal.SIGKILL)  # not the workers: they are to notice
    process.communicate()
    until(lambda: not alive(process.pid), 5)
    scores = json.loads(read_scores_of(state))
    assert len(scores) > 2


def read_scores_of(state: Path) -> str:
    """Read the dev scores of all epochs that a state has behind it."""
    from safetensors import safe_open

    with safe_open(state, "np") as file:
        return str(file.metadata()["scores"])

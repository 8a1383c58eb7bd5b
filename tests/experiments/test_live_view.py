import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import fresh.experiments.live_view
from fresh.experiments.grid import RunSpec
from fresh.experiments.live_view import LiveView, _format_duration, _TimeEstimate
from fresh.experiments.plan import Kind, Task
from fresh.experiments.store import RunStore
from fresh.experiments.worker import Outcome

ROWS, CORPORA = ("ours", "theirs"), ("sst", "movies")


def task(kind: Kind, key: str, row: str = "ours", corpus: str = "sst", seed: int = 0, method: str = "fresh") -> Task:
    return Task(kind, key, RunSpec(row, corpus, {"seed": seed, "method": method, "scorer": "attention"}))


@pytest.fixture
def store(store: RunStore) -> RunStore:
    """A plan of two rows, two corpora and two seeds."""
    planned: list[dict[str, Any]] = [
        {"key": f"{row}-{corpus}-{seed}", "row": row, "corpus": corpus, "seed": seed, "settings": {}}
        for row in ROWS
        for corpus in CORPORA
        for seed in (0, 1)
        if (row, corpus) != ("theirs", "movies")
    ]
    store.write_plan("main", "", planned, {})
    return store


def test_the_time_left_is_estimated_from_similar_tasks() -> None:
    estimate = _TimeEstimate(2)
    estimate.add(task("run", "x"), 0.0)  # another process did it
    assert estimate.remaining([task("run", "a")], {}) is None
    estimate.add(task("run", "a"), 10)
    estimate.add(task("run", "b"), 20)
    estimate.add(task("support", "c"), 3)
    assert estimate.remaining([task("run", "d"), task("run", "e"), task("support", "f")], {}) == (15 + 15 + 3) / 2
    assert estimate.remaining([task("scores", "g")], {}) == pytest.approx(11)  # one worker has nothing to do
    assert estimate.remaining([], {}) == 0
    three, elapsed = [task("run", name) for name in "ijk"], {"i": 4.0, "j": 20.0}  # two are running
    assert estimate.remaining(three, elapsed) == 15  # 11 and 0 of the first two, and 15 of the third, alone
    assert estimate.remaining(three[:2], elapsed) == 11
    assert estimate.remaining(three[1:2], elapsed) == 0


def test_durations_have_a_suitable_unit() -> None:
    shown = {0: "0 s", 89.4: "89 s", 90: "2 min", 3600: "60 min", 5399: "90 min", 5400: "1.5 h", 36000: "10.0 h"}
    assert {seconds: _format_duration(seconds) for seconds in shown} == shown


def test_without_a_terminal_there_is_a_line_for_each_task(store: RunStore, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = [*(task("support", "s"), task("scores", "c")), *(task("run", f"{row}-sst-0", row) for row in ROWS)]
    store.save_report("ours-sst-0", {"figures": {"macro-F1": 0.8765}})
    with LiveView(store, ["main"], 9, 2) as view:
        view.set_tasks(tasks)
        for one in tasks:
            view.on_start(one)
        view.on_busy(tasks[3])
        for one in tasks[:3]:
            view.on_end(one, Outcome("done", "", 1.0))
        view.on_end(tasks[3], Outcome("failed", "ValueError: [b]no[/b]"))
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "main: 2 of 6 runs to do (4 of 9 tasks), 2 at a time.",
        "[6/9] sst, support model, seed 0: done",
        "[7/9] sst, scores of attention, seed 0: done",
        "[8/9] sst, ours, seed 0: macro-F1 .876",
        "[9/9] sst, theirs, seed 0: failed: ValueError: [b]no[/b]",
    ]


def test_a_retry_is_reported(store: RunStore, capsys: pytest.CaptureFixture[str]) -> None:
    one = task("run", "ours-sst-0")
    with LiveView(store, ["main"], 1, 1) as view:
        for report in (view.on_death, partial(view.on_crowded, is_last=False), partial(view.on_crowded, is_last=True)):
            view.on_start(one)
            report(one)
            assert view.running == {}
    assert capsys.readouterr().err.splitlines() == [
        "A worker died during sst, ours, seed 0. It will be tried again.",
        "The GPU was full during sst, ours, seed 0. It will be tried again.",
        "The GPU was full during sst, ours, seed 0. It will be tried again, alone, at the end.",
    ]


def drawn(view: LiveView) -> list[str]:
    """Draw what a terminal would show."""
    view.console = Console(width=80, height=24)
    with view.console.capture() as capture:
        view.console.print(view.render())
    return [line.rstrip() for line in capture.get().splitlines()]


def test_the_table_fills_up(store: RunStore) -> None:
    store.save_report("ours-sst-0", {"figures": {"macro-F1": 0.8}})
    store.save_report("ours-movies-0", {"figures": {"macro-F1": 0.5}})
    store.save_report("ours-movies-1", {"figures": {"macro-F1": 0.7}})
    with LiveView(store, ["main"], 6, 2) as view:
        left = [task("run", "ours-sst-1", seed=1), *(task("run", f"theirs-sst-{n}", "theirs") for n in (0, 1))]
        view.set_tasks(left)
        view.on_start(left[0])
        assert drawn(view) == [
            "main: 3/6 tasks done",
            "  sst, ours, seed 1 (0 s)",
            "         sst       movies",
            " ours    .800 1/2  .600",
            " theirs  ·",
        ]
        store.save_report("ours-sst-1", {"figures": {"macro-F1": 0.9}})
        view.on_end(left[0], Outcome("done", "", 60.0))
        view.on_end(left[1], Outcome("failed", "no"))
        assert drawn(view) == [
            "main: 5/6 tasks done, about 60 s left",
            "  failed: sst, theirs, seed 0: no",
            "         sst   movies",
            " ours    .850  .600",
            " theirs  ·",
        ]


def beat(store: RunStore, key: str, text: str) -> Path:
    """Write the heartbeat of a worker."""
    path = store.heartbeat(key).path
    path.parent.mkdir()
    path.write_text(text)
    return path


def test_running_tasks_show_their_progress(store: RunStore) -> None:
    with LiveView(store, ["main"], 6, 2) as view:
        two = [task("scores", "scores-a"), task("run", "ours-sst-0")]
        view.set_tasks(two)
        for one in two:
            view.on_start(one)
        beat(store, "scores-a", "scores of train 43%")
        assert view.in_progress() == [
            "  sst, scores of attention, seed 0 (0 s, scores of train 43%)",
            "  sst, ours, seed 0 (0 s)",
        ]
        assert drawn(view)[1:3] == view.in_progress()


def test_the_progress_of_a_killed_worker_is_not_shown(store: RunStore) -> None:
    one, place = task("run", "ours-sst-0"), beat(store, "ours-sst-0", "predictor 97%")
    os.utime(place, (time.time() - 60, time.time() - 60))
    with LiveView(store, ["main"], 6, 1) as view:
        view.on_start(one)
        assert view.in_progress() == ["  sst, ours, seed 0 (0 s)"]
        place.write_text("predictor 2%")
        assert view.in_progress() == ["  sst, ours, seed 0 (0 s, predictor 2%)"]
        view.on_death(one)
        assert not place.exists()
        view.on_start(one)
        place.write_text("predictor 3%")
    assert not place.exists()  # interrupted


def test_tasks_of_other_processes_are_shown(store: RunStore) -> None:
    view, one = LiveView(store, ["main"], 6, 1), task("run", "ours-sst-0")
    view.on_start(one)
    view.on_busy(one)
    assert view.in_progress() == ["  sst, ours, seed 0 (another process)"]
    beat(store, "ours-sst-0", "predictor 71%")
    assert view.in_progress() == ["  sst, ours, seed 0 (another process, predictor 71%)"]
    view.on_start(one)
    assert view.in_progress() == ["  sst, ours, seed 0 (0 s, predictor 71%)"]
    view.on_busy(one)
    view.on_end(one, Outcome("failed", "no"))
    assert view.in_progress() == []


def test_a_grid_continues_when_its_pipe_is_closed(store: RunStore) -> None:
    view = LiveView(store, ["main"], 6, 1)
    reading, writing = os.pipe()
    os.close(reading)
    view.console.file = os.fdopen(writing, "w")
    view.say("first")
    view.say("second")
    assert view.console.quiet
    with pytest.raises(BrokenPipeError):
        view.console.file.close()


def test_running_tasks_are_listed_after_a_while(
    store: RunStore, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fresh.experiments.live_view, "QUIET_SECONDS", 0.05)
    one = task("run", "ours-sst-0")
    with LiveView(store, ["main"], 6, 1) as view:
        view.set_tasks([one])
        view.on_start(one)
        until, lines = time.monotonic() + 30, list[str]()
        while "main: 5/6 tasks done" not in lines and time.monotonic() < until:
            time.sleep(0.01)
            lines += capsys.readouterr().err.splitlines()
    assert lines[:3] == [
        "main: 1 of 6 runs to do (1 of 6 tasks), 1 at a time.",
        "main: 5/6 tasks done",
        "  sst, ours, seed 0 (0 s)",
    ]
    assert not view.reminder.is_alive()


def test_running_tasks_are_listed_only_then(
    store: RunStore, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fresh.experiments.live_view, "QUIET_SECONDS", 0.5)
    one = task("run", "ours-sst-0")
    with LiveView(store, ["main"], 6, 1) as view:
        view.set_tasks([one])
        for _ in range(8):
            time.sleep(0.1)
            view.on_crowded(one, is_last=False)
    assert [line for line in capsys.readouterr().err.splitlines() if "tasks done" in line] == []


def test_a_long_table_is_cut_to_the_terminal(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    planned = [{"key": f"{n}", "row": f"row {n}", "corpus": "sst", "seed": 0, "settings": {}} for n in range(50)]
    store.write_plan("main", "", planned, {})
    view = LiveView(store, ["main"], 50, 1)
    lines = drawn(view)
    assert (lines[0], lines[-1]) == ("main: 50/50 tasks done", " and 30 more rows")
    assert len(lines) == 1 + 1 + 20 + 1
    for n in range(30):
        view.on_start(task("run", f"{n}"))
    lines = drawn(view)
    assert lines[:2] == ["main: 50/50 tasks done", "  sst, ours, seed 0 (0 s)"]
    assert [line.split()[:2] for line in lines[31:]] == [["sst"], *(["row", str(n)] for n in range(3)), ["and", "47"]]

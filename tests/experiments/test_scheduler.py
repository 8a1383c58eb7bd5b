import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fresh.experiments.scheduler
from fresh.experiments.grid import RunSpec
from fresh.experiments.live_view import LiveView
from fresh.experiments.plan import Kind, Task
from fresh.experiments.scheduler import MAX_CROWDED, MAX_DEATHS, Scheduler, TaskEnd
from fresh.experiments.store import FAILURE, RunStore
from fresh.experiments.worker import Outcome

Fate = Literal["done", "busy", "crowded", "failed", "died"]
FATES: tuple[Fate, ...] = get_args(Fate)
SPEC = RunSpec("row", "toy", {})


@pytest.fixture(scope="module", autouse=True)
def no_pause() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fresh.experiments.scheduler, "PAUSE", 0.0)
        yield


@dataclass
class Scripted:
    """An executor that ends tasks as scripted, in any order."""

    n_workers: int
    fates: dict[str, list[Fate]]
    order: st.DataObject | None = None
    at: list[Task] = field(default_factory=list)
    most: int = 0
    beside: list[int] = field(default_factory=list)
    starts: list[str] = field(default_factory=list)
    crowds: Counter[str] = field(default_factory=Counter)
    n_cleared: int = 0

    def start(self, task: Task) -> None:
        assert not any(self.crowds[other.key] >= MAX_CROWDED for other in self.at)
        assert self.crowds[task.key] < MAX_CROWDED or not self.at
        self.beside.append(len(self.at))
        self.at.append(task)
        self.starts.append(task.key)
        self.most = max(self.most, len(self.at))

    def wait(self) -> TaskEnd:
        place = 0 if self.order is None else self.order.draw(st.integers(0, len(self.at) - 1))
        task = self.at.pop(place)
        fates = self.fates.get(task.key, [])
        fate: Fate = fates.pop(0) if fates else "done"
        self.crowds[task.key] += fate == "crowded"
        error = f"{task.key} broke" if fate in ("failed", "crowded") else ""
        return TaskEnd(task, None if fate == "died" else Outcome(fate, error, where="there"))

    def prepare(self, n_tasks: int) -> None:
        raise AssertionError("a scheduler has its tasks")

    def release_idle(self) -> None:
        assert not self.at
        self.n_cleared += 1

    def close(self) -> None:
        self.at.clear()


@st.composite
def graphs(draw: st.DrawFn) -> list[Task]:
    """Tasks each of which needs some before it."""
    tasks: list[Task] = []
    for number in range(draw(st.integers(0, 10))):
        needs = draw(st.lists(st.sampled_from(tasks), max_size=3, unique_by=lambda task: task.key)) if tasks else []
        kind: Kind = draw(st.sampled_from(("support", "scores", "run")))
        tasks.append(Task(kind, f"t{number}", SPEC, tuple(task.key for task in needs)))
    return tasks


def needed(tasks: list[Task]) -> set[str]:
    """List what runs need, directly or not, and the runs."""
    found = {task.key for task in tasks if task.kind == "run"}
    for task in reversed(tasks):
        if task.key in found:
            found |= set(task.needs)
    return found


def ends_badly(fates: list[Fate]) -> bool:
    """Return whether a task fails that meets these fates one after the other."""
    deaths = crowds = 0
    for fate in fates:
        deaths += fate == "died"
        crowds += fate == "crowded"
        if fate == "failed" or deaths == MAX_DEATHS or crowds > MAX_CROWDED:
            return True
        if fate == "done":
            return False
    return False


@given(tasks=graphs(), n_workers=st.integers(1, 4), data=st.data())
def test_every_task_ends_once_and_a_failure_takes_only_what_needs_it(
    tasks: list[Task], n_workers: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    fates: dict[str, list[Fate]] = {task.key: data.draw(st.lists(st.sampled_from(FATES), max_size=6)) for task in tasks}
    bad = {key: ends_badly(list(given_fates)) for key, given_fates in fates.items()}
    executor, view = Scripted(n_workers, {key: list(listed) for key, listed in fates.items()}, data), Mock(LiveView)
    planned: list[Task] = []
    view.set_tasks.side_effect = planned.extend
    failed = Scheduler(RunStore(tmp_path_factory.mktemp("runs")), executor, view).run(tasks)
    wanted = needed(tasks)
    lost: set[str] = set()
    for task in tasks:
        if task.key in wanted and (bad[task.key] or lost.intersection(task.needs)):
            lost.add(task.key)
    assert failed.keys() == lost
    assert sorted(task.key for task in planned) == sorted(wanted) == sorted(key for key, _ in reported(view.on_end))
    assert {key for key, outcome in reported(view.on_end) if outcome.status == "failed"} == lost
    assert executor.most <= n_workers
    assert executor.at == []
    started = set(executor.starts)
    assert started == {task.key for task in tasks if task.key in wanted and not lost.intersection(task.needs)}


def chain(*kinds: Kind, name: str = "t") -> list[Task]:
    """Tasks each of which needs the one before it."""
    keys = [f"{name}{number}" for number in range(len(kinds))]
    return [Task(kind, key, SPEC, tuple(keys[:n][-1:])) for n, (kind, key) in enumerate(zip(kinds, keys, strict=True))]


def runs(keys: str) -> list[Task]:
    return [Task("run", key, SPEC) for key in keys]


def reported(method: Mock) -> list[Any]:
    """List the calls of a method of a view, with keys in the place of tasks."""
    return [(call.args[0].key, *call.args[1:]) for call in method.call_args_list]


def carry_out(
    tasks: list[Task], folder: Path, n_workers: int = 1, **fates: list[Fate]
) -> tuple[dict[str, str], Scripted, Mock]:
    executor, view = Scripted(n_workers, fates), Mock(LiveView)
    return Scheduler(RunStore(folder), executor, view).run(tasks), executor, view


@pytest.mark.parametrize(("n_workers", "order"), [(1, "t0 t1 t2 u0 u1 u2"), (2, "t0 u0 t1 u1 t2 u2")])
def test_tasks_start_in_their_order(n_workers: int, order: str, tmp_path: Path) -> None:
    tasks = [task for name in "tu" for task in chain("support", "scores", "run", name=name)]
    _, executor, _ = carry_out(tasks, tmp_path, n_workers)
    assert executor.starts == order.split()


@pytest.mark.parametrize(
    ("fates", "error", "where"),
    [
        (["failed"], "t0 broke", "there"),
        (["died"] * MAX_DEATHS, "Its worker died 3 times, perhaps because memory ran out.", ""),
        (["crowded"] * (MAX_CROWDED + 1), "t0 broke (Even when it ran alone.)", "there"),
    ],
)
def test_a_failure_is_recorded_and_passed_on(fates: list[Fate], error: str, where: str, tmp_path: Path) -> None:
    failed, executor, _ = carry_out(chain("support", "scores", "run"), tmp_path / "a", 2, t0=list(fates))
    assert failed == dict.fromkeys(("t0", "t1", "t2"), f"toy, support model, seed 0: {error}")
    assert executor.starts == ["t0"] * len(fates)
    assert RunStore(tmp_path / "a").read_failure("t2") == failed["t2"]
    failed, _, _ = carry_out(chain("run"), tmp_path / "b", t0=list(fates))
    assert failed == {"t0": error}
    record = json.loads((RunStore(tmp_path / "b").run_folder("t0") / FAILURE).read_text(encoding="utf-8"))
    assert record == {"error": error, "where": where}


def test_each_death_and_each_full_gpu_is_reported_unless_the_task_fails(tmp_path: Path) -> None:
    _, _, view = carry_out(runs("ab"), tmp_path / "died", a=["died", "busy", "died", "died"], b=["died"])
    assert sorted(reported(view.on_death)) == [("a",), ("a",), ("b",)]
    assert sorted((key, outcome.status) for key, outcome in reported(view.on_end)) == [("a", "failed"), ("b", "done")]
    _, _, view = carry_out(runs("a"), tmp_path / "crowded", a=["crowded"] * (MAX_CROWDED + 1))
    assert reported(view.on_crowded) == [*[("a", False)] * (MAX_CROWDED - 1), ("a", True)]


def test_a_task_without_room_is_tried_again_with_fewer_others(tmp_path: Path) -> None:
    failed, executor, _ = carry_out(runs("abcdefghijk"), tmp_path, 3, c=["crowded"])
    assert (failed, executor.most, executor.n_cleared) == ({}, 3, 0)
    assert executor.beside == [0, 1, 2, 2, 2, 1, 1, 1, 1, 2, 2, 2]
    assert "".join(executor.starts) == "abcdefcghijk"  # when as many are done as were running then
    # When no other is left to wait for, it is tried again at once.
    failed, executor, _ = carry_out(chain("support", "run"), tmp_path, 3, t0=["crowded"])
    assert (failed, executor.starts, executor.n_cleared) == ({}, ["t0", "t0", "t1"], 1)
    # Several tasks without room keep their order.
    fates: dict[str, list[Fate]] = {key: ["crowded"] for key in "abcd"}
    _, executor, _ = carry_out(runs("abcd"), tmp_path, 4, **fates)
    assert "".join(executor.starts) == "abcdabcd"


def test_a_task_without_room_too_often_is_tried_again_alone_in_the_end(tmp_path: Path) -> None:
    full: list[Fate] = ["crowded"] * MAX_CROWDED
    tasks = [*chain("support", "run"), *runs("abcdef")]
    failed, executor, _ = carry_out(tasks, tmp_path, 2, t0=list(full), a=[*full, "busy", "died"])
    assert (failed, executor.most) == ({}, 2)
    assert [executor.starts.count(key) for key in ("t0", "a")] == [MAX_CROWDED + 1, MAX_CROWDED + 3]
    assert executor.starts[-5:] == ["t0", "t1", "a", "a", "a"]
    assert executor.n_cleared == 4 + 5  # each try alone, and each time that one found no room with nobody beside it


@pytest.mark.parametrize("fate", ["busy", "failed"])
def test_a_task_without_room_does_not_wait_for_what_others_do_or_what_fails(fate: Fate, tmp_path: Path) -> None:
    fates: dict[str, list[Fate]] = {key: [fate] * 20 for key in "bcdefgh"}
    _, executor, _ = carry_out(runs("abcdefgh"), tmp_path, 1, a=["crowded"], **fates)
    assert "".join(executor.starts)[:3] == "aba"


def test_finished_and_failed_runs_are_left_out_with_what_only_they_need(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    tasks = [*chain("support", "scores", "run"), Task("run", "other", SPEC, ("t1",)), *runs("x")]
    store.save_report("t2", {"figures": {"macro-F1": 0.5}})
    store.save_failure("other", "no", "")
    failed, executor, _ = carry_out(tasks, tmp_path)
    assert (failed, executor.starts) == ({"other": "no"}, ["x"])
    store.clear_failure("other")
    failed, executor, _ = carry_out(tasks, tmp_path)
    assert (failed, executor.starts) == ({}, ["t0", "t1", "other", "x"])


def test_stored_scores_need_no_support_model(tmp_path: Path) -> None:
    place = RunStore(tmp_path).shared_folder("t1") / "scores.npz"
    place.parent.mkdir(parents=True)
    place.touch()
    _, executor, _ = carry_out(chain("support", "scores", "run"), tmp_path)
    assert executor.starts == ["t1", "t2"]


def test_a_failure_that_cannot_be_written_is_still_reported(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file where a folder should be", encoding="utf-8")
    failed, _, _ = carry_out(chain("run"), tmp_path, t0=["failed"])
    assert failed == {"t0": "t0 broke (This could not be written to disk: Not a directory.)"}

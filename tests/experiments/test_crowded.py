import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from ray import cloudpickle

import crowds
import fresh.experiments.worker
from crowds import crowd
from experiments import Silent, run, run_keys, tasks_of, toy_grid
from fresh.data.splits import Splits
from fresh.experiments.executor import Executor
from fresh.experiments.local import LocalExecutor
from fresh.experiments.measure import measure
from fresh.experiments.plan import Task
from fresh.experiments.ray_executor import RayExecutor
from fresh.experiments.run import _Done
from fresh.experiments.scheduler import N_CROWDED, Dispatcher
from fresh.experiments.store import FAILED, RunStore
from fresh.experiments.worker import Worker
from fresh.nn.device import is_out_of_memory
from two_nodes import two_nodes

FULL = "OutOfMemoryError: full"
ALSO = f"{FULL} (Also with no other task beside it.)"


@pytest.fixture
def grid(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> Path:
    """A grid of three short runs."""
    row = {"name": "random words", "method": "random", "seed": [0, 1, 2]}
    return toy_grid(tmp_path, toy, encoders["bert"], row, settings={"epochs": 1})


def full(n_times: int) -> Callable[..., Any]:
    """Make the measuring of a run find the card full so many times."""
    left = iter(range(n_times))

    def maybe(*given: Any) -> Any:
        if next(left, None) is not None:
            raise torch.OutOfMemoryError("full")
        return measure(*given)

    return maybe


def test_a_card_that_was_full_does_not_fail_a_run(grid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh.experiments.worker, "measure", full(3 * N_CROWDED))
    assert run(grid) == _Done("grid", 3, {})


def test_a_run_that_is_too_large_for_the_card_fails(
    grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_times = 3 * N_CROWDED + 1  # all three as often as they may, and one also alone
    monkeypatch.setattr(fresh.experiments.worker, "measure", full(n_times))
    assert run(grid) == _Done("grid", 3, {"toy, random words, seed 0": ALSO})
    record = (RunStore(tmp_path / "runs").of(run_keys(grid)[0]) / FAILED).read_text(encoding="utf-8")
    assert "in maybe" in record
    assert run(grid, retry=True) == _Done("grid", 3, {})


def test_a_worker_makes_room_and_writes_down_no_failure(
    grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fresh.experiments.worker, "measure", full(1))
    task, worker = tasks_of(grid)[0], Worker(RunStore(tmp_path / "runs"), None)
    outcome = worker.perform(task)
    assert (outcome.status, outcome.error, worker.feature_store) == ("crowded", FULL, None)
    assert "in maybe" in outcome.where
    assert RunStore(tmp_path / "runs").failure(task.key) is None


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx( handle, opa)`"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"), True),
        (RuntimeError("CUDA driver error: out of memory"), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (MemoryError(), False),
    ],
)
def test_a_full_card_is_told_from_other_errors(error: Exception, expected: bool) -> None:
    assert is_out_of_memory(error) == expected


@pytest.fixture(scope="module", params=["local", "ray"])
def engines(request: pytest.FixtureRequest) -> Iterator[Callable[[Path], Executor]]:
    """What makes an engine of two workers."""
    if request.param == "local":
        yield lambda out: LocalExecutor(out, None, 2)
        return
    cloudpickle.register_pickle_by_value(crowds)  # type: ignore[no-untyped-call]  # nodes do not see the tests
    with two_nodes() as cluster:
        yield lambda out: RayExecutor(out, None, cluster.address)
    cloudpickle.unregister_pickle_by_value(crowds)  # type: ignore[no-untyped-call]


def carry_out(engine: Executor, tasks: list[Task], out: Path) -> dict[str, str]:
    with contextlib.closing(engine):
        return Dispatcher(RunStore(out), engine, Silent()).carry_out(tasks)


def test_each_engine_puts_off_what_finds_no_room(
    engines: Callable[[Path], Executor], grid: Path, tmp_path: Path
) -> None:
    first, second, other = tasks_of(grid)
    out, once, always = tmp_path / "runs", tmp_path / "once", tmp_path / "always"
    failed = carry_out(engines(out), [crowd(first, 1, once), crowd(second, 9, always), other], out)
    assert failed == {second.key: ALSO}
    assert [len(tries.read_text(encoding="utf-8")) for tries in (once, always)] == [2, N_CROWDED + 1]
    assert [RunStore(out).report(task.key) is not None for task in (first, second, other)] == [True, False, True]


def test_each_engine_lets_go_of_idle_workers_but_one(
    engines: Callable[[Path], Executor], grid: Path, tmp_path: Path
) -> None:
    engine, tasks = engines(tmp_path / "runs"), tasks_of(grid)
    assert isinstance(engine, LocalExecutor | RayExecutor)
    with contextlib.closing(engine):
        for task in tasks[:2]:
            engine.start(task)
        hands = list(engine.hands)
        engine.make_room()
        assert engine.hands == hands
        for _ in hands:
            assert engine.wait().outcome is not None
        engine.make_room()
        assert engine.hands == hands[:1]
        engine.start(tasks[2])
        ended = engine.wait()
        assert ended.outcome is not None
        assert ended.outcome.status == "done"

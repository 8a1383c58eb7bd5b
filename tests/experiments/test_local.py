import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from crowds import check_releases_idle, check_retries
from experiments import Writer, plan
from fresh.errors import ConfigError
from fresh.experiments.grid_file import read_grid
from fresh.experiments.local import LocalExecutor, _gpu_names, default_n_workers
from fresh.experiments.plan import Task
from fresh.experiments.store import RunStore
from fresh.nn.device import is_out_of_memory

RANDOM = {"name": "random words", "method": "random", "seed": [0, 1, 2]}


def test_the_default_number_of_workers_suits_the_machine() -> None:
    assert [default_n_workers([], n_cores) for n_cores in (1, 2, 64)] == [1, 1, 32]
    assert [default_n_workers([gb], 16) for gb in (139.0, 24.0, 8.0)] == [6, 1, 1]
    assert [default_n_workers(*about) for about in (([139.0], 2), ([48.0, 24.0], 16), ([80.0] * 8, 128))] == [2, 4, 40]


def test_gpus_keep_their_names() -> None:
    assert _gpu_names(2, None) == _gpu_names(2, "") == ["0", "1"]
    assert (_gpu_names(2, "2,5"), _gpu_names(2, "GPU-a,GPU-b,")) == (["2", "5"], ["GPU-a", "GPU-b"])


def test_there_must_be_a_worker(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="workers must be at least 1, got 0"):
        LocalExecutor(tmp_path, None, 0)


@pytest.fixture
def tasks(grid: Writer, store: RunStore) -> list[Task]:
    """Two short runs and an endless one."""
    rows: list[dict[str, Any]] = [{"epochs": 1}, {"epochs": 1, "discretizer": "contiguous"}, {"epochs": 9999}]
    path = grid(*rows, settings={"method": "random", "patience": 9999})
    return plan(read_grid(path), None, store)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalExecutor]:
    with contextlib.closing(LocalExecutor(tmp_path / "runs", None, 2)) as executor:
        yield executor


def test_processes_do_tasks_and_may_die(local: LocalExecutor, tasks: list[Task], store: RunStore) -> None:
    short, other, endless = tasks
    local.start(endless)
    local.start(short)
    end = local.wait()
    assert (end.task, end.outcome is not None and end.outcome.status) == (short, "done")
    assert store.read_report(short.key) is not None
    os.kill(local.workers[0].process.pid or 0, signal.SIGKILL)
    assert local.wait() == (endless, None)
    idle = local.workers[0].process
    os.kill(idle.pid or 0, signal.SIGKILL)
    idle.join()
    local.start(other)
    assert local.wait() == (other, None)
    assert local.workers == []
    local.start(endless)
    process = local.workers[0].process
    local.close()
    assert not process.is_alive()
    assert local.workers == []


def test_processes_start_before_their_tasks_but_no_more_than_needed(local: LocalExecutor) -> None:
    local.prepare(1)
    [first] = local.workers
    local.prepare(5)
    assert [worker.task for worker in local.workers] == [None, None]
    assert local.workers[0] is first
    local.close()
    assert not first.process.is_alive()


def test_a_process_with_the_corpus_in_memory_is_preferred(local: LocalExecutor, tasks: list[Task]) -> None:
    first, second = local._add_worker(), local._add_worker()
    second.corpus = tasks[0].spec.corpus
    local.start(tasks[0])
    assert (first.task, second.task) == (None, tasks[0])


def test_workers_share_gpus_evenly_also_after_one_died(local: LocalExecutor) -> None:
    local.gpus = ["3", "7"]
    assert [local._add_worker().gpu for _ in range(3)] == ["3", "7", "3"]
    local._end([local.workers[1]])
    assert local._add_worker().gpu == "7"


# GPUs that are full


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
def test_a_full_gpu_is_recognized(error: Exception, expected: bool) -> None:
    assert is_out_of_memory(error) == expected


def test_local_workers_retry_tasks_that_ran_out_of_memory_and_idle_ones_end(grid: Writer, tmp_path: Path) -> None:
    path, out = grid(RANDOM, settings={"epochs": 1}), tmp_path / "runs"
    check_retries(LocalExecutor(out, None, 2), path, out)
    check_releases_idle(LocalExecutor(tmp_path / "others", None, 2), path)

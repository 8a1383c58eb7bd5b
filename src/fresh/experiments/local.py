"""The local executor: worker processes on this machine, several on each GPU."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from fresh.errors import ConfigError
from fresh.experiments.plan import Task
from fresh.experiments.scheduler import TaskEnd
from fresh.experiments.store import RunStore
from fresh.experiments.worker import Worker

# On an H200, a worker with mpnet took 15 to 28 GB on Movies and 10 to 15 GB on Evidence Inference.
GB_PER_WORKER = 16  # GPU memory to plan for each worker
# With long texts the GPU itself is the limit: 100 % busy at 610 W with 12 workers on Evidence Inference (H200).
WORKERS_PER_GPU = 6  # maximum number of workers on a GPU


@dataclass(slots=True)
class _WorkerProcess:
    process: BaseProcess
    connection: Connection
    gpu: str | None
    task: Task | None = None
    corpus: str = ""  # the corpus of its last task, which it has in memory


def _work(connection: Connection, folder: Path, data_dir: Path | None, gpu: str | None, n_threads: int) -> None:
    # `daemon=True` ends children only if the parent exits normally; after a SIGKILL they would continue to train.
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu  # in time: torch reads it when it first uses a GPU
    torch.set_num_threads(n_threads)
    worker = Worker(RunStore(folder), data_dir)
    while True:
        try:
            connection.send(worker.perform(connection.recv()))
        except (EOFError, OSError):
            return


def _exit_with_parent() -> None:
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)


class LocalExecutor:
    """Runs tasks in processes that stay for further tasks."""

    # Not concurrent.futures: if one process of a pool dies, the whole pool is broken. It also gives a task to any
    # process, not to one with the corpus in memory, and cannot end idle processes to free GPU memory.

    def __init__(self, folder: Path, data_dir: Path | None, n_workers: int | None = None) -> None:
        memory, n_cores = gpu_memory(), os.cpu_count() or 1
        self.gpus = _gpu_names(len(memory), os.environ.get("CUDA_VISIBLE_DEVICES"))
        self.paths = (folder, data_dir)
        self.n_workers = n_workers if n_workers is not None else default_n_workers(memory, n_cores)
        if self.n_workers < 1:
            raise ConfigError(f"workers must be at least 1, got {n_workers}.")
        self.n_threads = min(torch.get_num_threads(), max(1, n_cores // self.n_workers))
        self.workers: list[_WorkerProcess] = []
        self._lost: deque[Task] = deque()

    def prepare(self, n_tasks: int) -> None:
        """Start processes, each of which first loads libraries for some seconds."""
        # Called before planning: without it, GPUs were idle for 40 to 50 s at the start of each command.
        while len(self.workers) < min(n_tasks, self.n_workers):
            self._add_worker()

    def start(self, task: Task) -> None:
        """Start a task on an idle process, preferably one that has the corpus in memory."""
        idle = [worker for worker in self.workers if worker.task is None]
        worker = min(idle, key=lambda worker: worker.corpus != task.spec.corpus) if idle else self._add_worker()
        worker.task, worker.corpus = task, task.spec.corpus
        try:
            worker.connection.send(task)
        except OSError:  # the process died while it was idle
            self._end([worker])
            self._lost.append(task)

    def _add_worker(self) -> _WorkerProcess:
        # Not fork: CUDA cannot be used in the child of a process that has used it.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        used = [worker.gpu for worker in self.workers]
        gpu = min(self.gpus, key=used.count) if self.gpus else None
        process = context.Process(target=_work, args=(theirs, *self.paths, gpu, self.n_threads), daemon=True)
        with _ignore_interrupts():
            process.start()
        theirs.close()  # else `recv` would not notice that the process died
        worker = _WorkerProcess(process, ours, gpu)
        self.workers.append(worker)
        return worker

    def wait(self) -> TaskEnd:
        """Wait until a process ends a task, or dies."""
        if self._lost:
            return TaskEnd(self._lost.popleft(), None)
        busy = {worker.connection: worker for worker in self.workers if worker.task is not None}
        worker = busy[next(ready for ready in wait(list(busy)) if isinstance(ready, Connection))]
        task, worker.task = worker.task, None
        assert task is not None
        try:
            return TaskEnd(task, worker.connection.recv())
        except (EOFError, OSError):
            self._end([worker])
            return TaskEnd(task, None)

    def release_idle(self) -> None:
        """End all idle processes but one: each holds some GPU memory."""
        self._end([worker for worker in self.workers if worker.task is None][1:])

    def close(self) -> None:
        """End all processes; unfinished tasks are resumed next time."""
        self._end(list(self.workers))

    def _end(self, workers: Sequence[_WorkerProcess]) -> None:
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.process.join()
            worker.connection.close()
            self.workers.remove(worker)


@contextmanager
def _ignore_interrupts() -> Iterator[None]:
    # A terminal sends Ctrl-C to all processes of a group, but the parent is the one to end the others.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _gpu_names(n_gpus: int, visible: str | None) -> list[str]:
    # CUDA numbers only the visible GPUs, but a child needs the name of its GPU in the parent's list.
    return visible.split(",")[:n_gpus] if visible else [str(number) for number in range(n_gpus)]


def gpu_memory() -> list[float]:
    """Look up the memory of each GPU, in GB."""
    if not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_properties(number).total_memory / 1e9 for number in range(torch.cuda.device_count())]


def default_n_workers(memory: Sequence[float], n_cores: int) -> int:
    """Choose the number of workers: as many as fit on GPUs with so many GB of memory, or one for every two cores."""
    if not memory:
        return max(1, n_cores // 2)
    return max(1, min(sum(min(WORKERS_PER_GPU, max(1, int(gb // GB_PER_WORKER))) for gb in memory), n_cores))

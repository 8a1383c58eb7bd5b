"""The Ray executor: workers on all nodes of a Ray cluster, several on each GPU."""

import contextlib
import math
import os
import time
import uuid
import warnings
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fresh.errors import ConfigError
from fresh.experiments.local import default_n_workers, gpu_memory
from fresh.experiments.plan import Task
from fresh.experiments.ray_cluster import (
    ANSWER_SECONDS,
    SHARED,
    ClusterError,
    Node,
    NodeInfo,
    alive_nodes,
    call_on_node,
    check_version,
    connect,
    get_result,
    inspect_node,
    marker_file,
    no_answer,
    nodes_with_cores,
)
from fresh.experiments.scheduler import TaskEnd
from fresh.experiments.store import RunStore
from fresh.experiments.worker import Outcome, Worker

REFRESH_SECONDS = 5.0  # seconds between two checks for nodes that joined or left
INSPECTION_SHARE = 0.01  # share of a GPU that a node needs to look up its memory


@dataclass(frozen=True, slots=True)
class WorkerNode:
    """A node, the number of workers that fit on it, and the resources of each."""

    node: Node
    n_workers: int
    n_cores: int
    gpu_share: float


@dataclass(slots=True)
class _NodePool:
    ray: Any
    store: RunStore
    data_dir: Path | None
    token: str  # name of a lock that this process holds, by which nodes recognize the folder
    ready: dict[str, WorkerNode] = field(default_factory=dict)
    inspected: dict[str, Any] = field(default_factory=dict)  # references to answers of nodes that have not arrived yet
    rejected: set[str] = field(default_factory=set)
    refreshed: float = -math.inf

    def check_all(self) -> None:
        nodes = nodes_with_cores(self.ray)
        self._inspect(nodes)
        self.ray.wait(list(self.inspected.values()), num_returns=len(self.inspected), timeout=ANSWER_SECONDS)
        for node in nodes:
            self._admit(node)
        if not self.ready:
            raise no_answer(nodes)
        self.refreshed = time.monotonic()

    def refresh(self) -> None:
        if time.monotonic() - self.refreshed < REFRESH_SECONDS:
            return
        nodes = {node.id: node for node in alive_nodes(self.ray)}
        self.ready = {name: node for name, node in self.ready.items() if name in nodes}
        self.inspected = {name: reference for name, reference in self.inspected.items() if name in nodes}
        self._inspect(nodes.values())
        for node in nodes.values():
            try:
                self._admit(node)
            except ClusterError as error:  # the other nodes continue
                self.rejected.add(node.id)
                warnings.warn(f"{error} This node is not used.", stacklevel=2)
        self.refreshed = time.monotonic()

    def _inspect(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            if node.id not in (self.inspected.keys() | self.ready.keys() | self.rejected):
                share, measure = (INSPECTION_SHARE, gpu_memory) if node.n_gpus else (0.0, None)
                arguments = (self.store, self.data_dir, self.token, node.id, measure)
                self.inspected[node.id] = call_on_node(self.ray, node, inspect_node, *arguments, gpu_share=share)

    def _admit(self, node: Node) -> None:
        if node.id not in self.inspected or not self.ray.wait([self.inspected[node.id]], timeout=0)[0]:
            return
        info: NodeInfo = get_result(self.ray, node, self.inspected.pop(node.id))
        check_version(node, info.version)
        if info.problem:
            raise ClusterError(f"Node {node.name} {info.problem}")
        if not marker_file(self.store, self.token, node.id).is_file():
            raise ClusterError(f"This machine does not see what node {node.name} writes to {self.store.path}. {SHARED}")
        self.ready[node.id] = _divide_node(node, info.gpu_memory)


@contextlib.contextmanager
def _checked_nodes(ray: Any, folder: Path, data_dir: Path | None) -> Iterator[_NodePool]:
    pool = _NodePool(ray, RunStore(folder), data_dir, f"cluster-{uuid.uuid4().hex}")
    try:
        with pool.store.claim(pool.token):
            pool.check_all()
            yield pool
    finally:
        for marker in (folder / "claims").glob(f"{pool.token}*"):
            marker.unlink(missing_ok=True)


def _divide_node(node: Node, gpu_memory: tuple[float, ...]) -> WorkerNode:
    # As the local executor divides a machine; all GPUs of a node are assumed to be equal.
    # Rounded down: if the shares add up to more than 1, one worker does not get a GPU.
    memory = list(gpu_memory[:1]) * node.n_gpus
    n_workers = default_n_workers(memory, node.n_cores)
    share = math.floor(10_000 / math.ceil(n_workers / len(memory))) / 10_000 if memory else 0.0
    return WorkerNode(node, n_workers, max(1, node.n_cores // n_workers), share)


class _WorkerActor:
    def __init__(self, folder: Path, data_dir: Path | None, current: Path, n_threads: int) -> None:
        import torch

        if current.is_dir():
            os.chdir(current)  # relative paths in settings start there
        torch.set_num_threads(n_threads)
        self.worker = Worker(RunStore(folder), data_dir)

    def perform(self, task: Task) -> Outcome:
        return self.worker.perform(task)


@dataclass(slots=True, eq=False)
class _RayWorker:
    actor: Any
    node: WorkerNode
    task: Task | None = None
    outcome: Any = None  # reference to the outcome of the task
    corpus: str = ""  # the corpus of its last task, which it has in memory


class RayExecutor:
    """Runs tasks on all nodes of a Ray cluster; if a node dies, its tasks run elsewhere."""

    def __init__(
        self, folder: Path, data_dir: Path | None, address: str | None = None, n_workers: int | None = None
    ) -> None:
        """Join a cluster and check its nodes.

        :param folder: Folder of runs, which all nodes see under the same name.
        :param address: Address of the cluster; see :func:`fresh.experiments.ray_cluster.connect`.
        :param n_workers: Maximum number of tasks at once; by default as many as fit on the nodes.
        """
        if n_workers is not None and n_workers < 1:
            raise ConfigError(f"workers must be at least 1, got {n_workers}.")
        self.max_workers = n_workers
        self.paths = (folder.resolve(), data_dir.resolve() if data_dir is not None else None)
        self.workers: list[_RayWorker] = []
        self._returned: deque[Task] = deque()
        self._deaths: Counter[str] = Counter()
        # If the check of the nodes fails, the cluster is left at once; otherwise `close` leaves it.
        with contextlib.ExitStack() as stack:
            self.ray = stack.enter_context(connect(address))
            self.pool = stack.enter_context(_checked_nodes(self.ray, *self.paths))
            self._on_close = stack.pop_all()

    @property
    def n_workers(self) -> int:
        """Maximum number of tasks at once, on the current nodes."""
        self.pool.refresh()
        room = sum(node.n_workers for node in self.pool.ready.values())
        return room if self.max_workers is None else min(room, self.max_workers)

    def prepare(self, n_tasks: int) -> None:
        """Do nothing: workers start with their first task, on the nodes of that moment."""

    def start(self, task: Task) -> None:
        """Start a task on an idle worker, preferably one that has the corpus in memory."""
        idle = [worker for worker in self.workers if worker.task is None and worker.node.node.id in self.pool.ready]
        worker = min(idle, key=lambda worker: worker.corpus != task.spec.corpus) if idle else self._add_worker()
        if worker is None:
            self._returned.append(task)
            return
        worker.task, worker.corpus = task, task.spec.corpus
        worker.outcome = worker.actor.perform.remote(task)

    def _add_worker(self) -> _RayWorker | None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        used = Counter(worker.node.node.id for worker in self.workers)
        roomy = [node for name, node in self.pool.ready.items() if used[name] < node.n_workers]
        if not roomy:  # a node has just left
            return None
        # A node on which workers die may be broken, or short of memory: others come first, then those with most room.
        node = min(roomy, key=lambda node: (self._deaths[node.node.id], used[node.node.id] / node.n_workers))
        there = NodeAffinitySchedulingStrategy(node.node.id, soft=False)
        resources = {"num_cpus": node.n_cores, "num_gpus": node.gpu_share, "scheduling_strategy": there}
        actor = self.ray.remote(_WorkerActor).options(**resources)
        worker = _RayWorker(actor.remote(*self.paths, Path.cwd(), node.n_cores), node)
        self.workers.append(worker)
        return worker

    def wait(self) -> TaskEnd:
        """Wait until a worker ends a task, or dies."""
        if self._returned:
            return TaskEnd(self._returned.popleft(), Outcome("busy"))
        busy = {worker.outcome: worker for worker in self.workers if worker.task is not None}
        [reference], _ = self.ray.wait(list(busy), num_returns=1)
        worker = busy[reference]
        task, worker.task = worker.task, None
        assert task is not None
        # Whatever killed the actor, the node or the task itself: the scheduler decides whether to try again.
        try:
            return TaskEnd(task, self.ray.get(reference))
        except self.ray.exceptions.RayError:
            self._deaths[worker.node.node.id] += 1
            self._end([worker])
            return TaskEnd(task, None)

    def release_idle(self) -> None:
        """End all idle workers but one: each holds some GPU memory."""
        self._end([worker for worker in self.workers if worker.task is None][1:])

    def close(self) -> None:
        """End all workers; unfinished tasks are resumed next time."""
        self._end(list(self.workers))
        self._on_close.close()

    def _end(self, workers: Iterable[_RayWorker]) -> None:
        for worker in workers:
            self.ray.kill(worker.actor)
            self.workers.remove(worker)

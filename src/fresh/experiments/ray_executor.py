"""The engine of many machines: workers on the nodes of a Ray cluster, several to a card."""

import contextlib
import os
from collections import Counter, deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fresh.errors import ConfigError
from fresh.experiments.executor import TaskEnd
from fresh.experiments.plan import Task
from fresh.experiments.ray_cluster import connected
from fresh.experiments.sites import Site, surveyed
from fresh.experiments.store import RunStore
from fresh.experiments.worker import Outcome, Worker


class _Station:
    """A process on a node that does tasks; it keeps at hand what the next may need too."""

    def __init__(self, folder: Path, data_dir: Path | None, current: Path, n_threads: int) -> None:
        import torch

        if current.is_dir():
            os.chdir(current)  # where paths begin that settings name
        torch.set_num_threads(n_threads)
        self.worker = Worker(RunStore(folder), data_dir)

    def perform(self, task: Task) -> Outcome:
        """Do a task."""
        return self.worker.perform(task)


@dataclass(slots=True, eq=False)
class _WorkerProcess:
    """A station, and what it is at."""

    actor: Any
    site: Site
    task: Task | None = None
    answer: Any = None
    """What will say how the task ended."""
    corpus: str = ""
    """The corpus that it was last at, which it need not read again."""


class RayExecutor:
    """Does tasks on all nodes of a Ray cluster; what a node that dies was at is done elsewhere."""

    def __init__(
        self, folder: Path, data_dir: Path | None, address: str | None = None, n_workers: int | None = None
    ) -> None:
        """Join a cluster and look at its nodes.

        :param folder: Folder of runs, which all nodes see under this name.
        :param address: Where the cluster is; see :func:`fresh.experiments.ray_cluster.connected`.
        :param n_workers: How many tasks to do at once, at most; as many as suit the nodes, if not given.
        """
        if n_workers is not None and n_workers < 1:
            raise ConfigError(f"workers must be at least 1, got {n_workers}.")
        self.most = n_workers
        self.places = (folder.resolve(), data_dir.resolve() if data_dir is not None else None)
        self.hands: list[_WorkerProcess] = []
        self.sent_back: deque[Task] = deque()
        self.deaths: Counter[str] = Counter()
        with contextlib.ExitStack() as stack:
            self.ray = stack.enter_context(connected(address))
            self.sites = stack.enter_context(surveyed(self.ray, *self.places))
            self.leaving = stack.pop_all()

    @property
    def n_workers(self) -> int:
        """How many tasks it does at once, on the nodes that are there now."""
        self.sites.look_again()
        room = sum(site.n_workers for site in self.sites.open.values())
        return room if self.most is None else min(room, self.most)

    def get_ready(self, n_tasks: int) -> None:
        """Do nothing: workers begin on the nodes that are there when tasks come."""

    def start(self, task: Task) -> None:
        """Have a task done, by a free worker that was last at the same corpus if there is one."""
        free = [hand for hand in self.hands if hand.task is None and hand.site.node.id in self.sites.open]
        hand = min(free, key=lambda hand: hand.corpus != task.cell.corpus) if free else self.hire()
        if hand is None:
            self.sent_back.append(task)
            return
        hand.task, hand.corpus = task, task.cell.corpus
        hand.answer = hand.actor.perform.remote(task)

    def hire(self) -> _WorkerProcess | None:
        """Begin another worker, where the fewest died, on the node that is used least; nowhere if one died just now."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        used = {name: sum(hand.site.node.id == name for hand in self.hands) for name in self.sites.open}
        roomy = [site for name, site in self.sites.open.items() if used[name] < site.n_workers]
        if not roomy:
            return None
        site = min(roomy, key=lambda site: (self.deaths[site.node.id], used[site.node.id] / site.n_workers))
        there = NodeAffinitySchedulingStrategy(site.node.id, soft=False)
        station = self.ray.remote(_Station).options(
            num_cpus=site.n_cores, num_gpus=site.card_share, scheduling_strategy=there
        )
        hand = _WorkerProcess(station.remote(*self.places, Path.cwd(), site.n_cores), site)
        self.hands.append(hand)
        return hand

    def wait(self) -> TaskEnd:
        """Wait until a worker ends a task, or dies."""
        if self.sent_back:
            return TaskEnd(self.sent_back.popleft(), Outcome("busy"))
        busy = {hand.answer: hand for hand in self.hands if hand.task is not None}
        [answer], _ = self.ray.wait(list(busy), num_returns=1)
        hand = busy[answer]
        task, hand.task = hand.task, None
        assert task is not None
        try:
            return TaskEnd(task, self.ray.get(answer))
        except self.ray.exceptions.RayError:
            self.hands.remove(hand)
            self.deaths[hand.site.node.id] += 1
            self.ray.kill(hand.actor)
            return TaskEnd(task, None)

    def make_room(self) -> None:
        """End all workers but one that have nothing to do: each holds some memory of a card."""
        for hand in [hand for hand in self.hands if hand.task is None][1:]:
            self.ray.kill(hand.actor)
            self.hands.remove(hand)

    def close(self) -> None:
        """End all workers; what they are at is broken off and goes on next time."""
        for hand in self.hands:
            self.ray.kill(hand.actor)
        self.hands.clear()
        self.leaving.close()

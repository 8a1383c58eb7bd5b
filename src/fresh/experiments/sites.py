"""Where in a Ray cluster work is done: its nodes, each looked at before it is used."""

import math
import time
import uuid
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fresh.experiments.local import card_memory, usual_workers
from fresh.experiments.ray_cluster import (
    ANSWER_WITHIN,
    ClusterError,
    Node,
    alive_nodes,
    answer_of,
    ask,
    check_version,
    working_nodes,
)
from fresh.experiments.sight import SHARED, NodeInfo, look, mark_of, no_cards
from fresh.experiments.store import RunStore

LOOK_EVERY = 5.0
"""Seconds between two looks at which nodes there are."""
GLANCE = 0.01
"""Share of a card that a node needs to tell how large it is."""


@dataclass(frozen=True, slots=True)
class Site:
    """A node, how many workers it has room for, and what each of them gets."""

    node: Node
    n_workers: int
    n_cores: int
    card_share: float


@dataclass(slots=True)
class _Sites:
    """The nodes of a cluster that can work in a folder of runs; those that join later come in, those that die go."""

    ray: Any
    runs: RunStore
    data_dir: Path | None
    token: str
    """Name of a claim that this process has, by which nodes see that it is the same folder."""
    open: dict[str, Site] = field(default_factory=dict)
    asked: dict[str, Any] = field(default_factory=dict)
    """Nodes that have not said yet what they are like."""
    left_out: set[str] = field(default_factory=set)
    looked: float = -math.inf

    def survey(self) -> None:
        """Look at all nodes before anything is done; refuse a cluster of which one cannot work here."""
        nodes = working_nodes(self.ray)
        self.ask_new(nodes)
        self.ray.wait(list(self.asked.values()), num_returns=len(self.asked), timeout=ANSWER_WITHIN)
        for node in nodes:
            self.take_in(node)
        if not self.open:
            names = ", ".join(node.name for node in nodes)
            raise ClusterError(
                f"No node of the Ray cluster answered within {ANSWER_WITHIN:.0f} seconds: {names}. "
                "Perhaps others use all of their cards: see `ray status`."
            )
        self.looked = time.monotonic()

    def ask_new(self, nodes: Iterable[Node]) -> None:
        """Ask the nodes what they are like that were not asked yet."""
        for node in nodes:
            if node.id not in (self.asked.keys() | self.open.keys() | self.left_out):
                share, measure = (GLANCE, card_memory) if node.n_cards else (0.0, no_cards)
                about = (self.runs, self.data_dir, self.token, node.id, measure)
                self.asked[node.id] = ask(self.ray, node, look, *about, card_share=share)

    def take_in(self, node: Node) -> None:
        """Use a node from now on, if it has answered.

        :raises ClusterError: If it cannot work here.
        """
        ready, _ = self.ray.wait([self.asked[node.id]], timeout=0) if node.id in self.asked else ([], [])
        if ready:
            sight: NodeInfo = answer_of(self.ray, node, self.asked.pop(node.id))
            check_version(node, sight.version)
            if sight.problem:
                raise ClusterError(f"Node {node.name} {sight.problem}")
            if not mark_of(self.runs, self.token, node.id).is_file():
                raise ClusterError(f"What node {node.name} writes to {self.runs.path} does not arrive here. {SHARED}")
            self.open[node.id] = _site_of(node, sight.cards)

    def look_again(self) -> None:
        """See which nodes came and which went, now and then."""
        if time.monotonic() - self.looked < LOOK_EVERY:
            return
        nodes = {node.id: node for node in alive_nodes(self.ray)}
        self.open = {name: site for name, site in self.open.items() if name in nodes}
        self.asked = {name: answer for name, answer in self.asked.items() if name in nodes}
        self.ask_new(nodes.values())
        for node in nodes.values():
            try:
                self.take_in(node)
            except ClusterError as error:  # the others go on
                self.left_out.add(node.id)
                warnings.warn(f"{error} It is left out.", stacklevel=2)
        self.looked = time.monotonic()


@contextmanager
def surveyed(ray: Any, folder: Path, data_dir: Path | None) -> Iterator[_Sites]:
    """Find the nodes that can work in a folder, which bears a mark for as long as the block lasts."""
    sites = _Sites(ray, RunStore(folder), data_dir, f"cluster-{uuid.uuid4().hex}")
    try:
        with sites.runs.claimed(sites.token):
            sites.survey()
            yield sites
    finally:
        for mark in (folder / "claims").glob(f"{sites.token}*"):
            mark.unlink(missing_ok=True)


def _site_of(node: Node, cards: tuple[float, ...]) -> Site:
    """Divide a node among workers, as the local engine divides a machine.

    :param cards: Memory of a card of the node, in GB, all of which are taken to be alike; nothing if there are none.
    """
    memory = list(cards[:1]) * node.n_cards
    n_workers = usual_workers(memory, node.n_cores)
    share = math.floor(10_000 / math.ceil(n_workers / len(memory))) / 10_000 if memory else 0.0
    return Site(node, n_workers, max(1, node.n_cores // n_workers), share)

"""A Ray cluster: how it is found, and whether its nodes can work for us."""

import importlib.metadata
import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from fresh._optional import optional_import

PATIENCE = 10.0
"""Seconds to wait for a cluster to take a call."""
ANSWER_WITHIN = 60.0
"""Seconds to wait for what nodes are asked."""
OWN = "local"
"""Stands for a cluster that is started for the occasion, of this machine alone."""


class ClusterError(ValueError):
    """A cluster is not there, or cannot do what is asked of it."""


class Node(NamedTuple):
    """A machine of a cluster."""

    id: str
    name: str
    n_cores: int
    n_cards: int


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Join a cluster for as long as the block lasts.

    :param address: Where it is; that of the variable RAY_ADDRESS, or else one that is started, if not given.
    :return: The module ray.
    """
    ray = optional_import("ray", "ray", "A Ray cluster")
    if ray.is_initialized():  # whoever joined it also leaves it
        yield ray
        return
    place = address or os.environ.get("RAY_ADDRESS") or OWN
    _check_address(place)
    own = {}
    if place == OWN:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        own = {"include_dashboard": False}
    try:
        ray.init(address=place, log_to_driver=False, logging_level=logging.ERROR, **own)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ClusterError(
            f"The Ray cluster at {place} cannot be joined: {_reason_of(error)} This machine must be one of its nodes, "
            "with the same versions of Python and Ray: ray start --address=HOST:PORT."
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_address(place: str) -> None:
    """Refuse an address at which nobody answers, before Ray tries for minutes."""
    if place in ("auto", OWN):
        return
    host, _, port = place.rpartition(":")
    if "/" in place or not host or not port.isdecimal():
        raise ClusterError(
            f"{place} is not the address of a Ray cluster. Write HOST:PORT as `ray start --head` shows it, "
            "or auto for the cluster that this machine belongs to."
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise ClusterError(
            f"No Ray cluster answers at {place}: {error}. Start one with `ray start --head`, "
            "or leave the address out to use this machine alone."
        ) from error


def alive_nodes(ray: Any) -> list[Node]:
    """List the machines of the cluster that can do work."""
    found = []
    for about in ray.nodes():
        cores, cards = (int(about["Resources"].get(name, 0)) for name in ("CPU", "GPU"))
        if about["Alive"] and cores:
            name = f"{about['NodeManagerHostname']} ({about['NodeManagerAddress']})"
            found.append(Node(about["NodeID"], name, cores, cards))
    return found


def ask(ray: Any, node: Node, question: Callable[..., Any], *given: Any, card_share: float = 0.0) -> Any:
    """Have a function called on a node.

    :return: A reference to what it will return.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(node.id, soft=False)
    return ray.remote(question).options(num_cpus=0, num_gpus=card_share, scheduling_strategy=there).remote(*given)


def answer_of(ray: Any, node: Node, answer: Any) -> Any:
    """Take what a node returned, or say why it could not."""
    try:
        return ray.get(answer)
    except (ray.exceptions.RayError, RuntimeError) as error:
        raise ClusterError(
            f"Node {node.name} cannot do any work: {_reason_of(error)} "
            "All nodes need the same fresh, and all that it needs, as this machine."
        ) from error


def version() -> str:
    """Say which fresh is installed."""
    return importlib.metadata.version("fresh-rationales")


def check_version(node: Node, found: str) -> None:
    """Refuse a node with another fresh: it would do another thing."""
    if found != version():
        raise ClusterError(
            f"Node {node.name} has fresh {found} and this machine {version()}. Install the same version on both."
        )


def working_nodes(ray: Any) -> list[Node]:
    """List the nodes of a cluster that is about to be used; refuse one without any."""
    nodes = alive_nodes(ray)
    if not nodes:
        raise ClusterError("No node of the Ray cluster has a core. Add one: ray start --address=HOST:PORT.")
    return nodes


def check_nodes(ray: Any) -> list[Node]:
    """Refuse a cluster with a node that has not the same fresh as this machine, or does not answer; list its nodes."""
    answers = {ask(ray, node, version): node for node in working_nodes(ray)}
    _, missing = ray.wait(list(answers), num_returns=len(answers), timeout=ANSWER_WITHIN)
    if missing:
        names = ", ".join(answers[answer].name for answer in missing)
        raise ClusterError(
            f"These nodes of the Ray cluster did not answer within {ANSWER_WITHIN:.0f} seconds: {names}."
        )
    for answer, node in answers.items():
        check_version(node, answer_of(ray, node, answer))
    return list(answers.values())


def _reason_of(error: BaseException) -> str:
    """Say in a line what went wrong, also where it did so on another machine."""
    cause = getattr(error, "cause", None) or error
    line = next((line.strip() for line in str(cause).splitlines() if line.strip()), type(cause).__name__)
    return line if line.endswith(".") else f"{line}."

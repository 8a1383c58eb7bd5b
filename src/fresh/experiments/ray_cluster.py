"""A Ray cluster: joining it, and checking its nodes."""

# Nodes import this module to answer, so it does not import torch, which takes seconds.

import fcntl
import importlib.metadata
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from fresh._optional import optional_import
from fresh.errors import FreshError, first_line
from fresh.experiments.store import RunStore

CONNECT_SECONDS = 10.0  # maximum number of seconds until a cluster accepts a connection
ANSWER_SECONDS = 60.0  # maximum number of seconds until nodes answer
LOCAL = "local"  # address of a new cluster of this machine alone
SHARED = "Choose a folder that all nodes see under the same name, on a shared disk."
LOCKS = "The shared disk must support locks (flock) from all nodes: see docs/how-to/cluster.md."


class ClusterError(FreshError, ValueError):
    """A Ray cluster that cannot be joined, or whose nodes cannot work."""


class Node(NamedTuple):
    """A machine of a cluster."""

    id: str
    name: str
    n_cores: int
    n_gpus: int


class NodeInfo(NamedTuple):
    """A node's answer about itself."""

    version: str
    problem: str  # why it cannot work in the folder of runs; empty if it can
    gpu_memory: tuple[float, ...]  # memory of its GPUs, in GB


@contextmanager
def connect(address: str | None) -> Iterator[Any]:
    """Join a cluster, and leave it at the end of the block.

    :param address: HOST:PORT, auto, or local; by default the variable RAY_ADDRESS, or local.
    :return: The module ray.
    """
    ray = optional_import("ray", "ray", "A Ray cluster")
    if ray.is_initialized():  # the caller who joined the cluster also leaves it
        yield ray
        return
    address = address or os.environ.get("RAY_ADDRESS") or LOCAL
    options = {}
    if address == LOCAL:
        # A cluster that exists only for this command sends no statistics and needs no dashboard.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options = {"include_dashboard": False}
    elif address != "auto":
        _check_address(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ClusterError(
            f"Cannot join the Ray cluster at {address}: {_cause(error)} This machine must be one of its nodes, "
            "with the same versions of Python and Ray: ray start --address=HOST:PORT."
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_address(address: str) -> None:
    # Checked here, since Ray tries for minutes to connect to an address where nothing listens.
    host, _, port = address.rpartition(":")
    if "/" in address or not host or not port.isdecimal():
        raise ClusterError(
            f"{address} is not the address of a Ray cluster. Use HOST:PORT as `ray start --head` shows it, "
            "or auto for the cluster that this machine belongs to."
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        hint = "Start one with `ray start --head`, or leave out the address to use this machine alone."
        raise ClusterError(f"No Ray cluster answers at {address}: {error}. {hint}") from error


def alive_nodes(ray: Any) -> list[Node]:
    """List the nodes of a cluster that have cores."""
    nodes: list[Node] = []
    for about in ray.nodes():
        n_cores, n_gpus = (int(about["Resources"].get(name, 0)) for name in ("CPU", "GPU"))
        if about["Alive"] and n_cores:
            name = f"{about['NodeManagerHostname']} ({about['NodeManagerAddress']})"
            nodes.append(Node(about["NodeID"], name, n_cores, n_gpus))
    return nodes


def call_on_node(ray: Any, node: Node, function: Callable[..., Any], *arguments: Any, gpu_share: float = 0.0) -> Any:
    """Call a function on a node, and return a reference to its result."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(node.id, soft=False)
    return ray.remote(function).options(num_cpus=0, num_gpus=gpu_share, scheduling_strategy=there).remote(*arguments)


def get_result(ray: Any, node: Node, reference: Any) -> Any:
    """Get the result of a call on a node."""
    try:
        return ray.get(reference)
    except (ray.exceptions.RayError, RuntimeError) as error:
        reason = f"{_cause(error)} All nodes need the same installation of fresh."
        raise ClusterError(f"Node {node.name} cannot work: {reason}") from error


def _cause(error: BaseException) -> str:
    # Errors from other nodes hold a long traceback, and the exception that was raised there as their cause.
    cause = getattr(error, "cause", None) or error
    line = first_line(cause) or type(cause).__name__
    return line if line.endswith(".") else f"{line}."


def check_nodes(ray: Any) -> list[Node]:
    """List the nodes of a cluster; refuse one without nodes, or with a node that has another version of fresh."""
    nodes = nodes_with_cores(ray)
    answers = {call_on_node(ray, node, installed_version): node for node in nodes}
    _, missing = ray.wait(list(answers), num_returns=len(answers), timeout=ANSWER_SECONDS)
    if missing:
        raise no_answer([answers[reference] for reference in missing])
    for reference, node in answers.items():
        check_version(node, get_result(ray, node, reference))
    return nodes


def nodes_with_cores(ray: Any) -> list[Node]:
    """List the nodes of a cluster; refuse one without any."""
    nodes = alive_nodes(ray)
    if not nodes:
        raise ClusterError("No node of the Ray cluster has a core. Add one: ray start --address=HOST:PORT.")
    return nodes


def no_answer(nodes: Sequence[Node]) -> ClusterError:
    """Make the error for nodes that do not answer."""
    return ClusterError(
        f"No answer within {ANSWER_SECONDS:.0f} seconds from these nodes of the Ray cluster: "
        f"{', '.join(node.name for node in nodes)}. Perhaps other jobs use all of their GPUs: see `ray status`."
    )


def installed_version() -> str:
    """Return the version of fresh on this machine."""
    return importlib.metadata.version("fresh-rationales")


def check_version(node: Node, version: str) -> None:
    """Refuse a node with another version of fresh, whose results may differ."""
    if version != installed_version():
        versions = f"{version}, this machine {installed_version()}"
        raise ClusterError(f"Node {node.name} has fresh {versions}. Install one version on both.")


def marker_file(store: RunStore, token: str, node_id: str = "") -> Path:
    """Return the file by which this process, or a node, shows that it sees the folder of runs."""
    return store.path / "claims" / (f"{token}-{node_id}" if node_id else token)


def inspect_node(
    store: RunStore, data_dir: Path | None, token: str, node_id: str, gpu_memory: Callable[[], Sequence[float]] | None
) -> NodeInfo:
    """Describe the node that this runs on, and leave a marker in the folder of runs.

    :param token: Name of a lock that the caller's machine holds in the folder.
    :param gpu_memory: Looks up the memory of GPUs; None for a node without GPUs.
    """
    problem = _find_problem(store, data_dir, token)
    if not problem:
        try:
            marker_file(store, token, node_id).touch()
        except OSError as error:
            problem = f"cannot write to {store.path}: {error.strerror}. {SHARED}"
    return NodeInfo(installed_version(), problem, tuple(gpu_memory() if gpu_memory else ()))


def _find_problem(store: RunStore, data_dir: Path | None, token: str) -> str:
    if data_dir is not None and not data_dir.is_dir():
        return f"has no folder {data_dir}, which `data_dir` names. {SHARED}"
    # If this machine can take a lock that another holds, the disk has no locks, and two workers would do one run.
    try:
        with marker_file(store, token).open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return f"does not see what this machine writes to {store.path}. {SHARED}"
    except BlockingIOError:
        return ""
    except OSError as error:
        return f"cannot work in {store.path}: {error.strerror}. {LOCKS}"
    return f"does not see the locks of this machine in {store.path}. {LOCKS}"

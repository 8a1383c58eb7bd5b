"""What a node of a cluster sees of a folder of runs; it loads little, so that all nodes answer soon."""

import fcntl
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from fresh.experiments.ray_cluster import version
from fresh.experiments.store import RunStore

SHARED = "Name a folder that all nodes see under the same name, on a disk that they share."
LOCKS = "The disk that they share must take locks (flock) from all of them: docs/how-to/cluster.md says how."


class NodeInfo(NamedTuple):
    """What a node is like, as it sees itself."""

    version: str
    problem: str
    """Why it cannot work in the folder of runs; empty if it can."""
    cards: tuple[float, ...]
    """Memory of the cards that it was shown, in GB."""


def mark_of(runs: RunStore, token: str, node_id: str = "") -> Path:
    """Name the file by which this process, or a node, shows that it is in the folder."""
    return runs.path / "claims" / (f"{token}-{node_id}" if node_id else token)


def look(
    runs: RunStore, data_dir: Path | None, token: str, node_id: str, measure: Callable[[], Iterable[float]]
) -> NodeInfo:
    """Say what this node is like, and leave a mark in the folder of runs.

    :param measure: Finds the memory of cards; where there are none, none must be looked for, which takes a while.
    """
    problem = _problem_of(runs, data_dir, token)
    if not problem:
        try:
            mark_of(runs, token, node_id).touch()
        except OSError as error:
            problem = f"cannot write to {runs.path}: {error.strerror}. {SHARED}"
    return NodeInfo(version(), problem, tuple(measure()))


def _problem_of(runs: RunStore, data_dir: Path | None, token: str) -> str:
    """Say why no work can be done here in a folder of runs, where a token is claimed by another machine."""
    if data_dir is not None and not data_dir.is_dir():
        return f"has no folder {data_dir}, which `data_dir` names. {SHARED}"
    try:
        with mark_of(runs, token).open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return f"does not see what is written to {runs.path} here. {SHARED}"
    except BlockingIOError:
        return ""
    except OSError as error:
        return f"cannot work in {runs.path}: {error.strerror}. {LOCKS}"
    return f"does not see which files in {runs.path} are locked here. {LOCKS}"


def no_cards() -> list[float]:
    """Find nothing, where there is nothing to find."""
    return []

"""A Ray cluster of two nodes on this machine."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80_000_000}


@contextmanager
def two_nodes() -> Iterator[Any]:
    """Start two nodes with one core each, and wait until all their processes have ended."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.pop("RAY_ADDRESS", None)
    from ray._common.utils import get_ray_address_file
    from ray.cluster_utils import Cluster

    Path(get_ray_address_file(None)).parent.mkdir(exist_ok=True)  # Ray notes there which cluster it began last
    # The names of Ray's sockets must be short, and memory that is shared may be scarce.
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as place:
        own: dict[str, Any] = {"temp_dir": place, "plasma_directory": place}
        cluster: Any = Cluster(True, head_node_args={**NODE, **own, "include_dashboard": False})
        try:
            cluster.add_node(**NODE, **own)
            yield cluster
        finally:
            cluster.shutdown()
            until(lambda: not any(map(is_of_ray, own_processes())), 30)


def own_processes() -> list[psutil.Process]:
    found: list[psutil.Process] = psutil.Process().children(recursive=True)
    return found


def is_of_ray(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return any("ray" in word for word in (process.name(), *process.cmdline()))
    return False


def who_has_open(path: Path) -> psutil.Process | None:
    """Find the descendant of this process that has a file open."""
    for process in own_processes():
        with suppress(psutil.Error):
            if any(file.path == str(path) for file in process.open_files()):
                return process
    return None


def until(holds: Callable[[], Any], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "It did not happen in time."
        time.sleep(0.02)

"""Joining a cluster, and checks of its nodes, without a cluster."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.errors import ConfigError
from fresh.experiments import ray_executor
from fresh.experiments.ray_cluster import (
    ClusterError,
    Node,
    _cause,
    _check_address,
    _find_problem,
    check_version,
    inspect_node,
    installed_version,
)
from fresh.experiments.ray_executor import RayExecutor, WorkerNode, _divide_node, _NodePool
from fresh.experiments.store import RunStore

NODE = Node("a1", "big (10.0.0.1)", 8, 0)


@pytest.mark.parametrize("address", ["head", ":6379", "head:", "head:port", "http://head:6379", "ray://head:10001"])
def test_an_address_names_a_host_and_a_port(address: str) -> None:
    with pytest.raises(ClusterError, match=f"^{address} is not the address of a Ray cluster"):
        _check_address(address)
    with pytest.raises(ClusterError, match=r"^No Ray cluster answers at 127\.0\.0\.1:70000: "):
        _check_address("127.0.0.1:70000")


def test_no_worker_and_a_missing_ray_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="workers must be at least 1, got -1"):
        RayExecutor(tmp_path, None, n_workers=-1)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"needs ray\..*fresh-rationales\[ray\]"):
        RayExecutor(tmp_path, None)


def test_a_cluster_that_cannot_be_joined_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_options: Any) -> None:
        raise RuntimeError("Version mismatch: 3.11 here, 3.12 there\nmore")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False, init=init))
    message = r"^Cannot join the Ray cluster at auto: Version mismatch: 3\.11 here, 3\.12 there\. .*same versions"
    with pytest.raises(ClusterError, match=message):
        RayExecutor(tmp_path, None, "auto")


def test_a_node_with_another_version_is_refused() -> None:
    check_version(NODE, installed_version())
    with pytest.raises(ClusterError, match=rf"^Node big \(10\.0\.0\.1\) has fresh 0\.0, .*{installed_version()}"):
        check_version(NODE, "0.0")


def test_a_reason_is_one_line() -> None:
    class RemoteError(Exception):
        cause = ModuleNotFoundError("No module named 'fresh'\nmore")

    assert _cause(RemoteError("a trace")) == "No module named 'fresh'."
    assert _cause(RuntimeError("It broke.")) == "It broke."
    assert _cause(RuntimeError()) == "RuntimeError."


def test_a_node_checks_the_folder_of_runs_and_its_locks(tmp_path: Path) -> None:
    store, missing = RunStore(tmp_path), tmp_path / "data"
    assert _find_problem(store, None, "token").startswith(f"does not see what this machine writes to {tmp_path}.")
    assert _find_problem(store, missing, "token").startswith(f"has no folder {missing}, which `data_dir` names.")
    with store.claim("token"):
        assert _find_problem(store, tmp_path, "token") == ""
        assert inspect_node(store, None, "token", "a1", None) == (installed_version(), "", ())
        assert inspect_node(store, None, "token", "a1", lambda: [80.0]).gpu_memory == (80.0,)
        assert (tmp_path / "claims/token-a1").is_file()
    problem = _find_problem(store, None, "token")
    assert problem.startswith(f"does not see the locks of this machine in {tmp_path}.")
    assert "docs/how-to/cluster.md" in problem


@pytest.mark.parametrize(
    ("n_cores", "n_gpus", "memory", "expected"),
    [
        *((1, 0, (), (1, 1, 0.0)), (8, 0, (), (4, 2, 0.0)), (32, 2, (141.0,), (12, 2, 0.1666))),
        *((3, 2, (141.0,), (3, 1, 0.5)), (8, 1, (8.0,), (1, 8, 1.0)), (8, 1, (), (4, 2, 0.0))),
    ],
)
def test_a_node_is_divided(
    n_cores: int, n_gpus: int, memory: tuple[float, ...], expected: tuple[int, int, float]
) -> None:
    node = Node("a1", "big", n_cores, n_gpus)
    assert _divide_node(node, memory) == WorkerNode(node, *expected)


@given(st.integers(1, 256), st.integers(0, 16), st.floats(1, 200))
def test_all_workers_of_a_node_fit_on_it(n_cores: int, n_gpus: int, memory: float) -> None:
    node = _divide_node(Node("a1", "big", n_cores, n_gpus), (memory,) if n_gpus else ())
    assert node.n_workers * node.n_cores <= n_cores
    assert (node.gpu_share > 0) == (n_gpus > 0)
    if n_gpus:
        assert node.n_workers <= n_gpus * int(1 / node.gpu_share)


ANSWERING = Mock(wait=lambda references, **_options: (references, []))
SILENT = Mock(wait=lambda references, **_options: ([], references))
"""Stand for Ray: nodes that answer at once, or never."""


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> list[Node]:
    """The nodes of a cluster that does not exist; calls on them are made here."""
    found = [NODE]
    for name in ("alive_nodes", "nodes_with_cores"):
        monkeypatch.setattr(ray_executor, name, lambda _ray: list(found))
    call = lambda _ray, _node, function, *arguments, gpu_share: function(*arguments)  # noqa: E731
    monkeypatch.setattr(ray_executor, "call_on_node", call)
    monkeypatch.setattr(ray_executor, "get_result", lambda _ray, _node, reference: reference)
    monkeypatch.setattr(ray_executor, "REFRESH_SECONDS", 0.0)
    return found


def test_a_node_that_cannot_work_is_refused_at_the_start(nodes: list[Node], tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"^Node big \(10\.0\.0\.1\) does not see what this machine writes to"):
        _NodePool(ANSWERING, RunStore(tmp_path), None, "token").check_all()


def test_a_node_that_cannot_work_is_not_used_later(nodes: list[Node], tmp_path: Path) -> None:
    pool = _NodePool(ANSWERING, RunStore(tmp_path), None, "token")
    with pool.store.claim("token"):
        pool.check_all()
        assert list(pool.ready) == ["a1"]
    nodes.append(Node("b2", "late (10.0.0.2)", 4, 0))
    with pytest.warns(UserWarning, match=r"^Node late \(10\.0\.0\.2\) does not see the locks .* is not used\.$"):
        pool.refresh()
    pool.refresh()
    assert list(pool.ready) == ["a1"]


def test_nodes_that_never_answer_are_named(nodes: list[Node], tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"^No answer within 60 seconds from .*big \(10\.0\.0\.1\).*`ray status`"):
        _NodePool(SILENT, RunStore(tmp_path), None, "token").check_all()

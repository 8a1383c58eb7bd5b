"""Toy grids and runs for tests of experiments."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments import Writer, toy_grid, write_grid
from fresh.data.splits import Splits
from fresh.errors import ConfigError
from fresh.experiments.grid_file import read_grid
from fresh.experiments.store import RunStore
from fresh.experiments.worker import Worker


@pytest.fixture
def grid(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> Writer:
    """Writes a grid over a toy corpus."""
    return lambda *rows, **parts: toy_grid(tmp_path, toy, encoders["bert"], *rows, **parts)


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    """A folder of runs, which is not there yet."""
    return RunStore(tmp_path / "runs")


@pytest.fixture
def worker(store: RunStore) -> Worker:
    return Worker(store, None)


@pytest.fixture
def problems(tmp_path: Path) -> Callable[..., list[str]]:
    """Reads a grid file over the paper's corpora, and lists what is wrong with it."""

    def find(*rows: dict[str, Any], overrides: dict[str, Any] | None = None, **parts: Any) -> list[str]:
        path = write_grid(tmp_path / "grid.toml", *rows, **parts)
        try:
            read_grid(path, overrides)
        except ConfigError as error:
            lines = str(error).splitlines()
            assert all(line.startswith(f"In {path}: ") for line in lines)
            return [line.removeprefix(f"In {path}: ") for line in lines]
        return []

    return find


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A Ray cluster of two nodes."""
    from two_nodes import two_nodes

    with two_nodes() as started:
        yield started

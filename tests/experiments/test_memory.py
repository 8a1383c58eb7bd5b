import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fresh.experiments.sources
import small
from experiments import plan, toy_grid, write_grid, write_toy
from fresh.data.splits import Splits
from fresh.errors import ConfigError
from fresh.experiments.grid_file import read_grid
from fresh.experiments.sources import _stamp_files
from fresh.experiments.store import RunStore
from fresh.pipeline import read_splits

ROWS = ({"method": "full_text"}, {"scorer": "attention", "seed": [0, 1]})


@pytest.fixture
def n_read(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """List each reading of a corpus."""
    seen: list[Any] = []

    def read(*given: Any) -> Splits:
        seen.append(given[0])
        return read_splits(*given)

    monkeypatch.setattr(fresh.experiments.sources, "read_splits", read)
    return seen


@pytest.fixture
def planned(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> Callable[..., list[str]]:
    """Plan a grid over a toy corpus, and list the keys of its tasks."""
    path = toy_grid(tmp_path, toy, encoders["bert"], *ROWS)

    def make(out: str = "runs", documents: int | None = None) -> list[str]:
        return [task.key for task in plan(read_grid(path, {}, documents), None, RunStore(tmp_path / out))]

    return make


def test_files_that_have_not_changed_are_not_read_again(planned: Callable[..., list[str]], n_read: list[Any]) -> None:
    first = planned()
    assert len(n_read) == 2  # files of one's own may be divided by the seed
    assert planned() == first
    assert len(n_read) == 2
    assert planned("elsewhere") == first
    assert len(n_read) == 4


def test_files_that_are_divided_by_the_seed_are_read_once_for_each(
    toy: Splits, encoders: dict[str, Path], tmp_path: Path, n_read: list[Any]
) -> None:
    row = {
        "tagger": True,
        "human": [0.2, 0.5, 1.0],
        "seed": [0, 1, 2],
    }  # people's rationales are looked at for each run
    plan(read_grid(toy_grid(tmp_path, toy, encoders["bert"], row)), None, RunStore(tmp_path / "runs"))
    assert len(n_read) == 3


def rewrite(folder: Path, toy: Splits) -> None:
    """Put another training document in the place of the first, and have the file look as old as before."""
    place = folder / "train.jsonl"
    before = place.stat()
    lines = place.read_text(encoding="utf-8").splitlines(keepends=True)
    place.write_text("".join((lines[1], lines[0], *lines[2:])), encoding="utf-8")
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert place.stat().st_size == before.st_size


def add(folder: Path, toy: Splits) -> None:
    """Give more training documents."""
    write_toy(folder, toy, n_train=49)


@pytest.mark.parametrize("change", [rewrite, add])
def test_a_file_that_changed_is_read_again(
    change: Callable[[Path, Splits], None],
    planned: Callable[..., list[str]],
    n_read: list[Any],
    toy: Splits,
    tmp_path: Path,
) -> None:
    first = planned()
    change(tmp_path / "toy", toy)
    second = planned()
    assert len(n_read) == 4
    assert not set(first) & set(second)
    shutil.rmtree(tmp_path / "runs")
    assert planned() == second


def test_other_code_or_other_documents_are_read_again(
    planned: Callable[..., list[str]], n_read: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    planned()
    planned(documents=9)
    assert len(n_read) == 4
    monkeypatch.setattr(fresh.experiments.sources, "_stamp_code", lambda: [("reader.py", 1, 2, 3)])
    planned()
    assert len(n_read) == 6


@pytest.mark.parametrize("text", ["", "{", '{"digest": 3, "n_words": 3}', '{"digest": "abc"}'])
def test_a_memory_that_is_damaged_is_made_anew(
    text: str, planned: Callable[..., list[str]], n_read: list[Any], tmp_path: Path
) -> None:
    first = planned()
    for place in (tmp_path / "runs/known").iterdir():
        place.write_text(text, encoding="utf-8")
    assert planned() == first
    assert len(n_read) == 4
    planned()
    assert len(n_read) == 4


def test_a_file_that_is_no_more_is_missed(planned: Callable[..., list[str]], tmp_path: Path) -> None:
    planned()
    shutil.rmtree(tmp_path / "toy")
    with pytest.raises(ConfigError, match=r"toy does not exist\."):
        planned()


def test_the_folder_of_a_named_corpus_is_looked_at_as_a_whole(
    toy: Splits, encoders: dict[str, Path], tmp_path: Path, n_read: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data/sst").mkdir(parents=True)
    for part in ("train", "dev", "test"):
        rows = [{"document": e.document.text, "label": e.label} for e in getattr(toy, part)[:16]]
        small.write_jsonl(tmp_path / f"data/sst/{part}.jsonl", rows)
    grid = write_grid(tmp_path / "g.toml", *ROWS, grid={"corpus": "sst"}, settings=small.settings(encoders["bert"]))
    for n_times in (1, 1):
        plan(read_grid(grid), tmp_path / "data", RunStore(tmp_path / "runs"))
        assert len(n_read) == n_times
    (tmp_path / "data/sst/more.txt").touch()
    plan(read_grid(grid), tmp_path / "data", RunStore(tmp_path / "runs"))
    assert len(n_read) == 2
    monkeypatch.setattr(fresh.experiments.sources, "MAX_FILES", 3)  # too many to look at: read each time
    for n_times in (3, 4):
        plan(read_grid(grid), tmp_path / "data", RunStore(tmp_path / "runs"))
        assert len(n_read) == n_times


def test_links_to_nowhere_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    [stamp] = _stamp_files([tmp_path, tmp_path / "gone"]) or []
    assert stamp[:2] == (str(tmp_path / "file"), 0)

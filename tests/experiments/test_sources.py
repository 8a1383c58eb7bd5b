import os
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

import fresh.experiments.sources
import small
from experiments import Writer, plan, write_grid, write_toy
from fresh.data.splits import Splits
from fresh.errors import DataError
from fresh.experiments.grid_file import read_grid
from fresh.experiments.sources import N_IN_MEMORY, Sources, _stamp_files, sample
from fresh.experiments.store import RunStore
from fresh.pipeline import read_splits

ROWS = ({"method": "full_text"}, {"scorer": "attention", "seed": [0, 1]})
Planned = Callable[..., list[str]]


@pytest.fixture
def write(encoders: dict[str, Path], tmp_path: Path) -> Writer:
    """Writes a grid file."""
    settings = small.settings(encoders["bert"])
    return lambda *rows, **parts: write_grid(tmp_path / "g.toml", *rows, settings=settings, **parts)


def test_a_sample_is_random_nested_and_in_order(toy: Splits) -> None:
    assert sample(toy.train, None) == sample(toy.train, 999) == toy.train
    few, more = sample(toy.train, 20), sample(toy.train, 40)
    assert (len(few), len(more)) == (20, 40)
    assert set(map(id, few)) <= set(map(id, more))
    places = [[id(example) for example in toy.train].index(id(example)) for example in more]
    assert places == sorted(places) != list(range(40))
    assert sample(toy.train, 20) == few


def test_a_sample_without_a_class_is_refused(write: Writer, tmp_path: Path) -> None:
    (tmp_path / "three").mkdir()
    labels = ["a"] * 20 + ["b"] * 20 + ["rare"]
    rows = [{"id": f"{place}", "text": f"a b {place}", "label": own} for place, own in enumerate(labels)]
    for name in ("train", "dev", "test"):
        small.write_jsonl(tmp_path / f"three/{name}.jsonl", rows)
    path = write({}, corpora={"three": {"data": "three"}})

    def read(n_documents: int) -> Splits:
        [spec] = read_grid(path, documents=n_documents).specs
        return Sources(None).splits(spec, spec.resolve(None))

    for n_few in (1, 2, 26):
        with pytest.raises(DataError, match=f"documents = {n_few} is too few for all 3 classes of three.*=27"):
            read(n_few)
    assert read(27).labels == read(99).labels == ("a", "b", "rare")


def test_samples_and_splits_have_digests_of_their_own(toy: Splits, write: Writer, tmp_path: Path) -> None:
    table = small.write_csv(tmp_path / "toy.csv", small.rows(toy.train))
    digests: list[str] = []
    for about in ({}, {"dev_share": 0.2}, {"seed": 1}):
        path = write({}, corpora={"toy": {"data": table.name, **about}})
        for documents in (None, 20):
            [spec] = read_grid(path, documents=documents).specs
            digests.append(Sources(None).summary(spec, spec.resolve(None)).digest)
    assert len(set(digests)) == 6


def test_only_the_last_corpora_stay_in_memory(toy: Splits, write: Writer, tmp_path: Path) -> None:
    corpora = {f"toy{n}": {"data": write_toy(tmp_path / f"toy{n}", toy, 8 + n).name} for n in range(4)}
    sources = Sources(None)
    for spec in read_grid(write({}, corpora=corpora)).specs:
        run = spec.resolve(None)
        splits = sources.splits(spec, run)
        assert sources.usable_splits(spec, run) == splits
        assert sources.splits(spec, run) is splits
        assert sources.summary(spec, run).n_words == sum(len(item.document.words) for item in splits.train)
    assert len(sources.splits_in_memory) == len(sources.usable_in_memory) == N_IN_MEMORY
    assert len(sources.summaries) == 4


# Summaries of corpora whose files have not changed


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Counts the corpora that are read."""
    counting = Mock(side_effect=read_splits)
    monkeypatch.setattr(fresh.experiments.sources, "read_splits", counting)
    return counting


@pytest.fixture
def planned(grid: Writer, tmp_path: Path) -> Planned:
    """Plans a grid over a toy corpus, and lists the keys of its tasks."""
    path = grid(*ROWS)

    def make(out: str = "runs", documents: int | None = None) -> list[str]:
        return [task.key for task in plan(read_grid(path, {}, documents), None, RunStore(tmp_path / out))]

    return make


def test_unchanged_files_are_not_read_again(planned: Planned, read: Mock) -> None:
    first = planned()
    assert read.call_count == 2  # one for each seed, which may split custom files
    assert planned() == first
    assert read.call_count == 2
    assert planned("elsewhere") == first
    assert read.call_count == 4


def test_each_split_by_a_seed_is_read_once(grid: Writer, store: RunStore, read: Mock) -> None:
    row = {"tagger": True, "human": [0.2, 0.5, 1.0], "seed": [0, 1, 2]}  # each run looks at human rationales
    plan(read_grid(grid(row)), None, store)
    assert read.call_count == 3


def test_a_file_that_changed_is_read_again(planned: Planned, read: Mock, tmp_path: Path) -> None:
    first, path = planned(), tmp_path / "toy/train.jsonl"
    before = path.stat()
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join((lines[1], lines[0], *lines[2:])), encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    second = planned()
    assert read.call_count == 4
    assert not set(first) & set(second)
    shutil.rmtree(tmp_path / "runs")
    assert planned() == second


def test_other_code_or_samples_are_read_again(planned: Planned, read: Mock, monkeypatch: pytest.MonkeyPatch) -> None:
    planned()
    planned(documents=9)
    assert read.call_count == 4
    monkeypatch.setattr(fresh.experiments.sources, "_stamp_code", lambda: [("reader.py", 1, 2, 3)])
    planned()
    assert read.call_count == 6


@pytest.mark.parametrize("text", ["", "{", '{"digest": 3, "n_words": 3}', '{"digest": "abc"}'])
def test_a_damaged_summary_is_replaced(text: str, planned: Planned, read: Mock, tmp_path: Path) -> None:
    first = planned()
    for path in (tmp_path / "runs/known").iterdir():
        path.write_text(text, encoding="utf-8")
    for _ in range(2):
        assert planned() == first
        assert read.call_count == 4


def test_the_whole_folder_of_a_named_corpus_is_checked(
    toy: Splits, write: Writer, store: RunStore, tmp_path: Path, read: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data/sst").mkdir(parents=True)
    for part in ("train", "dev", "test"):
        rows = [{"document": e.document.text, "label": e.label} for e in getattr(toy, part)[:16]]
        small.write_jsonl(tmp_path / f"data/sst/{part}.jsonl", rows)
    path = write(*ROWS, grid={"corpus": "sst"})

    def plan_and_count() -> int:
        plan(read_grid(path), tmp_path / "data", store)
        return read.call_count

    assert [plan_and_count(), plan_and_count()] == [1, 1]
    (tmp_path / "data/sst/more.txt").touch()
    assert plan_and_count() == 2
    monkeypatch.setattr(fresh.experiments.sources, "MAX_FILES", 3)  # too many to look at: read each time
    assert [plan_and_count(), plan_and_count()] == [3, 4]


def test_broken_links_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    [stamp] = _stamp_files([tmp_path, tmp_path / "gone"]) or []
    assert stamp[:2] == (str(tmp_path / "file"), 0)

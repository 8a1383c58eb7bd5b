import errno
import gc
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fresh.training.feature_store import CacheKey, FeatureStore, _StoreError, digest, readable
from shared_recipe_resume import Saying
from shared_store import Usage, cannot_keep

# A folder that nobody closed is closed when its shelf goes, which Python may remark upon.
CPU = torch.device("cpu")
GB = 1e-9
"""One byte, in gigabytes."""


class Filler:
    """Fills rows with numbers that depend on their place, and counts how often."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, rows: Tensor) -> None:
        self.calls += 1
        rows.copy_(numbers(*rows.shape))


def numbers(n_rows: int, width: int) -> Tensor:
    return torch.arange(n_rows * width).view(n_rows, width) + 0.123


def wanted(key: str = "some", n_pieces: int = 50, dtype: torch.dtype = torch.float32) -> CacheKey:
    return CacheKey(key, n_pieces, 4, dtype)


def is_mapped(rows: Tensor, folder: Path) -> bool:
    """Whether some rows lie in a file of a folder."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    spans = [line.split(maxsplit=5) for line in lines if str(folder) in line]
    ends = [tuple(int(end, 16) for end in span[0].split("-")) for span in spans]
    return any(start <= rows.data_ptr() < end for start, end in ends)


# Where things are kept


def test_what_is_kept_is_computed_once() -> None:
    feature_store, fill = FeatureStore("memory"), Filler()
    first, second = (feature_store.fetch(wanted(), CPU, fill) for _ in range(2))
    assert torch.equal(first, numbers(50, 4))
    assert second is first
    feature_store.fetch(wanted("other"), CPU, fill)
    assert fill.calls == 2


IN_MEMORY = (("memory", None), ("memory", 0), ("auto", None), ("auto", 800 * GB))
IN_FILE = (("auto", 799 * GB), ("auto", 0), ("file", None), ("file", 100))


@pytest.mark.parametrize(
    ("place", "gigabytes", "in_file"), [*((*item, False) for item in IN_MEMORY), *((*item, True) for item in IN_FILE)]
)
def test_a_shelf_keeps_things_where_it_is_told(place: Any, gigabytes: float | None, in_file: bool) -> None:
    feature_store = FeatureStore(place, gigabytes)
    rows = feature_store.fetch(wanted(), CPU, Filler())  # 800 bytes
    assert torch.equal(rows, numbers(50, 4))
    assert (feature_store.temporary is not None) is in_file
    assert feature_store.temporary is None or is_mapped(rows, feature_store.temporary)


def test_half_of_what_is_free_is_used_if_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fresh.training.feature_store._free_memory", lambda: 1600)
    assert FeatureStore("auto").choose(wanted(), CPU) == CPU
    monkeypatch.setattr("fresh.training.feature_store._free_memory", lambda: 1599)
    assert FeatureStore("auto").choose(wanted(), CPU) is None


def test_older_things_make_room() -> None:
    feature_store, fill = FeatureStore("auto", 1700 * GB), Filler()
    for key in ("first", "second"):
        feature_store.fetch(wanted(key), CPU, fill)
    assert (list(feature_store.held), fill.calls) == (["first", "second"], 2)
    feature_store.fetch(wanted("third"), CPU, fill)
    assert "third" in feature_store.held
    assert feature_store.temporary is None
    assert sum(rows.nbytes for rows in feature_store.held.values()) <= 1700
    feature_store.fetch(wanted("first"), CPU, fill)
    assert fill.calls == 4


def test_what_an_earlier_run_kept_is_said_to_be_found(tmp_path: Path) -> None:
    shelves = [FeatureStore("memory", folder=tmp_path) for _ in range(2)]
    for feature_store, place in zip(shelves, ["memory", f"memory, found in {tmp_path}"], strict=True):
        feature_store.fetch(wanted(), CPU, Filler())
        assert feature_store.where(wanted().key) == place


def test_temporary_files_go_with_their_shelf() -> None:
    feature_store = FeatureStore("file")
    rows = feature_store.fetch(wanted(), CPU, Filler())
    assert feature_store.temporary is not None
    folder = feature_store.temporary
    assert {path.name for path in folder.iterdir()} == {"some.bin", "some.json"}
    del feature_store
    gc.collect()
    assert not folder.exists()
    assert torch.equal(rows, numbers(50, 4))  # whoever still reads them has them


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("place", ["memory", "file"])
def test_numbers_come_back_as_precise_as_they_were_asked_for(dtype: torch.dtype, place: Any, tmp_path: Path) -> None:
    for _ in range(2):  # the second time from the file
        rows = FeatureStore(place, folder=tmp_path).fetch(wanted(dtype=dtype), CPU, Filler())
        assert rows.dtype == dtype
        assert torch.equal(rows, numbers(50, 4).to(dtype))
    assert (tmp_path / "some.bin").stat().st_size == 200 * dtype.itemsize


# Folders


def no_fill(_rows: Tensor) -> None:
    pytest.fail("It was computed again.")


@pytest.mark.parametrize("place", ["auto", "memory", "file"])
def test_a_folder_serves_later_runs(place: Any, tmp_path: Path) -> None:
    FeatureStore(place, folder=tmp_path / "kept" / "here").fetch(wanted(), CPU, Filler())
    saying = Saying()
    rows = FeatureStore(place, folder=tmp_path / "kept" / "here").fetch(wanted(), CPU, no_fill, saying)
    assert torch.equal(rows, numbers(50, 4))
    assert saying.lines == []
    assert is_mapped(rows, tmp_path) == (place == "file")


def test_other_contents_have_another_file(tmp_path: Path) -> None:
    fill = Filler()
    for key in ("one", "two", "one"):
        FeatureStore("file", folder=tmp_path).fetch(wanted(key), CPU, fill)
    assert fill.calls == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.bin", "one.json", "two.bin", "two.json"]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[417] ^= 1
    path.write_bytes(content)


def rewrite(path: Path, about: object) -> None:
    path.with_suffix(".json").write_text(json.dumps(about), encoding="utf-8")


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "flipped": (flip, "its checksum is another"),
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:-1]), "it has 799 bytes where 800 are expected"),
    "longer": (lambda path: path.write_bytes(path.read_bytes() + b"x"), "it has 801 bytes where 800 are expected"),
    "unfinished": (lambda path: path.with_suffix(".json").unlink(), "what is said about it cannot be read"),
    "note": (lambda path: path.with_suffix(".json").write_bytes(b"\xff{"), "what is said about it cannot be read"),
    "list": (lambda path: rewrite(path, []), "what is said about it is not so"),
    "unchecked": (lambda path: rewrite(path, {"bytes": 800}), "its checksum is another"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_made_anew_and_that_is_said(damage: str, tmp_path: Path) -> None:
    fill, saying, path = Filler(), Saying(), tmp_path / "some.bin"
    FeatureStore("file", folder=tmp_path).fetch(wanted(), CPU, fill)
    spoil, problem = DAMAGES[damage]
    spoil(path)
    rows = FeatureStore("file", folder=tmp_path).fetch(wanted(), CPU, fill, saying)
    assert saying.lines == [f"{path} is damaged ({problem}) and is made anew."]
    assert torch.equal(rows, numbers(50, 4))
    FeatureStore("file", folder=tmp_path).fetch(wanted(), CPU, no_fill)


def test_a_file_that_is_gone_is_no_damage(tmp_path: Path) -> None:
    saying = Saying()
    FeatureStore("file", folder=tmp_path).fetch(wanted(), CPU, Filler())
    (tmp_path / "some.bin").unlink()
    FeatureStore("file", folder=tmp_path).fetch(wanted(), CPU, Filler(), saying)
    assert saying.lines == []


# Disks that are full


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(_StoreError) as caught:
        FeatureStore("file", folder=tmp_path / "file").fetch(wanted(), CPU, no_fill)
    assert str(caught.value) == cannot_keep(tmp_path / "file", "800 bytes", "it is a file")


def test_what_a_disk_cannot_hold_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: Usage(5000, 4201, 799))
    with pytest.raises(_StoreError) as caught:
        FeatureStore("file", folder=tmp_path).fetch(wanted(), CPU, no_fill)
    assert str(caught.value) == cannot_keep(tmp_path, "800 bytes", "799 bytes are free there")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: Usage(5000, 4200, 800))
    FeatureStore("file", folder=tmp_path).fetch(wanted(), CPU, Filler())


def test_a_disk_that_becomes_full_meanwhile_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_given: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(_StoreError) as caught:
        FeatureStore("file", folder=tmp_path).fetch(wanted(n_pieces=500_000), CPU, no_fill)
    assert str(caught.value) == cannot_keep(tmp_path, "8 MB", "No space left on device")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [ValueError("wrong"), KeyboardInterrupt(), torch.OutOfMemoryError("full")])
def test_what_is_half_written_is_not_left_behind(error: BaseException, tmp_path: Path) -> None:
    def fill(rows: Tensor) -> None:
        rows[0] = 1
        assert [path.suffix for path in tmp_path.iterdir()] == [".partial"]
        raise error

    feature_store = FeatureStore("file", folder=tmp_path)
    with pytest.raises(type(error)):
        feature_store.fetch(wanted(), CPU, fill)
    assert list(tmp_path.iterdir()) == []
    assert torch.equal(feature_store.fetch(wanted(), CPU, Filler()), numbers(50, 4))


# Digests

ARRAYS = st.sampled_from([np.int32, np.int64, np.float32]).flatmap(
    lambda kind: st.lists(st.integers(0, 2), max_size=4).map(lambda row: np.array(row, dtype=kind))
)
PARTS = st.lists(st.text("ab", max_size=3) | ARRAYS, max_size=4)


def plain(parts: list[str | np.ndarray]) -> list[Any]:
    return [part if isinstance(part, str) else (part.dtype.name, part.shape, part.tolist()) for part in parts]


@given(PARTS, PARTS)
def test_digests_are_equal_if_and_only_if_all_parts_are(
    first: list[str | np.ndarray], second: list[str | np.ndarray]
) -> None:
    assert (digest(first) == digest(second)) == (plain(first) == plain(second))
    assert digest(first) == digest([part if isinstance(part, str) else part.copy() for part in first])
    assert digest([*first, *second]) == digest(iter([*first, *second]))


def test_a_digest_knows_order_shape_and_every_number() -> None:
    table = np.arange(6, dtype=np.int32)
    changed = table.copy()
    changed[3] += 1
    second: list[list[np.ndarray]] = [
        *([table], [changed], [table.reshape(2, 3)], [table.reshape(3, 2)], [table.reshape(2, 3).T]),
        *([table.view(np.float32)], [table[:5]], [], [table, table]),
    ]
    found = {digest(["a", *parts]) for parts in second} | {digest([table, "a"]), digest(["b", table])}
    assert len(found) == len(second) + 2
    assert digest([torch.from_numpy(table)]) == digest([table])
    assert (
        len({digest(parts) for parts in (["a\n\nb"], ["a", "b"], [torch.tensor(1.0)], [torch.ones(1).bfloat16()])}) == 4
    )
    assert digest([torch.nn.Parameter(torch.ones(2, 3).T)]) == digest([np.ones((3, 2), dtype=np.float32)])


def test_numbers_of_bytes_are_written_for_people() -> None:
    found = ", ".join(map(readable, (0, 999, 1234, 999_999, 45_600_000, 7e9, 999.9e9, 5.5e12)))
    assert found == "0 bytes, 999 bytes, 1.23 kB, 1 MB, 45.6 MB, 7 GB, 1.000 TB, 5.500 TB"

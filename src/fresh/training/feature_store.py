"""Where the output of frozen layers is kept: on the GPU, in memory or in a file; shared by all who ask for it."""

import hashlib
import json
import os
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import psutil
import torch
from torch import Tensor

from fresh.progress import SILENT, Progress

Place = Literal["auto", "memory", "file", "off"]

VERSION = 1
CHUNK = 1 << 26
SHARE = 0.5
"""Of the free memory, how much is used unless more or less is asked for."""


class _StoreError(OSError):
    """Frozen outputs that cannot be kept."""


@dataclass(frozen=True, slots=True)
class CacheKey:
    """Frozen outputs that somebody asks for: one row a piece."""

    key: str
    """Digest of all that they are made from."""
    n_pieces: int
    width: int
    dtype: torch.dtype

    @property
    def n_bytes(self) -> int:
        """How much room they take."""
        return self.n_pieces * self.width * self.dtype.itemsize


class FeatureStore:
    """Keeps frozen outputs for as long as it lives, or, with a folder, for later runs too."""

    def __init__(self, place: Place = "auto", gigabytes: float | None = None, folder: str | Path | None = None) -> None:
        self.place = place
        self.gigabytes = gigabytes
        self.folder = None if folder is None else Path(folder)
        self.held: dict[str, Tensor] = {}
        self.mapped: set[str] = set()
        """Keys of what stays in its file."""
        self.found: set[str] = set()
        """Keys of what an earlier run had kept."""
        self.temporary: Path | None = None

    def fetch(
        self, wanted: CacheKey, device: torch.device, fill: Callable[[Tensor], None], progress: Progress = SILENT
    ) -> Tensor:
        """Return what is kept under a key, or have it computed and keep it. Shape: (pieces, width).

        :param fill: Writes all rows into the tensor it is given.
        """
        if wanted.key in self.held:
            return self.held[wanted.key]
        where = self.choose(wanted, device)
        if where is None or self.folder is not None:
            found = self.from_file(wanted, fill, progress)
            self.held[wanted.key] = found if where is None else found.to(where, copy=True)
            self.mapped |= {wanted.key} if where is None else set()
        else:
            rows = torch.empty(wanted.n_pieces, wanted.width, dtype=wanted.dtype, device=where)
            fill(rows)
            self.held[wanted.key] = rows
        return self.held[wanted.key]

    def where(self, key: str) -> str:
        """Say in words where something is kept."""
        earlier = f", found in {self.folder}" if key in self.found else ""
        if key in self.mapped:
            return f"a file in {self.folder}" if self.folder else "a temporary file"
        return ("GPU memory" if self.held[key].is_cuda else "memory") + earlier

    def choose(self, wanted: CacheKey, device: torch.device) -> torch.device | None:
        """Choose where to keep something: the GPU, memory, or, with None, a file; older things make room for it."""
        places = [device, torch.device("cpu")] if device.type == "cuda" else [torch.device("cpu")]
        if self.place == "memory":
            return places[0]
        for where in places if self.place == "auto" else []:
            if wanted.n_bytes > self.room(where):
                self.drop(where)
            if wanted.n_bytes <= self.room(where):
                return where
        return None

    def room(self, where: torch.device) -> float:
        """Say how many bytes may be used."""
        if self.gigabytes is not None:
            held = sum(
                rows.nbytes
                for key, rows in self.held.items()
                if rows.device.type == where.type and key not in self.mapped
            )
            return self.gigabytes * 1e9 - held
        return SHARE * (torch.cuda.mem_get_info(where)[0] if where.type == "cuda" else _free_memory())

    def drop(self, where: torch.device) -> None:
        """Let go of all that is kept in one place."""
        self.held = {key: rows for key, rows in self.held.items() if rows.device.type != where.type}
        self.mapped &= self.held.keys()

    def from_file(self, wanted: CacheKey, fill: Callable[[Tensor], None], progress: Progress) -> Tensor:
        """Open the file that holds what is wanted, or write it, in one move."""
        folder = self.folder
        if folder is None:
            folder = self.temporary = self.temporary or _temporary_folder(self)
        path = folder / f"{wanted.key}.bin"
        problem = _damage(path, wanted)
        if problem is not None:
            if path.exists():
                progress.say(f"{path} is damaged ({problem}) and is made anew.")
            _write(path, wanted, fill)
        else:
            self.found.add(wanted.key)
        return _mapped(path, wanted, shared=False)


def _temporary_folder(owner: object) -> Path:
    """Make a folder that goes when its owner goes."""
    folder = tempfile.mkdtemp(prefix="fresh-")
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _write(path: Path, wanted: CacheKey, fill: Callable[[Tensor], None]) -> None:
    """Write a file of frozen outputs; what is half-written is never left behind."""
    partial = path.with_suffix(f".{os.getpid()}.partial")
    note = path.with_suffix(f".json.{os.getpid()}.partial")
    try:
        _reserve(partial, wanted.n_bytes)
        rows = _mapped(partial, wanted, shared=True)
        fill(rows)
        del rows
        with _told(path.parent, wanted.n_bytes):
            note.write_text(json.dumps({"bytes": wanted.n_bytes, "crc32": _checksum(partial)}), encoding="utf-8")
            partial.replace(path)
            note.replace(path.with_suffix(".json"))
    finally:
        for left in (partial, note):
            with suppress(OSError):
                left.unlink(missing_ok=True)


def _reserve(path: Path, n_bytes: int) -> None:
    """Make a file of some size, or say that there is no room for it."""
    with _told(path.parent, n_bytes):
        _make_folder(path.parent)
        _check_room(path.parent, n_bytes)
        with path.open("wb") as file:
            if hasattr(os, "posix_fallocate") and n_bytes:
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            else:
                file.truncate(n_bytes)


def _make_folder(folder: Path) -> None:
    """Make a folder, unless it is there."""
    if folder.exists() and not folder.is_dir():
        raise OSError(0, "it is a file")
    folder.mkdir(parents=True, exist_ok=True)


def _mapped(path: Path, wanted: CacheKey, shared: bool) -> Tensor:
    """Map a file into memory. Shape: (pieces, width)."""
    size = wanted.n_pieces * wanted.width
    return torch.from_file(str(path), shared=shared, size=size, dtype=wanted.dtype).view(-1, wanted.width)


@contextmanager
def _told(folder: Path, n_bytes: int) -> Iterator[None]:
    """Say what was to be kept, and the ways out, where the disk fails."""
    try:
        yield
    except _StoreError:
        raise
    except OSError as error:
        raise _StoreError(_cannot_keep(folder, n_bytes, error.strerror or str(error))) from error


def _check_room(folder: Path, n_bytes: int) -> None:
    """Refuse to begin what the disk cannot hold."""
    free = shutil.disk_usage(folder).free
    if free < n_bytes:
        raise _StoreError(_cannot_keep(folder, n_bytes, f"{readable(free)} are free there"))


def _cannot_keep(folder: Path, n_bytes: int, reason: str) -> str:
    """Say that there is no room, and the ways out."""
    return (
        f"What the frozen layers put out takes {readable(n_bytes)} and cannot be kept in {folder}: {reason}. "
        "Name another folder (frozen_folder), leave it out to keep nothing for later runs, or do without (frozen=off)."
    )


def _damage(path: Path, wanted: CacheKey) -> str | None:
    """Say what is wrong with a file, if anything."""
    try:
        about = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        size = path.stat().st_size
    except (OSError, ValueError):
        return "what is said about it cannot be read"
    if not isinstance(about, dict) or about.get("bytes") != wanted.n_bytes:
        return "what is said about it is not so"
    if size != wanted.n_bytes:
        return f"it has {size} bytes where {wanted.n_bytes} are expected"
    return None if about.get("crc32") == _checksum(path) else "its checksum is another"


def _checksum(path: Path) -> int:
    """Compute the CRC-32 of a file."""
    found = 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            found = zlib.crc32(chunk, found)
    return found


def digest(parts: Iterable[str | np.ndarray | Tensor]) -> str:
    """Digest names, arrays and weights: all that frozen outputs are made from."""
    found = hashlib.blake2b(f"{VERSION}".encode(), digest_size=16)
    for part in parts:
        if isinstance(part, str):
            text = part.encode("utf-8", "surrogatepass")
            found.update(f"\ntext {len(text)}\n".encode() + text)
        else:
            array = part if isinstance(part, Tensor) else torch.from_numpy(np.ascontiguousarray(part))
            found.update(f"\n{array.dtype} {tuple(array.shape)}\n".encode())
            if array.numel():
                found.update(array.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def _free_memory() -> int:
    """Find how much memory can be had, in bytes."""
    return int(psutil.virtual_memory().available)


def readable(n_bytes: float) -> str:
    """Write a number of bytes for people."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 999.5:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:,.3f} TB"

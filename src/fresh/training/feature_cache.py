"""Frozen layers run once: their output is cached on the GPU, in memory or in a mapped file."""

import hashlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import psutil
import torch
from torch import Tensor

from fresh.nn.batch import Batch, Collator, IntArray, TokenTable
from fresh.nn.batching import run_batches
from fresh.nn.network import Network
from fresh.nn.split_encoder import SplitEncoder
from fresh.nn.tokenizer import Text
from fresh.progress import Progress
from fresh.training.config import EngineConfig

Place = Literal["auto", "memory", "file", "off"]

_VERSION = 1
_SHARE = 0.5
"""Share of the free memory to use, unless the settings name a number of gigabytes."""


class FeatureStore:
    """Keeps the output of frozen layers for as long as it lives; with a folder, for later runs too."""

    def __init__(self, place: Place = "auto", gigabytes: float | None = None, folder: str | Path | None = None) -> None:
        self.place = place
        self.gigabytes = gigabytes
        self.folder = None if folder is None else Path(folder)
        self._in_memory: dict[str, Tensor] = {}
        self._in_files: dict[str, Tensor] = {}
        self._temporary: Path | None = None

    @classmethod
    def from_config(cls, config: EngineConfig) -> "FeatureStore":
        """Make the store that the settings describe."""
        return cls(config.frozen, config.frozen_gb, config.frozen_folder)

    def fetch(
        self, key: str, shape: tuple[int, int], dtype: torch.dtype, device: torch.device, fill: Callable[[Tensor], None]
    ) -> Tensor:
        """Return the rows with a key; compute and keep them if they are not there.

        :param shape: How many rows, and how wide they are.
        :param device: Where they are computed, and kept if there is room.
        :param fill: Writes all rows into a tensor.
        """
        for cache in (self._in_memory, self._in_files):
            if key in cache:
                return cache[key]
        if not self._fits(shape[0] * shape[1] * dtype.itemsize, device):
            self._in_files[key] = self._open_file(key, shape, dtype, fill)
            return self._in_files[key]
        if self.folder is not None:
            self._in_memory[key] = self._open_file(key, shape, dtype, fill).to(device, copy=True)
        else:
            rows = torch.empty(shape, dtype=dtype, device=device)
            fill(rows)
            self._in_memory[key] = rows
        return self._in_memory[key]

    def describe_place(self, key: str) -> str:
        """Say where the rows with a key are kept."""
        if key in self._in_files:
            return f"a file in {self.folder}" if self.folder else "a temporary file"
        return "GPU memory" if self._in_memory[key].is_cuda else "memory"

    def _fits(self, n_bytes: int, device: torch.device) -> bool:
        if self.place != "auto":
            return self.place == "memory"
        if n_bytes > self._free_bytes(device):
            self._in_memory = {}  # what was cached earlier makes room
        return n_bytes <= self._free_bytes(device)

    def _free_bytes(self, device: torch.device) -> float:
        if self.gigabytes is not None:
            return self.gigabytes * 1e9 - sum(rows.nbytes for rows in self._in_memory.values())
        is_gpu = device.type == "cuda"
        return _SHARE * (torch.cuda.mem_get_info(device)[0] if is_gpu else psutil.virtual_memory().available)

    def _open_file(
        self, key: str, shape: tuple[int, int], dtype: torch.dtype, fill: Callable[[Tensor], None]
    ) -> Tensor:
        """Map the file with some rows into memory, and write it first if it is not there."""
        folder = self.folder or self._temporary
        if folder is None:
            folder = self._temporary = Path(tempfile.mkdtemp(prefix="fresh-"))
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        path, n_bytes = folder / f"{key}.bin", shape[0] * shape[1] * dtype.itemsize
        if not path.is_file() or path.stat().st_size != n_bytes:
            partial = path.with_suffix(f".{os.getpid()}.partial")  # several processes may share a folder
            try:
                _reserve(partial, n_bytes)
                fill(_map_rows(partial, shape, dtype, shared=True))
                partial.replace(path)
            finally:
                with suppress(OSError):
                    partial.unlink(missing_ok=True)
        return _map_rows(path, shape, dtype, shared=False)


def _reserve(path: Path, n_bytes: int) -> None:
    """Make a file of some size."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            # Take the space now: on a disk that is full later, writing to a mapped file ends the process (SIGBUS).
            if hasattr(os, "posix_fallocate") and n_bytes:
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            else:
                file.truncate(n_bytes)
    except OSError as error:
        raise OSError(
            f"The output of the frozen layers ({format_bytes(n_bytes)}) cannot be written to {path.parent}: "
            f"{error.strerror}. Choose another frozen_folder, leave it out, or set frozen=off."
        ) from error


def _map_rows(path: Path, shape: tuple[int, int], dtype: torch.dtype, shared: bool) -> Tensor:
    return torch.from_file(str(path), shared=shared, size=shape[0] * shape[1], dtype=dtype).view(shape)


@dataclass(frozen=True, slots=True)
class CachedInputs:
    """Encoded texts that are read many times, with the output of the frozen layers if it is cached."""

    table: TokenTable
    tokens: Collator
    states: Tensor | None = None
    """The output of the frozen layers, one row a token. Shape: (tokens of all texts, width)."""
    place: str = "nowhere"
    """Where that is cached, in words."""
    index: Collator | None = None
    """The tokens on the device of `states`, if that is another one."""

    @property
    def device(self) -> torch.device:
        """The device on which batches are gathered: a GPU, if all that is needed is there."""
        return self.tokens.device if self.states is None else self.states.device

    @property
    def read(self) -> Callable[[Tensor, int, bool], Batch]:
        """The function that makes a batch from the numbers of texts, its width, and whether all texts are as long."""
        return self.tokens.batch if self.states is None else self._read_cached

    def _read_cached(self, numbers: Tensor, width: int, dense: bool) -> Batch:
        assert self.states is not None
        device = self.tokens.device
        if self.states.device == device:
            return self.tokens.batch(numbers, width, dense, self.states)
        # From a mapped file to the GPU.
        batch = self.tokens.batch(numbers.to(device, non_blocking=True), width, dense)
        hidden = self.gather(numbers, width).pin_memory().to(device, non_blocking=True)
        return replace(batch, hidden=hidden.float())

    def gather(self, numbers: Tensor, width: int) -> Tensor:
        """Collect the cached output for some texts, on the device where it is cached. Shape: (texts, tokens, width)."""
        assert self.states is not None
        places, _ = (self.index or self.tokens).places(numbers.to(self.states.device), width)
        return self.states[places]

    def collate(self, numbers: IntArray) -> Batch:
        """Make a batch as wide as the longest of some texts."""
        lengths = self.table.lengths[numbers]
        width = int(lengths.max())
        return self.read(torch.from_numpy(numbers).to(self.device), width, bool((lengths == width).all()))


class CachedTexts:
    """The texts that a network was trained on, to find the cached output of its frozen layers for them."""

    def __init__(self, inputs: Sequence[tuple[Sequence[Text], CachedInputs]] = ()) -> None:
        self._numbered = [
            ({text: number for number, text in enumerate(texts)}, cached)
            for texts, cached in inputs
            # What is rounded to 16 bits for training is not exact enough for scores.
            if cached.states is not None and cached.states.dtype == torch.float32
        ]

    def find(self, texts: Sequence[Text]) -> tuple[CachedInputs, IntArray] | None:
        """Find inputs that hold all of some texts, and the numbers of the texts there."""
        for numbers, cached in self._numbered:
            if all(text in numbers for text in texts):
                return cached, np.array([numbers[text] for text in texts], dtype=np.int64)
        return None

    def forget(self) -> None:
        """Drop all of it, which may be large."""
        self._numbered.clear()


def cache_inputs(
    network: Network, table: TokenTable, store: FeatureStore, dtype: torch.dtype, progress: Progress
) -> CachedInputs:
    """Put encoded texts where they are read, and run them through the frozen layers unless that was done before."""
    tokens, split = network.collator(table), network.split
    if split is None or store.place == "off":
        return CachedInputs(table, tokens)

    def fill(rows: Tensor) -> None:
        with torch.inference_mode(), progress.task("frozen layers", len(table)) as advance:

            def work(numbers: IntArray) -> None:
                _run_frozen_layers(split, tokens, table.lengths[numbers], numbers, rows)
                advance(len(numbers), "")

            run_batches(table.lengths, network.device, work, network.budget_share)

    key, shape = _cache_key(split, table, dtype), (len(table.ids), network.encoder.width)
    states = store.fetch(key, shape, dtype, network.device, fill)
    index = None if states.device == tokens.device else Collator(table, states.device, network.padding)
    return CachedInputs(table, tokens, states, store.describe_place(key), index)


def _run_frozen_layers(
    split: SplitEncoder, tokens: Collator, lengths: IntArray, numbers: IntArray, rows: Tensor
) -> None:
    """Compute the output for some texts and write it to their rows."""
    width, chosen = int(lengths.max()), torch.from_numpy(numbers).to(tokens.device)
    hidden = split.run_lower(tokens.batch(chosen, width, bool((lengths == width).all())))
    places, is_token = tokens.places(chosen, width)
    rows.index_copy_(0, places[is_token].to(rows.device), hidden[is_token].to(rows.device, rows.dtype))


def _cache_key(split: SplitEncoder, table: TokenTable, dtype: torch.dtype) -> str:
    """Digest all that the output depends on, so that other weights, texts or tokens never meet it."""

    # Not the names of files: an encoder in a folder can change, and two corpora can share texts.
    def parts() -> Iterator[str | np.ndarray | Tensor]:
        yield f"{dtype} {split.n_lower}"
        yield split.lower.config.to_json_string()
        for name, weight in split.lower.state_dict().items():
            yield name
            yield weight
        yield from (table.ids, table.types, table.positions, table.starts)

    return digest(parts())


def digest(parts: Iterable[str | np.ndarray | Tensor]) -> str:
    """Digest strings, arrays and tensors, with their kinds and shapes."""
    state = hashlib.blake2b(f"{_VERSION}".encode(), digest_size=16)
    for part in parts:
        if isinstance(part, str):
            text = part.encode("utf-8", "surrogatepass")
            state.update(f"\ntext {len(text)}\n".encode() + text)
        else:
            array = part if isinstance(part, Tensor) else torch.from_numpy(np.ascontiguousarray(part))
            state.update(f"\n{array.dtype} {tuple(array.shape)}\n".encode())
            if array.numel():
                state.update(array.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return state.hexdigest()


def format_bytes(n_bytes: float) -> str:
    """Write a number of bytes for a reader, such as 1.23 MB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 999.5:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:,.3f} TB"

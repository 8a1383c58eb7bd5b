"""Frozen layers run once: their output is cached on the GPU, in memory or in a mapped file."""

import hashlib
import itertools
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import psutil
import torch
from rich.filesize import decimal
from torch import Tensor
from transformers import PreTrainedModel

from fresh.nn.batch import Batch, Collator, IntArray, TokenTable
from fresh.nn.batching import run_batches
from fresh.nn.network import Network
from fresh.progress import Progress
from fresh.training.config import EngineConfig

_VERSION = b"1"
"""Part of each key: another version never reads the files of this one."""
_SHARE = 0.5
"""Share of the free memory to use, unless the settings name a number of gigabytes."""


class FeatureStore:
    """Keeps the output of frozen layers for as long as it lives; with a folder, for later runs too."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.folder = None if config.frozen_folder is None else Path(config.frozen_folder)
        self._in_memory: dict[str, Tensor] = {}
        self._in_files: dict[str, Tensor] = {}
        self._temporary: Path | None = None

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
            rows = self._open_file(key, shape, dtype, fill).to(device, copy=True)
        else:
            rows = torch.empty(shape, dtype=dtype, device=device)
            fill(rows)
        self._in_memory[key] = rows
        return rows

    def describe_place(self, key: str) -> str:
        """Say where the rows with a key are kept."""
        if key in self._in_files:
            return f"a file in {self.folder}" if self.folder else "a temporary file"
        return "GPU memory" if self._in_memory[key].is_cuda else "memory"

    def _fits(self, n_bytes: int, device: torch.device) -> bool:
        if self.config.frozen != "auto":
            return self.config.frozen == "memory"
        if n_bytes > self._free_bytes(device):
            self._in_memory = {}  # what was cached earlier makes room
        return n_bytes <= self._free_bytes(device)

    def _free_bytes(self, device: torch.device) -> float:
        if self.config.frozen_gb is not None:
            return self.config.frozen_gb * 1e9 - sum(rows.nbytes for rows in self._in_memory.values())
        is_gpu = device.type == "cuda"
        return _SHARE * (torch.cuda.mem_get_info(device)[0] if is_gpu else psutil.virtual_memory().available)

    def _open_file(
        self, key: str, shape: tuple[int, int], dtype: torch.dtype, fill: Callable[[Tensor], None]
    ) -> Tensor:
        """Map the file with some rows into memory, and write it first if it is not there."""
        folder = self.folder or self._temporary
        if folder is None:
            folder = self._temporary = Path(tempfile.mkdtemp(prefix="fresh-"))
            # Rows that are still mapped stay readable after that.
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
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            # Take the space now: if the disk fills up later, writing to a mapped file ends the process (SIGBUS).
            if hasattr(os, "posix_fallocate") and n_bytes:
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            else:
                file.truncate(n_bytes)
    except OSError as error:
        raise OSError(
            f"The output of the frozen layers ({decimal(n_bytes)}) cannot be written to {path.parent}: "
            f"{error.strerror}. Choose another frozen_folder, leave it out, or set frozen=off."
        ) from error


def _map_rows(path: Path, shape: tuple[int, int], dtype: torch.dtype, shared: bool) -> Tensor:
    return torch.from_file(str(path), shared=shared, size=shape[0] * shape[1], dtype=dtype).view(shape)


@dataclass(frozen=True, slots=True)
class CachedInputs:
    """Tokenized texts that training reads many times, with the output of the frozen layers if it is cached."""

    table: TokenTable
    tokens: Collator
    device: torch.device
    """Where batches are gathered: a GPU, if all that is needed is there."""
    read: Callable[[Tensor, int, bool], Batch]
    """Makes a batch from the numbers of texts, its width, and whether all texts are that long."""
    about: str
    """How often the layers run, and where their output is cached."""

    def collate(self, numbers: IntArray) -> Batch:
        """Make a batch as wide as the longest of some texts."""
        return self.read(torch.from_numpy(numbers).to(self.device), *self.tokens.shape_of(numbers))


def cache_inputs(
    network: Network, table: TokenTable, store: FeatureStore, dtype: torch.dtype, progress: Progress
) -> CachedInputs:
    """Put tokenized texts on the device, and run the frozen layers over them unless the store has their output."""
    tokens, split, device = network.collator(table), network.split, network.device
    if split is None or store.config.frozen == "off":
        cannot = network.n_frozen and split is None
        reason = " (the layers of this encoder cannot be run separately)" if cannot else ""
        # The method itself: without a cache, a training step runs nothing of this module.
        return CachedInputs(table, tokens, device, tokens.batch, f"every step runs all layers{reason}")

    def fill(rows: Tensor) -> None:
        with torch.inference_mode(), progress.task("frozen layers", len(table)) as advance:

            def work(numbers: IntArray) -> None:
                batch = tokens(numbers)
                hidden = network.windows.run(split.lower, batch)
                places, is_token = tokens.places(torch.from_numpy(numbers).to(device), batch.mask.shape[1])
                rows.index_copy_(0, places[is_token].to(rows.device), hidden[is_token].to(rows.device, rows.dtype))
                advance(len(numbers), "")

            run_batches(table.lengths, device, work, network.budget_share)

    key, shape = _cache_key(network.n_frozen, split.lower, table, dtype), (len(table.ids), network.encoder.width)
    states = store.fetch(key, shape, dtype, device, fill)
    size, place = decimal(states.nbytes), store.describe_place(key)
    about = f"{network.n_frozen} frozen layers run once, their output ({size}) is kept in {place}"
    if states.device == device:
        return CachedInputs(table, tokens, device, partial(tokens.batch, states=states), about)
    index = Collator(table, states.device, padding=0)  # finds places only

    def read_from_file(numbers: Tensor, width: int, dense: bool) -> Batch:
        # Rows are gathered on the CPU, from the mapped file, and then copied to the GPU.
        places, _ = index.places(numbers, width)
        hidden = states[places].pin_memory().to(device, non_blocking=True)
        return replace(tokens.batch(numbers.to(device, non_blocking=True), width, dense), hidden=hidden.float())

    return CachedInputs(table, tokens, states.device, read_from_file, about)


def _cache_key(n_layers: int, lower: PreTrainedModel, table: TokenTable, dtype: torch.dtype) -> str:
    """Digest all that the output depends on, so that other weights, texts or tokens never meet it."""
    # Not the names of files: an encoder in a folder can change, and two corpora can share texts.
    weights = itertools.chain.from_iterable(lower.state_dict().items())
    tokens = map(torch.from_numpy, (table.ids, table.types, table.positions, table.starts))
    digest = hashlib.blake2b(_VERSION, digest_size=16)
    for part in (f"{dtype} {n_layers}", lower.config.to_json_string(), *weights, *tokens):
        # Each part begins with its kind and size: no two lists of parts give the same bytes.
        if isinstance(part, str):
            text = part.encode("utf-8", "surrogatepass")
            digest.update(f"\ntext {len(text)}\n".encode() + text)
        else:
            digest.update(f"\n{part.dtype} {tuple(part.shape)}\n".encode())
            digest.update(part.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()

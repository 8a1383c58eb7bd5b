"""Frozen layers run once: their output is cached on the GPU, in memory or in a temporary file."""

import hashlib
import itertools
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import psutil
import torch
from rich.filesize import decimal
from torch import Tensor
from transformers import PreTrainedModel

from fresh.nn.batch import Batch, Collator, FlatRows, IntArray, MakeBatch, TokenTable
from fresh.nn.network import Network
from fresh.progress import Progress
from fresh.training.config import EngineConfig

_SHARE = 0.5
"""Share of the free memory that the cache may take."""
_FILE = "a temporary file"


class FeatureStore:
    """Keeps the output of frozen layers as long as it lives: in memory, or in a temporary file if it does not fit."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self._rows: dict[str, tuple[Tensor, str]] = {}

    def fetch(
        self,
        key: str,
        shape: tuple[int, int],
        dtype: torch.dtype,
        device: torch.device,
        fill: Callable[[Tensor], object],
    ) -> tuple[Tensor, str]:
        """Return the rows with a key, and where they are kept; compute them if they are not there.

        :param shape: How many rows, and how wide they are.
        :param device: Where they are computed, and kept if there is room.
        :param fill: Writes all rows into a tensor.
        """
        n_bytes = shape[0] * shape[1] * dtype.itemsize
        if key not in self._rows:
            if n_bytes > _free_bytes(device):  # what was cached in memory earlier makes room
                self._rows = {key: kept for key, kept in self._rows.items() if kept[1] == _FILE}
            if n_bytes > _free_bytes(device):
                rows, place = _map_file(n_bytes).view(dtype).view(shape), _FILE
            else:
                rows = torch.empty(shape, dtype=dtype, device=device)
                place = "GPU memory" if rows.is_cuda else "memory"
            fill(rows)
            self._rows[key] = rows, place
        return self._rows[key]


def _free_bytes(device: torch.device) -> float:
    is_gpu = device.type == "cuda"
    return _SHARE * (torch.cuda.mem_get_info(device)[0] if is_gpu else psutil.virtual_memory().available)


def _map_file(n_bytes: int) -> Tensor:
    # A file without a name: the system deletes it with its last mapping, also after a crash.
    try:
        with tempfile.TemporaryFile() as file:
            # Take the space now: if the disk fills up later, writing to a mapped file ends the process (SIGBUS).
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            else:
                file.truncate(n_bytes)
            return torch.from_numpy(np.memmap(file, np.uint8, "r+", shape=(n_bytes,)))
    except OSError as error:
        raise OSError(
            f"The output of the frozen layers ({decimal(n_bytes)}) fits neither into memory nor into "
            f"{tempfile.gettempdir()}: {error.strerror}. Set TMPDIR to a folder with more room, or frozen=off."
        ) from error


@dataclass(frozen=True, slots=True)
class CachedInputs:
    """Tokenized texts that training reads many times, with the output of the frozen layers if it is cached."""

    table: TokenTable
    tokens: Collator
    device: torch.device
    """Where batches are gathered: a GPU, if all that is needed is there."""
    read: MakeBatch
    about: str
    """How often the layers run, and where their output is cached."""

    def collate(self, numbers: IntArray) -> Batch:
        """Make a batch as wide as the longest of some texts."""
        return self.tokens(numbers, self.read, self.device)


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

            def work(numbers: IntArray, batch: Batch) -> None:
                hidden = network.windows.run(split.lower, batch)
                places, is_token = tokens.rows.places(torch.from_numpy(numbers).to(device), batch.mask.shape[1])
                rows.index_copy_(0, places[is_token].to(rows.device), hidden[is_token].to(rows.device, rows.dtype))
                advance(len(numbers), "")

            network.for_each_batch(table, work, collate=tokens)

    key, shape = _cache_key(network.n_frozen, split.lower, table, dtype), (len(table.ids), network.encoder.width)
    states, place = store.fetch(key, shape, dtype, device, fill)
    about = f"{network.n_frozen} frozen layers run once; their output ({decimal(states.nbytes)}) is kept in {place}"
    if states.device == device:
        return CachedInputs(table, tokens, device, partial(tokens.batch, states=states), about)
    rows = FlatRows(table.lengths, states.device)

    def read_from_file(numbers: Tensor, width: int, dense: bool) -> Batch:
        # Rows are gathered on the CPU, from the mapped file, and then copied to the GPU.
        places, _ = rows.places(numbers, width)
        hidden = states[places].pin_memory().to(device, non_blocking=True)
        return replace(tokens.batch(numbers.to(device, non_blocking=True), width, dense), hidden=hidden.float())

    return CachedInputs(table, tokens, states.device, read_from_file, about)


def _cache_key(n_layers: int, lower: PreTrainedModel, table: TokenTable, dtype: torch.dtype) -> str:
    """Digest all that the output depends on, so that other weights, texts or tokens never meet it."""
    # Not the names of files: an encoder in a folder can change, and two corpora can share texts.
    weights = itertools.chain.from_iterable(lower.state_dict().items())
    tokens = map(torch.from_numpy, (table.ids, table.types, table.positions, table.starts))
    digest = hashlib.blake2b(digest_size=16)
    for part in (f"{dtype} {n_layers}", lower.config.to_json_string(), *weights, *tokens):
        # Each part begins with its kind and size: no two lists of parts give the same bytes.
        if isinstance(part, str):
            text = part.encode("utf-8", "surrogatepass")
            digest.update(f"\ntext {len(text)}\n".encode() + text)
        else:
            digest.update(f"\n{part.dtype} {tuple(part.shape)}\n".encode())
            digest.update(part.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()

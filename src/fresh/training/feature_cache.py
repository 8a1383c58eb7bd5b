"""Frozen layers run once: texts as they enter the part of a network that learns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fresh.nn.batch import Batch, IntArray, Layout, TokenTable, TokenTensors
from fresh.nn.batching import run_batches
from fresh.nn.split_encoder import SplitEncoder
from fresh.nn.tokenizer import Text
from fresh.progress import Progress
from fresh.training.feature_store import CacheKey, FeatureStore, digest


@dataclass(frozen=True, slots=True)
class CachedInputs:
    """Texts to be read many times, with what the frozen layers make of them if that is kept."""

    pieces: TokenTensors
    states: Tensor | None
    """What the frozen layers put out, one row a piece. Shape: (pieces of all texts, width)."""
    place: str = "nowhere"
    """Where that is kept, in words."""
    index: TokenTensors | None = None
    """The pieces where the frozen outputs are kept, if that is elsewhere."""

    @property
    def on(self) -> torch.device:
        """Where batches are gathered: on a GPU, if all that they need is there."""
        return self.pieces.ids.device if self.states is None else self.states.device

    def take(self, numbers: Tensor, width: int, dense: bool) -> Batch | tuple[Layout, Tensor]:
        """Put some texts side by side: their pieces, or what the frozen layers make of them (texts, width, wide)."""
        device = self.pieces.ids.device
        there = numbers.to(device, non_blocking=True)
        if self.states is None:
            return self.pieces.batch(there, width, dense)
        layout, places = self.pieces.layout(there, width, dense)
        if self.states.device == device:
            return layout, self.states[places].float()
        return layout, self.gather(numbers, width).pin_memory().to(device, non_blocking=True).float()

    def gather(self, numbers: Tensor, width: int) -> Tensor:
        """Put side by side what the frozen layers make of some texts, where it is kept. Shape: (texts, width, wide)."""
        assert self.states is not None
        places, _ = (self.index or self.pieces).places(numbers.to(self.states.device), width)
        return self.states[places]


class CachedTexts:
    """Texts that a network was trained with, and what the frozen layers made of them."""

    def __init__(self, readings: Sequence[tuple[Sequence[Text], CachedInputs]]) -> None:
        exact = [(texts, reading) for texts, reading in readings if _is_exact(reading.states)]
        self.places = [({text: number for number, text in enumerate(texts)}, reading) for texts, reading in exact]

    def find(self, texts: Sequence[Text]) -> tuple[CachedInputs, IntArray] | None:
        """Find texts that were all read together, and their numbers there."""
        for numbers, reading in self.places:
            if all(text in numbers for text in texts):
                return reading, np.array([numbers[text] for text in texts], dtype=np.int64)
        return None

    def forget(self) -> None:
        """Let go of all of it, which may be large."""
        self.places.clear()


def _is_exact(states: Tensor | None) -> bool:
    """Say whether frozen outputs are kept as exactly as they are computed."""
    return states is not None and states.dtype == torch.float32


@dataclass(frozen=True, slots=True)
class FrozenFeatures:
    """The part of a network that does not learn, and where its output is kept."""

    split: SplitEncoder
    feature_store: FeatureStore
    device: torch.device
    padding: int
    dtype: torch.dtype
    part: float = 1
    """Share of the usual size of batches that there is room for."""

    def read(self, table: TokenTable, progress: Progress, name: str) -> CachedInputs:
        """Run some texts through the frozen layers, unless that was done before."""
        pieces = table.to(self.device, self.padding)
        if self.feature_store.place == "off" or self.split.n_lower == 0:
            return CachedInputs(pieces, None)
        width = int(self.split.config.hidden_size)
        wanted = CacheKey(self.key(table), len(table.ids), width, self.dtype)

        def fill(rows: Tensor) -> None:
            with torch.inference_mode(), progress.task(name, len(table)) as advance:

                def work(numbers: IntArray) -> None:
                    self.fill_some(rows, pieces, table, numbers)
                    advance(len(numbers), "")

                run_batches(table.lengths, self.device, work, self.part)

        states = self.feature_store.fetch(wanted, self.device, fill, progress)
        index = None if states.device == pieces.ids.device else table.to(states.device, self.padding)
        return CachedInputs(pieces, states, self.feature_store.where(wanted.key), index)

    def fill_some(self, rows: Tensor, pieces: TokenTensors, table: TokenTable, numbers: IntArray) -> None:
        """Compute the output for some texts and put it in its place."""
        width = int(table.lengths[numbers].max())
        chosen = torch.from_numpy(numbers).to(self.device)
        hidden = self.split.run_lower(pieces.batch(chosen, width, bool((table.lengths[numbers] == width).all())))
        places, there = pieces.places(chosen, width)
        rows.index_copy_(0, places[there].to(rows.device), hidden[there].to(rows.device, rows.dtype))

    def key(self, table: TokenTable) -> str:
        """Digest the frozen weights and all pieces."""
        return digest(self.parts(table))

    def parts(self, table: TokenTable) -> Iterator[Any]:
        """Go through all that the output is made from."""
        yield f"{self.dtype} {self.split.n_lower}"
        yield self.split.config.to_json_string()
        for name, weight in self.split.lower.state_dict().items():
            yield name
            yield weight
        yield from (table.ids, table.types, table.positions, table.starts)

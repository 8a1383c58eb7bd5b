"""How two ways to do one job are timed side by side, and what a row of the table is."""

import math
import multiprocessing
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from fresh.data.corpora import find_corpus
from fresh.data.splits import Splits
from fresh.document import Example

Result = TypeVar("Result")
Run = Callable[[int], "Outcome"]
"""Does a job once, given the number of the round, which is also its seed."""

MEGABYTE = 1024**2


class RowError(RuntimeError):
    """A row that could not be measured."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is measured, and on what."""

    data: Path
    """Folder with the folders sst, movies, agnews and multirc."""
    device: str = "cpu"
    epochs: int = 3
    documents: int | None = None
    """Documents of each split, at most; all if not given."""
    encoder: str = "minilm"
    rounds: int = 2
    """How often both sides take their turn."""

    def up_to(self, most: int) -> int:
        """Take fewer documents than usual if fewer were asked for."""
        return most if self.documents is None else min(most, self.documents)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of one side took and gave."""

    seconds: float
    macro_f1: float | None = None
    chosen: tuple[tuple[int, ...], ...] = ()
    """Which words of each document were kept, or which label was given; to compare both sides."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    memory: float = 0.0
    """Peak in megabytes: of the accelerator where there is one, else of the process."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table."""

    row: str
    what: str
    goal: str = ""
    met: bool | None = None
    """Whether the goal was reached."""
    seconds: float | None = None
    peer_seconds: float | None = None
    ratio: float | None = None
    """How many times the peer's time is ours, unless ``what`` says otherwise."""
    macro_f1: float | None = None
    peer_macro_f1: float | None = None
    memory: float | None = None
    peer_memory: float | None = None
    note: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Write it down, ready for JSON."""
        return asdict(self)


def read_splits(settings: Settings, corpus: str = "sst") -> Splits:
    """Read a corpus; of each split evenly spread documents if not all are wanted."""
    splits = find_corpus(corpus).read(settings.data)
    if settings.documents is None:
        return splits
    parts = (spread(part, settings.documents) for part in (splits.train, splits.dev, splits.test))
    return Splits(*parts)


def spread(examples: Sequence[Example], n: int) -> tuple[Example, ...]:
    """Take examples at even distances, since corpora may be in order."""
    places = np.linspace(0, len(examples) - 1, min(n, len(examples))).round().astype(int)
    return tuple(examples[int(place)] for place in places)


def clocked(device: str, work: Callable[[], Result]) -> tuple[Result, float]:
    """Do some work and say how many seconds it took, until the device is done."""
    started = time.perf_counter()
    result = work()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return result, time.perf_counter() - started


def peak_memory(device: str) -> float:
    """Say how many megabytes this process has held at most."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated() / MEGABYTE
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def apart(device: str, work: Callable[..., Outcome], *arguments: Any) -> Outcome:
    """Run a side in a process of its own, so that its memory is its own and nothing is warm from the other side."""
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as pool:
        future = pool.submit(with_memory, device, work, *arguments)
        error = future.exception()
    if error is not None:
        raise RowError(f"{type(error).__name__}: {error}") from error
    return future.result()


def with_memory(device: str, work: Callable[..., Outcome], *arguments: Any) -> Outcome:
    """Run a side and note its peak memory and the number of threads."""
    outcome = work(*arguments)
    where = torch.cuda.get_device_name() if device.startswith("cuda") else "cpu"
    about = {"device": where, "threads": torch.get_num_threads(), "process_memory": peak_memory("cpu")}
    return replace(outcome, facts={**outcome.facts, **about}, memory=peak_memory(device))


def compete(settings: Settings, ours: Run, peers: Mapping[str, Run]) -> tuple[Outcome, Outcome, dict[str, Any]]:
    """Let all sides take turns; return our best run, the best of the best peer, and all times.

    The macro-F1 of each is the mean over the rounds, which have different seeds.
    """
    sides = {"ours": ours, **peers}
    outcomes: dict[str, list[Outcome]] = {name: [] for name in sides}
    for number in range(settings.rounds):
        for name, side in sides.items():
            outcomes[name].append(apart(settings.device, side, number))
    best = {name: best_of(found) for name, found in outcomes.items()}
    winner = min(peers, key=lambda name: best[name].seconds)
    seconds = {name: [outcome.seconds for outcome in found] for name, found in outcomes.items()}
    scores = {name: [outcome.macro_f1 for outcome in found] for name, found in outcomes.items()}
    facts = {"peer": winner, "all_seconds": seconds, "all_macro_f1": scores, **best["ours"].facts}
    if settings.rounds > 1 and best[winner].chosen:
        facts["peer_with_itself"] = agreement(*outcomes[winner][:2])
    return best["ours"], best[winner], facts


def best_of(outcomes: Sequence[Outcome]) -> Outcome:
    """Take the quickest run, with the mean macro-F1 and the highest memory of all."""
    scores = [outcome.macro_f1 for outcome in outcomes if outcome.macro_f1 is not None]
    quickest = min(outcomes, key=lambda outcome: outcome.seconds)
    mean = math.fsum(scores) / len(scores) if scores else None
    return replace(quickest, macro_f1=mean, memory=max(outcome.memory for outcome in outcomes))


def agreement(ours: Outcome, peer: Outcome) -> dict[str, float]:
    """Compare which words, or labels, two sides chose."""
    pairs = [(set(one), set(other)) for one, other in zip(ours.chosen, peer.chosen, strict=True)]
    return {
        "same": sum(one == other for one, other in pairs) / len(pairs),
        "overlap": sum(len(one & other) / max(1, len(one)) for one, other in pairs) / len(pairs),
    }


def compared(row: Row, ours: Outcome, peer: Outcome, facts: Mapping[str, Any]) -> Row:
    """Fill a row with what both sides took and gave."""
    return replace(
        row,
        seconds=ours.seconds,
        peer_seconds=peer.seconds,
        ratio=peer.seconds / ours.seconds,
        macro_f1=ours.macro_f1,
        peer_macro_f1=peer.macro_f1,
        memory=ours.memory,
        peer_memory=peer.memory,
        facts=facts,
    )

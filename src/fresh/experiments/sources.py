"""The documents of a grid's corpora: read when they are asked for, the last few at hand."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from fresh.data.splits import Splits, dataset_digest
from fresh.document import Example
from fresh.errors import DataError
from fresh.evaluation.warnings import drop_too_long_splits
from fresh.experiments.grid import RunSpec, short_hash
from fresh.methods.baselines import keep_annotated
from fresh.pipeline import RunSettings, read_splits
from fresh.progress import SILENT

N_AT_HAND = 2
"""Corpora that are kept in memory."""
Item = TypeVar("Item")


class About(NamedTuple):
    """What is remembered of a corpus."""

    digest: str
    """What tells its documents from others."""
    n_words: int


@dataclass(frozen=True, slots=True)
class Sources:
    """Reads corpora."""

    data_dir: Path | None
    read: dict[str, Splits] = field(default_factory=dict)
    cut: dict[str, Splits] = field(default_factory=dict)
    known: dict[str, About] = field(default_factory=dict)

    def splits(self, cell: RunSpec, run: RunSettings) -> Splits:
        """Read the corpus of a run, as many documents of it as the grid says."""
        key = self.key(cell, run)

        def make() -> Splits:
            whole = read_splits(*cell.source(self.data_dir), run, SILENT)
            _check_classes(whole, cell)
            return Splits(*(some(part, cell.documents) for part in (whole.train, whole.dev, whole.test)))

        return _at_hand(self.read, key, make)

    def about(self, cell: RunSpec, run: RunSettings) -> About:
        """Say what tells the documents of a run from others, and how many words they have."""
        key = self.key(cell, run)
        if key not in self.known:
            parts = self.splits(cell, run)
            digests = [dataset_digest(part) for part in (parts.train, parts.dev, parts.test)]
            self.known[key] = About(short_hash(digests), sum(len(item.document.words) for item in parts.train))
        return self.known[key]

    def usable(self, cell: RunSpec, run: RunSettings) -> Splits:
        """Leave out what a run cannot use."""
        whose = (asdict(run.method.network), run.config.data.skip_bad, cell.method == "human")

        def make() -> Splits:
            splits = drop_too_long_splits(self.splits(cell, run), run.method.network, run.config.data.skip_bad, SILENT)
            return keep_annotated(splits, SILENT) if cell.method == "human" else splits

        return _at_hand(self.cut, short_hash([self.key(cell, run), *whose]), make)

    def key(self, cell: RunSpec, run: RunSettings) -> str:
        """Name what is read; files of one's own are divided by the seed, and read as settings say."""
        about = [cell.corpus, cell.documents]
        return short_hash([*about, cell.data, asdict(run.config.data), cell.seed] if cell.data else about)


def some(examples: Sequence[Example], n_most: int | None) -> tuple[Example, ...]:
    """Take as many examples as there shall be at most, drawn by lot, since some corpora are sorted by their labels."""
    return tuple(examples[place] for place in sorted(_drawn(len(examples))[:n_most]))


def _drawn(n_examples: int) -> list[int]:
    """Say in which order examples are drawn."""
    places: list[int] = np.random.default_rng(n_examples).permutation(n_examples).tolist()
    return places


def _check_classes(whole: Splits, cell: RunSpec) -> None:
    """Refuse so few documents that a class is not among those that are trained on."""
    if cell.documents is None:
        return
    firsts: dict[str, int] = {}
    for n_before, place in enumerate(_drawn(len(whole.train))):
        firsts.setdefault(whole.train[place].label, n_before)
    least = max(firsts.values()) + 1
    if cell.documents < least:
        raise DataError(
            f"documents = {cell.documents} is too few for all {len(firsts)} classes of {cell.corpus}: "
            f"{least} are the fewest that hold each. Take documents={least}."
        )


def _at_hand(items: dict[str, Item], key: str, make: Callable[[], Item]) -> Item:
    """Look something up, or make it; what was asked for longest ago is forgotten."""
    item = items.pop(key) if key in items else make()
    while len(items) >= N_AT_HAND:
        items.pop(next(iter(items)))
    items[key] = item
    return item

"""The documents of a grid's corpora, read once a process."""

import itertools
from pathlib import Path
from typing import NamedTuple

from fresh.config import to_mapping
from fresh.data import Splits, digest_of
from fresh.experiment.grid import Cell, short_hash
from fresh.lengths import fitting
from fresh.methods.human import only_marked
from fresh.progress import SILENT
from fresh.recipe import Run, read_splits


class Source(NamedTuple):
    """Documents, and what tells them from others."""

    splits: Splits
    digest: str


_READ: dict[str, Source] = {}
_USABLE: dict[str, Splits] = {}


def source_of(cell: Cell, data_dir: Path | None) -> Source:
    """Read the corpus of a run, as many documents of it as the grid says."""
    run = cell.resolve(data_dir)
    about = [cell.corpus, cell.data, str(data_dir), cell.documents]
    # Files of one's own are divided by the seed, and read as settings say.
    key = short_hash([*about, to_mapping(run.config.data), cell.seed] if cell.data else about)
    if key not in _READ:
        whole = read_splits(*cell.source(data_dir), run, SILENT)
        splits = Splits(*(part[: cell.documents] for part in (whole.train, whole.dev, whole.test)))
        documents = itertools.chain(splits.train, splits.dev, splits.test)
        _READ[key] = Source(splits, digest_of(documents)[:16])
    return _READ[key]


def usable(cell: Cell, run: Run, data_dir: Path | None) -> Splits:
    """Leave out what a run cannot use."""
    source = source_of(cell, data_dir)
    key = short_hash([source.digest, to_mapping(run.method.network), run.config.data.skip_bad, cell.method == "human"])
    if key not in _USABLE:
        splits = fitting(source.splits, run.method.network, run.config.data.skip_bad, SILENT)
        _USABLE[key] = only_marked(splits, SILENT) if cell.method == "human" else splits
    return _USABLE[key]

"""The corpora of a grid: read when needed, with their digests cached in the folder of runs."""

import contextlib
import functools
import itertools
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

import fresh
from fresh._io import write_text
from fresh.data import Splits, dataset_digest
from fresh.document import Example
from fresh.errors import DataError
from fresh.experiments.grid import RunSpec, short_hash
from fresh.experiments.store import RunStore, read_record
from fresh.pipeline import RunSettings, drop_unusable, read_splits
from fresh.progress import SILENT

N_IN_MEMORY = 2  # number of corpora that are kept in memory
MAX_FILES = 5000  # with more files, checking all of them takes longer than reading the corpus
FileStamp = tuple[str, int, int, int]
Item = TypeVar("Item")


class CorpusSummary(NamedTuple):
    """What a plan needs to know about a corpus."""

    digest: str
    n_words: int  # number of words in the training documents


@dataclass(frozen=True, slots=True)
class Sources:
    """Reads corpora."""

    data_dir: Path | None
    store: RunStore | None = None  # where summaries are cached; without a store, every corpus is read
    splits_in_memory: dict[str, Splits] = field(default_factory=dict)
    usable_in_memory: dict[str, Splits] = field(default_factory=dict)
    summaries: dict[str, CorpusSummary] = field(default_factory=dict)
    stamps: dict[tuple[Path, ...], list[FileStamp] | None] = field(default_factory=dict)
    uncached: dict[str, Path] = field(default_factory=dict)  # cache files of new summaries, which `save_cache` writes

    def splits(self, spec: RunSpec, run: RunSettings) -> Splits:
        """Read the corpus of a run, or the sample of it that the grid sets."""

        def read() -> Splits:
            whole = read_splits(*spec.source(self.data_dir), run, SILENT)
            _check_classes(whole, spec)
            return Splits(*(sample(part, spec.documents) for part in (whole.train, whole.dev, whole.test)))

        return _remember(self.splits_in_memory, self.key(spec, run), read)

    def usable_splits(self, spec: RunSpec, run: RunSettings) -> Splits:
        """Read the corpus of a run without the documents that the run cannot use."""
        about = [self.key(spec, run), asdict(run.method.network), run.config.data.skip_bad, spec.method == "human"]
        usable, key = self.usable_in_memory, short_hash(about)
        return _remember(usable, key, lambda: drop_unusable(self.splits(spec, run), run, SILENT))

    def summary(self, spec: RunSpec, run: RunSettings) -> CorpusSummary:
        """Summarize the corpus of a run, from the cache if its files have not changed."""
        key = self.key(spec, run)
        if key not in self.summaries:
            # Stamp files before reading them: with later stamps, a change during reading would go unnoticed.
            path, summary = self._cache_file(key, spec, run), None
            match None if path is None else read_record(path):
                case {"digest": str(known), "n_words": int(n_words)}:
                    summary = CorpusSummary(known, n_words)
            if summary is None:
                splits = self.splits(spec, run)
                digests = [dataset_digest(part) for part in (splits.train, splits.dev, splits.test)]
                summary = CorpusSummary(short_hash(digests), sum(len(item.document.words) for item in splits.train))
                if path is not None:
                    self.uncached[key] = path
            self.summaries[key] = summary
        return self.summaries[key]

    def key(self, spec: RunSpec, run: RunSettings) -> str:
        """Identify what is read; for custom files, that depends on settings, and their split on the seed."""
        about = [spec.corpus, spec.documents]
        return short_hash([*about, spec.data, asdict(run.config.data), spec.seed] if spec.data else about)

    def save_cache(self) -> None:
        """Write new summaries to the cache."""
        assert self.store is not None
        for key, path in self.uncached.items():
            with contextlib.suppress(OSError):  # nothing is lost: they can be computed again
                path.parent.mkdir(parents=True, exist_ok=True)
                with self.store.claim(f"known-{path.stem}", wait=True):
                    write_text(path, json.dumps(self.summaries[key]._asdict()))

    def _cache_file(self, key: str, spec: RunSpec, run: RunSettings) -> Path | None:
        # The name changes with every change of a file; None for too many files.
        if self.store is None:
            return None
        if spec.data:
            paths = tuple(Path(name) for name in (*spec.data, run.config.data.dev, run.config.data.test) if name)
        else:
            paths = () if self.data_dir is None else (self.data_dir,)
        if paths not in self.stamps:
            self.stamps[paths] = _stamp_files(paths)
        stamps = self.stamps[paths]
        name = short_hash([key, stamps, _stamp_code()])
        return None if stamps is None else self.store.path / "known" / f"{name}.json"


def _stamp_files(paths: Sequence[Path]) -> list[FileStamp] | None:
    # ctime too: `cp -p`, `tar` and `rsync -t` set mtime, so a file may change and keep its size and mtime.
    stamps: list[FileStamp] = []
    folders = itertools.chain.from_iterable(os.walk(path, followlinks=True) for path in paths if path.is_dir())
    inside = (Path(folder) / name for folder, _, names in folders for name in names)
    for file in itertools.chain((path for path in paths if not path.is_dir()), inside):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # a broken link, or deleted since
            stat = file.stat()
            stamps.append((str(file.absolute()), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns))
        if len(stamps) > MAX_FILES:
            return None
    return sorted(stamps)


@functools.cache
def _stamp_code() -> list[FileStamp]:
    # Another version may read files differently.
    return _stamp_files(sorted(Path(str(fresh.__file__)).parent.rglob("*.py"))) or []


def sample(examples: Sequence[Example], n_max: int | None) -> tuple[Example, ...]:
    """Sample examples at random, because some corpora are sorted by label, and keep their order."""
    return tuple(examples[place] for place in sorted(_random_order(len(examples))[:n_max]))


def _random_order(n_examples: int) -> list[int]:
    # Seeded by the number of documents, not by the run: all runs of a quick look use the same documents, and a smaller
    # sample is part of a larger one.
    places: list[int] = np.random.default_rng(n_examples).permutation(n_examples).tolist()
    return places


def _check_classes(splits: Splits, spec: RunSpec) -> None:
    if spec.documents is None:
        return
    # The sample is a prefix of a fixed random order, so the least size that has a document of each class is known.
    labels = [splits.train[place].label for place in _random_order(len(splits.train))]
    least, classes = max(map(labels.index, set(labels))) + 1, f"{len(set(labels))} classes of {spec.corpus}"
    if spec.documents < least:
        raise DataError(f"documents = {spec.documents} is too few for all {classes}. Set documents={least} or more.")


def _remember(items: dict[str, Item], key: str, make: Callable[[], Item]) -> Item:
    item = items.pop(key) if key in items else make()
    while len(items) >= N_IN_MEMORY:
        items.pop(next(iter(items)))
    items[key] = item
    return item

"""Examples divided into train, dev and test."""

import hashlib
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fresh.data.annotation.tools import check_format
from fresh.data.config import DataConfig
from fresh.data.eraser import is_eraser, open_eraser
from fresh.data.examples import BadRows, examples_in, read_documents, read_examples
from fresh.data.readers import READERS, ReadLimits, Row, read_rows
from fresh.document import Example
from fresh.errors import DataError

__all__ = [
    "BadRows",
    "DataConfig",
    "DataError",
    "Splits",
    "dataset_digest",
    "load_splits",
    "read_documents",
    "read_examples",
    "read_parts",
    "split_off",
]

Examples = tuple[Example, ...]
STEMS = (("train", "train"), ("dev", "dev"), ("dev", "val"), ("dev", "validation"), ("test", "test"))


@dataclass(frozen=True, slots=True)
class _Part:
    """Where the rows of a split come from, and how to read them."""

    tables: Sequence[Iterator[Row]]
    config: DataConfig


@dataclass(frozen=True, slots=True)
class Splits:
    """Examples to train on, to choose by, and to report on."""

    train: Examples
    dev: Examples
    test: Examples
    labels: tuple[str, ...] = field(init=False)
    """The classes, sorted."""

    def __post_init__(self) -> None:
        for name in ("train", "dev", "test"):
            if not getattr(self, name):
                raise DataError(f"There are no examples for {name}. Give some, or let them be cut off from the data.")
        object.__setattr__(self, "labels", tuple(sorted({example.label for example in self.train})))
        if len(self.labels) < 2:
            raise DataError(
                f"All {len(self.train)} training examples have the label {self.labels[0]!r}. "
                "At least two classes are needed: look at the column that `label` names."
            )
        self.check_labels()
        self.check_queries()

    def check_labels(self) -> None:
        """Refuse a class that was never trained."""
        known = set(self.labels)
        for name, examples in (("dev", self.dev), ("test", self.test)):
            for example in examples:
                if example.label not in known:
                    raise DataError(
                        f"The {name} document {example.document.id!r} has the label {example.label!r}, "
                        f"but the training examples have only: {', '.join(self.labels)}. "
                        "Add training examples for it, or take it out."
                    )

    def check_queries(self) -> None:
        """Refuse queries in some documents but not in others."""
        documents = [example.document for example in (*self.train, *self.dev, *self.test)]
        without = next((document for document in documents if not document.query), None)
        asked = next((document for document in documents if document.query), None)
        if without and asked:
            raise DataError(
                f"Document {asked.id!r} has a query and document {without.id!r} has none. "
                "Give every row a query, or leave the column out with query=''."
            )


def dataset_digest(examples: Iterable[Example]) -> str:
    """Digest words, queries, labels and people's rationales, in their order."""
    digest = hashlib.sha256()
    for example in examples:
        marked = "" if example.human is None else repr(example.human.spans)
        words = (example.label, "", *example.document.words, "", *example.document.query, marked, "\n")
        digest.update("\x00".join(words).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def load_splits(data: Any, config: DataConfig, seed: int, bad: BadRows | None = None) -> Splits:
    """Read train, dev and test; cut off from the training data what is missing.

    :param data: A file, several files, a folder with a file for each split, an ERASER folder or tar,
        a ``datasets.DatasetDict`` or other mapping of tables, a frame, a list, or splits.
    :param seed: Draws the rows that are cut off.
    :param bad: Collects the rows that are left out if the settings say ``skip_bad``.
    """
    if isinstance(data, Splits):
        return data
    found = read_parts(data, config, bad)
    n_train = len(found["train"])
    n_dev = 0 if "dev" in found else max(1, round(n_train * config.dev_share))
    n_test = 0 if "test" in found else max(1, round(n_train * config.test_share))
    train, dev, test = split_off(found["train"], n_dev, n_test, seed)
    return Splits(train, found.get("dev", dev), found.get("test", test))


def read_parts(data: Any, config: DataConfig, bad: BadRows | None = None) -> dict[str, Examples]:
    """Read the splits that the data itself has; train is always there."""
    parts = _find_parts(data, config)
    for split, path in (("dev", config.dev), ("test", config.test)):
        if path:
            parts[split] = _Part([read_rows(path, limits=config.limits)], config)
    return {split: tuple(examples_in(part.tables, part.config, bad)) for split, part in parts.items()}


def _find_parts(data: Any, config: DataConfig) -> dict[str, _Part]:
    """Find the tables of each split that the data has; train is always there."""
    if isinstance(data, str | os.PathLike):
        return _parts_at(Path(data), config)
    if isinstance(data, Mapping):
        return _parts_in(data, config)
    if isinstance(data, Sequence) and data and all(isinstance(item, str | os.PathLike) for item in data):
        return {"train": _Part(_read_files([Path(item) for item in data], config.limits), config)}
    return {"train": _Part([read_rows(data)], config)}


def _parts_in(tables: Mapping[str, Any], config: DataConfig) -> dict[str, _Part]:
    """Find the splits among named tables."""
    parts: dict[str, _Part] = {}
    for split, name in STEMS:
        if name in tables and split in parts:
            raise DataError(f"Two tables are for {split}, among: {', '.join(tables)}. Keep one of them.")
        if name in tables:
            table = tables[name]
            called = "" if isinstance(table, str | os.PathLike) else split
            parts[split] = _Part([read_rows(table, called, config.limits)], config)
    if "train" not in parts:
        raise DataError(f"No table is named train, among: {', '.join(map(str, tables))}. Name the training data so.")
    return parts


def _parts_at(path: Path, config: DataConfig) -> dict[str, _Part]:
    """Find what lies at a path: a file, or the splits in a folder or an ERASER corpus."""
    if is_eraser(path):
        check_format(path.name, "eraser", config)
        corpus = open_eraser(path, config.limits)
        own = DataConfig(
            tokenised=True,
            skip_bad=config.skip_bad,
            max_row_mb=config.max_row_mb,
            max_unpacked=config.max_unpacked,
        )
        return {split: _Part([corpus.read_rows(split)], own) for split in corpus.annotations}
    if not path.is_dir():
        return {"train": _Part([read_rows(path, limits=config.limits)], config)}
    files = _find_split_files(path)
    if "train" not in files:
        raise DataError(
            f"{path} holds no training data: looked for train with one of the endings {', '.join(READERS)}. "
            "Name a file, or a folder with such a file."
        )
    return {split: _Part([read_rows(file, limits=config.limits)], config) for split, file in files.items()}


def _find_split_files(folder: Path) -> dict[str, Path]:
    """Find the files that a folder holds for train, dev and test."""
    found: dict[str, Path] = {}
    for split, stem in STEMS:
        for path in (folder / f"{stem}{ending}" for ending in READERS):
            if path.is_file() and split in found:
                raise DataError(
                    f"{folder} holds two files for {split}: {found[split].name} and {path.name}. Keep one of them."
                )
            if path.is_file():
                found[split] = path
    return found


def _read_files(paths: Sequence[Path], limits: ReadLimits) -> list[Iterator[Row]]:
    """Read several files as one; files of one name in several folders are told apart by their folders."""
    twice = next((path for path, count in Counter(paths).items() if count > 1), None)
    if twice:
        raise DataError(f"{twice} is given twice. Give each file once.")
    names = Counter(path.name for path in paths)
    return [read_rows(path, path.name if names[path.name] == 1 else path.as_posix(), limits) for path in paths]


def split_off(examples: Sequence[Example], n_dev: int, n_test: int, seed: int) -> tuple[Examples, Examples, Examples]:
    """Divide examples into train, dev and test, in their old order, with the same mix of classes in each.

    Every class keeps an example in train. Test comes from the front and dev from the back of each class's shuffled
    rows, so that neither depends on whether the other is cut off.
    """
    rows: dict[str, list[int]] = {}
    for row, example in enumerate(examples):
        rows.setdefault(example.label, []).append(row)
    sizes = {label: len(rows[label]) for label in sorted(rows)}
    if len(examples) < n_dev + n_test + len(sizes):
        raise DataError(
            f"{len(examples)} examples of {len(sizes)} classes are too few to cut off {n_dev} for dev and {n_test} "
            "for test and keep each class in train. Give more, or give files for them with `dev` and `test`."
        )
    from_test = apportion(n_test, sizes, {label: size - 1 for label, size in sizes.items()})
    from_dev = apportion(n_dev, sizes, {label: size - 1 - from_test[label] for label, size in sizes.items()})
    split = np.zeros(len(examples), dtype=np.int8)
    for label, members in rows.items():
        shuffled = np.random.default_rng([seed, zlib.crc32(label.encode())]).permutation(members)
        split[shuffled[: from_test[label]]] = 2
        split[shuffled[len(members) - from_dev[label] :]] = 1
    train, dev, test = (tuple(examples[int(row)] for row in np.flatnonzero(split == part)) for part in range(3))
    return train, dev, test


def apportion(total: int, sizes: Mapping[str, int], room: Mapping[str, int]) -> dict[str, int]:
    """Share out places among classes by their sizes, largest remainder first.

    :param room: The most places that each class can take.
    """
    everything = sum(sizes.values())
    seats = {label: min(room[label], total * size // everything) for label, size in sizes.items()}
    while sum(seats.values()) < total:
        open_classes = [label for label in sizes if seats[label] < room[label]]
        seats[max(open_classes, key=lambda label: total * sizes[label] - seats[label] * everything)] += 1
    return seats

"""Examples divided into train, dev and test."""

import os
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fresh.data.annotation.tools import check_format
from fresh.data.config import DataConfig, ReadLimits
from fresh.data.eraser import is_eraser, open_eraser
from fresh.data.examples import BadRows, parse_examples, read_documents, read_examples
from fresh.data.fingerprints import dataset_digest
from fresh.data.readers import READERS, Row, read_rows
from fresh.document import Example
from fresh.errors import DataError

__all__ = [
    "BadRows",
    "DataConfig",
    "Splits",
    "dataset_digest",
    "load_splits",
    "read_documents",
    "read_examples",
    "read_parts",
    "split_off",
]

Examples = tuple[Example, ...]
FILE_NAMES = (("train", "train"), ("dev", "dev"), ("dev", "val"), ("dev", "validation"), ("test", "test"))
"""Names of files and tables for each split."""


@dataclass(frozen=True, slots=True)
class Splits:
    """Examples for training, for model selection, and for the final figures."""

    train: Examples
    dev: Examples
    test: Examples
    labels: tuple[str, ...] = field(init=False)
    """The classes, sorted."""

    def __post_init__(self) -> None:
        for name in ("train", "dev", "test"):
            if not getattr(self, name):
                raise DataError(f"There are no examples for {name}. Give some, or let them be split off the data.")
        # From train only: a class that was never trained cannot be predicted.
        object.__setattr__(self, "labels", tuple(sorted({example.label for example in self.train})))
        if len(self.labels) < 2:
            raise DataError(
                f"All {len(self.train)} training examples have the label {self.labels[0]!r}. "
                "At least two classes are needed: check the column that `label` names."
            )
        self._check_labels()
        self._check_queries()

    def _check_labels(self) -> None:
        known = set(self.labels)
        for name, examples in (("dev", self.dev), ("test", self.test)):
            for example in examples:
                if example.label not in known:
                    raise DataError(
                        f"The {name} document {example.document.id!r} has the label {example.label!r}, "
                        f"but the training examples have only: {', '.join(self.labels)}. "
                        "Add training examples for it, or remove it."
                    )

    def _check_queries(self) -> None:
        documents = [example.document for example in (*self.train, *self.dev, *self.test)]
        without = next((document for document in documents if not document.query), None)
        queried = next((document for document in documents if document.query), None)
        if without and queried:
            raise DataError(
                f"Document {queried.id!r} has a query and document {without.id!r} has none. "
                "Give every row a query, or leave the column out with query=''."
            )


@dataclass(frozen=True, slots=True)
class _Part:
    """The rows of a split, and how to read them."""

    tables: Sequence[Iterator[Row]]
    config: DataConfig


def load_splits(data: Any, config: DataConfig, seed: int, bad: BadRows | None = None) -> Splits:
    """Read train, dev and test; missing splits are split off the training data.

    :param data: A file, several files, a folder with a file for each split, an ERASER folder or tar,
        a ``datasets.DatasetDict`` or other mapping of tables, a frame, a list, or splits.
    :param seed: Draws the rows that are split off.
    :param bad: Collects the rows that are left out if ``skip_bad`` is set.
    """
    if isinstance(data, Splits):
        return data
    parts = read_parts(data, config, bad)
    n_train = len(parts["train"])
    n_dev = 0 if "dev" in parts else max(1, round(n_train * config.dev_share))
    n_test = 0 if "test" in parts else max(1, round(n_train * config.test_share))
    train, dev, test = split_off(parts["train"], n_dev, n_test, seed)
    return Splits(train, parts.get("dev", dev), parts.get("test", test))


def read_parts(data: Any, config: DataConfig, bad: BadRows | None = None) -> dict[str, Examples]:
    """Read the splits that the data itself has; train is always among them."""
    parts = _find_parts(data, config)
    for split, path in (("dev", config.dev), ("test", config.test)):
        if path:
            parts[split] = _Part([read_rows(path, limits=config.limits)], config)
    return {split: tuple(parse_examples(part.tables, part.config, bad)) for split, part in parts.items()}


def _find_parts(data: Any, config: DataConfig) -> dict[str, _Part]:
    if isinstance(data, str | os.PathLike):
        return _parts_of_path(Path(data), config)
    if isinstance(data, Mapping):
        return _parts_of_tables(data, config)
    if isinstance(data, Sequence) and data and all(isinstance(item, str | os.PathLike) for item in data):
        return {"train": _Part(_read_files([Path(item) for item in data], config.limits), config)}
    return {"train": _Part([read_rows(data)], config)}


def _parts_of_tables(tables: Mapping[str, Any], config: DataConfig) -> dict[str, _Part]:
    parts: dict[str, _Part] = {}
    for split, name in FILE_NAMES:
        if name in tables and split in parts:
            raise DataError(f"Two tables are for {split}, among: {', '.join(tables)}. Keep one of them.")
        if name in tables:
            table = tables[name]
            table_name = "" if isinstance(table, str | os.PathLike) else split
            parts[split] = _Part([read_rows(table, table_name, config.limits)], config)
    if "train" not in parts:
        raise DataError(f"No table is named train, among: {', '.join(map(str, tables))}. Name the training data so.")
    return parts


def _parts_of_path(path: Path, config: DataConfig) -> dict[str, _Part]:
    if is_eraser(path):
        check_format(path.name, "eraser", config)
        corpus = open_eraser(path, config.limits)
        # Columns of tables do not apply to ERASER, whose fields have fixed names; limits do.
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
    files: dict[str, Path] = {}
    for split, stem in FILE_NAMES:
        for path in (folder / f"{stem}{ending}" for ending in READERS):
            if path.is_file() and split in files:
                raise DataError(
                    f"{folder} holds two files for {split}: {files[split].name} and {path.name}. Keep one of them."
                )
            if path.is_file():
                files[split] = path
    return files


def _read_files(paths: Sequence[Path], limits: ReadLimits) -> list[Iterator[Row]]:
    """Read several files as one; files of the same name keep their folders in ids and errors."""
    repeated = next((path for path, count in Counter(paths).items() if count > 1), None)
    if repeated:
        raise DataError(f"{repeated} is given twice. Give each file once.")
    names = Counter(path.name for path in paths)
    return [read_rows(path, path.name if names[path.name] == 1 else path.as_posix(), limits) for path in paths]


def split_off(examples: Sequence[Example], n_dev: int, n_test: int, seed: int) -> tuple[Examples, Examples, Examples]:
    """Divide examples into train, dev and test, in their old order, with the same mix of classes in each.

    Every class keeps an example in train.
    """
    rows: dict[str, list[int]] = {}
    for row, example in enumerate(examples):
        rows.setdefault(example.label, []).append(row)
    sizes = {label: len(rows[label]) for label in sorted(rows)}
    if len(examples) < n_dev + n_test + len(sizes):
        raise DataError(
            f"{len(examples)} examples of {len(sizes)} classes are too few to split off {n_dev} for dev and {n_test} "
            "for test and keep each class in train. Give more, or give files for them with `dev` and `test`."
        )
    from_test = apportion(n_test, sizes, {label: size - 1 for label, size in sizes.items()})
    from_dev = apportion(n_dev, sizes, {label: size - 1 - from_test[label] for label, size in sizes.items()})
    split = np.zeros(len(examples), dtype=np.int8)
    for label, members in rows.items():
        # Seeded by class, so that the rows of one class do not depend on which other classes there are.
        # Test is taken from the front and dev from the back of each class's shuffled rows, so that neither depends on
        # whether the other is split off.
        shuffled = np.random.default_rng([seed, zlib.crc32(label.encode())]).permutation(members)
        split[shuffled[: from_test[label]]] = 2
        split[shuffled[len(members) - from_dev[label] :]] = 1
    train, dev, test = (tuple(examples[int(row)] for row in np.flatnonzero(split == part)) for part in range(3))
    return train, dev, test


def apportion(total: int, sizes: Mapping[str, int], room: Mapping[str, int]) -> dict[str, int]:
    """Apportion places to classes by their sizes, by the largest remainder.

    :param room: The most places that each class can take.
    """
    total_size = sum(sizes.values())
    seats = {label: min(room[label], total * size // total_size) for label, size in sizes.items()}
    while sum(seats.values()) < total:
        open_classes = [label for label in sizes if seats[label] < room[label]]
        seats[max(open_classes, key=lambda label: total * sizes[label] - seats[label] * total_size)] += 1
    return seats

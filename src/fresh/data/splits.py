"""Examples divided into train, dev and test."""

import os
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fresh.data.annotation import check_format
from fresh.data.config import COLUMNS, DEFAULTS, DataConfig
from fresh.data.eraser import is_eraser, read_eraser
from fresh.data.examples import BadRows, parse_examples, read_examples
from fresh.data.fingerprints import dataset_digest as dataset_digest  # noqa: PLC0414
from fresh.data.readers import READERS, read_rows
from fresh.document import Example
from fresh.errors import DataError
from fresh.text import plural

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
                raise DataError(f"There are no examples for {name}. Give some, or leave {name} out to split it off.")
        # From train only, because a class without training examples cannot be predicted.
        object.__setattr__(self, "labels", tuple(sorted({example.label for example in self.train})))
        if len(self.labels) < 2:
            problem = f"All {len(self.train)} training examples have the label {self.labels[0]!r}."
            raise DataError(f"{problem} At least two classes are needed: check the column that `label` names.")
        for name, examples in (("dev", self.dev), ("test", self.test)):
            new = next((example for example in examples if example.label not in self.labels), None)
            if new is not None:
                known = f"the training examples have only: {', '.join(self.labels)}."
                problem = f"The {name} document {new.document.id!r} has the label {new.label!r}, but {known}"
                raise DataError(f"{problem} Add training examples for it, or remove it.")
        documents = [example.document for example in (*self.train, *self.dev, *self.test)]
        without = next((document for document in documents if not document.query), None)
        queried = next((document for document in documents if document.query), None)
        if without and queried:
            problem = f"Document {queried.id!r} has a query, but document {without.id!r} has none."
            raise DataError(f"{problem} Give every row a query, or leave the column out with query=''.")


def load_splits(data: Any, config: DataConfig, seed: int, bad: BadRows | None = None) -> Splits:
    """Read train, dev and test; missing splits are split off the training data.

    :param data: A file, several files, a folder with a file for each split, an ERASER folder or tar,
        a ``datasets.DatasetDict`` or other mapping of tables, a frame, a list, or splits.
    :param seed: Seed of the random choice of rows that are split off.
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
    """Read the splits that the data has; it always has train."""
    files = {split: path for split, path in (("dev", config.dev), ("test", config.test)) if path}
    parts = _open_parts(data, config, bad) | {split: read_examples(path, config, bad) for split, path in files.items()}
    return {split: tuple(examples) for split, examples in parts.items()}


def _open_parts(data: Any, config: DataConfig, bad: BadRows | None) -> dict[str, Iterator[Example]]:
    path = Path(data) if isinstance(data, str | os.PathLike) else None
    if path is not None and is_eraser(path):
        check_format(path.name, "eraser", config)
        # ERASER's fields have fixed names, whatever the columns of tables; its queries can be left out.
        columns = {name: getattr(DEFAULTS, name) for name in COLUMNS} | {"query": config.query and "query"}
        own = replace(config, tokenised=True, format="auto", **columns)
        splits = read_eraser(path, config)
        return {split: parse_examples([rows], own, bad) for split, rows in splits.items()}
    if path is not None and path.is_dir():
        files = [(split, path / f"{stem}{ending}") for split, stem in FILE_NAMES for ending in READERS]
        found = [(split, file.name, file) for split, file in files if file.is_file()]
        return _open_tables(found, str(path), config, bad)
    if isinstance(data, Mapping):
        tables = [(split, name, data[name]) for split, name in FILE_NAMES if name in data]
        return _open_tables(tables, f"The data with the keys {', '.join(map(str, data))}", config, bad)
    is_list = isinstance(data, Sequence) and path is None and len(data) > 0
    if is_list and all(isinstance(item, str | os.PathLike) for item in data):
        paths = [Path(item) for item in data]
        repeated = next((path for path, count in Counter(paths).items() if count > 1), None)
        if repeated:
            raise DataError(f"{repeated} is listed twice. List each file once.")
        # Ids and errors name the folders of files with the same name.
        stems = Counter(path.name for path in paths)
        names = [path.name if stems[path.name] == 1 else path.as_posix() for path in paths]
        rows = [read_rows(path, name, config) for path, name in zip(paths, names, strict=True)]
        return {"train": parse_examples(rows, config, bad)}
    return {"train": read_examples(data, config, bad)}


def _open_tables(
    tables: Sequence[tuple[str, str, Any]], place: str, config: DataConfig, bad: BadRows | None
) -> dict[str, Iterator[Example]]:
    """Read tables, each given by its split, name and source; the place that holds them is for messages."""
    parts: dict[str, Iterator[Example]] = {}
    for split, _, source in tables:
        if split in parts:
            names = " and ".join(name for other, name, _ in tables if other == split)
            raise DataError(f"{place} holds {names} for {split}. Keep one of them.")
        name = "" if isinstance(source, str | os.PathLike) else split
        parts[split] = parse_examples([read_rows(source, name, config)], config, bad)
    if "train" not in parts:
        ways = f"Name a table train, or a file with one of the endings {', '.join(READERS)}."
        raise DataError(f"{place} has no training data. {ways}")
    return parts


def split_off(examples: Sequence[Example], n_dev: int, n_test: int, seed: int) -> tuple[Examples, Examples, Examples]:
    """Divide examples into train, dev and test with the same mix of classes, and keep their order.

    Every class keeps an example in train.
    """
    rows: dict[str, list[int]] = {}
    for row, example in enumerate(examples):
        rows.setdefault(example.label, []).append(row)
    sizes = {label: len(rows[label]) for label in sorted(rows)}
    if len(examples) < n_dev + n_test + len(sizes):
        wanted = f"{n_dev} for dev and {n_test} for test and keep each class in train"
        problem = f"{plural(len(examples), 'example')} of {plural(len(sizes), 'class', 'es')}: too few to split off"
        raise DataError(f"{problem} {wanted}. Give more examples, or give files with `dev` and `test`.")
    from_test = apportion(n_test, sizes, {label: size - 1 for label, size in sizes.items()})
    from_dev = apportion(n_dev, sizes, {label: size - 1 - from_test[label] for label, size in sizes.items()})
    split = np.zeros(len(examples), dtype=np.int8)
    for label, members in rows.items():
        # Seeded by class, so that the rows of a class do not depend on the other classes. Test comes from the front
        # and dev from the back of the shuffled rows, so that neither depends on whether the other is split off.
        shuffled = np.random.default_rng([seed, zlib.crc32(label.encode())]).permutation(members)
        split[shuffled[: from_test[label]]] = 2
        split[shuffled[len(members) - from_dev[label] :]] = 1
    train, dev, test = (tuple(examples[int(row)] for row in np.flatnonzero(split == part)) for part in range(3))
    return train, dev, test


def apportion(total: int, sizes: Mapping[str, int], room: Mapping[str, int]) -> dict[str, int]:
    """Apportion seats to classes in proportion to their sizes by the largest-remainder method.

    :param room: The most seats that each class can take.
    """
    total_size = sum(sizes.values())
    seats = {label: min(room[label], total * size // total_size) for label, size in sizes.items()}
    while sum(seats.values()) < total:
        open_classes = [label for label in sizes if seats[label] < room[label]]
        seats[max(open_classes, key=lambda label: total * sizes[label] - seats[label] * total_size)] += 1
    return seats

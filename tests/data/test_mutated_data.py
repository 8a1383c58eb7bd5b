"""Damaged data files are read, or refused with a DataError, and never take long."""

import gzip
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_files import annotation, csv_table, eraser_files, evidence, json_lines, write_folder, write_tar
from fresh.data import DataConfig, load_splits
from fresh.errors import DataError
from mutations import Generator, mutate_bytes, mutate_json, mutate_json_line, pick, survey

SIZES = [15, pytest.param(350, marks=pytest.mark.slow)]
"""Mutations of each kind of file: 3,500 in all."""
SECONDS = 5.0
ROWS: list[dict[str, Any]] = [
    {
        "id": f"r-{n}-{word}",
        "text": f'A "{word}" film, of\nno. {n}; déjà vu\t!',
        "label": word,
        "rationale": [[3, 5 + n % 3]],
    }
    for n in range(8)
    for word in ("good", "bad")
]
CELLS = [{**row, "rationale": json.dumps(row["rationale"])} for row in ROWS]


def mutate_gzip(content: bytes, generator: Generator) -> bytes:
    """Damage a packed file, or what is in it."""
    if generator.random() < 0.5:
        return mutate_bytes(content, generator)
    return gzip.compress(mutate_bytes(gzip.decompress(content), generator))


LINES, TABLE, PARQUET = json_lines(ROWS).encode(), csv_table(CELLS).encode(), pa.BufferOutputStream()
pq.write_table(pa.Table.from_pylist(ROWS), PARQUET)
FILES: dict[str, tuple[bytes, Callable[[bytes, Generator], bytes]]] = {
    "r.csv": (TABLE, mutate_bytes),
    "r.tsv": (csv_table(CELLS, "\t").encode(), mutate_bytes),
    "r.jsonl": (LINES, mutate_bytes),
    "fields.jsonl": (LINES, mutate_json_line),
    "fields.json": (json.dumps(ROWS).encode(), mutate_json),
    "r.parquet": (PARQUET.getvalue().to_pybytes(), mutate_bytes),
    "r.jsonl.gz": (gzip.compress(LINES), mutate_gzip),
    "r.csv.gz": (gzip.compress(TABLE), mutate_gzip),
}
"""The content of a file, and how it is damaged."""


def read(path: Path, generator: Generator) -> str:
    """Read a file, perhaps without its bad rows."""
    start = time.monotonic()
    try:
        load_splits(str(path), DataConfig(skip_bad=bool(generator.random() < 0.5)), seed=0)
        end = "read"
    except DataError:
        end = "refused"
    assert time.monotonic() - start < SECONDS, f"{time.monotonic() - start:.1f} s"
    return end


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", FILES)
def test_mutated_files_are_read_or_refused(name: str, n: int, tmp_path: Path) -> None:
    content, mutate = FILES[name]
    path = tmp_path / name
    path.write_bytes(content)
    assert read(path, np.random.default_rng(0)) == "read"

    def attempt(generator: Generator) -> str:
        path.write_bytes(mutate(content, generator))
        return read(path, generator)

    ends, faults = survey(n, 1, attempt)
    assert faults == []
    assert n < 100 or min(ends["read"], ends["refused"]) > n / 50


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("packed", [False, True], ids=["folder", "tar"])
def test_mutated_eraser_corpora_are_read_or_refused(packed: bool, n: int, tmp_path: Path) -> None:
    rows = [
        annotation(row["id"], row["label"], [evidence(row["id"], 1, 2)], query="how is it ?", docids=[row["id"]])
        for row in ROWS
    ]
    texts = {row["id"]: f"A {row['label']} film of no. {n}\n." for n, row in enumerate(ROWS)}
    files = eraser_files(texts, train=rows[:10], val=rows[10:13], test=rows[13:])

    def attempt(generator: Generator) -> str:
        changed, (name, other) = dict(files), (pick(list(files), generator) for _ in range(2))
        kind = pick(("bytes", "bytes", "fields", "remove", "swap", "tar"), generator)
        if kind == "remove":
            del changed[name]
        elif kind == "swap":
            changed[name], changed[other] = files[other], files[name]
        elif kind == "fields" and name.endswith(".jsonl"):
            changed[name] = mutate_json_line(files[name], generator)
        elif kind != "tar" or not packed:
            changed[name] = mutate_bytes(files[name], generator)
        if not packed:
            shutil.rmtree(tmp_path / "corpus", ignore_errors=True)
            return read(write_folder(tmp_path / "corpus", changed), generator)
        path = write_tar(tmp_path / pick(("corpus.tar", "corpus.tar.gz"), generator), changed)
        if kind == "tar":
            path.write_bytes(mutate_bytes(path.read_bytes(), generator))
        return read(path, generator)

    ends, faults = survey(n, 2, attempt)
    assert faults == []
    assert n < 100 or min(ends["read"], ends["refused"]) > n / 50

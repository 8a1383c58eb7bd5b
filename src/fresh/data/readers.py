"""Rows of files and tables, one at a time, each with its place for error messages."""

import csv
import gzip
import io
import json
import math
import os
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from fresh._optional import optional_import
from fresh.data.config import DEFAULTS, MEGABYTE, DataConfig
from fresh.errors import DataError, RowError
from fresh.text import Spans, TextParts

Source = str | os.PathLike[str] | Iterable[Any]
"""A file, a pandas frame, a datasets.Dataset, or dicts or (text, label) pairs."""

STANDARD_INPUT = "-"
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
# The most that the csv module accepts on every system.
MAX_FIELD = 2**31 - 1
# Without a limit, a table of 1,000,000 columns took hours.
MAX_COLUMNS = 10_000
BLOCK_SIZE = 64 * 1024
# Few rows at a time, because each may be as large as a row may be.
PARQUET_BATCH = 8
JSON_SPACE = re.compile(r"[ \t\n\r]*")
JSON_FIX = 'Write objects such as {"text": "Good film.", "label": "positive"}, one a line or in one list.'
# Small files may unpack to this much, whatever the limit: a few repeated lines compress very well.
MIN_UNPACK_LIMIT = 16 * MEGABYTE


@dataclass(frozen=True, slots=True)
class Row:
    """A record and its place in the data."""

    values: Mapping[str, Any]
    name: str
    """The file or table that holds it."""
    where: str
    """Its place there, such as "line 7"."""
    number: int
    """Number of the row, from 1."""
    error: RowError | None = field(default=None, compare=False)
    """Why the row could not be read."""
    parts: TextParts = ()
    """The published texts that its text joins."""
    evidence: Spans | None = None
    """Human rationales as spans of words, where the file has adjacent or empty spans."""

    @property
    def place(self) -> str:
        """File and line, for error messages."""
        return f"{self.name}, {self.where}"

    @property
    def default_id(self) -> str:
        """An id for a row without one, such as "reviews-17"."""
        return f"{self.name[: len(self.name) - len(_ending(self.name))]}-{self.number}"


def read_rows(source: Source, name: str = "", config: DataConfig = DEFAULTS) -> Iterator[Row]:
    """Read the rows of a file or table, one at a time; "-" is standard input, as JSON lines.

    :param name: Its name in errors and ids; by default the name of the file.
    """
    if isinstance(source, str) and source == STANDARD_INPUT:
        name = name or "standard input"
        rows = parse_json_lines(sys.stdin.buffer, name, config)
    elif isinstance(source, str | os.PathLike):
        path = Path(source)
        name = name or path.name
        if path.is_dir():
            raise DataError(f"{path} is a folder. Name one of the files in it.")
        if not path.exists():
            raise DataError(f"{path} does not exist. Check the spelling and the folder.")
        if not _ending(path.name):
            raise DataError(f"{path} has an unknown type. Save it as one of: {', '.join(READERS)}.")
        rows = _read_file(path, name, config)
    else:
        kind, records = _open_table(source)
        name = name or kind
        rows = _read_records(records, name)
    return refuse_empty(rows, name)


def refuse_empty(rows: Iterable[Row], name: str) -> Iterator[Row]:
    """Yield all rows, and raise an error if there are none."""
    row: Row | None = None
    for row in rows:
        yield row
    if row is None:
        raise DataError(f"{name} holds no rows. Give one row for each document.")


def _open_table(source: Any) -> tuple[str, Iterator[Any]]:
    """Name a table in memory, and iterate over its records; class numbers of a datasets.Dataset become names."""
    # By their attributes, so that neither pandas nor datasets is imported to read a list.
    if hasattr(source, "itertuples") and hasattr(source, "columns"):
        columns = [str(column) for column in source.columns]
        cells = source.itertuples(index=False, name=None)
        return "frame", (dict(zip(columns, row, strict=True)) for row in cells)
    features = getattr(source, "features", None) or {}
    classes = {column: dict(enumerate(kind.names)) for column, kind in features.items() if hasattr(kind, "int2str")}
    if not classes:
        return "dataset" if hasattr(source, "column_names") else "list", iter(source)
    # A number below 0 stands for no label.
    return "dataset", (row | {column: names.get(row[column]) for column, names in classes.items()} for row in source)


def is_null(cell: object) -> bool:
    """Recognize an empty cell: None, blank, NaN, or a null value of pandas."""
    if isinstance(cell, str):
        return not cell.strip()
    is_nan = isinstance(cell, float | np.floating) and math.isnan(cell)
    return cell is None or is_nan or type(cell).__name__ in ("NAType", "NaTType")


def _read_records(records: Iterable[Any], name: str) -> Iterator[Row]:
    for number, record in enumerate(records, start=1):
        if isinstance(record, Mapping):
            values = record
        elif isinstance(record, tuple | list) and len(record) == 2:
            values = {"text": record[0], "label": record[1]}
        else:
            raise DataError(f"{name}, row {number}: a row is a dict or a (text, label) pair, got {record!r:.60}.")
        yield Row(values, name, f"row {number}", number)


def _ending(name: str) -> str:
    return next((ending for ending in READERS if name.lower().endswith(ending)), "")


def _read_file(path: Path, name: str, config: DataConfig) -> Iterator[Row]:
    compressed = path.suffix.lower() == ".gz"
    with gzip.open(path) if compressed else path.open("rb") as file:
        try:
            if compressed:
                check_unpacked(path, name, config)
            yield from READERS[_ending(path.name)](file, name, config)  # type: ignore[arg-type]  # gzip reads like any
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(f"{name}: broken gzip ({error}). Download or compress the file again.") from error


def check_unpacked(path: Path, name: str, config: DataConfig) -> None:
    """Refuse a gzip file that unpacks to far more than its size."""
    # The file is unpacked twice, so that no row of a bomb reaches the caller.
    n_unpacked = 0
    with path.open("rb") as compressed, gzip.open(compressed) as file:
        while block := file.read(BLOCK_SIZE):
            n_unpacked += len(block)
            if n_unpacked > max(MIN_UNPACK_LIMIT, config.max_unpacked * compressed.tell()):
                raise config.unpack_error(name)


def _read_lines(file: IO[bytes], name: str, config: DataConfig | None = None) -> Iterator[str]:
    # With a size, readline returns before a huge line fills the memory.
    size = config.row_bytes + 1 if config else -1
    # Decoded line by line, so that errors can name the line.
    for number, line in enumerate(iter(partial(file.readline, size), b""), start=1):
        if config and len(line) > config.row_bytes:
            raise config.row_error(f"{name}, line {number}")
        try:
            # Spreadsheets start files with a byte order mark, which must not become part of the first column's name.
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            byte = f"0x{line[error.start]:02x}"
            raise DataError(f"{name}, line {number}: the byte {byte} is not UTF-8. Save the file in UTF-8.") from error


def parse_json_lines(file: IO[bytes], name: str, config: DataConfig | None = None) -> Iterator[Row]:
    """Parse one JSON object a line; blank lines are skipped."""
    lines = enumerate(_read_lines(file, name, config), start=1)
    objects = ((place, line) for place, line in lines if line.strip())
    for number, (place, line) in enumerate(objects, start=1):
        try:
            yield _json_row(json.loads(line), name, f"line {place}", number)
        except (ValueError, RecursionError) as error:  # RecursionError: thousands of nested brackets
            yield _bad_row(name, f"line {place}", number, f"broken JSON ({error}).", JSON_FIX)


def _json_row(record: Any, name: str, where: str, number: int) -> Row:
    if isinstance(record, dict):
        return Row(record, name, where, number)
    return _bad_row(name, where, number, f"a JSON object is needed, got {record!r:.60}.", JSON_FIX)


def _bad_row(name: str, where: str, number: int, problem: str, fix: str) -> Row:
    return Row({}, name, where, number, RowError(f"{name}, {where}", problem, fix))


def _parse_json(file: IO[bytes], name: str, _config: DataConfig) -> Iterator[Row]:
    """Parse one list of JSON objects, one object, or JSON lines."""
    text = "".join(_read_lines(file, name))
    try:
        if text.lstrip().startswith("["):
            for number, record in enumerate(_parse_list(text), start=1):
                yield _json_row(record, name, f"row {number}", number)
        else:
            yield _json_row(json.loads(text), name, "row 1", 1)
    except (ValueError, RecursionError) as error:
        if text.lstrip().startswith("["):
            raise DataError(f"{name}: broken JSON ({error}). Download or export the file again.") from error
        yield from parse_json_lines(io.BytesIO(text.encode()), name)


def _parse_list(text: str) -> Iterator[Any]:
    """Decode the elements of a JSON list one at a time."""
    # Decoded all at once, small objects take 30 times the memory of the text.
    decode = json.JSONDecoder().raw_decode
    at = _skip_space(text, _skip_space(text, 0) + 1)
    has_more = text[at : at + 1] != "]"
    while has_more:
        element, at = decode(text, at)
        yield element
        at = _skip_space(text, at)
        has_more = text[at : at + 1] == ","
        at = _skip_space(text, at + 1) if has_more else at
    if text[at : at + 1] != "]":
        raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
    end = _skip_space(text, at + 1)
    if end != len(text):
        raise json.JSONDecodeError("Extra data", text, end)


def _skip_space(text: str, start: int) -> int:
    return JSON_SPACE.match(text, start).end()  # type: ignore[union-attr]  # the empty match always exists


def _parse_table(file: IO[bytes], name: str, config: DataConfig, delimiter: str) -> Iterator[Row]:
    """Parse a table, whose first line names the columns."""
    # The csv module has one limit for the whole process; reviews can exceed its default of 131,072 characters.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_FIELD))
    records = _parse_cells(file, name, config, delimiter)
    _, header = next(records, (0, []))
    columns = [column.strip() for column in header]
    _check_header(columns, name, delimiter)
    for number, (line_number, cells) in enumerate(records, start=1):
        where = f"line {line_number}"
        if len(cells) == len(columns):
            yield Row(dict(zip(columns, cells, strict=True)), name, where, number)
        else:
            problem = f"the header has {len(columns)} cells, but this row has {len(cells)}."
            yield _bad_row(name, where, number, problem, "Put a cell that holds the separator in quotes.")


def _parse_cells(file: IO[bytes], name: str, config: DataConfig, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Parse the cells of each row, with the line where the row starts; blank lines are skipped."""
    first, size = 1, 0

    def check_size() -> Iterator[str]:
        nonlocal size
        for line in _read_lines(file, name, config):
            size += len(line)
            # A quoted cell may span many lines, none of which is too large alone.
            if size > config.row_bytes:
                raise config.row_error(f"{name}, line {first}")
            yield line

    reader = csv.reader(check_size(), delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            if cells:
                yield first, cells
            first, size = reader.line_num + 1, 0
    except csv.Error as error:
        fix = "Put a cell that holds quotes, separators or line breaks in quotes, and double the quotes inside it."
        raise DataError(f"{name}, line {first}: broken table ({error}). {fix}") from error


def _check_header(columns: list[str], name: str, delimiter: str) -> None:
    place = f"{name}, line 1"
    if len(columns) > MAX_COLUMNS:
        used = "Save only the columns that are used: text, label, query, id, rationale."
        raise DataError(f"{place}: there are {len(columns):,} columns, but at most {MAX_COLUMNS:,} can be read. {used}")
    # Read with the wrong delimiter, a table has one column, and the error would be about a missing column.
    other = next((mark for mark in DELIMITERS if len(columns) == 1 and mark in columns[0]), None)
    if other is not None:
        wrong = f"separated by {DELIMITERS[other]}, not by {DELIMITERS[delimiter]}: {columns[0]!r:.60}."
        raise DataError(f"{place}: the columns are {wrong} Save it with commas as .csv, or with tabs as .tsv.")
    repeated = next((column for column, count in Counter(columns).items() if count > 1), None)
    if repeated is not None:
        raise DataError(f"{place}: two columns have the name {repeated!r:.60}. Give each its own name.")


def _parse_parquet(file: IO[bytes], name: str, config: DataConfig) -> Iterator[Row]:
    pyarrow = optional_import("pyarrow", "data", "Reading Parquet")
    parquet = optional_import("pyarrow.parquet", "data", "Reading Parquet")
    n_rows, n_unpacked, n_packed = 0, 0, os.fstat(file.fileno()).st_size
    try:
        with parquet.ParquetFile(file.name) as table:  # by its name, because Arrow reads Python's files slower
            # Checked before rows become Python objects, which take several times the memory of an Arrow batch.
            for batch in table.iter_batches(batch_size=PARQUET_BATCH):
                for i in range(batch.num_rows if batch.nbytes > config.row_bytes else 0):
                    if batch.slice(i, 1).nbytes > config.row_bytes:
                        raise config.row_error(f"{name}, row {n_rows + i + 1}")
                n_unpacked += batch.nbytes
                if n_unpacked > max(MIN_UNPACK_LIMIT, config.max_unpacked * n_packed):
                    raise config.unpack_error(name)
                for record in batch.to_pylist():
                    n_rows += 1
                    yield Row(record, name, f"row {n_rows}", n_rows)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{name}: broken Parquet ({error}). Download or write the file again.") from error


def check_span(start: int, end: int, size: int, unit: str, place: str) -> None:
    """Refuse a span that is not inside its document."""
    if not 0 <= start < end <= size:
        problem = f"the rationale span ({start}, {end}) does not fit a document of {size} {unit}."
        raise RowError(place, problem, f"Spans count {unit} from 0 and exclude their end.")


_PARSERS: dict[str, Callable[[IO[bytes], str, DataConfig], Iterator[Row]]] = {
    ".jsonl": parse_json_lines,
    ".json": _parse_json,
    ".csv": partial(_parse_table, delimiter=","),
    ".tsv": partial(_parse_table, delimiter="\t"),
}
READERS = {ending + packed: parse for ending, parse in _PARSERS.items() for packed in ("", ".gz")}
READERS[".parquet"] = _parse_parquet

"""Rows from files and tables, one by one, each with the place where it stands."""

import csv
import gzip
import io
import itertools
import json
import os
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

from fresh._optional import optional_import
from fresh.data.tables import is_frame, records_of
from fresh.errors import DataError, RowError
from fresh.text import Spans, TextParts

Source = str | os.PathLike[str] | Iterable[Any]
"""A file, a pandas frame, a datasets.Dataset, or dicts or (text, label) pairs."""

STANDARD_INPUT = "-"
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
LARGEST_FIELD = 2**31 - 1  # the most that the csv module takes on every system
MOST_COLUMNS = 10_000
MEGABYTE = 1024**2
BLOCK = 64 * 1024
BATCH = 8  # rows of a Parquet file at a time: each may be as large as a row may be
WHITESPACE = re.compile(r"[ \t\n\r]*")
GZIP = b"\x1f\x8b"  # the first two bytes of a gzip file
ALWAYS_UNPACKED = 16 * MEGABYTE  # a packed file may unpack to this much in any case


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """How large data may be; what is larger is refused before it fills the memory."""

    row_mb: int = 16
    """Size of a row, in megabytes."""
    unpacked: int = 100
    """Size of a packed file when it is unpacked, as a multiple of its size on disk."""

    @property
    def row_bytes(self) -> int:
        """Size of a row, in bytes."""
        return self.row_mb * MEGABYTE

    def unpacks_too_far(self, name: str) -> DataError:
        """Say that far more comes out of a file than went in."""
        return DataError(
            f"{name}: it unpacks to more than {self.unpacked} times its size, the limit that max_unpacked "
            "sets. If you trust the file, raise max_unpacked, or unpack it yourself."
        )

    def row_too_large(self, place: str) -> RowError:
        """Say that a row is too large."""
        problem = f"the row is larger than {self.row_mb} MB, the limit that max_row_mb sets."
        return RowError(place, problem, "Split its text into several rows.")


@dataclass(frozen=True, slots=True)
class Row:
    """A record and the place where it stands."""

    values: Mapping[str, Any]
    name: str
    """The file or table it comes from."""
    where: str
    """Its place in there, such as "line 7"."""
    number: int
    """Counts the rows from 1."""
    error: RowError | None = field(default=None, compare=False)
    """Why the row could not be read."""
    joined: TextParts = ()
    """The published texts that its text was joined from."""
    evidence: Spans | None = None
    """People's own spans in words, where the file tells more of them than the rationale in the values."""

    @property
    def place(self) -> str:
        """File and line, as errors name them."""
        return f"{self.name}, {self.where}"

    @property
    def made_id(self) -> str:
        """An id for a row that brings none, such as "reviews-17"."""
        return f"{self.name[: len(self.name) - len(_ending_of(self.name))]}-{self.number}"


LIMITS = ReadLimits()


def read_rows(source: Source, name: str = "", limits: ReadLimits = LIMITS) -> Iterator[Row]:
    """Read the rows of a file or table, one at a time.

    :param name: What to call it in errors and ids, if not by the name of the file.
    """
    name = name or _name_of(source)
    return refuse_empty(_open_source(source, name, limits), name)


def refuse_empty(rows: Iterable[Row], name: str) -> Iterator[Row]:
    """Pass rows on, and say so if there are none."""
    empty = True
    for row in rows:
        empty = False
        yield row
    if empty:
        raise DataError(f"{name} holds no rows. Give one row for each document.")


def _name_of(source: Source) -> str:
    """Name a source in errors and ids."""
    if isinstance(source, str) and source == STANDARD_INPUT:
        return "standard input"
    if isinstance(source, str | os.PathLike):
        return Path(source).name
    if is_frame(source):
        return "frame"
    return "dataset" if hasattr(source, "column_names") else "list"


def _open_source(source: Source, name: str, limits: ReadLimits) -> Iterator[Row]:
    """Choose the reader for a source; "-" is standard input, as JSON lines."""
    if isinstance(source, str) and source == STANDARD_INPUT:
        return parse_json_lines(read_lines(sys.stdin.buffer, name, limits), name)
    if isinstance(source, str | os.PathLike):
        return _read_file(Path(source), name, limits)
    return _read_records(records_of(source), name)


def _read_records(records: Iterable[Any], name: str) -> Iterator[Row]:
    """Read dicts or (text, label) pairs."""
    for number, record in enumerate(records, start=1):
        if isinstance(record, Mapping):
            values = record
        elif isinstance(record, tuple | list) and len(record) == 2:
            values = {"text": record[0], "label": record[1]}
        else:
            raise DataError(f"{name}, row {number}: a row is a dict or a (text, label) pair, got {record!r:.60}.")
        yield Row(values, name, f"row {number}", number)


def _read_file(path: Path, name: str, limits: ReadLimits) -> Iterator[Row]:
    """Choose the reader for a file by the end of its name."""
    ending = _ending_of(path.name)
    if path.is_dir():
        raise DataError(f"{path} is a folder. Name one of the files in it.")
    if not path.exists():
        raise DataError(f"{path} does not exist. Look at the spelling and at the folder it is meant to be in.")
    if not ending:
        raise DataError(f"{path} is of an unknown type. Save it as one of: {', '.join(READERS)}.")
    return READERS[ending](path, name, limits)


def _ending_of(name: str) -> str:
    """Find the end of a file name that says how to read the file; empty if there is none."""
    return next((ending for ending in READERS if name.lower().endswith(ending)), "")


@contextmanager
def _open_bytes(path: Path, name: str, limits: ReadLimits) -> Iterator[IO[bytes]]:
    """Open a file, packed or not, and say so when the packing is broken."""
    packed = path.suffix.lower() == ".gz"
    with gzip.open(path) if packed else path.open("rb") as file:
        try:
            if packed:
                check_unpacked(path, name, limits)
            yield file  # type: ignore[misc]  # a gzip file reads like any other
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(f"{name}: broken gzip ({error}). Fetch or pack the file again.") from error


def check_unpacked(path: Path, name: str, limits: ReadLimits) -> None:
    """Unpack a gzip file once and refuse it when far more comes out than went in; nothing of it is kept."""
    n_unpacked = 0
    with path.open("rb") as packed, gzip.open(packed) as file:
        while block := file.read(BLOCK):
            n_unpacked += len(block)
            if n_unpacked > max(ALWAYS_UNPACKED, limits.unpacked * packed.tell()):
                raise limits.unpacks_too_far(name)


def read_lines(file: IO[bytes], name: str, limits: ReadLimits) -> Iterator[bytes]:
    """Read lines, and refuse one that is too large without reading it to its end."""
    most = limits.row_bytes
    for number, line in enumerate(iter(partial(file.readline, most + 1), b""), start=1):
        if len(line) > most:
            raise limits.row_too_large(f"{name}, line {number}")
        yield line


def _decode_lines(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """Decode UTF-8 line by line, so that an error can name its line."""
    for number, line in enumerate(lines, start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            byte = line[error.start]
            raise DataError(
                f"{name}, line {number}: the byte 0x{byte:02x} is not UTF-8. Save the file in the encoding UTF-8."
            ) from error


def _read_json_lines(path: Path, name: str, limits: ReadLimits) -> Iterator[Row]:
    """Read a file with one JSON object a line."""
    with _open_bytes(path, name, limits) as file:
        yield from parse_json_lines(read_lines(file, name, limits), name)


def parse_json_lines(lines: Iterable[bytes], name: str) -> Iterator[Row]:
    """Read one JSON object a line; blank lines are passed over."""
    number = 0
    for line_number, line in enumerate(_decode_lines(lines, name), start=1):
        if line.strip():
            number += 1
            yield _parse_json(line, name, f"line {line_number}", number)


def _parse_json(line: str, name: str, where: str, number: int) -> Row:
    """Read one JSON object."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        problem = f"broken JSON ({error})."
    else:
        if isinstance(values, dict):
            return Row(values, name, where, number)
        problem = f"a JSON object is needed, got {line.strip()!r:.60}."
    way_out = 'Write one object a line, such as {"text": "Good film.", "label": "positive"}.'
    return Row({}, name, where, number, RowError(f"{name}, {where}", problem, way_out))


def _read_json(path: Path, name: str, limits: ReadLimits = LIMITS) -> Iterator[Row]:
    """Read a file with one list of JSON objects; one that holds JSON lines is read as such."""
    with _open_bytes(path, name, limits) as file:
        text = "".join(_decode_lines(file, name))
    if text.lstrip().startswith("["):
        records = enumerate(_parse_list(text), start=1)
        while True:
            try:
                number, record = next(records)
            except StopIteration:
                return
            except (ValueError, RecursionError) as error:
                raise DataError(f"{name}: broken JSON ({error}). Fetch or export the file again.") from error
            yield _json_row(record, name, number)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        yield from parse_json_lines(io.BytesIO(text.encode()), name)
    else:
        yield _json_row(found, name, 1)


def _json_row(record: Any, name: str, number: int) -> Row:
    """Make a row of an element of a list."""
    where = f"row {number}"
    if isinstance(record, dict):
        return Row(record, name, where, number)
    problem = f"a JSON object is needed, got {record!r:.60}."
    return Row({}, name, where, number, RowError(f"{name}, {where}", problem, "Write a list of objects."))


def _parse_list(text: str) -> Iterator[Any]:
    """Decode the elements of a JSON list one by one: all at once, small objects take 30 times the size of the text."""
    decode = json.JSONDecoder().raw_decode
    at = _skip_space(text, _skip_space(text, 0) + 1)
    if text[at : at + 1] != "]":
        while True:
            element, at = decode(text, at)
            yield element
            at = _skip_space(text, at)
            if text[at : at + 1] != ",":
                break
            at = _skip_space(text, at + 1)
    if text[at : at + 1] != "]":
        raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
    end = _skip_space(text, at + 1)
    if end != len(text):
        raise json.JSONDecodeError("Extra data", text, end)


def _skip_space(text: str, start: int) -> int:
    """Find the next character that is no white space of JSON."""
    return WHITESPACE.match(text, start).end()  # type: ignore[union-attr]  # it matches nothing too


def _read_delimited(path: Path, name: str, limits: ReadLimits) -> Iterator[Row]:
    """Read a table whose first line names the columns; commas or tabs stand between them."""
    # The csv module has one limit for the whole process; reviews can be longer than its default.
    csv.field_size_limit(max(csv.field_size_limit(), LARGEST_FIELD))
    delimiter = "\t" if _ending_of(path.name).startswith(".tsv") else ","
    with _open_bytes(path, name, limits) as file:
        records = _parse_delimited(_decode_lines(read_lines(file, name, limits), name), name, delimiter, limits)
        _, header = next(records, (0, []))
        columns = [column.strip() for column in header]
        _check_header(columns, name, delimiter)
        for number, (line_number, cells) in enumerate(records, start=1):
            yield _delimited_row(columns, cells, name, line_number, number)


def _parse_delimited(
    lines: Iterable[str], name: str, delimiter: str, limits: ReadLimits = LIMITS
) -> Iterator[tuple[int, list[str]]]:
    """Read cells with the line they begin in; blank lines are passed over."""
    first, size, most = 1, 0, limits.row_bytes

    def measured() -> Iterator[str]:
        nonlocal size
        for line in lines:
            size += len(line)
            if size > most:  # a quoted cell may go on over many lines
                raise limits.row_too_large(f"{name}, line {first}")
            yield line

    reader = csv.reader(measured(), delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            if cells:
                yield first, cells
            first, size = reader.line_num + 1, 0
    except csv.Error as error:
        raise DataError(
            f"{name}, line {first}: broken table ({error}). "
            "Put a cell that holds quotes, separators or line breaks in quotes, and double the quotes inside it."
        ) from error


def _check_header(columns: list[str], name: str, delimiter: str) -> None:
    """Refuse columns that something else stands between, too many, and two of one name: it would be a guess."""
    if len(columns) > MOST_COLUMNS:
        raise DataError(
            f"{name}, line 1: there are {len(columns):,} columns; at most {MOST_COLUMNS:,} are read. "
            "Save only the columns that are used: text, label, query, id, rationale."
        )
    other = next((sign for sign in DELIMITERS if len(columns) == 1 and sign in columns[0]), None)
    if other is not None:
        raise DataError(
            f"{name}, line 1: {DELIMITERS[other]} stand between the columns, where {DELIMITERS[delimiter]} are read: "
            f"{columns[0]!r:.60}. Save it with commas as .csv, or with tabs as .tsv."
        )
    twice = next((column for column, count in Counter(columns).items() if count > 1), None)
    if twice is not None:
        raise DataError(f"{name}, line 1: two columns have the name {twice!r:.60}. Give each column a name of its own.")


def _delimited_row(columns: list[str], cells: list[str], name: str, line_number: int, number: int) -> Row:
    """Give each cell the name of its column."""
    where = f"line {line_number}"
    if len(cells) == len(columns):
        return Row(dict(zip(columns, cells, strict=True)), name, where, number)
    found = "is 1 cell" if len(cells) == 1 else f"are {len(cells)} cells"
    problem = f"there {found} for {len(columns)} column{'s' if len(columns) > 1 else ''}."
    way_out = "Put a cell that holds the separator in quotes."
    return Row({}, name, where, number, RowError(f"{name}, {where}", problem, way_out))


def _read_parquet(path: Path, name: str, limits: ReadLimits) -> Iterator[Row]:
    """Read a Parquet file, a few rows at a time."""
    pyarrow = optional_import("pyarrow", "data", "Reading Parquet")
    parquet = optional_import("pyarrow.parquet", "data", "Reading Parquet")
    try:
        with parquet.ParquetFile(path) as file:
            batches = _check_batches(file.iter_batches(batch_size=BATCH), path.stat().st_size, name, limits)
            yield from _read_records(itertools.chain.from_iterable(batches), name)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{name}: broken Parquet ({error}). Fetch or write the file again.") from error


def _check_batches(batches: Iterable[Any], size: int, name: str, limits: ReadLimits) -> Iterator[list[dict[str, Any]]]:
    """Refuse a row that is too large, and a file that unpacks to too much, before its rows become objects.

    :param size: Size of the file, in bytes.
    """
    n_rows = n_unpacked = 0
    for batch in batches:
        if batch.nbytes > limits.row_bytes:
            for i in range(batch.num_rows):
                if batch.slice(i, 1).nbytes > limits.row_bytes:
                    raise limits.row_too_large(f"{name}, row {n_rows + i + 1}")
        n_rows += batch.num_rows
        n_unpacked += batch.nbytes
        if n_unpacked > max(ALWAYS_UNPACKED, limits.unpacked * size):
            raise limits.unpacks_too_far(name)
        yield batch.to_pylist()


def check_span(start: int, end: int, size: int, unit: str, place: str) -> None:
    """Refuse a span that leaves its document."""
    if not 0 <= start < end <= size:
        problem = f"the rationale span ({start}, {end}) does not fit a document of {size} {unit}."
        raise RowError(place, problem, f"Spans count {unit} from 0 and exclude their end.")


READERS: dict[str, Callable[[Path, str, ReadLimits], Iterator[Row]]] = {
    ".jsonl": _read_json_lines,
    ".jsonl.gz": _read_json_lines,
    ".json": _read_json,
    ".json.gz": _read_json,
    ".csv": _read_delimited,
    ".csv.gz": _read_delimited,
    ".tsv": _read_delimited,
    ".tsv.gz": _read_delimited,
    ".parquet": _read_parquet,
}

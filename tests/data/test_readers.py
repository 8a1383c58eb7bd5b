import csv
import gzip
import io
import json
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from data_files import csv_table, json_lines, write
from fresh.data.config import MEGABYTE, DataConfig
from fresh.data.readers import _parse_cells, _parse_json, is_null, parse_json_lines, read_rows
from fresh.errors import DataError, MissingExtraError

RECORDS: list[dict[str, Any]] = [{"text": "Good film.", "label": "pos"}, {"text": "Bad,\nbad 😀 film.", "label": "neg"}]
CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0\ufeff"), max_size=12)
OBJECTS = st.dictionaries(st.text(), st.none() | st.text() | st.integers() | st.booleans())
LIMITS = DataConfig(max_row_mb=1, max_unpacked=20)


@pytest.mark.parametrize(
    ("name", "content", "places"),
    [
        *((name, json_lines(RECORDS), ("line 1", "line 2")) for name in ("r.jsonl", "r.jsonl.gz", "R.JSONL")),
        *((name, json.dumps(RECORDS, indent=1), ("row 1", "row 2")) for name in ("r.json", "r.json.gz", "R.JSON")),
        *((name, "\ufeff" + json_lines(RECORDS), ("line 1", "line 2")) for name in ("r.jsonl", "lines.json")),
        ("r.csv", "\ufeff" + csv_table(RECORDS), ("line 2", "line 3")),
        *((name, csv_table(RECORDS), ("line 2", "line 3")) for name in ("r.csv", "r.csv.gz")),
        *((name, csv_table(RECORDS, "\t"), ("line 2", "line 3")) for name in ("r.tsv", "r.tsv.gz")),
    ],
)
def test_files_are_read(tmp_path: Path, name: str, content: str, places: tuple[str, str]) -> None:
    rows = list(read_rows(str(write(tmp_path / name, content))))
    assert [dict(row.values) for row in rows] == RECORDS
    assert [row.place for row in rows] == [f"{name}, {place}" for place in places]
    assert rows[1].default_id == f"{name.partition('.')[0]}-2"


def test_parquet_is_read(tmp_path: Path) -> None:
    records = [{"text": f"word {i}", "label": i % 2, "rationale": [[0, 4]] if i else None} for i in range(20)]
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "r.parquet")
    rows = list(read_rows(tmp_path / "r.parquet"))
    assert ([row.values for row in rows], rows[-1].place) == (records, "r.parquet, row 20")


@pytest.mark.parametrize(
    ("source", "name"), [(RECORDS, "list"), (pd.DataFrame(RECORDS), "frame"), (Dataset.from_list(RECORDS), "dataset")]
)
def test_tables_in_memory_are_read(source: Any, name: str) -> None:
    rows = list(read_rows(source))
    assert [dict(row.values) for row in rows] == RECORDS
    assert (rows[1].place, rows[1].default_id) == (f"{name}, row 2", f"{name}-2")


def test_pairs_are_text_and_label_and_a_single_object_is_one_row(tmp_path: Path) -> None:
    rows = read_rows([("Good.", "pos"), ["Bad.", 0]])
    assert [row.values for row in rows] == [{"text": "Good.", "label": "pos"}, {"text": "Bad.", "label": 0}]
    [row] = read_rows(write(tmp_path / "r.json", json.dumps(RECORDS[0], indent=1)))
    assert row.values == RECORDS[0]


def test_ids_count_rows_and_places_count_lines(tmp_path: Path) -> None:
    rows = list(read_rows(write(tmp_path / "my.reviews.jsonl", '\n{"text": "a"}\n\n{"text": "b"}\n')))
    assert [(row.default_id, row.where) for row in rows] == [("my.reviews-1", "line 2"), ("my.reviews-2", "line 4")]
    rows = list(read_rows(write(tmp_path / "r.csv", 'text,label\n"one\ntwo\nthree",pos\n\nfour,neg\n')))
    assert [(row.where, row.values["text"]) for row in rows] == [("line 2", "one\ntwo\nthree"), ("line 6", "four")]


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1))
def test_written_cells_are_read_back(cells: list[tuple[str, str]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(cells)
    rows = list(_parse_cells(io.BytesIO(text.getvalue().encode()), "r.csv", LIMITS, ","))
    starts = [1 + sum(a.count("\n") + b.count("\n") + 1 for a, b in cells[:i]) for i in range(len(cells))]
    assert rows == [(start, list(row)) for start, row in zip(starts, cells, strict=True)]


@given(st.lists(OBJECTS, max_size=6))
def test_written_objects_are_read_back(records: list[dict[str, Any]]) -> None:
    assert [dict(row.values) for row in parse_json_lines(io.BytesIO(json_lines(records).encode()), "r")] == records
    listed = io.BytesIO(json.dumps(records).encode())
    assert [dict(row.values) for row in _parse_json(listed, "r.json", LIMITS)] == records


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_with_a_reason(content: bytes) -> None:
    try:
        rows = list(parse_json_lines(io.BytesIO(content), "r.jsonl"))
    except DataError as error:
        assert "is not UTF-8" in str(error)  # noqa: PT017
    else:
        assert all(row.error or isinstance(row.values, dict) for row in rows)


def peak_memory(path: Path, n_rows: int) -> int:
    tracemalloc.start()
    assert sum(1 for _ in read_rows(path)) == n_rows
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_reading_needs_little_memory(tmp_path: Path) -> None:
    records = [{"text": f"{i} " * 200, "label": "pos"} for i in range(4000)]
    paths = [write(tmp_path / "r.jsonl.gz", json_lines(records)), write(tmp_path / "r.csv", csv_table(records))]
    assert all(peak_memory(path, 4000) < paths[1].stat().st_size / 5 for path in paths)
    small_objects = write(tmp_path / "r.json", "[" + '{"":{}},' * 100_000 + "{}]")
    assert peak_memory(small_objects, 100_001) < 6 * small_objects.stat().st_size


def test_a_single_column_may_hold_other_delimiters_and_long_cells(tmp_path: Path) -> None:
    long = "a good; film " * 100_000
    assert next(read_rows(write(tmp_path / "texts.csv", f"text\n{long}\n"))).values == {"text": long}


EMPTY = (None, "", " \n", float("nan"), np.float32("nan"), pd.NA, pd.NaT)
NOT_EMPTY: tuple[Any, ...] = ("0", 0, 0.0, False, [], np.array([]), "NaN")


def test_empty_cells_are_recognized() -> None:
    assert [is_null(cell) for cell in (*EMPTY, *NOT_EMPTY)] == [True] * len(EMPTY) + [False] * len(NOT_EMPTY)


TOO_MANY_COLUMNS = ",".join(f"c{number}" for number in range(20_000)) + "\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("r.jsonl", "", "r.jsonl holds no rows. Give one row for each document."),
        ("r.csv", "", "r.csv holds no rows."),
        ("r.csv", "text,label\n", "r.csv holds no rows."),
        ("r.json", " [ ] ", "r.json holds no rows."),
        ("r.json", "", "r.json holds no rows."),
        ("r.json", '[{"text": "a"}', "r.json: broken JSON (Expecting ',' delimiter: line 1 column 15"),
        ("r.json", "[" * 100_000, "r.json: broken JSON (maximum recursion depth exceeded"),
        ("r.json", '[{"text": "a"} 3]', "r.json: broken JSON (Expecting ',' delimiter: line 1 column 16"),
        ("r.json", '[{"text": "a"}]\n[]', "r.json: broken JSON (Extra data: line 2 column 1"),
        ("r.json", "[", "r.json: broken JSON (Expecting value: line 1 column 2"),
        ("r.docx", "", "r.docx has an unknown type. Save it as one of: .jsonl, .jsonl.gz, .json, .json.gz, .csv,"),
        ("r.jsonl", '{"text": "ok"}\n{"text": "é"}\n'.encode("latin-1"), "line 2: the byte 0xe9 is not UTF-8"),
        ("r.csv", "text,label\né,pos\n".encode("latin-1"), "r.csv, line 2: the byte 0xe9 is not UTF-8"),
        ("r.parquet", "not a table, but long enough", "r.parquet: broken Parquet (Parquet magic bytes not found"),
        ("r.csv", 'text,label\na,pos\n"b,neg\nc,pos\n', "r.csv, line 3: broken table (unexpected end of data)"),
        ("r.csv", "text, label ,label\na,b,c\n", "r.csv, line 1: two columns have the name 'label'"),
        ("r.csv", TOO_MANY_COLUMNS, "r.csv, line 1: there are 20,000 columns, but at most 10,000 can be read"),
        ("r.csv", "text;label\na;b\n", "line 1: the columns are separated by semicolons, not by commas: 'text;label'"),
        ("r.csv.gz", "text|label\na|b\n", "the columns are separated by bars, not by commas"),
        ("r.tsv", "text,label\na,b\n", "the columns are separated by commas, not by tabs"),
    ],
)
def test_files_that_cannot_be_read_are_refused(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    with pytest.raises(DataError) as caught:
        list(read_rows(write(tmp_path / name, content)))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([], "^list holds no rows"),
        (["Good film."], r"^list, row 1: a row is a dict or a \(text, label\) pair, got 'Good film.'"),
        ("revews.csv", r"^revews\.csv does not exist"),
        (Path(__file__).parent, r"is a folder\. Name one of the files in it"),
    ],
)
def test_sources_that_hold_no_rows_are_refused(source: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(read_rows(source))


def test_a_broken_gzip_is_refused(tmp_path: Path) -> None:
    for content, problem in ((b"not packed", "Not a gzipped file"), (gzip.compress(b"{}\n" * 1000)[:-20], "ended")):
        (tmp_path / "r.jsonl.gz").write_bytes(content)
        with pytest.raises(DataError, match=rf"^r\.jsonl\.gz: broken gzip \(.*{problem}.*\)\. Download or compress"):
            list(read_rows(tmp_path / "r.jsonl.gz"))


@pytest.mark.parametrize(
    ("name", "content", "number", "message"),
    [
        ("r.jsonl", '{"text": "a"}\n{"text": \n{"text": "b"}\n', 2, "line 2: broken JSON (Expecting value: line 2"),
        ("r.jsonl", '["a", "b"]\n', 1, "line 1: a JSON object is needed, got ['a', 'b']. Write objects such as"),
        ("r.jsonl", "[" * 100_000, 1, "line 1: broken JSON"),
        ("r.json", '{"text": "a"}\n{"text"\n', 2, "r.json, line 2: broken JSON ("),
        ("r.json", '[{"text": "a"}, 3]', 2, "r.json, row 2: a JSON object is needed, got 3. Write objects"),
        ("r.csv", "text,label\na, b,pos\nc,neg\n", 1, "r.csv, line 2: the header has 2 cells, but this row has 3."),
        ("r.csv", "text,label\na,pos\nb\n", 2, "r.csv, line 3: the header has 2 cells, but this row has 1."),
    ],
)
def test_a_row_that_cannot_be_read_keeps_its_error(
    tmp_path: Path, name: str, content: str, number: int, message: str
) -> None:
    rows = list(read_rows(write(tmp_path / name, content)))
    assert [row.number for row in rows if row.error] == [number]
    assert message in str(rows[number - 1].error)


@pytest.mark.parametrize(
    ("name", "before", "large"),
    [
        ("r.csv", "text,label\nfine,pos\n", f"{'a ' * MEGABYTE},neg\n"),
        ("r.csv", "text,label\nfine,pos\n", '"' + "a\n" * MEGABYTE + '",neg\n'),
        ("r.tsv", "text\tlabel\nfine\tpos\n", f"{'a ' * MEGABYTE}\tneg\n"),
        ("r.jsonl", '{"text": "fine"}\n\n', f'{{"text": "{"a " * MEGABYTE}"}}\n'),
        ("r.jsonl", '{"text": "fine"}\n\n', "[" * 2 * MEGABYTE),
    ],
    ids=["cell", "cell of many lines", "tabs", "JSON line", "deep JSON line"],
)
def test_a_row_that_is_too_large_is_refused(tmp_path: Path, name: str, before: str, large: str) -> None:
    path = write(tmp_path / name, before + large)
    rows = read_rows(path, config=LIMITS)
    assert next(rows).values["text"] == "fine"
    with pytest.raises(DataError, match=rf"^{name}, line 3: the row is larger than 1 MB, the limit set by max_row_mb"):
        list(rows)
    assert sum(1 for _ in read_rows(path, config=DataConfig(max_row_mb=3))) == 2


def test_a_row_of_standard_input_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = io.BytesIO(b'{"text": "fine"}\n' + b" " * 17 * MEGABYTE)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(lines))
    with pytest.raises(DataError, match=r"^standard input, line 2: the row is larger than 16 MB"):
        list(read_rows("-"))


@pytest.mark.parametrize("filler", [b"\0", b"\n", b'{"text": "a"}\n'], ids=["one line", "blank lines", "rows"])
def test_a_file_that_unpacks_to_far_more_is_refused(tmp_path: Path, filler: bytes) -> None:
    path = tmp_path / "r.jsonl.gz"
    path.write_bytes(gzip.compress(filler * (20 * MEGABYTE // len(filler)), 1))
    rows = read_rows(path, config=DataConfig(max_unpacked=50))
    with pytest.raises(DataError, match=r"^r\.jsonl\.gz: it unpacks to more than 50 times its size.*max_unpacked"):
        next(rows)


def test_a_compressed_file_is_read_if_it_is_small_or_the_limit_is_raised(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl.gz", b'{"text": "a"}\n' * 10_000)
    assert sum(1 for _ in read_rows(path, config=DataConfig(max_unpacked=2))) == 10_000
    write(path, b'{"text": "a"}\n' + b" " * 17 * MEGABYTE)
    rows = read_rows(path, config=DataConfig(max_row_mb=20, max_unpacked=2000))
    assert [row.values for row in rows] == [{"text": "a"}]


def test_parquet_with_a_large_row_or_that_unpacks_to_far_more_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    pq.write_table(pa.Table.from_pylist([{"text": "fine"}] * 9 + [{"text": "a " * MEGABYTE}]), path)
    with pytest.raises(DataError, match=r"^r\.parquet, row 10: the row is larger than 1 MB"):
        list(read_rows(path, config=LIMITS))
    assert len(list(read_rows(path))) == 10
    pq.write_table(pa.table({"text": ["a " * (4 * MEGABYTE)] * 40}), path, compression="zstd")
    with pytest.raises(DataError, match=r"^r\.parquet: it unpacks to more than 100 times its size"):
        next(read_rows(path))
    assert sum(1 for _ in read_rows(path, config=DataConfig(max_unpacked=10**6))) == 40


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "r.parquet").touch()
    with pytest.raises(MissingExtraError, match=r"Parquet needs pyarrow.*fresh-rationales\[data\]"):
        list(read_rows(tmp_path / "r.parquet"))

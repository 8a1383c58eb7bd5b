import csv
import gzip
import io
import json
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

from fresh.data.readers import ReadLimits, _decode_lines, _parse_delimited, parse_json_lines, read_rows
from fresh.data.splits import _find_split_files
from fresh.data.tables import is_null
from fresh.errors import DataError, MissingExtraError

RECORDS: list[dict[str, Any]] = [{"text": "Good film.", "label": "pos"}, {"text": "Bad, bad film.", "label": "neg"}]
CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0\ufeff"), max_size=12)


def write_json_lines(path: Path, records: list[dict[str, Any]]) -> Path:
    content = "".join(json.dumps(record) + "\n" for record in records).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_table(path: Path, records: list[dict[str, Any]], delimiter: str = ",") -> Path:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(records)
    content = text.getvalue().encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def fails(source: Any) -> str:
    with pytest.raises(DataError) as caught:
        list(read_rows(source))
    return str(caught.value)


@pytest.mark.parametrize("name", ["reviews.jsonl", "reviews.jsonl.gz", "REVIEWS.JSONL"])
def test_json_lines_are_read(tmp_path: Path, name: str) -> None:
    rows = list(read_rows(write_json_lines(tmp_path / name, RECORDS)))
    assert [dict(row.values) for row in rows] == RECORDS
    assert [row.place for row in rows] == [f"{name}, line 1", f"{name}, line 2"]


@pytest.mark.parametrize(
    ("name", "delimiter"), [("r.csv", ","), ("r.csv.gz", ","), ("r.tsv", "\t"), ("r.tsv.gz", "\t")]
)
def test_tables_are_read(tmp_path: Path, name: str, delimiter: str) -> None:
    rows = list(read_rows(str(write_table(tmp_path / name, RECORDS, delimiter))))
    assert [dict(row.values) for row in rows] == RECORDS
    assert [row.place for row in rows] == [f"{name}, line 2", f"{name}, line 3"]


def test_parquet_is_read(tmp_path: Path) -> None:
    records = [{"text": f"word {i}", "label": i % 2, "rationale": [[0, 4]] if i else None} for i in range(600)]
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "r.parquet")
    rows = list(read_rows(tmp_path / "r.parquet"))
    assert [row.values for row in rows] == records
    assert rows[-1].place == "r.parquet, row 600"


def test_tables_in_memory_are_read() -> None:
    for source, name in ((RECORDS, "list"), (pd.DataFrame(RECORDS), "frame"), (Dataset.from_list(RECORDS), "dataset")):
        rows = list(read_rows(source))
        assert [dict(row.values) for row in rows] == RECORDS
        assert rows[1].place == f"{name}, row 2"
        assert rows[1].made_id == f"{name}-2"


def test_pairs_are_text_and_label() -> None:
    rows = read_rows([("Good.", "pos"), ["Bad.", 0]])
    assert [row.values for row in rows] == [{"text": "Good.", "label": "pos"}, {"text": "Bad.", "label": 0}]


def test_an_id_is_made_of_the_file_name_and_the_row(tmp_path: Path) -> None:
    path = tmp_path / "my.reviews.jsonl"
    path.write_text('\n{"text": "a"}\n\n{"text": "b"}\n')
    rows = list(read_rows(path))
    assert [row.made_id for row in rows] == ["my.reviews-1", "my.reviews-2"]
    assert [row.where for row in rows] == ["line 2", "line 4"]


def test_line_numbers_count_quoted_line_breaks(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text('text,label\n"one\ntwo\nthree",pos\n\nfour,neg\n')
    rows = list(read_rows(path))
    assert [row.where for row in rows] == ["line 2", "line 6"]
    assert rows[0].values["text"] == "one\ntwo\nthree"


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1))
def test_written_cells_come_back(table: list[tuple[str, str]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(table)
    found = list(_parse_delimited(_decode_lines(io.BytesIO(text.getvalue().encode()), "r.csv"), "r.csv", ","))
    starts = [1 + sum(a.count("\n") + b.count("\n") + 1 for a, b in table[:i]) for i in range(len(table))]
    assert found == [(start, list(cells)) for start, cells in zip(starts, table, strict=True)]


@given(st.lists(st.dictionaries(st.text(), st.none() | st.text() | st.integers() | st.booleans()), max_size=8))
def test_written_objects_come_back(records: list[dict[str, Any]]) -> None:
    content = "".join(json.dumps(record) + "\n" for record in records).encode()
    assert [dict(row.values) for row in parse_json_lines(io.BytesIO(content), "r.jsonl")] == records


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_with_a_reason(content: bytes) -> None:
    try:
        rows = list(parse_json_lines(io.BytesIO(content), "r.jsonl"))
    except DataError as error:
        assert "is not UTF-8" in str(error)  # noqa: PT017
    else:
        assert all(row.error or isinstance(row.values, dict) for row in rows)


def test_long_cells_are_read(tmp_path: Path) -> None:
    long = "word " * 100_000
    [row] = read_rows(write_table(tmp_path / "r.csv", [{"text": long, "label": "pos"}]))
    assert row.values["text"] == long


@pytest.mark.parametrize("name", ["r.csv", "r.jsonl"])
def test_a_byte_order_mark_is_passed_over(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("text,label\nGood.,pos\n" if name == "r.csv" else json.dumps(RECORDS[0]), encoding="utf-8-sig")
    [row] = read_rows(path)
    assert list(row.values) == ["text", "label"]


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    records = [{"text": f"{i} " * 200, "label": "pos"} for i in range(4000)]
    paths = [write_json_lines(tmp_path / "r.jsonl.gz", records), write_table(tmp_path / "r.csv", records)]
    size = paths[1].stat().st_size
    for path in paths:
        tracemalloc.start()
        assert sum(1 for _ in read_rows(path)) == 4000
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < size / 5


@pytest.mark.parametrize("cell", [None, "", " \n", float("nan"), np.float32("nan"), pd.NA, pd.NaT])
def test_empty_cells_are_recognised(cell: object) -> None:
    assert is_null(cell)


@pytest.mark.parametrize("cell", ["0", 0, 0.0, False, [], np.array([]), "NaN"])
def test_other_cells_are_not_empty(cell: object) -> None:
    assert not is_null(cell)


def test_the_files_of_a_folder_are_found(tmp_path: Path) -> None:
    for name in ("train.csv", "validation.tsv.gz", "test.parquet", "v2_test.csv", "notes.txt"):
        (tmp_path / name).touch()
    found = [(split, path.name) for split, path in _find_split_files(tmp_path).items()]
    assert found == [("train", "train.csv"), ("dev", "validation.tsv.gz"), ("test", "test.parquet")]


def test_two_files_for_one_split_are_refused(tmp_path: Path) -> None:
    for name in ("train.csv", "dev.jsonl", "val.csv"):
        (tmp_path / name).touch()
    with pytest.raises(DataError) as caught:
        _find_split_files(tmp_path)
    assert str(caught.value) == f"{tmp_path} holds two files for dev: dev.jsonl and val.csv. Keep one of them."


@pytest.mark.parametrize(("name", "content"), [("r.jsonl", ""), ("r.csv", ""), ("r.csv", "text,label\n")])
def test_an_empty_file_is_refused(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    assert fails(tmp_path / name) == f"{name} holds no rows. Give one row for each document."


def test_an_empty_list_is_refused() -> None:
    assert fails([]) == "list holds no rows. Give one row for each document."


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "revews.csv"
    assert fails(path) == f"{path} does not exist. Look at the spelling and at the folder it is meant to be in."


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert fails(tmp_path) == f"{tmp_path} is a folder. Name one of the files in it."


def test_an_unknown_type_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "reviews.docx"
    path.touch()
    assert fails(path) == (
        f"{path} is of an unknown type. "
        "Save it as one of: .jsonl, .jsonl.gz, .json, .json.gz, .csv, .csv.gz, .tsv, .tsv.gz, .parquet."
    )


def test_broken_json_is_kept_as_an_error_of_its_row(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"text": "a"}\n{"text": \n{"text": "b"}\n')
    first, broken, last = read_rows(path)
    assert str(broken.error) == (
        "r.jsonl, line 2: broken JSON (Expecting value: line 2 column 1 (char 10)). "
        'Write one object a line, such as {"text": "Good film.", "label": "positive"}.'
    )
    assert (first.error, last.error, last.number) == (None, None, 3)
    [deep] = parse_json_lines([b"[" * 100_000], "r.jsonl")
    assert "broken JSON" in str(deep.error)


def test_a_line_that_is_no_object_is_an_error_of_its_row(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('["a", "b"]\n')
    [row] = read_rows(path)
    assert str(row.error) == (
        'r.jsonl, line 1: a JSON object is needed, got \'["a", "b"]\'. '
        'Write one object a line, such as {"text": "Good film.", "label": "positive"}.'
    )


@pytest.mark.parametrize("name", ["r.jsonl", "r.csv"])
def test_a_file_in_another_encoding_is_refused(tmp_path: Path, name: str) -> None:
    lines = ['{"text": "ok"}\n{"text": "caf\u00e9"}\n', "text,label\ncaf\u00e9,pos\n"]
    (tmp_path / name).write_bytes(lines[name == "r.csv"].encode("latin-1"))
    assert fails(tmp_path / name) == (
        f"{name}, line 2: the byte 0xe9 is not UTF-8. Save the file in the encoding UTF-8."
    )


def test_a_broken_gzip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl.gz"
    path.write_bytes(b"not packed")
    assert fails(path) == "r.jsonl.gz: broken gzip (Not a gzipped file (b'no')). Fetch or pack the file again."
    path.write_bytes(gzip.compress(b'{"text": "a"}\n' * 1000)[:-20])
    assert fails(path) == (
        "r.jsonl.gz: broken gzip (Compressed file ended before the end-of-stream marker was reached). "
        "Fetch or pack the file again."
    )


def test_a_broken_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    path.write_bytes(b"not a table, but long enough")
    message = fails(path)
    assert message.startswith("r.parquet: broken Parquet (Parquet magic bytes not found")
    assert message.endswith("Fetch or write the file again.")


def test_an_unclosed_quote_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text('text,label\nfine,pos\n"open,neg\nmore,pos\n')
    assert fails(path) == (
        "r.csv, line 3: broken table (unexpected end of data). "
        "Put a cell that holds quotes, separators or line breaks in quotes, and double the quotes inside it."
    )


def test_a_row_with_too_many_cells_is_an_error_of_its_row(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("text,label\ngood, really,pos\nbad,neg\nfine\n")
    first, second, third = read_rows(path)
    assert str(first.error) == (
        "r.csv, line 2: there are 3 cells for 2 columns. Put a cell that holds the separator in quotes."
    )
    assert second.values == {"text": "bad", "label": "neg"}
    assert str(third.error).startswith("r.csv, line 4: there is 1 cell for 2 columns.")


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("text, label ,label\na,b,c\n")
    assert fails(path) == "r.csv, line 1: two columns have the name 'label'. Give each column a name of its own."


def test_many_columns_are_read_and_too_many_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    columns = [f"c{number}" for number in range(10_000)]
    path.write_text(f"{','.join(columns)}\n{',' * 9_999}\n")
    [row] = read_rows(path)
    assert list(row.values) == columns
    path.write_text(",".join(f"c{number}" for number in range(20_000)) + "\n")
    assert fails(path) == (
        "r.csv, line 1: there are 20,000 columns; at most 10,000 are read. "
        "Save only the columns that are used: text, label, query, id, rationale."
    )


LIMITS = ReadLimits(row_mb=1, unpacked=20)
MEGABYTE = 1024**2


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
    path = tmp_path / name
    path.write_text(before + large)
    rows = read_rows(path, limits=LIMITS)
    assert next(rows).values["text"] == "fine"
    with pytest.raises(DataError) as caught:
        list(rows)
    assert str(caught.value) == (
        f"{name}, line 3: the row is larger than 1 MB, the limit that max_row_mb sets. "
        "Split its text into several rows."
    )
    assert sum(1 for _ in read_rows(path, limits=ReadLimits(row_mb=3))) == 2


def test_a_row_of_standard_input_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = io.BytesIO(b'{"text": "fine"}\n' + b" " * 17 * MEGABYTE)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(lines))
    assert fails("-").startswith("standard input, line 2: the row is larger than 16 MB")


@pytest.mark.parametrize("filler", [b"\0", b"\n", b'{"text": "a"}\n'], ids=["one line", "blank lines", "rows"])
def test_a_file_that_unpacks_to_far_more_is_refused(tmp_path: Path, filler: bytes) -> None:
    path = tmp_path / "r.jsonl.gz"
    path.write_bytes(gzip.compress(filler * (20 * MEGABYTE // len(filler)), 1))
    rows = read_rows(path, limits=ReadLimits(unpacked=50))
    with pytest.raises(DataError) as caught:
        next(rows)
    assert str(caught.value) == (
        "r.jsonl.gz: it unpacks to more than 50 times its size, the limit that max_unpacked sets. "
        "If you trust the file, raise max_unpacked, or unpack it yourself."
    )


def test_a_packed_file_is_read_where_it_is_small_or_the_limit_is_raised(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"text": "a"}\n' * 10_000))
    assert sum(1 for _ in read_rows(path, limits=ReadLimits(unpacked=2))) == 10_000
    path.write_bytes(gzip.compress(b'{"text": "a"}\n' + b" " * 17 * MEGABYTE))
    rows = read_rows(path, limits=ReadLimits(row_mb=20, unpacked=2000))
    assert [row.values for row in rows] == [{"text": "a"}]


def test_a_row_of_parquet_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    pq.write_table(pa.Table.from_pylist([{"text": "fine"}] * 9 + [{"text": "a " * MEGABYTE}]), path)
    with pytest.raises(DataError, match=r"^r\.parquet, row 10: the row is larger than 1 MB"):
        list(read_rows(path, limits=LIMITS))
    assert len(list(read_rows(path))) == 10


def test_a_parquet_file_that_unpacks_to_far_more_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    pq.write_table(pa.table({"text": ["a " * (4 * MEGABYTE)] * 40}), path, compression="zstd")
    with pytest.raises(DataError, match=r"^r\.parquet: it unpacks to more than 100 times its size"):
        next(read_rows(path))
    assert sum(1 for _ in read_rows(path, limits=ReadLimits(unpacked=10**6))) == 40


def test_a_list_of_texts_is_refused() -> None:
    assert fails(["Good film."]) == "list, row 1: a row is a dict or a (text, label) pair, got 'Good film.'."


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "r.parquet").touch()
    with pytest.raises(MissingExtraError) as caught:
        list(read_rows(tmp_path / "r.parquet"))
    assert str(caught.value) == ("Reading Parquet needs pyarrow. Install it with: pip install 'fresh-rationales[data]'")

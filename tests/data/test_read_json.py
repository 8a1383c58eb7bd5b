import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.data.readers import _read_json, read_rows
from fresh.errors import DataError

RECORDS: list[dict[str, Any]] = [{"text": "Good film."}, {"text": "Bad,\nbad 😀 film.", "more": [1, {"a": None}]}]


@pytest.mark.parametrize("name", ["r.json", "r.json.gz", "R.JSON"])
def test_a_list_is_read(tmp_path: Path, name: str) -> None:
    content = json.dumps(RECORDS, indent=1, ensure_ascii=False).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    rows = list(read_rows(tmp_path / name))
    assert [row.values for row in rows] == RECORDS
    assert [row.place for row in rows] == [f"{name}, row 1", f"{name}, row 2"]
    assert rows[1].made_id == f"{name.partition('.')[0]}-2"


def test_lines_are_read_too(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text("\ufeff" + "".join(json.dumps(record) + "\n" for record in RECORDS), encoding="utf-8")
    rows = list(read_rows(path))
    assert [row.values for row in rows] == RECORDS
    assert [row.place for row in rows] == ["r.json, line 1", "r.json, line 2"]


def test_a_single_object_is_one_row(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps(RECORDS[0], indent=1), encoding="utf-8")
    assert [row.values for row in read_rows(path)] == RECORDS[:1]


def test_broken_lines_are_errors_of_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text('{"text": "a"}\n{"text"\n', encoding="utf-8")
    good, bad = read_rows(path)
    assert good.error is None
    assert str(bad.error).startswith("r.json, line 2: broken JSON (")


def test_what_is_no_object_is_an_error_of_its_row(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text('[{"text": "a"}, 3]', encoding="utf-8")
    good, bad = read_rows(path)
    assert good.error is None
    assert str(bad.error) == "r.json, row 2: a JSON object is needed, got 3. Write a list of objects."


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"text": "a"}', "r.json: broken JSON (Expecting ',' delimiter: line 1 column 15 (char 14)). "),
        ("[" * 100_000, "r.json: broken JSON (maximum recursion depth exceeded"),
        ('[{"text": "a"} 3]', "r.json: broken JSON (Expecting ',' delimiter: line 1 column 16 (char 15)). "),
        ('[{"text": "a"}, ', "r.json: broken JSON (Expecting value: line 1 column 17 (char 16)). "),
        ('[{"text": "a"}]\n[]', "r.json: broken JSON (Extra data: line 2 column 1 (char 16)). "),
        ("[", "r.json: broken JSON (Expecting value: line 1 column 2 (char 1)). "),
        (" [ ] ", "r.json holds no rows. Give one row for each document."),
        ("[]", "r.json holds no rows. Give one row for each document."),
        ("", "r.json holds no rows. Give one row for each document."),
    ],
)
def test_a_list_that_cannot_be_read_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        list(read_rows(path))
    assert str(caught.value).startswith(message)


@given(st.lists(st.dictionaries(st.text(), st.none() | st.text() | st.integers() | st.booleans()), max_size=5))
def test_written_lists_come_back(tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]]) -> None:
    path = tmp_path_factory.mktemp("json") / "r.json"
    path.write_text(json.dumps(records), encoding="utf-8")
    assert [dict(row.values) for row in _read_json(path, "r.json")] == records


def test_a_list_of_small_objects_needs_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text("[" + '{"":{}},' * 100_000 + "{}]", encoding="utf-8")
    tracemalloc.start()
    assert sum(1 for _ in read_rows(path)) == 100_001
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 * path.stat().st_size

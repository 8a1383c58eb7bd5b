import errno
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certified import changed
from fresh._io import (
    FIRST_DIGEST,
    RecordError,
    canonical_json,
    canonical_sha256,
    check_output,
    check_output_folder,
    describe_error,
    hashed_line,
    open_lines,
    parse_hashed_line,
)
from fresh.errors import OutputError
from strategies import texts

# Output paths


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (PermissionError(13, "No", "a.csv.partial"), "a.csv cannot be read or written (No). Check your permissions, "),
        (
            OSError(errno.ENOSPC, "Full", "a.csv"),
            "a.csv cannot be read or written (Full). Free some space on that disk, ",
        ),
        (OSError(errno.ENOSPC, "Full"), "[Errno 28] Full. Free some space on that disk, or choose another place."),
        (OSError(errno.ECONNREFUSED, "Refused"), "[Errno 111] Refused"),
        (ValueError("odd"), "odd"),
    ],
)
def test_errors_of_files_name_the_file_and_the_way_out(error: Exception, expected: str) -> None:
    assert describe_error(error).startswith(expected)


@pytest.mark.parametrize(
    ("name", "overwrite", "reason"),
    [
        ("none/out.txt", True, "no folder .*none"),
        ("folder", True, "folder is a folder"),
        ("old.txt", False, r"already exists.*overwrite=True"),
        ("in.txt", False, "is the input"),
        ("in.txt", True, "is the input"),
        ("link.txt", True, "is the input"),
        ("old.txt", True, None),
        ("new.txt", False, None),
    ],
)
def test_output_paths(name: str, overwrite: bool, reason: str | None, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for file in ("in.txt", "old.txt"):
        (tmp_path / file).touch()
    (tmp_path / "link.txt").symlink_to(tmp_path / "in.txt")
    if reason is None:
        check_output(tmp_path / name, overwrite=overwrite, source=tmp_path / "in.txt")
    else:
        with pytest.raises(OutputError, match=reason):
            check_output(str(tmp_path / name), overwrite=overwrite, source=tmp_path / "in.txt")


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    check_output_folder(tmp_path / "new", "the model")
    check_output_folder(tmp_path, "the model")
    (tmp_path / "notes.txt").touch()
    with pytest.raises(OutputError, match=r"holds other files.* for the model"):
        check_output_folder(tmp_path, "the model")
    with pytest.raises(OutputError, match=r"notes\.txt is a file"):
        check_output_folder(tmp_path / "notes.txt", "the model")


def test_a_file_that_cannot_be_opened_is_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("one\nnotes without an end", encoding="utf-8")
    real = Path.open

    def fail_to_write(self: Path, mode: str = "r", **options: Any) -> Any:
        if mode == "w":
            raise OSError(errno.EMFILE, "Too many open files", str(self))
        return real(self, mode, **options)

    monkeypatch.setattr(Path, "open", fail_to_write)
    with pytest.raises(OSError, match="Too many open files"), open_lines(path):
        pass
    monkeypatch.undo()
    assert path.read_text(encoding="utf-8") == "one\nnotes without an end"


@pytest.mark.parametrize(
    ("error", "names_file"),
    [(OSError(errno.ENOSPC, "full"), True), (OSError(errno.ECONNRESET, "reset"), False), (OSError("closed"), False)],
)
def test_an_error_cuts_off_the_incomplete_line(tmp_path: Path, error: OSError, names_file: bool) -> None:
    path = tmp_path / "out.jsonl"

    def write() -> None:
        with open_lines(path) as file:
            file.write("one\ntw")
            raise error

    with pytest.raises(OSError, match=r"full|reset|closed") as caught:
        write()
    assert caught.value.filename == (str(path) if names_file else None)
    assert path.read_text(encoding="utf-8") == "one\n"


# Lines of canonical JSON

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | texts(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(max_size=3), inner, max_size=3),
    max_leaves=8,
)
RECORDS = st.dictionaries(texts(max_size=3), VALUES, max_size=4)


def test_canonical_json_and_a_hashed_line_by_hand() -> None:
    value = {"b": [1, -2], "a": 'é"\\/\x7f\n\t\x00', "Z": "😀\ud800", "": {}}
    expected = rb'{"":{},"Z":"\ud83d\ude00\ud800","a":"\u00e9\"\\/\u007f\n\t\u0000","b":[1,-2]}'
    assert canonical_json(value) == expected
    assert canonical_sha256(value) == hashlib.sha256(expected).hexdigest()
    line, digest = hashed_line({"b": 1, "a": "x"}, FIRST_DIGEST)
    assert digest == hashlib.sha256(b'{"a":"x","b":1,"previous_sha256":"%s"}' % (b"0" * 64)).hexdigest()
    assert line == b'{"a":"x","b":1,"previous_sha256":"%s","sha256":"%s"}\n' % (b"0" * 64, digest.encode())


@given(RECORDS)
def test_a_line_can_be_parsed(record: dict[str, Any]) -> None:
    line, digest = hashed_line(record, FIRST_DIGEST)
    assert line.isascii()
    bound = {**record, "previous_sha256": FIRST_DIGEST, "sha256": digest}
    assert parse_hashed_line(line) == json.loads(canonical_json(bound))


@given(RECORDS, st.data())
def test_any_changed_byte_is_found(record: dict[str, Any], data: st.DataObject) -> None:
    line, _ = hashed_line(record, FIRST_DIGEST)
    with pytest.raises(RecordError):
        parse_hashed_line(data.draw(changed(line)))


LINE, DIGEST = hashed_line({"a": "x", "n": 1}, FIRST_DIGEST)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (LINE[:-1], "cut short"),
        (LINE[:-1] + b"\r\n", "CR LF"),
        (b"a film\n", "not JSON"),
        (b"\n", "not JSON"),
        (b"[" * 100_000 + b"\n", "not JSON"),
        ('"é"\n'.encode(), "not JSON"),
        (b"[1]\n", "not an object"),
        (b'{"a":"x"}\n', "not an object with sha256"),
        (LINE.replace(b",", b", "), "other spaces"),
        (LINE.replace(b'"x"', b'"\\u0078"'), "other spaces, escapes"),
        (LINE.replace(b'"a":"x"', b'"a":"y","a":"x"'), "key order"),
        (LINE.replace(b'"a":"x","n":1', b'"n":1,"a":"x"'), "key order"),
        (LINE.replace(b":1", b":NaN"), "not JSON"),
        (LINE.replace(b'"x"', b'"y"'), "does not match its content"),
        (LINE.replace(DIGEST.encode(), DIGEST.upper().encode()), "does not match its content"),
    ],
)
def test_a_changed_line_is_refused(line: bytes, reason: str) -> None:
    with pytest.raises(RecordError, match=reason):
        parse_hashed_line(line)

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certified import changed
from fresh._io import FIRST_DIGEST, RecordError, canonical_json, canonical_sha256, hashed_line, parse_hashed_line
from strategies import texts

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | texts(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(max_size=3), inner, max_size=3),
    max_leaves=8,
)
RECORDS = st.dictionaries(texts(max_size=3), VALUES, max_size=4)


def test_there_is_one_way_to_write_a_value() -> None:
    value = {"b": [1, -2], "a": 'é"\\/\x7f\n\t\x00', "Z": "😀\ud800", "": {}}
    expected = rb'{"":{},"Z":"\ud83d\ude00\ud800","a":"\u00e9\"\\/\u007f\n\t\u0000","b":[1,-2]}'
    assert canonical_json(value) == expected
    assert canonical_sha256(value) == hashlib.sha256(expected).hexdigest()


def test_a_line_is_its_record_with_two_digests() -> None:
    line, digest = hashed_line({"b": 1, "a": "x"}, FIRST_DIGEST)
    assert digest == hashlib.sha256(b'{"a":"x","b":1,"previous_sha256":"%s"}' % (b"0" * 64)).hexdigest()
    assert line == b'{"a":"x","b":1,"previous_sha256":"%s","sha256":"%s"}\n' % (b"0" * 64, digest.encode())


@given(RECORDS)
def test_what_is_sealed_is_read_back(record: dict[str, Any]) -> None:
    line, digest = hashed_line(record, FIRST_DIGEST)
    assert line.isascii()
    assert parse_hashed_line(line) == json.loads(
        canonical_json({**record, "previous_sha256": FIRST_DIGEST, "sha256": digest})
    )


@given(RECORDS, st.data())
def test_a_changed_byte_is_found(record: dict[str, Any], data: st.DataObject) -> None:
    line, _ = hashed_line(record, FIRST_DIGEST)
    with pytest.raises(RecordError):
        parse_hashed_line(data.draw(changed(line)))


LINE, DIGEST = hashed_line({"a": "x", "n": 1}, FIRST_DIGEST)
REASONS = {
    "cut": (LINE[:-1], "it has no line break: the file was cut short here."),
    "other end": (
        LINE[:-1] + b"\r\n",
        "it ends in CR LF, not in LF: an editor or a transfer changed the file.",
    ),
    "no JSON": (b"a film\n", "it is not JSON in plain ASCII."),
    "empty": (b"\n", "it is not JSON in plain ASCII."),
    "deep": (b"[" * 100_000 + b"\n", "it is not JSON in plain ASCII."),
    "UTF-8": ('"é"\n'.encode(), "it is not JSON in plain ASCII."),
    "a list": (b"[1]\n", "it is not an object with sha256 and previous_sha256."),
    "no digest": (b'{"a":"x"}\n', "it is not an object with sha256 and previous_sha256."),
    "spaces": (
        LINE.replace(b",", b", "),
        "it is JSON, but with other spaces, escapes or key order.",
    ),
    "escapes": (
        LINE.replace(b'"x"', b'"\\u0078"'),
        "it is JSON, but with other spaces, escapes or key order.",
    ),
    "doubled name": (
        LINE.replace(b'"a":"x"', b'"a":"y","a":"x"'),
        "it is JSON, but with other spaces, escapes or key order.",
    ),
    "no number": (
        LINE.replace(b":1", b":NaN"),
        "it is JSON, but with other spaces, escapes or key order.",
    ),
    "content": (
        LINE.replace(b'"x"', b'"y"'),
        "it has changed since it was written: its digest does not match its content.",
    ),
    "digest": (
        LINE.replace(DIGEST.encode(), DIGEST.upper().encode()),
        "it has changed since it was written: its digest does not match its content.",
    ),
}


@pytest.mark.parametrize("name", REASONS)
def test_the_reason_is_told(name: str) -> None:
    line, reason = REASONS[name]
    with pytest.raises(RecordError) as caught:
        parse_hashed_line(line)
    assert str(caught.value) == reason

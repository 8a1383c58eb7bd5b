import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certified import MAKER, made_up, read, resealed, sealed
from fresh._io import hashed_line
from fresh.audit.certificates.format import Certificate, encode_certificates
from fresh.errors import CertificateError
from fresh.rationale import Prediction, Rationale
from strategies import texts

CERTIFICATES = [made_up(number) for number in range(3)]
FILE = encode_certificates(MAKER, CERTIFICATES)
HEADER, FIRST, SECOND, THIRD, CLOSING = FILE.splitlines(keepends=True)
GONE = "it does not follow the line before it: lines are missing, doubled or moved."
CUT = "the file ends here without a closing line: it was cut short."
CHANGED = "it has changed since it was written: its digest does not match its content."
OTHER_MAKER = "its predictor, version or format is not that of the header."
AFTER = "it stands after the closing line: something was added to the file."
SECOND_HEADER = "it is a second header: files were joined."
NO_BREAK = "it has no line break: the file was cut short here."
COUNTS = "it counts {} certificates, but there are {}."
NO_INPUT = "its input does not consist of words, query and pieces."
NEWER = (
    "the certificates have format 2, but this version of fresh reads format 1. "
    "Verify them with the version that wrote them."
)


def test_a_file_of_an_earlier_version_is_read_and_written_in_the_same_way() -> None:
    content = (Path(__file__).parents[2] / "data_files" / "audit" / "certificates.jsonl").read_bytes()
    assert content == FILE
    assert read(content) == (CERTIFICATES, [])


def test_a_file_without_certificates_is_read_back() -> None:
    assert read(encode_certificates(MAKER, [])) == ([], [])


def whole(text: str) -> str:
    """Join halves of characters that stand side by side, as JSON does."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


WORDS = st.lists(texts(max_size=3).filter(bool).map(whole), max_size=4)


@given(
    WORDS,
    WORDS,
    st.lists(st.integers(0, 2**31), max_size=5),
    st.dictionaries(texts(max_size=3).map(whole), st.floats(0, 1), min_size=1, max_size=4),
    st.integers(0, 9),
)
def test_every_certificate_is_read_back_to_the_bit(
    words: list[str], query: list[str], pieces: list[int], table: dict[str, float], group: int
) -> None:
    prediction = Prediction(next(iter(table)), table)
    given = Certificate(Rationale(tuple(words), tuple(query), "é"), tuple(pieces), prediction, group)
    [found], faults = read(encode_certificates(MAKER, [given]))
    assert (found, faults) == (given, [])
    assert list(found.prediction.probabilities) == list(table)


def test_every_byte_counts() -> None:
    for place in range(len(FILE)):
        for other in (bytes([FILE[place] ^ 1]), bytes([FILE[place] ^ 128]), b"", FILE[place : place + 1] + b"0"):
            assert read(FILE[:place] + other + FILE[place + 1 :])[1], (place, other)
        assert read(FILE[:place])[1], place


@given(st.lists(st.sampled_from(FILE.splitlines(keepends=True)), max_size=7))
def test_lines_cannot_be_moved_dropped_or_doubled(lines: list[bytes]) -> None:
    assert (b"".join(lines) == FILE) == (not read(b"".join(lines))[1])


def forged(line: int, **fields: Any) -> bytes:
    """Change fields of a line, and seal the file again."""
    return resealed(FILE, lambda records: records[line].update(fields))


def header(**fields: Any) -> bytes:
    return sealed([MAKER.record("header") | fields])


EDITED, _ = hashed_line(made_up(7).record(MAKER), json.loads(HEADER)["sha256"])
OTHER_INPUT, _ = hashed_line(made_up(0).record(MAKER) | {"input_sha256": "0" * 64}, json.loads(HEADER)["sha256"])
FAULTS: dict[str, tuple[bytes, list[tuple[int, str]]]] = {
    "empty": (b"", [(1, "the file is empty.")]),
    "a blank line": (b"\n", [(1, "it is not JSON in plain ASCII.")]),
    "only a header": (HEADER, [(1, CUT)]),
    "last line dropped": (HEADER + FIRST + SECOND + THIRD, [(4, CUT)]),
    "cut within a line": (HEADER + FIRST + SECOND[:40], [(3, NO_BREAK), (3, CUT)]),
    "no header": (FIRST + SECOND + THIRD + CLOSING, [(1, "it is not a header: the beginning of the file is missing.")]),
    "a line dropped": (HEADER + FIRST + THIRD + CLOSING, [(3, GONE), (4, COUNTS.format(3, 2))]),
    "a line doubled": (HEADER + FIRST + FIRST + SECOND + THIRD + CLOSING, [(3, GONE), (6, COUNTS.format(3, 4))]),
    "lines swapped": (HEADER + SECOND + FIRST + THIRD + CLOSING, [(2, GONE), (3, GONE), (4, GONE)]),
    "a line edited": (FILE.replace(b"good", b"poor", 1), [(2, CHANGED)]),
    "a line edited and sealed anew": (HEADER + EDITED + SECOND + THIRD + CLOSING, [(3, GONE)]),
    "appended": (FILE + b"\n" + THIRD, [(6, AFTER), (7, AFTER)]),
    "two files": (FILE + FILE, [(line, AFTER) for line in range(6, 11)]),
    "two files without the first closing": (HEADER + FIRST + FILE, [(3, SECOND_HEADER), (7, COUNTS.format(3, 5))]),
    "other kind": (forged(1, kind="remark"), [(2, "its fields are not those of a line of certificates.")]),
    "other version": (forged(1, version="0.2.0"), [(2, OTHER_MAKER)]),
    "other format": (forged(1, format=True), [(2, OTHER_MAKER)]),
    "other count": (forged(-1, count=2), [(5, COUNTS.format(2, 3))]),
    "no count": (forged(-1, count=3.0), [(5, COUNTS.format(3.0, 3))]),
    "input with less": (forged(1, input={"words": []}), [(2, NO_INPUT)]),
    "input as text": (forged(1, input="good"), [(2, NO_INPUT)]),
    "other input": (HEADER + OTHER_INPUT, [(2, "input_sha256 is not the digest of its input."), (2, CUT)]),
    "CR LF": (
        FILE.replace(b"\n", b"\r\n"),
        [(1, "it ends in CR LF, not in LF: an editor or a transfer changed the file.")],
    ),
    "CR": (FILE.replace(b"\n", b"\r"), [(1, NO_BREAK)]),
    "somebody else's": (sealed([{"kind": "header"}]), [(1, "it was not written by fresh.")]),
    "header with more": (header(more=1), [(1, "its fields are not those of a header.")]),
    "header without text": (header(version=1), [(1, "its fields are not those of a header.")]),
    "newer": (header(format=2), [(1, NEWER)]),
    "a header that follows something": (hashed_line(MAKER.record("header"), "1" * 64)[0], [(1, GONE)]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_lines_that_fail_are_named(name: str) -> None:
    content, faults = FAULTS[name]
    assert read(content)[1] == faults


UNREADABLE: dict[str, list[Any]] = {
    "id": [1],
    "group": [-1, True],
    "label": ["other"],
    "probabilities": [
        *([], "pos", ["pos"], [["pos", 1]], [["pos", "0.5"], ["pos", "0.5"]]),
        *([["pos", number]] for number in ("1.5", "0.50", "half", "nan")),
    ],
    "words": ["good", ["good", ""]],
    "query": [[1]],
    "pieces": [[True], [-1]],
}
EMPTY: dict[str, Any] = {"words": [], "query": [], "pieces": []}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in UNREADABLE for value in UNREADABLE[name]])
def test_a_field_that_cannot_be_read_is_named(name: str, value: Any) -> None:
    content = forged(1, input=EMPTY | {name: value}) if name in EMPTY else forged(1, **{name: value})
    assert read(content) == (CERTIFICATES[1:], [(2, f"its {name} cannot be read.")])


def test_a_probability_that_is_none_is_not_certified() -> None:
    with pytest.raises(CertificateError, match=r"in \[0, 1\].*nan for 'pos' in document 'r-1'"):
        Certificate(Rationale(("a",), (), "r-1"), (1,), Prediction("pos", {"pos": math.nan}), 0)

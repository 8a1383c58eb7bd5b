import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import certified
from certified import MAKER, changed, file_of, made_up, read, resealed, sealed
from fresh._io import hashed_line
from fresh.audit.certificates.format import Certificate, Fault, encode_certificates
from fresh.errors import CertificateError
from fresh.rationale import Prediction, Rationale
from strategies import texts

CERTIFICATES = [made_up(number) for number in range(3)]
FILE = file_of(CERTIFICATES)
HEADER, FIRST, SECOND, THIRD, CLOSING = FILE.splitlines(keepends=True)
GONE = "it does not follow the line before it: lines are missing, doubled or moved."
CUT = "the file ends here without a closing line: it was cut short."
CHANGED = "it has changed since it was written: its digest does not match its content."
OTHER_MAKER = "its predictor, version or format is not that of the header."
AFTER = "it stands after the closing line: something was added to the file."
SECOND_HEADER = "it is a second header: files were joined."


def test_a_file_of_an_earlier_version_is_read_and_written_in_the_same_way() -> None:
    content = (Path(__file__).parents[2] / "data_files" / "audit" / "certificates.jsonl").read_bytes()
    assert content == FILE
    assert encode_certificates(MAKER, read(content)[0]) == content


def test_a_file_is_read_back() -> None:
    assert read(FILE) == (CERTIFICATES, [])
    assert [item.rationale.id for item in read(FILE)[0]] == ["r-0", "r-1", "r-2"]
    assert read(file_of([])) == ([], [])


def probabilities() -> st.SearchStrategy[dict[str, float]]:
    return st.dictionaries(texts(max_size=3).map(whole), st.floats(0, 1), min_size=1, max_size=4)


def whole(text: str) -> str:
    """Join halves of characters that stand side by side, as JSON does."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


@given(
    st.lists(texts(max_size=3).filter(bool).map(whole), max_size=4),
    st.lists(texts(max_size=3).filter(bool).map(whole), max_size=2),
    st.lists(st.integers(0, 2**31), max_size=5),
    probabilities(),
    st.integers(0, 9),
)
def test_every_certificate_is_read_back_to_the_bit(
    words: list[str], query: list[str], pieces: list[int], table: dict[str, float], group: int
) -> None:
    prediction = Prediction(next(iter(table)), table)
    given = Certificate(Rationale(tuple(words), tuple(query), "é"), tuple(pieces), prediction, group)
    [found], faults = read(file_of([given]))
    assert (found, faults) == (given, [])
    assert list(found.prediction.probabilities) == list(table)


def test_every_byte_counts() -> None:
    for place in range(len(FILE)):
        for other in (bytes([FILE[place] ^ 1]), bytes([FILE[place] ^ 128]), b"", FILE[place : place + 1] + b"0"):
            assert read(FILE[:place] + other + FILE[place + 1 :])[1], (place, other)
        assert read(FILE[:place])[1], place


@given(changed(FILE))
def test_any_change_of_a_byte_is_found(content: bytes) -> None:
    assert read(content)[1]


@given(st.lists(st.sampled_from(FILE.splitlines(keepends=True)), max_size=7))
def test_lines_cannot_be_moved_dropped_or_doubled(lines: list[bytes]) -> None:
    assert (b"".join(lines) == FILE) == (not read(b"".join(lines))[1])


NO_HEADER = "it is not a header: the beginning of the file is missing."
FAULTS: dict[str, tuple[bytes, list[Fault]]] = {
    "empty": (b"", [Fault(1, "the file is empty.")]),
    "a blank line": (b"\n", [Fault(1, "it is not JSON in plain ASCII.")]),
    "only a header": (HEADER, [Fault(1, CUT)]),
    "last line dropped": (HEADER + FIRST + SECOND + THIRD, [Fault(4, CUT)]),
    "cut within a line": (
        HEADER + FIRST + SECOND[:40],
        [Fault(3, "it has no line break: the file was cut short here."), Fault(3, CUT)],
    ),
    "no header": (FIRST + SECOND + THIRD + CLOSING, [Fault(1, NO_HEADER)]),
    "a line dropped": (HEADER + FIRST + THIRD + CLOSING, [Fault(3, GONE), Fault(4, certified.count(3, 2))]),
    "a line doubled": (
        HEADER + FIRST + FIRST + SECOND + THIRD + CLOSING,
        [Fault(3, GONE), Fault(6, certified.count(3, 4))],
    ),
    "lines swapped": (HEADER + SECOND + FIRST + THIRD + CLOSING, [Fault(line, GONE) for line in (2, 3, 4)]),
    "a line edited": (FILE.replace(b"good", b"poor", 1), [Fault(2, CHANGED)]),
    "a line edited and sealed anew": (
        HEADER
        + sealed([MAKER.record("header"), made_up(7).record(MAKER)]).removeprefix(HEADER)
        + SECOND
        + THIRD
        + CLOSING,
        [Fault(3, GONE)],
    ),
    "appended": (FILE + b"\n" + THIRD, [Fault(6, AFTER), Fault(7, AFTER)]),
    "two files": (FILE + FILE, [Fault(line, AFTER) for line in range(6, 11)]),
    "two files without the first closing": (
        HEADER + FIRST + FILE,
        [Fault(3, SECOND_HEADER), Fault(7, certified.count(3, 5))],
    ),
    "other kind": (
        resealed(FILE, lambda records: records[1].update(kind="remark")),
        [Fault(2, "its fields are not those of a line of certificates.")],
    ),
    "other version": (resealed(FILE, lambda records: records[1].update(version="0.2.0")), [Fault(2, OTHER_MAKER)]),
    "other format": (resealed(FILE, lambda records: records[1].update(format=True)), [Fault(2, OTHER_MAKER)]),
    "other count": (
        resealed(FILE, lambda records: records[-1].update(count=2)),
        [Fault(5, certified.count(2, 3))],
    ),
    "somebody else's": (sealed([{"kind": "header"}]), [Fault(1, "it was not written by fresh.")]),
    "header with more": (
        sealed([{**MAKER.record("header"), "more": 1}]),
        [Fault(1, "its fields are not those of a header.")],
    ),
    "newer": (
        sealed([{**MAKER.record("header"), "format": 2}]),
        [
            Fault(
                1,
                "the certificates have format 2, but this version of fresh reads format 1. "
                "Verify them with the version that wrote them.",
            )
        ],
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_lines_that_fail_are_named(name: str) -> None:
    content, faults = FAULTS[name]
    assert read(content)[1] == faults


def test_a_header_that_follows_something_is_refused() -> None:
    line, _ = hashed_line(MAKER.record("header"), "1" * 64)
    assert read(line)[1] == [Fault(1, GONE)]


FIELDS: dict[str, tuple[dict[str, Any], str]] = {
    "id": ({"id": 1}, "its id cannot be read."),
    "group": ({"group": -1}, "its group cannot be read."),
    "no group": ({"group": True}, "its group cannot be read."),
    "label": ({"label": "other"}, "its label cannot be read."),
    "probabilities": ({"probabilities": []}, "its probabilities cannot be read."),
    "no pairs": ({"probabilities": ["pos"]}, "its probabilities cannot be read."),
    "too probable": ({"probabilities": [["pos", "1.5"]]}, "its probabilities cannot be read."),
    "other decimal": ({"probabilities": [["pos", "0.50"]]}, "its probabilities cannot be read."),
    "no decimal": ({"probabilities": [["pos", "half"]]}, "its probabilities cannot be read."),
    "numbers": ({"probabilities": [["pos", 1]]}, "its probabilities cannot be read."),
    "doubled": ({"probabilities": [["pos", "0.5"], ["pos", "0.5"]]}, "its probabilities cannot be read."),
    "words": ({"input": {"words": "good", "query": [], "pieces": []}}, "its words cannot be read."),
    "empty word": ({"input": {"words": ["good", ""], "query": [], "pieces": []}}, "its words cannot be read."),
    "query": ({"input": {"words": [], "query": [1], "pieces": []}}, "its query cannot be read."),
    "pieces": ({"input": {"words": [], "query": [], "pieces": [True]}}, "its pieces cannot be read."),
    "input": ({"input": {"words": []}}, "its input does not consist of words, query and pieces."),
    "no input": ({"input": "good"}, "its input does not consist of words, query and pieces."),
    "digest": ({"input_sha256": "0" * 64}, "input_sha256 is not the digest of its input."),
}


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_that_cannot_be_read_is_named(name: str) -> None:
    change, reason = FIELDS[name]
    record = CERTIFICATES[0].record(MAKER) | change
    content = sealed([MAKER.record("header"), record, MAKER.record("closing") | {"count": 1}])
    assert read(content) == ([], [Fault(2, reason)])


def test_a_probability_that_is_none_is_not_certified() -> None:
    with pytest.raises(CertificateError, match=r"in \[0, 1\].*nan for 'pos' in document 'r-1'"):
        Certificate(Rationale(("a",), (), "r-1"), (1,), Prediction("pos", {"pos": math.nan}), 0)

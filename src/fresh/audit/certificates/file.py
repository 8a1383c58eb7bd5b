"""A file of certificates: a header, a line for each answer, a closing line; what is wrong with one."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fresh._io import (
    DIGEST,
    FIRST_DIGEST,
    PREVIOUS_DIGEST,
    RecordError,
    canonical_json,
    parse_hashed_line,
)
from fresh.audit.certificates.format import FORMAT, Certificate, Maker, is_count, is_text

SHOWN = 10
"""How many faults of a file are kept; the others are counted."""
COMMON = {"kind", "format", "library", "version", "predictor_sha256", PREVIOUS_DIGEST, DIGEST}
FIELDS = {
    "header": COMMON,
    "certificate": COMMON | {"id", "group", "input", "input_sha256", "label", "probabilities"},
    "closing": COMMON | {"count"},
}
"""The fields of each kind of line."""
DOES_NOT_FOLLOW = "it does not follow the line before it: lines are missing, doubled or moved."


class Fault(NamedTuple):
    """What is wrong with a line."""

    line: int
    """Lines count from 1."""
    reason: str


@dataclass(slots=True)
class Faults:
    """The first faults of a file, and how many there are."""

    first: list[Fault] = field(default_factory=list)
    count: int = 0

    def add(self, line: int, reason: str) -> None:
        """Note what is wrong with a line."""
        self.count += 1
        if len(self.first) < SHOWN:
            self.first.append(Fault(line, reason))


class Reader:
    """Goes through the lines of a file of certificates and notes which of them are not as they were written."""

    def __init__(self, lines: Iterable[bytes], faults: Faults) -> None:
        self.lines = enumerate(lines, 1)
        self.faults = faults
        self.maker = Maker("", "")
        self.line = 0
        """The last line that was read."""
        self.before: str | None = FIRST_DIGEST
        """The digest of that line as it says itself; None if that cannot be read."""
        self.digest: str | None = None
        """The digest of the closing line, which stands for the whole file."""

    def read_header(self) -> Maker | None:
        """Read the first line; without a sound one, no other can be judged."""
        self.line, line = next(self.lines, (0, b""))
        if not line:
            self.faults.add(1, "the file is empty.")
            return None
        try:
            self.maker = self.header_of(parse_hashed_line(line))
        except RecordError as error:
            self.faults.add(1, str(error))
            return None
        return self.maker

    def header_of(self, record: dict[str, Any]) -> Maker:
        """Read a header."""
        format = record.get("format")
        if record.get("library") != "fresh" or not is_count(format):
            raise RecordError("it was not written by fresh.")
        if format != FORMAT:
            raise RecordError(
                f"the certificates have format {format}, but this version of fresh reads format {FORMAT}. "
                "Verify them with the version that wrote them."
            )
        if record.get("kind") != "header":
            raise RecordError("it is no header: the beginning of the file is missing.")
        if record.keys() != FIELDS["header"] or not all(map(is_text, (record["version"], record["predictor_sha256"]))):
            raise RecordError("its fields are not those of a header.")
        if record[PREVIOUS_DIGEST] != FIRST_DIGEST:
            raise RecordError(DOES_NOT_FOLLOW)
        self.before = record[DIGEST]
        return Maker(record["predictor_sha256"], record["version"])

    def __iter__(self) -> Iterator[tuple[int, Certificate]]:
        """Give the certificates that are as they were written, with their lines."""
        for number, line in self.lines:
            self.line = number
            try:
                found = self.checked(line)
            except RecordError as error:
                self.faults.add(number, str(error))
            else:
                if found is not None:
                    yield number, found
        if self.digest is None:
            self.faults.add(self.line, "the file ends here without a closing line: it was cut short.")

    def checked(self, line: bytes) -> Certificate | None:
        """Read a certificate or the closing line."""
        if self.digest is not None:
            raise RecordError("it stands after the closing line: something was added to the file.")
        before, self.before = self.before, None
        record = parse_hashed_line(line)
        self.before, kind = record[DIGEST], str(record.get("kind"))
        if kind == "header":
            raise RecordError("it is a second header: files were put together.")
        if record.keys() != FIELDS.get(kind):
            raise RecordError("its fields are those of no line of certificates.")
        if kind == "closing":
            self.digest = record[DIGEST]
        if before not in (None, record[PREVIOUS_DIGEST]):
            raise RecordError(DOES_NOT_FOLLOW)
        expected = self.maker.record(kind)
        if canonical_json({name: record[name] for name in expected}) != canonical_json(expected):
            raise RecordError("it is of another predictor, version or format than the header says.")
        if kind == "certificate":
            return Certificate.from_record(record)
        self.check_count(record["count"])
        return None

    def check_count(self, count: Any) -> None:
        """Refuse a closing line that counts other than the lines between the header and it."""
        n_certificates = self.line - 2
        if not is_count(count) or count != n_certificates:
            raise RecordError(f"it counts {count!r} certificates, but there are {n_certificates}.")

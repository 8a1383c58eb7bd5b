"""What a file of certificates says: a header, each prediction with everything it was computed from, a closing line."""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

from fresh._io import (
    DIGEST,
    FIRST_DIGEST,
    PREVIOUS_DIGEST,
    RecordError,
    canonical_json,
    canonical_sha256,
    hashed_line,
    parse_hashed_line,
)
from fresh.audit.certificates.signature import Signature
from fresh.errors import CertificateError
from fresh.rationale import Prediction, Rationale

FORMAT = 1
COMMON = {"kind", "format", "library", "version", "predictor_sha256", PREVIOUS_DIGEST, DIGEST}
# The fields of each kind of line.
FIELDS = {
    "header": COMMON,
    "certificate": COMMON | {"id", "group", "input", "input_sha256", "label", "probabilities"},
    "closing": COMMON | {"count"},
    "signature": COMMON | {*Signature._fields},
}
NOT_CONSECUTIVE = "it does not follow the line before it: lines are missing, doubled or moved."


class Maker(NamedTuple):
    """What made the predictions."""

    predictor_sha256: str
    version: str
    """Of the library."""

    def record(self, kind: str) -> dict[str, Any]:
        """Begin a line: header, certificate or closing."""
        return {"kind": kind, "format": FORMAT, "library": "fresh", **self._asdict()}


@dataclass(frozen=True, slots=True)
class Certificate:
    """A prediction, and everything that it was computed from."""

    rationale: Rationale
    token_ids: tuple[int, ...]
    """The input of the network: the tokens of the rationale and of its query, with special tokens."""
    prediction: Prediction
    group: int
    """Predictions of one group were computed in one batch."""

    def __post_init__(self) -> None:
        for label, probability in self.prediction.probabilities.items():
            if not 0 <= probability <= 1:  # NaN neither
                raise CertificateError(
                    f"Probabilities must be in [0, 1] to be certified, got {probability} for {label!r} in document "
                    f"{self.rationale.id!r}. Train the model again."
                )

    def record(self, maker: Maker) -> dict[str, Any]:
        """Return plain values, for JSON."""
        rationale, probabilities = self.rationale, self.prediction.probabilities
        inputs = {"words": list(rationale.words), "query": list(rationale.query), "pieces": list(self.token_ids)}
        return maker.record("certificate") | {
            "id": rationale.id,
            "group": self.group,
            "input": inputs,
            "input_sha256": canonical_sha256(inputs),
            "label": self.prediction.label,
            # As text: `repr` writes the shortest decimal that is read back to the same bits, whatever reads the JSON.
            "probabilities": [[label, repr(value)] for label, value in probabilities.items()],
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Certificate":
        """Rebuild a certificate from plain values, or say why its line fails."""
        inputs, table = record["input"], record["probabilities"]
        if type(inputs) is not dict or inputs.keys() != {"words", "query", "pieces"}:
            raise RecordError("its input does not consist of words, query and pieces.")
        words, query, pieces = inputs["words"], inputs["query"], inputs["pieces"]
        labels = [pair[0] for pair in table] if type(table) is list and all(map(_is_probability, table)) else []
        valid = {
            "id": type(record["id"]) is str,
            "group": _is_count(record["group"]),
            "words": _is_list(words, str) and "" not in words,
            "query": _is_list(query, str) and "" not in query,
            "pieces": _is_list(pieces, int) and min(pieces, default=0) >= 0,
            "probabilities": 0 < len(labels) == len(set(labels)),
            "label": record["label"] in labels,
        }
        for name, is_valid in valid.items():
            if not is_valid:
                raise RecordError(f"its {name} cannot be read.")
        if canonical_sha256(inputs) != record["input_sha256"]:
            raise RecordError("input_sha256 is not the digest of its input.")
        rationale = Rationale(tuple(words), tuple(query), record["id"])
        prediction = Prediction(record["label"], {label: float(value) for label, value in table})
        return cls(rationale, tuple(pieces), prediction, record["group"])


# Types are compared exactly, since True is an integer and a subclass of str may lie about its text.


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_list(value: object, kind: type) -> bool:
    return type(value) is list and all(type(item) is kind for item in value)


def _is_probability(pair: Any) -> bool:
    """Say whether a value is a label and the shortest decimal of a probability, as `repr` writes it."""
    try:
        return _is_list(pair, str) and len(pair) == 2 and 0 <= float(pair[1]) <= 1 and repr(float(pair[1])) == pair[1]
    except ValueError:
        return False


class Writer:
    """Writes a file of certificates, line by line."""

    def __init__(self, file: IO[bytes], maker: Maker) -> None:
        """Write the header."""
        self.count = 0
        self.digest = FIRST_DIGEST
        """Of the last line; after the closing line, of the whole file."""
        self.maker = maker
        self._file = file
        self._write(maker.record("header"))

    def _write(self, record: Mapping[str, Any]) -> None:
        line, self.digest = hashed_line(record, self.digest)
        self._file.write(line)

    def add(self, certificate: Certificate) -> None:
        """Write a certificate."""
        self._write(certificate.record(self.maker))
        self.count += 1

    def close(self, sign: Callable[[str], Signature] | None = None) -> None:
        """Write the closing line and, if the file is signed, a signature of its digest."""
        self._write(self.maker.record("closing") | {"count": self.count})
        if sign is not None:
            line, _ = hashed_line(self.maker.record("signature") | sign(self.digest)._asdict(), self.digest)
            self._file.write(line)


def encode_certificates(maker: Maker, certificates: Iterable[Certificate]) -> bytes:
    """Return a whole file of certificates."""
    file = io.BytesIO()
    writer = Writer(file, maker)
    for certificate in certificates:
        writer.add(certificate)
    writer.close()
    return file.getvalue()


class Fault(NamedTuple):
    """What is wrong with a line."""

    line: int
    """Counted from 1."""
    reason: str


class Reader:
    """Reads the lines of a file of certificates, and records which are not as they were written."""

    def __init__(self, lines: Iterable[bytes], add_fault: Callable[[int, str], None]) -> None:
        self.digest: str | None = None
        """The digest of the closing line, which stands for the whole file."""
        self.signature: Signature | None = None
        """The signature of that digest, if there is one; not verified."""
        self._add_fault = add_fault
        self._lines = enumerate(lines, 1)
        self._maker = Maker("", "")
        self._previous: str | None = FIRST_DIGEST
        """The digest of the line before, as it says itself; None if it cannot be read."""

    def read_header(self) -> Maker | None:
        """Read the first line; without a valid one, no other can be judged."""
        _, line = next(self._lines, (1, b""))
        try:
            if not line:
                raise RecordError("the file is empty.")
            record = parse_hashed_line(line)
            format = record.get("format")
            if record.get("library") != "fresh" or not _is_count(format):
                raise RecordError("it was not written by fresh.")
            if format != FORMAT:
                raise RecordError(
                    f"the certificates have format {format}, but this version of fresh reads format {FORMAT}. "
                    "Verify them with the version that wrote them."
                )
            if record.get("kind") != "header":
                raise RecordError("it is not a header: the beginning of the file is missing.")
            maker = Maker(record.get("predictor_sha256", ""), record.get("version", ""))
            if record.keys() != FIELDS["header"] or not _is_list(list(maker), str):
                raise RecordError("its fields are not those of a header.")
            if record[PREVIOUS_DIGEST] != FIRST_DIGEST:
                raise RecordError(NOT_CONSECUTIVE)
        except RecordError as error:
            self._add_fault(1, str(error))
            return None
        self._previous, self._maker = record[DIGEST], maker
        return maker

    def __iter__(self) -> Iterator[tuple[int, Certificate]]:
        """Yield the certificates that are as they were written, with their lines."""
        number = 1
        for number, line in self._lines:
            try:
                record = self._parse(line)
                if record["kind"] == "certificate":
                    yield number, Certificate.from_record(record)
                elif record["kind"] == "signature":
                    self.signature = Signature(*(str(record[name]) for name in Signature._fields))
                elif not _is_count(record["count"]) or record["count"] != number - 2:  # the header and this line
                    raise RecordError(f"it counts {record['count']!r} certificates, but there are {number - 2}.")
            except RecordError as error:
                self._add_fault(number, str(error))
        if self.digest is None:
            self._add_fault(number, "the file ends here without a closing line: it was cut short.")

    def _parse(self, line: bytes) -> dict[str, Any]:
        """Read a certificate or the closing line."""
        if self.signature is not None:
            raise RecordError("it stands after the signature: something was added, or the file was signed twice.")
        if self.digest is not None and b'"kind":"signature"' not in line:
            raise RecordError("it stands after the closing line: something was added to the file.")
        # Unknown until this line is parsed: after a damaged line, the next one is judged by itself.
        previous, self._previous = self._previous, None
        record = parse_hashed_line(line)
        self._previous, kind = record[DIGEST], str(record.get("kind"))
        if kind == "header":
            raise RecordError("it is a second header: files were joined.")
        if self.digest is None and kind == "signature":
            raise RecordError("it is a signature, but there is no closing line before it.")
        if record.keys() != FIELDS.get(kind):
            raise RecordError("its fields are not those of a line of certificates.")
        if kind == "closing":
            self.digest = record[DIGEST]
        if previous not in (None, record[PREVIOUS_DIGEST]):
            raise RecordError(NOT_CONSECUTIVE)
        expected = self._maker.record(kind)
        # Compared as JSON, since True == 1 in Python but not in a file.
        if canonical_json({name: record[name] for name in expected}) != canonical_json(expected):
            raise RecordError("its predictor, version or format is not that of the header.")
        return record

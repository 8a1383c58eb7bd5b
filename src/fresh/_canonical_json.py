"""Lines of JSON that cannot be changed unseen: written in one way, with a digest, bound to the line before."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

FIRST_DIGEST = "0" * 64
"""What stands for the digest of the line before the first."""
DIGEST, PREVIOUS_DIGEST = "sha256", "previous_sha256"
"""Fields for the digest of a line and for that of the line before it."""


class RecordError(ValueError):
    """A line that is not as it was written."""


def canonical_json(value: Any) -> bytes:
    """Write a value of objects, lists, texts and whole numbers in the one way that is digested."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")


def sha256(value: Any) -> str:
    """Compute the SHA-256 digest of a value."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def digested_line(record: Mapping[str, Any], previous: str) -> tuple[bytes, str]:
    """Write a record as a line that is bound to the line before it.

    :param previous: The digest of that line.
    :return: The line with its end, and its digest.
    """
    bound = {**record, PREVIOUS_DIGEST: previous}
    digest = sha256(bound)
    return canonical_json({**bound, DIGEST: digest}) + b"\n", digest


def parse_digested_line(line: bytes) -> dict[str, Any]:
    """Read a line, its end included, and refuse one that is not to the byte as it was written."""
    if not line.endswith(b"\n"):
        raise RecordError("it has no end: the file was cut short here.")
    if line.endswith(b"\r\n"):
        raise RecordError("it ends in CR LF, not in LF: an editor or a transfer changed the file.")
    try:
        record = json.loads(line[:-1].decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise RecordError("it is not JSON in plain ASCII.") from error
    if not isinstance(record, dict) or not all(type(record.get(name)) is str for name in (DIGEST, PREVIOUS_DIGEST)):
        raise RecordError(f"it is no object with {DIGEST} and {PREVIOUS_DIGEST}.")
    if not _is_canonical(record, line):
        raise RecordError("it is JSON, but written in another way: other spaces, escapes or order of names.")
    if sha256({name: value for name, value in record.items() if name != DIGEST}) != record[DIGEST]:
        raise RecordError("it was changed after it was written: its digest is not that of its content.")
    return record


def _is_canonical(record: dict[str, Any], line: bytes) -> bool:
    """Say whether a line is a record, written in the one way."""
    try:
        return canonical_json(record) + b"\n" == line
    except ValueError:  # a number that is none
        return False

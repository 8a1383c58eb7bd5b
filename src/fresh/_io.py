"""Files that are written whole or not at all, and what to do where that cannot be."""

import errno
import hashlib
import json
import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
"""Errors of writing to a file, which do not say to which."""


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Give a place to write to; it becomes the file only when the block ends well."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        error.filename = error.filename or str(path)  # a full disk does not say for which file
        raise
    except BaseException:  # also Ctrl-C: what was begun goes, and the reason on its way
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def open_lines(path: Path) -> Iterator[IO[str]]:
    """Open a file for lines; when the disk takes no more, the part of a line at its end is cut off."""
    file = path.open("w", encoding="utf-8")  # before the block: a file that cannot be opened is not cut
    try:
        with file:
            yield file
    except OSError as error:
        if path.is_file():
            _drop_partial_line(path)
        if error.errno in DISK_ERRORS:  # any other may be about something else in the block
            error.filename = error.filename or str(path)
        raise


def _drop_partial_line(path: Path) -> None:
    """Cut off what follows the last line break of a file."""
    if path.stat().st_size:  # an empty file cannot be mapped
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            end = content.rfind(b"\n") + 1
        os.truncate(path, end)


def disk_hint(error: Exception) -> str:
    """Say what to do about a disk that takes nothing more, behind what the error itself says."""
    reason = error.errno if isinstance(error, OSError) else None
    if reason in (errno.ENOSPC, errno.EDQUOT):
        return ". Make room on that disk."
    return ". Choose a place that can be written to." if reason == errno.EROFS else ""


def write_text(path: Path, text: str) -> None:
    """Write a text."""
    with atomic_write(path) as place:
        place.write_text(text, encoding="utf-8")


FIRST_DIGEST = "0" * 64
"""What stands for the digest of the line before the first."""
DIGEST, PREVIOUS_DIGEST = "sha256", "previous_sha256"
"""Fields for the digest of a line and for that of the line before it."""


class RecordError(ValueError):
    """A line that is not as it was written."""


def canonical_json(value: Any) -> bytes:
    """Write a value of objects, lists, texts and whole numbers in the one way that is digested."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")


def canonical_sha256(value: Any) -> str:
    """Compute the SHA-256 digest of a value."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def hashed_line(record: Mapping[str, Any], previous: str) -> tuple[bytes, str]:
    """Write a record as a line that is bound to the line before it.

    :param previous: The digest of that line.
    :return: The line with its end, and its digest.
    """
    bound = {**record, PREVIOUS_DIGEST: previous}
    digest = canonical_sha256(bound)
    return canonical_json({**bound, DIGEST: digest}) + b"\n", digest


def parse_hashed_line(line: bytes) -> dict[str, Any]:
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
    if canonical_sha256({name: value for name, value in record.items() if name != DIGEST}) != record[DIGEST]:
        raise RecordError("it was changed after it was written: its digest is not that of its content.")
    return record


def _is_canonical(record: dict[str, Any], line: bytes) -> bool:
    """Say whether a line is a record, written in the one way."""
    try:
        return canonical_json(record) + b"\n" == line
    except ValueError:  # a number that is none
        return False

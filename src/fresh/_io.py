"""Files: checks of output paths, atomic writes, and lines of JSON that reveal every change."""

import errno
import hashlib
import json
import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from fresh.errors import OutputError

# Errors of writing that do not name the file.
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
_HINTS = {
    **dict.fromkeys((errno.EACCES, errno.EPERM), " Check your permissions, or choose another place."),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), " Free some space on that disk, or choose another place."),
    **dict.fromkeys((errno.EEXIST, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EROFS), " Choose another place."),
}


def check_output(path: str | Path, *, overwrite: bool, source: str | Path | None = None) -> None:
    """Raise unless a file can be written to a path.

    :param overwrite: Whether an existing file may be replaced.
    :param source: The input, which is never replaced.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise OutputError(f"There is no folder {path.parent} to write to. Create it first.")
    if path.is_dir():
        raise OutputError(f"{path} is a folder. Choose a file for the output.")
    if not path.exists():
        return
    if source is not None and Path(source).exists() and path.samefile(source):
        raise OutputError(f"{path} is the input. Choose another file for the output.")
    if not overwrite:
        raise OutputError(f"{path} already exists. Choose another path, or replace it: overwrite=True.")


def check_output_folder(folder: Path, content: str) -> None:
    """Raise if a folder is a file, or holds other files.

    :param content: What the folder is for.
    """
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file. Choose a folder for {content}.")
    if folder.is_dir() and any(folder.iterdir()):
        raise OutputError(f"{folder} holds other files, which stay untouched. Choose another folder for {content}.")


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path; it becomes the file only when the block ends without an error."""
    # In the same folder, since a rename is atomic only within a file system.
    partial = path.with_name(f"{path.name}.partial")
    try:
        yield partial
        partial.replace(path)
    except BaseException as error:  # Ctrl-C too must leave no partial file
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = error.filename or str(path)  # the error of a full disk does not name the file
        raise


@contextmanager
def open_lines(path: Path) -> Iterator[IO[str]]:
    """Open a file for lines; if the disk fills up, cut off the incomplete last line."""
    file = path.open("w", encoding="utf-8")  # outside the block: a file that cannot be opened is not cut
    try:
        with file:
            yield file
    except OSError as error:
        if path.is_file() and path.stat().st_size:  # an empty file cannot be mapped
            # Mapped, not read: the file may be larger than memory.
            with path.open("rb") as written, mmap.mmap(written.fileno(), 0, access=mmap.ACCESS_READ) as content:
                end = content.rfind(b"\n") + 1
            os.truncate(path, end)
        if error.errno in _DISK_ERRORS:  # any other error may be about something else in the block
            error.filename = error.filename or str(path)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with atomic_write(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def describe_error(error: Exception) -> str:
    """Say what is wrong, and what to do if it is a place for files."""
    hint = _HINTS.get(error.errno or 0, "") if isinstance(error, OSError) else ""
    if isinstance(error, OSError) and error.filename is not None:
        place = str(error.filename).removesuffix(".partial")
        return f"{place} cannot be read or written ({error.strerror}).{hint}"
    return f"{error}.{hint}" if hint else str(error)


# Lines of canonical JSON. Each holds its own digest and that of the line before, so that a changed, missing, added or
# moved line is found.

FIRST_DIGEST = "0" * 64
"""Stands for the digest of the line before the first."""
DIGEST, PREVIOUS_DIGEST = "sha256", "previous_sha256"
"""Names of the fields that hold the digest of a line and that of the line before."""


class RecordError(ValueError):
    """A line that differs from what was written."""


def canonical_json(value: Any) -> bytes:
    """Write a value of objects, lists, strings and integers in the one form that digests are computed from."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")


def canonical_sha256(value: Any) -> str:
    """Compute the SHA-256 digest of a value."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def hashed_line(record: Mapping[str, Any], previous: str) -> tuple[bytes, str]:
    """Write a record as a line that is bound to the line before it.

    :param previous: The digest of the line before.
    :return: The line with its line break, and its digest.
    """
    bound = {**record, PREVIOUS_DIGEST: previous}
    digest = canonical_sha256(bound)
    return canonical_json({**bound, DIGEST: digest}) + b"\n", digest


def parse_hashed_line(line: bytes) -> dict[str, Any]:
    """Read a line with its line break; raise unless it is byte for byte as it was written."""
    if not line.endswith(b"\n"):
        raise RecordError("it has no line break: the file was cut short here.")
    if line.endswith(b"\r\n"):
        raise RecordError("it ends in CR LF, not in LF: an editor or a transfer changed the file.")
    try:
        record = json.loads(line[:-1].decode("ascii"))
        canonical = canonical_json(record)  # refuses NaN and Infinity, which Python's parser accepts
    except (ValueError, RecursionError) as error:
        raise RecordError("it is not JSON in plain ASCII.") from error
    if not isinstance(record, dict) or not all(type(record.get(name)) is str for name in (DIGEST, PREVIOUS_DIGEST)):
        raise RecordError(f"it is not an object with {DIGEST} and {PREVIOUS_DIGEST}.")
    if canonical + b"\n" != line:
        raise RecordError("it is JSON, but with other spaces, escapes or key order.")
    if canonical_sha256({name: value for name, value in record.items() if name != DIGEST}) != record[DIGEST]:
        raise RecordError("it has changed since it was written: its digest does not match its content.")
    return record

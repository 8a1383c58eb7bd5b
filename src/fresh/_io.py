"""Files that are written whole or not at all, and what to do where that cannot be."""

import errno
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
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
        if error.errno in OF_THE_DISK:  # any other may be about something else in the block
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

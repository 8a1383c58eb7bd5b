"""Files that are written whole or not at all, and what to do where that cannot be."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
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


def way_out(error: Exception) -> str:
    """Say what to do about a disk that takes nothing more, behind what the error itself says."""
    reason = error.errno if isinstance(error, OSError) else None
    if reason in (errno.ENOSPC, errno.EDQUOT):
        return ". Make room on that disk."
    return ". Choose a place that can be written to." if reason == errno.EROFS else ""


def write_text(path: Path, text: str) -> None:
    """Write a text."""
    with written_whole(path) as place:
        place.write_text(text, encoding="utf-8")

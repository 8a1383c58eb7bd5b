"""What tests of store share with others."""

from pathlib import Path
from typing import NamedTuple


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def cannot_keep(folder: Path, size: str, reason: str) -> str:
    return (
        f"What the frozen layers put out takes {size} and cannot be kept in {folder}: {reason}. "
        "Name another folder (frozen_folder), leave it out to keep nothing for later runs, or do without (frozen=off)."
    )

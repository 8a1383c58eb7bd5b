"""Read what an annotation tool exports."""

from pathlib import Path
from typing import Any, Protocol

import pytest

import annotated
from fresh.errors import DataError

Kept = list[tuple[str, tuple[str, ...] | None]]


class ReadKept(Protocol):
    def __call__(self, *records: Any, **settings: Any) -> Kept:
        """Read records; return the label and the marked words of each text."""


class Refusal(Protocol):
    def __call__(self, *records: Any, **settings: Any) -> str:
        """Return the error message about records."""


@pytest.fixture
def kept(tmp_path: Path) -> ReadKept:
    def read(*records: Any, **settings: Any) -> Kept:
        examples = annotated.read(annotated.write_lines(tmp_path / "out.jsonl", records), **settings)
        return [(e.label, None if e.human is None else e.document.cut(e.human).words) for e in examples]

    return read


@pytest.fixture
def refusal(kept: ReadKept) -> Refusal:
    def refuse(*records: Any, **settings: Any) -> str:
        with pytest.raises(DataError) as caught:
            kept(*records, **settings)
        return str(caught.value)

    return refuse

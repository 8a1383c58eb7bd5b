"""Read what an annotation tool exports."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import annotated
from data_files import write
from fresh.data.examples import BadRows
from fresh.document import Example
from fresh.errors import DataError


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., list[Example]]:
    def read_records(*records: Any, bad: BadRows | None = None, **settings: Any) -> list[Example]:
        return annotated.read(write(tmp_path / "out.jsonl", records), bad, **settings)

    return read_records


@pytest.fixture
def kept(read: Any) -> Callable[..., list[tuple[str, tuple[str, ...] | None]]]:
    """Return the label and the marked words of each text."""
    return lambda *records, **settings: [
        (e.label, None if e.human is None else e.document.cut(e.human).words) for e in read(*records, **settings)
    ]


@pytest.fixture
def refusal(read: Any) -> Callable[..., str]:
    def refuse(*records: Any, **settings: Any) -> str:
        with pytest.raises(DataError) as caught:
            read(*records, **settings)
        return str(caught.value)

    return refuse

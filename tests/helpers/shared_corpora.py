"""What tests of corpora share with others."""

import os
from functools import cache
from pathlib import Path

import pytest

from fresh.data.corpora import CORPORA
from fresh.data.splits import Splits

DATA = Path(os.environ.get("FRESH_DATA") or Path(__file__).parents[3] / "shared" / "data")


@pytest.fixture(scope="module")
def data() -> Path:
    if not DATA.is_dir() and os.environ.get("CI") == "true":
        pytest.fail(f"The corpora are not at {DATA}. Name their folder in FRESH_DATA.")
    if not DATA.is_dir():
        pytest.skip(f"The corpora are not at {DATA}. Name their folder in FRESH_DATA.")
    return DATA


@cache
def read(name: str, path: Path) -> Splits:
    return CORPORA[name].read(path)

"""What tests of methods share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import small
from fresh.config import from_mapping
from fresh.data.splits import Splits
from fresh.document import Document, Example
from fresh.methods.config import FreshConfig


@pytest.fixture(scope="session")
def configure(encoders: dict[str, Path]) -> Callable[..., FreshConfig]:
    """Make settings of FRESH that train on some dozen documents in less than a second."""

    def make(**settings: Any) -> FreshConfig:
        return from_mapping(FreshConfig, small.settings(encoders["bert"], **settings))

    return make


@pytest.fixture(scope="session")
def few(toy: Splits) -> Splits:
    """Eight documents with a rationale and eight without."""
    return Splits((*toy.train[:8], *toy.train[-8:]), toy.dev[:8], toy.test[:8])


@pytest.fixture(scope="session")
def uneven(toy_pairs: Splits) -> Splits:
    """Documents of various lengths, some with words of many tokens."""
    strange = Example(Document.from_words(("strange", "a", "words", "film"), ("praise",), "strange"), "pos")
    return Splits((strange, *toy_pairs.train[:7]), toy_pairs.dev[:4], toy_pairs.test[:4])

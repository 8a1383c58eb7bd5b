"""What tests of methods share."""

from pathlib import Path

import pytest

import small
from fresh.config import from_mapping
from fresh.data.splits import Splits
from fresh.document import Document, Example
from fresh.methods.config import METHODS


@pytest.fixture(scope="session")
def configure(encoders: dict[str, Path]) -> small.Configure:
    """Make settings of a method that train on some dozen documents in less than a second."""
    return lambda method="fresh", **others: from_mapping(METHODS[method], small.settings(encoders["bert"], **others))


@pytest.fixture(scope="session")
def few(toy: Splits) -> Splits:
    """Eight documents with a rationale and eight without."""
    return Splits((*toy.train[:8], *toy.train[-8:]), toy.dev[:8], toy.test[:8])


@pytest.fixture(scope="session")
def uneven(toy_pairs: Splits) -> Splits:
    """Documents of various lengths, some with words of many tokens."""
    strange = Example(Document.from_words(("strange", "a", "words", "film"), ("praise",), "strange"), "pos")
    return Splits((strange, *toy_pairs.train[:7]), toy_pairs.dev[:4], toy_pairs.test[:4])

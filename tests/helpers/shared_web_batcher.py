"""What tests of web batcher share with others."""

from collections.abc import Sequence

import pytest

from fresh.serving.question import Answer


def same(one: Sequence[Answer], other: Sequence[Answer]) -> None:
    """Check that answers are equal: labels and masks exactly, probabilities closely."""
    for these, those in zip(one, other, strict=True):
        for left, right in zip(these, those, strict=True):
            assert left.mask == right.mask
            assert left.prediction.label == right.prediction.label
            close = pytest.approx(right.prediction.probabilities, abs=1e-5)
            assert left.prediction.probabilities == close

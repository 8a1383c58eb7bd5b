import math
from typing import Any

import pytest

from fresh.metrics.bootstrap import Estimate
from fresh.reporting.html import DocumentView, View
from pages import document_view, small_view


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Estimate(0.5, 0.4), r"two ends.*0\.4 and None"),
        (lambda: Estimate(math.nan), r"must be finite.*nan"),
        (lambda: Estimate(0.5, 0.6, 0.4), r"0\.6 to 0\.4"),
        (lambda: document_view("a film", "0", label="other"), r"'d-1'.*'other' has no probability"),
        (lambda: document_view("a film", "0", probabilities={"pos": math.inf}), r"'d-1'.*must be finite.*inf"),
        (lambda: document_view("a film", "0", human=((1, 3),)), r"'d-1'.*human.*within 2 words.*\(1, 3\)"),
        (
            lambda: DocumentView("d", "a b", ((0, 1), (2, 3)), ((0, 1), (1, 2)), "x", {"x": 1.0}),
            r"'d'.*kept.*apart.*\(1, 2\)",
        ),
        (lambda: small_view(headline=()), r"headline.*at least one row"),
        (lambda: small_view(documents=()), r"documents must not be empty"),
        (lambda: small_view(n_documents=0), r"n_documents must be at least.*1, got 0"),
    ],
)
def test_inconsistent_values_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_all_but_headline_and_documents_may_be_missing() -> None:
    view = small_view()
    assert View(view.title, view.headline, view.documents) == view

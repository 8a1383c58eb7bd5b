"""The report as one HTML file that needs nothing else: what it shows, and how."""

from fresh.page.render import render
from fresh.page.view import (
    AgreementRow,
    Confusion,
    DocumentView,
    HeadlineRow,
    LengthCurve,
    Pair,
    View,
)

__all__ = [
    "AgreementRow",
    "Confusion",
    "DocumentView",
    "HeadlineRow",
    "LengthCurve",
    "Pair",
    "View",
    "render",
]

"""The report as one HTML file that needs nothing else: what it shows, and how."""

from fresh.page.render import render
from fresh.page.view import (
    AgreementRow,
    Bin,
    Calibration,
    Comparison,
    Confusion,
    DocumentView,
    Estimate,
    HeadlineRow,
    LengthCurve,
    LengthPoint,
    Verdict,
    View,
)

__all__ = [
    "AgreementRow",
    "Bin",
    "Calibration",
    "Comparison",
    "Confusion",
    "DocumentView",
    "Estimate",
    "HeadlineRow",
    "LengthCurve",
    "LengthPoint",
    "Verdict",
    "View",
    "render",
]

"""The report as one HTML file that needs nothing else: what it shows, and how."""

from fresh.reporting.html.render import render
from fresh.reporting.html.view import AgreementRow, Confusion, DocumentView, HeadlineRow, LengthCurve, Pair, View

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

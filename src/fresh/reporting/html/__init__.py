"""The report as one HTML file that needs nothing else: what it shows, and how."""

from fresh.reporting.html.render import render
from fresh.reporting.html.view import AgreementRow, Pair, ScoreRow, ShownDocument, View

__all__ = ["AgreementRow", "Pair", "ScoreRow", "ShownDocument", "View", "render"]

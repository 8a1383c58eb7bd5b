"""Reports, tables and pages: what was measured, for people and for machines."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fresh.reporting.console import show_curve, show_explanation, show_report, to_record
    from fresh.reporting.report import Figures, Report, Row, Verdict
    from fresh.reporting.tables import Table

__all__ = [
    "Figures",
    "Report",
    "Row",
    "Table",
    "Verdict",
    "show_curve",
    "show_explanation",
    "show_report",
    "to_record",
]

_HOMES = {
    **dict.fromkeys(("Figures", "Report", "Row", "Verdict"), "report"),
    **dict.fromkeys(("show_curve", "show_explanation", "show_report", "to_record"), "console"),
    "Table": "tables",
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that importing the package stays instant."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)

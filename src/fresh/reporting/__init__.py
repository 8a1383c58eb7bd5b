"""Reports, tables and pages: what was measured, for people and for machines."""

from typing import TYPE_CHECKING

from fresh._optional import lazy_exports

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

__getattr__ = lazy_exports(
    __name__,
    {
        "console": ("show_curve", "show_explanation", "show_report", "to_record"),
        "report": ("Figures", "Report", "Row", "Verdict"),
        "tables": ("Table",),
    },
)

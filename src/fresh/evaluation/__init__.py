"""Evaluation of a model on labelled documents, and comparison of several models."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fresh.evaluation.baselines import Baselines, train_baselines
    from fresh.evaluation.comparison import compare, compare_groups
    from fresh.evaluation.comparison_report import ComparisonReport
    from fresh.evaluation.eraser import write_results
    from fresh.evaluation.evaluation import Evaluation, evaluate
    from fresh.evaluation.html_report import write_html_report

__all__ = [
    "Baselines",
    "ComparisonReport",
    "Evaluation",
    "compare",
    "compare_groups",
    "evaluate",
    "train_baselines",
    "write_html_report",
    "write_results",
]

_HOMES = {
    "Baselines": "baselines",
    "ComparisonReport": "comparison_report",
    "Evaluation": "evaluation",
    "compare": "comparison",
    "compare_groups": "comparison",
    "evaluate": "evaluation",
    "train_baselines": "baselines",
    "write_html_report": "html_report",
    "write_results": "eraser",
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that importing the package stays instant."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)

"""Evaluation of a model on labelled documents, and comparison of several models."""

from typing import TYPE_CHECKING

from fresh._optional import lazy_exports

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

__getattr__ = lazy_exports(
    __name__,
    {
        "baselines": ("Baselines", "train_baselines"),
        "comparison": ("compare", "compare_groups"),
        "comparison_report": ("ComparisonReport",),
        "eraser": ("write_results",),
        "evaluation": ("Evaluation", "evaluate"),
        "html_report": ("write_html_report",),
    },
)

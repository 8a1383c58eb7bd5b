"""Metrics: classification, calibration, agreement with people, faithfulness; intervals and significance tests."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fresh.metrics.bootstrap import (
        Estimate,
        Interval,
        accuracy_interval,
        bootstrap_interval,
        class_intervals,
        macro_f1_interval,
        mean_interval,
        number_labels,
        number_texts,
        ratio_interval,
    )
    from fresh.metrics.classification import (
        accuracy,
        brier_scores,
        calibration,
        class_scores,
        confusion_matrix,
        macro_f1,
    )
    from fresh.metrics.faithfulness import Readings, aopc, measure_faithfulness
    from fresh.metrics.plausibility import measure_agreement, token_f1
    from fresh.metrics.significance import compare_accuracy, compare_macro_f1, holm, welch

__all__ = [
    "Estimate",
    "Interval",
    "Readings",
    "accuracy",
    "accuracy_interval",
    "aopc",
    "bootstrap_interval",
    "brier_scores",
    "calibration",
    "class_intervals",
    "class_scores",
    "compare_accuracy",
    "compare_macro_f1",
    "confusion_matrix",
    "holm",
    "macro_f1",
    "macro_f1_interval",
    "mean_interval",
    "measure_agreement",
    "measure_faithfulness",
    "number_labels",
    "number_texts",
    "ratio_interval",
    "token_f1",
    "welch",
]

_MODULES = {
    **dict.fromkeys(("Readings", "aopc", "measure_faithfulness"), "faithfulness"),
    **dict.fromkeys(("measure_agreement", "token_f1"), "plausibility"),
    **dict.fromkeys(("compare_accuracy", "compare_macro_f1", "holm", "welch"), "significance"),
    **dict.fromkeys(
        ("accuracy", "brier_scores", "calibration", "class_scores", "confusion_matrix", "macro_f1"), "classification"
    ),
}


def __getattr__(name: str) -> Any:
    """Import a name when it is used: a predictor needs metrics of labels, which must not import documents."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES.get(name, 'bootstrap')}"), name)

"""Experiments: grids of runs from files, each run done once by as many workers as there are; tables and figures."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fresh.experiments.figures import figure_data, read_figure_config
    from fresh.experiments.grid_file import read_grid
    from fresh.experiments.local import LocalExecutor
    from fresh.experiments.plot import plot_figure
    from fresh.experiments.ray_executor import RayExecutor
    from fresh.experiments.ray_explain import ExplainRequest, explain_on_cluster
    from fresh.experiments.results import make_manifest, read_results, select
    from fresh.experiments.run import run_grids
    from fresh.experiments.significance import parse_contrast, welch_table
    from fresh.experiments.store import RunStore
    from fresh.experiments.tables import divide_by_row, pivot

__all__ = [
    "ExplainRequest",
    "LocalExecutor",
    "RayExecutor",
    "RunStore",
    "divide_by_row",
    "explain_on_cluster",
    "figure_data",
    "make_manifest",
    "parse_contrast",
    "pivot",
    "plot_figure",
    "read_figure_config",
    "read_grid",
    "read_results",
    "run_grids",
    "select",
    "welch_table",
]

_HOMES = {
    "figures": ("figure_data", "read_figure_config"),
    "grid_file": ("read_grid",),
    "local": ("LocalExecutor",),
    "plot": ("plot_figure",),
    "ray_executor": ("RayExecutor",),
    "ray_explain": ("ExplainRequest", "explain_on_cluster"),
    "results": ("make_manifest", "read_results", "select"),
    "run": ("run_grids",),
    "significance": ("parse_contrast", "welch_table"),
    "store": ("RunStore",),
    "tables": ("divide_by_row", "pivot"),
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that importing the package is instant."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

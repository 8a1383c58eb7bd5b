"""Experiments: grids of runs from files, done once each by as many workers as there are; tables, figures, searches."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fresh.experiments.figures import FigureConfig, FigureData, figure_data, read_figure_config
    from fresh.experiments.grid import Grid, RunSpec, check_grid
    from fresh.experiments.grid_file import read_grid
    from fresh.experiments.local import LocalExecutor
    from fresh.experiments.manifest import make_manifest
    from fresh.experiments.plot import plot_figure
    from fresh.experiments.ray_executor import RayExecutor
    from fresh.experiments.ray_explain import ExplainRequest, explain_on_cluster
    from fresh.experiments.results import RunResult, read_results, select
    from fresh.experiments.run import GridResult, run_grids
    from fresh.experiments.search import search
    from fresh.experiments.significance import Contrast, WelchTable, parse_contrast, welch_table
    from fresh.experiments.store import RunStore
    from fresh.experiments.tables import PivotTable, divide_by_row, pivot

__all__ = [
    "Contrast",
    "ExplainRequest",
    "FigureConfig",
    "FigureData",
    "Grid",
    "GridResult",
    "LocalExecutor",
    "PivotTable",
    "RayExecutor",
    "RunResult",
    "RunSpec",
    "RunStore",
    "WelchTable",
    "check_grid",
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
    "search",
    "select",
    "welch_table",
]

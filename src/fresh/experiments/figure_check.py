"""What is wrong with the figure that a grid file asks for, said before anything runs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fresh.config import suggest
from fresh.errors import ConfigError
from fresh.experiments.curves import TRIAL, by, check, number, trials
from fresh.experiments.figure_config import TRIALS, FigureConfig, read_figure
from fresh.experiments.grid import RunSpec
from fresh.experiments.measure import FIGURES
from fresh.experiments.results import TIMED, Result, where, written
from fresh.methods.config import METHODS
from fresh.methods.registry import owns

PLAIN = ("row", "corpus", "seed", "method", "reads")
"""What is known of a run before its settings are understood."""
OPTION = re.compile(r"--(?=[a-z])")
"""What makes an option of `fresh plot` out of a setting of [figure]."""


def wrong_figure(given: Mapping[str, Any], cells: Sequence[RunSpec]) -> Iterator[str]:
    """Say why a figure could not be drawn, even when all runs are done."""
    try:
        config = read_figure(given, {})
        results = [_to_be(cell) for cell in cells]
        check(results, config)
        _check_runs(results, config)
    except ConfigError as error:
        yield from (f"[figure]: {OPTION.sub('', problem)}" for problem in str(error).splitlines())


def _to_be(cell: RunSpec) -> Result:
    """Make what a run will come to, as far as it is known."""
    usual = {"ratio": None} if cell.method in METHODS and owns(METHODS[cell.method], "ratio") else {}
    settings = {"method": cell.method, "reads": cell.reads, **usual, **cell.settings}
    return Result(str(cell), cell.row, cell.corpus, cell.seed, settings)


def _check_called(results: Sequence[Result], config: FigureConfig) -> None:
    """Refuse other names for what no figure has, of this kind or another."""
    settings = (name for run in results for name in run.settings)
    panels = (written(run.about(config.panels)) for run in results)
    rows = (TRIAL.sub("", run.row) for run in results)
    names = (*PLAIN, *settings, *panels, *rows, *map(by(config), results), *FIGURES, *TIMED, TRIALS)
    known = list(dict.fromkeys(names))
    wrong = [
        suggest(name, "the name of an axis, a panel or a line", known) for name in config.names if name not in known
    ]
    if wrong:
        raise ConfigError("\n".join(wrong))


def _check_runs(results: Sequence[Result], config: FigureConfig) -> None:
    """Refuse figures that are never measured, and runs of which nothing can be drawn."""
    wanted = [config.y, *([config.x] if config.kind == "scatter" else [])]
    known = (*FIGURES, *TIMED)
    wrong = [suggest(name, "a figure of a run", known) for name in wanted if name not in known]
    if wrong:
        raise ConfigError("\n".join(wrong))
    _check_called(results, config)
    chosen = where(results, {name: values for name, values in config.where.items() if name in PLAIN})
    if config.kind == "evp":
        trials(chosen)
    if config.kind == "lines":
        chosen = [run for run in chosen if config.x in (*PLAIN, *run.settings)]
    if not chosen:
        needed = f" with {config.x}" if config.kind == "lines" else ""
        raise ConfigError(f"where leaves no run{needed}. Leave less out.")
    for run in chosen if config.kind == "lines" and set(config.where) <= set(PLAIN) else ():
        if run.about(config.x) is not None:
            number(run, config.x)

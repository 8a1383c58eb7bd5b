"""What a figure shows, as numbers: panels, lines over a setting, marks of runs, curves of searches."""

import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fresh.config import suggest
from fresh.errors import ConfigError
from fresh.experiments.expected import expected_curve
from fresh.experiments.figure_config import FigureConfig
from fresh.experiments.mixture import differing
from fresh.experiments.results import (
    NOTHING,
    SECONDS,
    Result,
    check_figures,
    check_names,
    each_once,
    grouped,
    values_of,
    where,
    written,
)
from fresh.experiments.standing import broken, counted

TRIAL = re.compile(r", trial \d+$")


class _Point(NamedTuple):
    """A place in a panel, with the range over seeds."""

    x: float
    y: float
    low: float
    high: float
    whole: bool = True
    """Whether all runs that it stands for are done."""


class _Level(NamedTuple):
    """A flat line: the mean of a row."""

    name: str
    y: float
    whole: bool = True
    """Whether all runs that it stands for are done."""
    x: float | None = None
    """Where it begins, beside a search over time: what one of its runs takes."""


@dataclass(frozen=True, slots=True)
class Line:
    """Points that belong together."""

    name: str
    points: tuple[_Point, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One of the parts of a figure."""

    name: str
    lines: tuple[Line, ...]
    levels: tuple[_Level, ...] = ()


@dataclass(frozen=True, slots=True)
class Drawing:
    """All that a figure shows."""

    config: FigureConfig
    panels: tuple[Panel, ...]
    remarks: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The lines of all panels, each once."""
        return list(dict.fromkeys(line.name for panel in self.panels for line in panel.lines))

    @property
    def level_names(self) -> list[str]:
        """The flat lines of all panels, each once."""
        return list(dict.fromkeys(level.name for panel in self.panels for level in panel.levels))

    @property
    def all_names(self) -> list[str]:
        """All that can be called something else: axes, panels, lines."""
        return [self.config.x, self.config.y, *(panel.name for panel in self.panels), *self.names, *self.level_names]

    @property
    def points(self) -> list[_Point]:
        """The points of all lines."""
        return [point for panel in self.panels for line in panel.lines for point in line.points]

    @property
    def starts(self) -> list[float]:
        """Where flat lines begin that do not go from side to side."""
        return [level.x for panel in self.panels for level in panel.levels if level.x is not None]

    @property
    def starred(self) -> set[str]:
        """The flat lines that stand for runs that are not all done."""
        return {level.name for panel in self.panels for level in panel.levels if not level.whole}


def drawing(results: Sequence[Result], config: FigureConfig) -> Drawing:
    """Compute what a figure shows.

    :param results: All runs of the experiment; those that the settings leave out may still be flat lines.
    """
    check(results, config)
    chosen = each_once(where(results, config.where))
    if config.kind == "evp":
        chosen = trials(chosen)
    made = {"lines": _over_setting, "scatter": _marks, "evp": _searches}[config.kind]
    panels: list[Panel] = []
    for name, runs in grouped(chosen, lambda run: written(run.about(config.panels))).items():
        lines = (Line(own, tuple(made(same, config))) for own, same in grouped(runs, by(config)).items())
        drawn = tuple(line for line in lines if line.points)
        if drawn:
            panels.append(Panel(name, drawn, tuple(_levels(results, config, name))))
    if not panels:
        raise ConfigError(
            f"There is nothing to draw: no run that is done has {config.x} and {config.y}. "
            "Choose others with `x`, `y` and `where`, or run more."
        )
    return Drawing(config, tuple(panels), tuple(_remarks(chosen, config)))


def check(results: Sequence[Result], config: FigureConfig) -> None:
    """Refuse names that the runs do not know."""
    own = [config.x] if config.kind == "lines" else []
    check_names(results, [config.panels, *config.by.split(","), *own, *config.where])
    check_figures(results, [config.y, *([config.x] if config.kind == "scatter" else [])])
    rows = list(dict.fromkeys(result.row for result in results))
    for row in config.against:
        if row not in rows:
            raise ConfigError(suggest(row, "a row of this experiment", rows))


def trials(runs: Sequence[Result]) -> list[Result]:
    """Leave out what is no trial of a search."""
    searched = [run for run in runs if TRIAL.search(run.row)]
    if not searched:
        raise ConfigError(
            "The kind evp shows searches, but none of these runs is a trial of one. "
            "Give a row `draw` and `trials` in the grid file, or choose the kind lines or scatter."
        )
    return searched


def by(config: FigureConfig) -> Callable[[Result], str]:
    """Make what names the line of a run, by what it has of these settings; all trials of a row are one."""
    names = config.by.split(",")

    def name_of(run: Result) -> str:
        told = [TRIAL.sub("", written(run.about(name))) for name in names]
        return ", ".join(value for value in told if value != NOTHING) or NOTHING

    return name_of


def _over_setting(runs: Sequence[Result], config: FigureConfig) -> Iterator[_Point]:
    """Take the mean over seeds of a figure, for each value of a setting."""
    by_x = grouped((run for run in runs if run.about(config.x) is not None), lambda run: number(run, config.x))
    for x in sorted(by_x):
        values = values_of(by_x[x], config.y)
        if values:
            yield _Point(x, statistics.fmean(values), min(values), max(values), _all_done(by_x[x]))


def _all_done(runs: Iterable[Result]) -> bool:
    """Say whether nothing is missing of some runs."""
    return all(run.report for run in runs)


def number(run: Result, name: str) -> float:
    """Read a setting as a number."""
    try:
        return float(run.about(name))
    except ValueError:
        raise ConfigError(
            f"{name} is {run.about(name)!r} in {run.row}, which is no number. Choose another setting with `x`, "
            "or leave such runs out with `where`."
        ) from None


def _marks(runs: Sequence[Result], config: FigureConfig) -> Iterator[_Point]:
    """Take two figures of each run; whole is one whose row has all its seeds."""
    rows = {row: _all_done(same) for row, same in grouped(runs, lambda run: run.row).items()}
    for run in runs:
        if config.x in run.figures and config.y in run.figures:
            y = run.figures[config.y]
            yield _Point(run.figures[config.x], y, y, y, rows[run.row])


def _searches(runs: Sequence[Result], config: FigureConfig) -> Iterator[_Point]:
    """Compute how good the best of a search is after so many trials: the mean over seeds, each with its own search."""
    made = [values_of(same, config.y) for same in grouped(runs, lambda run: run.seed).values()]
    curves = [expected_curve(scores) for scores in made if scores]
    seconds = values_of(runs, SECONDS)
    step = statistics.fmean(seconds) if config.x == SECONDS and seconds else 1.0
    for n_before, values in enumerate(zip(*curves, strict=False)):  # up to the end of the shortest search
        yield _Point((n_before + 1) * step, statistics.fmean(values), min(values), max(values), _all_done(runs))


def _levels(results: Sequence[Result], config: FigureConfig, panel: str) -> Iterator[_Level]:
    """Take the means of the rows that are drawn as flat lines."""
    for row in config.against:
        runs = [run for run in results if run.row == row and written(run.about(config.panels)) == panel]
        values, seconds = values_of(each_once(runs), config.y), values_of(each_once(runs), SECONDS)
        timed = config.kind == "evp" and config.x == SECONDS and bool(seconds)
        if values:
            yield _Level(row, statistics.fmean(values), _all_done(runs), statistics.fmean(seconds) if timed else None)


def _remarks(runs: Sequence[Result], config: FigureConfig) -> Iterator[str]:
    """Say what is put together beside seeds, and what is missing."""
    if config.kind == "lines":
        mixed = dict.fromkeys(_mixed_in(runs, config))
        if mixed:
            yield f"Runs of one point differ also in: {', '.join(mixed)}. Choose some with `where`, or `by`."
    yield counted(runs)
    yield from broken(runs)


def _mixed_in(runs: Sequence[Result], config: FigureConfig) -> Iterable[str]:
    """Name the settings, beside the seed, in which runs of one point differ."""
    name = by(config)
    points = grouped(runs, lambda run: (written(run.about(config.panels)), name(run), written(run.about(config.x))))
    return (name for same in points.values() for name in differing(same))

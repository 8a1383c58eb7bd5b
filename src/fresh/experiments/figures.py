"""The data of a figure: its settings, and its panels, lines and points as numbers."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from fresh.config import from_mapping
from fresh.errors import ConfigError
from fresh.experiments.results import (
    MAIN_METRIC,
    MISSING,
    SECONDS,
    TIMED,
    TRIAL,
    RunResult,
    check_known,
    check_metrics,
    check_names,
    damaged_reports,
    differing_settings,
    format_value,
    group_by,
    metric_values,
    run_counts,
    select,
    unique_runs,
)

if TYPE_CHECKING:
    from fresh.experiments.grid import RunSpec

Kind = Literal["lines", "scatter", "evp"]
TRIALS = "trials"
DEV_METRIC = "dev macro-F1"
DEFAULTS: dict[Kind, dict[str, str]] = {
    "lines": {"x": "ratio", "y": MAIN_METRIC, "by": "method"},
    "scatter": {"x": "kept", "y": MAIN_METRIC, "by": "row"},
    "evp": {"x": TRIALS, "y": DEV_METRIC, "by": "row"},
}


@dataclass(frozen=True, slots=True)
class FigureConfig:
    """What is drawn, and from which runs; an empty field of the layout takes the default of the kind."""

    kind: Kind = "lines"
    # lines: a metric over a setting; scatter: two metrics, one mark a run; evp: expected validation performance, the
    # best score of a search after each number of trials
    x: str = ""  # the horizontal axis: a setting for lines, a metric for scatter, trials or seconds for evp
    y: str = ""  # the vertical axis: a metric
    by: str = ""  # the settings that make lines or marks, separated by commas
    panels: str = "corpus"  # the setting that makes panels
    where: Mapping[str, str] = field(default_factory=dict)
    """Draw only runs with these settings; several values are separated by commas."""
    against: tuple[str, ...] = ()  # rows whose mean is drawn as a flat line
    names: Mapping[str, str] = field(default_factory=dict)  # display names of axes, panels and lines

    def __post_init__(self) -> None:
        for name, default in DEFAULTS[self.kind].items():
            if not getattr(self, name):
                object.__setattr__(self, name, default)
        if self.kind == "evp" and self.x not in (TRIALS, SECONDS):
            raise ConfigError(f"x must be {TRIALS} or {SECONDS} for the kind evp, got {self.x!r}.")

    def display_name(self, name: str) -> str:
        """Return the display name of an axis, a panel or a line."""
        return self.names.get(name, name)

    def line_name(self, run: RunResult) -> str:
        """Return the name of the line of a run; all trials of a search are one line."""
        values = [TRIAL.sub("", value) for value in run.label(self.by.split(","))]
        return ", ".join(value for value in values if value != MISSING) or MISSING


def read_figure_config(of_grid: Mapping[str, Any], options: Mapping[str, Any]) -> FigureConfig:
    """Combine the [figure] of a grid file with options, which override it."""
    # If the options set another kind, only names are taken: axes and lines of one kind mean nothing for another.
    same_kind = "kind" not in options or options["kind"] == of_grid.get("kind", "lines")
    names: dict[str, Any] = {}
    for source in (of_grid, options):
        names |= _check_table(source.get("names", {}), "names", "{ ratio = 'share of words' }")
    values = {**(of_grid if same_kind else {}), **options}
    check_known(values, "a setting of a figure", [item.name for item in fields(FigureConfig)])
    where = _check_table(values.pop("where", {}), "where", "{ method = 'lei' }")
    against, _ = values.pop("against", ()), values.pop("names", {})
    if not isinstance(against, str | Sequence):
        raise ConfigError(f"against must be the name of a row, or a list of names, got {against!r}.")
    rows = (against,) if isinstance(against, str) else tuple(map(str, against))
    for name, text in names.items():
        if not isinstance(text, str):
            raise ConfigError(f"names must be text, got {text!r} for {name!r}. Quote a name that contains dots.")
    chosen = {name: ",".join(map(str, v)) if isinstance(v, list | tuple) else str(v) for name, v in where.items()}
    return replace(from_mapping(FigureConfig, values), where=chosen, against=rows, names=names)


def _check_table(value: Any, name: str, example: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} must be a table of settings, as in {example}, got {value!r}.")
    return value


class Point(NamedTuple):
    """A point of a panel, with the range over seeds."""

    x: float
    y: float
    low: float
    high: float
    whole: bool = True  # whether all its runs are done


class Level(NamedTuple):
    """A flat line at the mean of a row."""

    name: str
    y: float
    whole: bool = True  # whether all its runs are done
    x: float | None = None  # where it starts if the horizontal axis is time: the duration of one of its runs


@dataclass(frozen=True, slots=True)
class Line:
    """Points that belong together."""

    # The manifest in docs/results holds digests of these four classes, so the names of their fields must stay.
    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel of a figure."""

    name: str
    lines: tuple[Line, ...]
    levels: tuple[Level, ...] = ()


@dataclass(frozen=True, slots=True)
class FigureData:
    """Everything that a figure shows."""

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
        """Everything that can have a display name: axes, panels, lines."""
        return [self.config.x, self.config.y, *(panel.name for panel in self.panels), *self.names, *self.level_names]

    @property
    def points(self) -> list[Point]:
        """The points of all lines."""
        return [point for panel in self.panels for line in panel.lines for point in line.points]

    @property
    def starts(self) -> list[float]:
        """Where flat lines start that do not span the panel."""
        return [level.x for panel in self.panels for level in panel.levels if level.x is not None]

    @property
    def starred(self) -> set[str]:
        """The flat lines whose runs are not all done."""
        return {level.name for panel in self.panels for level in panel.levels if not level.whole}


def figure_data(results: Sequence[RunResult], config: FigureConfig) -> FigureData:
    """Compute what a figure shows of all runs of an experiment; flat lines may show runs that `where` leaves out."""
    _check_config(results, config)
    chosen = unique_runs(select(results, config.where))
    if config.kind == "evp":
        chosen = [run for run in chosen if TRIAL.search(run.row)]
        if not chosen:
            raise ConfigError("The kind evp shows searches, but none of these runs is a trial. Choose another kind.")
    points_of = {"lines": _points_over_setting, "scatter": _points_of_runs, "evp": _points_of_searches}[config.kind]
    panels: list[Panel] = []
    for name, runs in group_by(chosen, lambda run: format_value(run.get(config.panels))).items():
        lines = (Line(own, tuple(points_of(same, config))) for own, same in group_by(runs, config.line_name).items())
        if drawn := tuple(line for line in lines if line.points):
            panels.append(Panel(name, drawn, tuple(_levels(results, config, name))))
    if not panels:
        hint = "Choose others with `x`, `y` and `where`, or finish more runs."
        raise ConfigError(f"There is nothing to draw: no finished run has {config.x} and {config.y}. {hint}")
    return FigureData(config, tuple(panels), tuple(_remarks(chosen, config)))


def _check_config(results: Sequence[RunResult], config: FigureConfig) -> None:
    settings = [config.panels, *config.by.split(","), *config.where]
    check_names(results, [config.x, *settings] if config.kind == "lines" else settings)
    check_metrics(results, [config.y, config.x] if config.kind == "scatter" else [config.y])
    check_known(config.against, "a row of this experiment", list(dict.fromkeys(result.row for result in results)))


def _mean_point(x: float, values: Sequence[float], runs: Sequence[RunResult]) -> Point:
    return Point(x, statistics.fmean(values), min(values), max(values), all(run.report for run in runs))


def _points_over_setting(runs: Sequence[RunResult], config: FigureConfig) -> Iterator[Point]:
    by_x: dict[float, list[RunResult]] = {}
    for run in (run for run in runs if run.get(config.x) is not None):
        try:
            by_x.setdefault(float(run.get(config.x)), []).append(run)
        except ValueError:
            problem = f"{config.x} is {run.get(config.x)!r} in {run.row}, which is not a number"
            raise ConfigError(f"{problem}. Choose another `x`, or leave out those runs with `where`.") from None
    for x in sorted(by_x):
        if values := metric_values(by_x[x], config.y):
            yield _mean_point(x, values, by_x[x])


def _points_of_runs(runs: Sequence[RunResult], config: FigureConfig) -> Iterator[Point]:
    # A point is one run, but it is hollow until all seeds of its row are done: their spread is not known before.
    whole = {row: all(run.report for run in same) for row, same in group_by(runs, lambda run: run.row).items()}
    for run in runs:
        if config.x in run.metrics and config.y in run.metrics:
            y = run.metrics[config.y]
            yield Point(run.metrics[config.x], y, y, y, whole[run.row])


def _points_of_searches(runs: Sequence[RunResult], config: FigureConfig) -> Iterator[Point]:
    # The expected best score after each number of trials; each seed is a search, and the mean is shown.
    searches = [metric_values(same, config.y) for same in group_by(runs, lambda run: run.seed).values()]
    curves = [expected_curve(scores) for scores in searches if scores]
    seconds = metric_values(runs, SECONDS)
    step = statistics.fmean(seconds) if config.x == SECONDS and seconds else 1.0
    # Unlike the durations of single trials, their mean does not depend on the order of trials, which is arbitrary.
    for n_before, values in enumerate(zip(*curves, strict=False)):  # up to the end of the shortest search
        yield _mean_point((n_before + 1) * step, values, runs)


def _levels(results: Sequence[RunResult], config: FigureConfig, panel: str) -> Iterator[Level]:
    for row in config.against:
        runs = [run for run in results if run.row == row and format_value(run.get(config.panels)) == panel]
        values, seconds = metric_values(unique_runs(runs), config.y), metric_values(unique_runs(runs), SECONDS)
        is_timed = config.kind == "evp" and config.x == SECONDS and bool(seconds)
        if values:
            start = statistics.fmean(seconds) if is_timed else None
            yield Level(row, statistics.fmean(values), all(run.report for run in runs), start)


def _remarks(runs: Sequence[RunResult], config: FigureConfig) -> Iterator[str]:
    if config.kind == "lines":
        points = group_by(runs, lambda run: (*run.label([config.panels, config.x]), config.line_name(run)))
        mixed = dict.fromkeys(name for same in points.values() for name in differing_settings(same))
        if names := ", ".join(mixed):
            yield f"Runs of one point also differ in: {names}. Separate them with `by`, or choose some with `where`."
    yield run_counts(runs)
    yield from damaged_reports(runs)


def expected_curve(scores: Sequence[float]) -> list[float]:
    """Compute the mean of the best of n scores, drawn with replacement, for n from 1 to all (Dodge et al., 2019)."""
    values, counts = np.unique(np.asarray(scores, dtype=np.float64), return_counts=True)
    # The best of n draws is at most a score when all n are: the share of such scores to the power of n.
    shares = np.cumsum(counts) / len(scores)
    return [float(values @ np.diff(shares**n_draws, prepend=0.0)) for n_draws in range(1, len(scores) + 1)]


def check_figure(of_grid: Mapping[str, Any], specs: "Sequence[RunSpec]") -> Iterator[str]:
    """Describe why the [figure] of a grid file could not be drawn even when all its runs are done."""
    from fresh.experiments.worker import METRICS
    from fresh.methods.config import METHODS
    from fresh.methods.registry import owns

    results: list[RunResult] = []
    for spec in specs:
        usual = {"ratio": 0.0} if spec.method in METHODS and owns(METHODS[spec.method], "ratio") else {}
        settings = {"method": spec.method, "reads": spec.reads, **usual, **spec.settings}
        metrics = dict.fromkeys((*METRICS, *TIMED), 0.0)
        results.append(RunResult(str(spec), spec.row, spec.corpus, spec.seed, settings, metrics))
    try:
        config = read_figure_config(of_grid, {})
        _check_config(results, config)
        # Before a run, only these conditions are certain: a setting may still be converted, or take its default.
        if set(config.where) <= {"row", "corpus", "seed", "method", "reads"}:
            figure_data(results, config)
    except ConfigError as error:
        yield from (f"[figure]: {problem}" for problem in str(error).splitlines())

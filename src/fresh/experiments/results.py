"""What came out of runs: read from their folder, put together over seeds."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fresh.config import suggest
from fresh.errors import ConfigError
from fresh.experiments.store import PLANNED, TIMES, RunStore, check_place
from fresh.metrics.bootstrap import short

MAIN = "macro-F1"
"""The figure that is shown where no other is asked for."""
NOTHING = "–"
SECONDS = "seconds"
"""The figure that says how long a run takes by itself: training and testing, with what it shares with others."""
EXPLAIN_SECONDS = "explain seconds"
TIMED = (EXPLAIN_SECONDS, SECONDS)
"""Figures that are never the same twice."""


@dataclass(frozen=True, slots=True)
class Result:
    """One run of an experiment, done or not."""

    key: str
    row: str
    corpus: str
    seed: int
    settings: Mapping[str, Any]
    figures: Mapping[str, float] = field(default_factory=dict)
    """What was measured, also how long it took; nothing if the run is not done."""
    failure: str | None = None
    report: Mapping[str, Any] = field(default_factory=dict)
    """The whole report of the run."""
    broken: str = ""
    """Where its report is, if that cannot be read."""

    def about(self, name: str) -> Any:
        """Look up a setting, or the row, corpus or seed."""
        return getattr(self, name) if name in ("row", "corpus", "seed") else self.settings.get(name)


def read_results(runs: RunStore, experiment: str | None) -> list[Result]:
    """Read the runs of one experiment, or of all of them; a run that is in two rows is listed in both."""
    check_place(runs.path)
    names = [experiment] if experiment is not None else runs.plans()
    if not names:
        raise ConfigError(f"{runs.path} holds no experiment. Make one first: fresh run GRID.toml --out {runs.path}.")
    planned = {(item["key"], item["row"]): item for name in names for item in runs.plan(name)["runs"]}
    return [_result_of(runs, item) for item in planned.values()]


def _result_of(runs: RunStore, planned: Mapping[str, Any]) -> Result:
    """Read what is there of a run."""
    report = runs.report(planned["key"]) or {}
    failure = None if report else runs.failure(planned["key"])
    times = report.get(TIMES, {})
    figures = dict(report.get("figures", {}))
    if EXPLAIN_SECONDS in times:
        figures[EXPLAIN_SECONDS] = times[EXPLAIN_SECONDS]
    if SECONDS in times:
        figures[SECONDS] = times[SECONDS] + times.get("shared seconds", 0.0)
    broken = "" if report else str(runs.broken(planned["key"]) or "")
    return Result(
        **{name: planned[name] for name in PLANNED}, figures=figures, failure=failure, report=report, broken=broken
    )


def where(results: Sequence[Result], conditions: Mapping[str, str]) -> list[Result]:
    """Take the results whose settings have given values; several values are written with commas.

    A value may have commas of its own, as the names of many rows have.
    """
    check_names(results, conditions)
    wanted = {
        name: _take_apart(values, {written(result.about(name)) for result in results}, name)
        for name, values in conditions.items()
    }
    return [
        result for result in results if all(written(result.about(name)) in values for name, values in wanted.items())
    ]


def _take_apart(text: str, known: Iterable[str], name: str) -> list[str]:
    """Take values apart that are written with commas; a longer one goes before those it begins with.

    :param name: The setting that has the known values.
    """
    ordered, found, rest = sorted(known, key=len, reverse=True), list[str](), text
    while True:
        value = next((value for value in ordered if f"{rest},".startswith(f"{value},")), None)
        if value is None:
            wrong = rest.partition(",")[0]
            raise ConfigError(suggest(wrong, f"a value of {name} in these runs", sorted(ordered)))
        found.append(value)
        if rest == value:
            return found
        rest = rest[len(value) + 1 :]


def written(value: object) -> str:
    """Write the value of a setting; what a run does not have is a dash."""
    return NOTHING if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def check_names(results: Iterable[Result], names: Iterable[str], more: Iterable[str] = ()) -> None:
    """Refuse names that no run has as a setting.

    :param more: Names that will do as well.
    """
    known = {"row", "corpus", "seed", *more, *(name for result in results for name in result.settings)}
    wrong = [suggest(name, "a setting of these runs", sorted(known)) for name in names if name not in known]
    if wrong:
        raise ConfigError("\n".join(wrong))


def check_figures(results: Iterable[Result], names: Iterable[str]) -> None:
    """Refuse figures that no run has; as long as none is done, any may come."""
    known = sorted({name for result in results for name in result.figures})
    wrong = [suggest(name, "a figure of these runs", known) for name in names if known and name not in known]
    if wrong:
        raise ConfigError("\n".join(wrong))


def each_once(results: Iterable[Result]) -> list[Result]:
    """Leave out what is a run again under the name of another row."""
    found: dict[str, Result] = {}
    for result in results:
        found.setdefault(result.key, result)
    return list(found.values())


def grouped(results: Iterable[Result], by: Callable[[Result], Any]) -> dict[Any, list[Result]]:
    """Put results together that have something in common, in the order in which it first occurs."""
    groups: dict[Any, list[Result]] = {}
    for result in results:
        groups.setdefault(by(result), []).append(result)
    return groups


def values_of(results: Iterable[Result], figure: str) -> list[float]:
    """Take one figure of all runs that have it."""
    return [result.figures[figure] for result in results if figure in result.figures]


def summary(values: Sequence[float]) -> str:
    """Write the mean, the smallest and the largest of some figures, as the paper does."""
    if not values:
        return ""
    mean = short(sum(values) / len(values))
    return mean if len(values) == 1 else f"{mean} ({short(min(values))}–{short(max(values))})"

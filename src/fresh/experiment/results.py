"""What came out of runs: read from their folder, put together over seeds."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fresh.config import ConfigError, unknown
from fresh.experiment.folder import Runs

MAIN = "macro-F1"
"""The figure that is shown where no other is asked for."""


@dataclass(frozen=True, slots=True)
class Result:
    """One run of an experiment, done or not."""

    key: str
    row: str
    corpus: str
    seed: int
    settings: Mapping[str, Any]
    figures: Mapping[str, float] = field(default_factory=dict)
    """What was measured; nothing if the run is not done."""
    failure: str | None = None
    report: Mapping[str, Any] = field(default_factory=dict)
    """The whole report of the run."""

    def about(self, name: str) -> Any:
        """Look up a setting, or the row, corpus or seed."""
        return getattr(self, name) if name in ("row", "corpus", "seed") else self.settings.get(name)


def read_results(runs: Runs, experiment: str | None) -> list[Result]:
    """Read the runs of one experiment, or of all of them, each run once."""
    names = [experiment] if experiment is not None else runs.plans()
    if not names:
        raise ConfigError(f"{runs.path} holds no experiment. Make one first: fresh run GRID.toml --out {runs.path}.")
    planned = {item["key"]: item for name in names for item in runs.plan(name)["runs"]}
    return [result_of(runs, item) for item in planned.values()]


def result_of(runs: Runs, planned: Mapping[str, Any]) -> Result:
    """Read what is there of a run."""
    report, own = runs.report(planned["key"]) or {}, ("key", "row", "corpus", "seed", "settings")
    failure = None if report else runs.failure(planned["key"])
    return Result(
        **{name: planned[name] for name in own}, figures=report.get("figures", {}), failure=failure, report=report
    )


def where(results: Sequence[Result], conditions: Mapping[str, str]) -> list[Result]:
    """Take the results whose settings have given values; several values are written with commas."""
    known = {"row", "corpus", "seed", *(name for result in results for name in result.settings)}
    for name in conditions:
        if name not in known:
            raise ConfigError(unknown(name, "a setting of these runs", sorted(known)))
    return [
        result
        for result in results
        if all(str(result.about(name)) in values.split(",") for name, values in conditions.items())
    ]


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


def short(value: float) -> str:
    """Write a figure with three decimals, without a zero before the point."""
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3f}"

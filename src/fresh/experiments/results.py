"""Results of runs: read from a store, selected, compared by their settings, and summarized in a manifest."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import fresh
from fresh.config import suggest
from fresh.errors import ConfigError
from fresh.experiments.store import PLAN_FIELDS, TIMES, RunStore, check_folder
from fresh.metrics.bootstrap import short
from fresh.text import plural
from fresh.training.config import FREE, LATER

MAIN_METRIC = "macro-F1"  # the default metric
MISSING = "–"
TRIAL = re.compile(r", trial \d+$")  # the end of the name of a row that is one trial of a search
SECONDS = "seconds"  # duration of training and testing, including everything that a run shares with others
EXPLAIN_SECONDS = "explain seconds"
TIMED = (EXPLAIN_SECONDS, SECONDS)
UNRECORDED = "something that no setting records, such as the number of documents"
"""How runs differ that have the same settings and the same seed."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """One run of an experiment, finished or not."""

    key: str
    row: str
    corpus: str
    seed: int
    settings: Mapping[str, Any]
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Everything that was measured, including durations; empty until the run is finished."""
    failure: str | None = None
    report: Mapping[str, Any] = field(default_factory=dict)  # the whole report; empty until the run is finished
    damaged: str = ""  # path of the report if it is damaged

    def get(self, name: str) -> Any:
        """Look up a setting, or the row, corpus or seed."""
        return getattr(self, name) if name in ("row", "corpus", "seed") else self.settings.get(name)

    def label(self, names: Iterable[str]) -> tuple[str, ...]:
        """Format several settings for display."""
        return tuple(format_value(self.get(name)) for name in names)

    def __str__(self) -> str:
        return f"{self.corpus}, {self.row}, seed {self.seed}"


def read_results(store: RunStore, experiment: str | None) -> list[RunResult]:
    """Read the runs of one experiment, or of all; a run that is in two rows is listed in both."""
    check_folder(store.path)
    names = [experiment] if experiment is not None else store.experiments()
    if not names:
        raise ConfigError(f"{store.path} holds no experiment. Run one first: fresh run GRID.toml --out {store.path}.")
    results: list[RunResult] = []
    planned = {(item["key"], item["row"]): item for name in names for item in store.read_plan(name)["runs"]}
    for (key, _), item in planned.items():
        report = store.read_report(key) or {}
        times = report.get(TIMES, {})
        # Durations of one machine are metrics for tables and figures, although reports keep them apart.
        metrics = {**report.get("figures", {}), **{name: times[name] for name in TIMED if name in times}}
        if SECONDS in metrics:
            metrics[SECONDS] += times.get("shared seconds", 0.0)
        failure, damaged = (None, "") if report else (store.read_failure(key), str(store.damaged_report(key) or ""))
        about = {name: item[name] for name in PLAN_FIELDS}
        results.append(RunResult(**about, metrics=metrics, failure=failure, report=report, damaged=damaged))
    return results


def select(results: Sequence[RunResult], conditions: Mapping[str, str]) -> list[RunResult]:
    """Select the results whose settings have the given values, separated by commas, which they may contain, too."""
    check_names(results, conditions)
    chosen = list(results)
    for name, values in conditions.items():
        allowed = _split_values(values, {format_value(result.get(name)) for result in results}, name)
        chosen = [result for result in chosen if format_value(result.get(name)) in allowed]
    return chosen


def _split_values(text: str, known: Iterable[str], name: str) -> list[str]:
    # Known values may contain commas. Longest first: "ours, top_k" is one value even if "ours" is another.
    ordered, values, rest = sorted(known, key=len, reverse=True), list[str](), text
    while True:
        value = next((value for value in ordered if f"{rest},".startswith(f"{value},")), None)
        if value is None:
            raise ConfigError(suggest(rest.partition(",")[0], f"a value of {name} in these runs", sorted(ordered)))
        values.append(value)
        if rest == value:
            return values
        rest = rest[len(value) + 1 :]


def format_value(value: object) -> str:
    """Format the value of a setting; None, for a run without the setting, is a dash."""
    return MISSING if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def check_names(results: Iterable[RunResult], names: Iterable[str], extra: Iterable[str] = ()) -> None:
    """Refuse names that are neither settings of any run nor `extra` ones."""
    known = {"row", "corpus", "seed", *extra, *(name for result in results for name in result.settings)}
    check_known(names, "a setting of these runs", sorted(known))


def check_metrics(results: Iterable[RunResult], names: Iterable[str]) -> None:
    """Refuse metrics that no run has."""
    known = sorted({name for result in results for name in result.metrics})
    if known:  # metrics are known from reports only, and an empty table is no reason to refuse one
        check_known(names, "a metric of these runs", known)


def check_known(names: Iterable[str], what: str, known: Collection[str]) -> None:
    """Refuse unknown names, and suggest which ones may have been meant; `what` they should be has its article."""
    problems = [suggest(name, what, known) for name in names if name not in known]
    if problems:
        raise ConfigError("\n".join(problems))


def unique_runs(results: Iterable[RunResult]) -> list[RunResult]:
    """Drop runs that are listed again under the name of another row."""
    return [same[0] for same in group_by(results, lambda result: result.key).values()]


def group_by(results: Iterable[RunResult], key: Callable[[RunResult], Any]) -> dict[Any, list[RunResult]]:
    """Group results, in order of first occurrence."""
    groups: dict[Any, list[RunResult]] = {}
    for result in results:
        groups.setdefault(key(result), []).append(result)
    return groups


def metric_values(results: Iterable[RunResult], metric: str) -> list[float]:
    """List one metric of all runs that have it."""
    return [result.metrics[metric] for result in results if metric in result.metrics]


def mean_and_range(values: Sequence[float]) -> str:
    """Format the mean, the smallest and the largest value, as the paper does."""
    if not values:
        return ""
    mean = short(sum(values) / len(values))
    return mean if len(values) == 1 else f"{mean} ({short(min(values))}–{short(max(values))})"


def differing_settings(runs: Sequence[RunResult]) -> list[str]:
    """List the settings in which runs differ, except the seed and settings that affect only speed."""
    names = dict.fromkeys(["corpus", *(name for run in runs for name in run.settings)])
    return [name for name in names if name not in ("seed", *FREE) and len({str(run.get(name)) for run in runs}) > 1]


def mixed_settings(runs: Iterable[RunResult]) -> tuple[str, ...]:
    """List everything in which the runs of a cell differ besides the seed."""
    unique = unique_runs(runs)
    # Different runs with one seed differ in something, even if no setting says in what.
    has_duplicates = len({run.seed for run in unique}) < len(unique)
    return tuple(differing_settings(unique) or ([UNRECORDED] if has_duplicates else []))


def distinguishing_settings(cells: Iterable[Sequence[RunResult]]) -> tuple[str, ...]:
    """Choose a few settings that split cells until the runs of each differ only in the seed."""
    names: list[str] = []
    mixed = [list(cell) for cell in cells if differing_settings(cell)]

    def split(name: str) -> list[list[RunResult]]:
        parts = [part for cell in mixed for part in group_by(cell, lambda run: str(run.get(name))).values()]
        return list(filter(differing_settings, parts))

    while mixed:
        candidates = dict.fromkeys(name for cell in mixed for name in differing_settings(cell))
        # Greedy: the setting that leaves the fewest mixed cells.
        best = min(candidates, key=lambda name: len(split(name)))
        names.append(best)
        mixed = split(best)
    return tuple(names)


def matching_runs(runs: Sequence[RunResult], others: Sequence[RunResult]) -> list[RunResult]:
    """Select the runs that agree best with other runs in their settings."""
    # Setting by setting; one in which no run agrees is ignored, such as the ratio of full text.
    matching = list(runs)
    for name in differing_settings(runs):
        values = {str(run.get(name)) for run in others}
        matching = [run for run in matching if str(run.get(name)) in values] or matching
    return matching


def status(results: Sequence[RunResult]) -> Iterator[str]:
    """Describe how many runs are finished, which failed and why, and which reports are damaged."""
    yield run_counts(results)
    for result in unique_runs(results):
        if result.failure is not None:
            yield f"failed: {result}: {result.failure}"
    yield from damaged_reports(results)


def run_counts(results: Sequence[RunResult]) -> str:
    """Count the finished, failed and open runs."""
    runs = unique_runs(results)
    n_done, n_failed = sum(bool(run.report) for run in runs), sum(run.failure is not None for run in runs)
    return f"{plural(len(runs), 'run')}: {n_done:,} done, {n_failed:,} failed, {len(runs) - n_done - n_failed:,} open."


def damaged_reports(results: Sequence[RunResult]) -> Iterator[str]:
    """Name the reports that cannot be read, and say what to do."""
    for result in unique_runs(results):
        if result.damaged:
            problem = f"damaged: {result.damaged}, the report of {result}, has no metrics that can be read"
            yield f"{problem}. Repeat the `fresh run` command to redo the run."


# The manifest: everything that is known about the runs of an experiment

N_DIGITS = 6  # decimal places of metrics


def make_manifest(results: Sequence[RunResult]) -> dict[str, Any]:
    """Collect data, settings, versions, machines, durations, and every run; what all runs share is listed once."""
    done = [result for result in results if result.report]
    failures = {str(result): result.failure for result in results if result.failure}
    settings = [_add_later(result.report["all settings"]) for result in done]
    first = settings[0].items() if settings else ()
    common = dict(item for item in first if all(item in own.items() for own in settings))
    machines = Counter(tuple(sorted(result.report["machine"].items())) for result in done)
    ends = [result.report[TIMES]["finished"] for result in done]
    times = [result.report[TIMES] for result in unique_runs(done)]
    seconds, shared = (sum(own.get(name, 0.0) for own in times) for name in (SECONDS, "shared seconds"))
    return {
        "fresh": fresh.__version__,
        "runs": {"done": len(done), "failed": len(failures), "all": len(results)},
        "data": _describe_data(done),
        "machines": [{**dict(machine), "runs": count} for machine, count in machines.items()],
        "finished": [min(ends, default=""), max(ends, default="")],
        "seconds of runs, without what they share": round(seconds, 1),
        # Reports do not name the runs that share work, so it counts once for each run that needs it.
        "seconds of runs, each with all that it shares": round(seconds + shared, 1),
        "settings of all": common,
        "each": [
            {
                "row": result.row,
                "corpus": result.corpus,
                "seed": result.seed,
                "key": result.key,
                "settings": {name: value for name, value in own.items() if name not in common},
                "figures": {name: round(value, N_DIGITS) for name, value in result.report["figures"].items()},
                "notes": result.report["notes"],
                TIMES: result.report[TIMES],
            }
            for result, own in zip(done, settings, strict=True)
        ],
        "failures": failures,
    }


def _add_later(settings: Mapping[str, Any]) -> dict[str, Any]:
    # A report from before a setting existed was made with the value that reproduces it, if its method has the setting.
    groups = {path.partition(".")[0] for path in settings}
    return {path: value for path, value in LATER.items() if path.partition(".")[0] in groups} | dict(settings)


def _describe_data(done: Iterable[RunResult]) -> dict[str, list[dict[str, Any]]]:
    # By seeds: a seed may decide the split, and a method may leave documents out.
    seeds: dict[str, dict[tuple[Any, ...], set[int]]] = {}
    for result in done:
        kind = (result.report["data"], *result.report["documents"])
        seeds.setdefault(result.corpus, {}).setdefault(kind, set()).add(result.seed)
    return {
        corpus: [
            {"digest": digest, "documents": documents, "seeds": sorted(own)}
            for (digest, *documents), own in kinds.items()
        ]
        for corpus, kinds in seeds.items()
    }

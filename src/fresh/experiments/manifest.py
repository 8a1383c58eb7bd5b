"""The manifest of an experiment: data, settings, versions, machines, durations, and every single run."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import fresh
from fresh.errors import ConfigError
from fresh.experiments.results import RunResult, unique_runs
from fresh.experiments.store import REPORT, TIMES
from fresh.training.config import LATER

N_DIGITS = 6
"""Decimal places of metrics."""
REQUIRED: dict[str, type | tuple[type, ...]] = {
    "corpus": str,
    "data": str,
    "documents": list,
    "all settings": dict,
    "machine": dict,
    "finished": str,
    "seconds": (int, float),
    "notes": list,
}
"""What a report must contain."""
ALONE, TOTAL = "seconds of runs, without what they share", "seconds of runs, each with all that it shares"
"""Training that several runs share is in the second of these only, once for each run that needs it: reports do not say
with which other runs it was shared."""


def make_manifest(results: Sequence[RunResult]) -> dict[str, Any]:
    """Collect what is known about runs; what is the same for all of them is listed once."""
    done = [result for result in results if result.report]
    for result in done:
        _check_report(result)
    reports = [result.report for result in done]
    failures = {str(result): result.failure for result in results if result.failure}
    settings = {result.key: {**LATER, **result.report["all settings"]} for result in done}
    common = _common_settings(list(settings.values()))
    ends = [report[TIMES]["finished"] for report in reports]
    machines = Counter(tuple(sorted(report["machine"].items())) for report in reports)
    return {
        "fresh": fresh.__version__,
        "runs": {"done": len(done), "failed": len(failures), "all": len(results)},
        "data": _describe_data(done),
        "machines": [{**dict(machine), "runs": count} for machine, count in machines.items()],
        "finished": [min(ends, default=""), max(ends, default="")],
        **_add_seconds(unique_runs(done)),
        "settings of all": common,
        "each": [
            {
                "row": result.row,
                "corpus": result.corpus,
                "seed": result.seed,
                "key": result.key,
                "settings": {name: value for name, value in settings[result.key].items() if name not in common},
                "figures": {name: round(value, N_DIGITS) for name, value in result.report["figures"].items()},
                "notes": result.report["notes"],
                TIMES: result.report[TIMES],
            }
            for result in done
        ],
        "failures": failures,
    }


def _describe_data(done: Iterable[RunResult]) -> dict[str, list[dict[str, Any]]]:
    """List the documents of each corpus by seeds: a seed may draw the split, and a method may leave documents out."""
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


def _add_seconds(done: Sequence[RunResult]) -> dict[str, float]:
    """Add up the durations of runs, without and with what each of them shares."""
    alone = sum(result.report[TIMES]["seconds"] for result in done)
    shared = sum(result.report[TIMES].get("shared seconds", 0.0) for result in done)
    return {ALONE: round(alone, 1), TOTAL: round(alone + shared, 1)}


def _check_report(result: RunResult) -> None:
    fields = {**result.report, **result.report.get(TIMES, {})}
    missing = [name for name, kind in REQUIRED.items() if not isinstance(fields.get(name), kind)]
    if missing:
        raise ConfigError(
            f"{REPORT} of {result}, in runs/{result.key}, lacks: {', '.join(missing)}. "
            "Delete it, and repeat the `fresh run` command."
        )


def _common_settings(settings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if not settings:
        return {}
    first, *others = settings
    return {
        name: value for name, value in first.items() if all(name in other and other[name] == value for other in others)
    }

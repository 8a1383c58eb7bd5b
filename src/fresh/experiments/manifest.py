"""What stands behind the figures of an experiment: data, settings, versions, machines, times, and every single run."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import fresh
from fresh.errors import ConfigError
from fresh.experiments.results import Result, each_once
from fresh.experiments.store import REPORT, TIMES
from fresh.training.config import LATER

PLACES = 6
"""Digits behind the point of a figure."""
TOLD: dict[str, type | tuple[type, ...]] = {
    "corpus": str,
    "data": str,
    "documents": list,
    "all settings": dict,
    "machine": dict,
    "finished": str,
    "seconds": (int, float),
    "notes": list,
}
"""What a report must say."""
ALONE, ALL = "seconds of runs, without what they share", "seconds of runs, each with all that it shares"
"""Training that several runs share, most of it that of a support model or a gate, is in the second of these only, and
there once for each of them: reports do not say with which others a run shares it."""


def manifest(results: Sequence[Result]) -> dict[str, Any]:
    """Put together what is known of runs; what is the same for all of them stands in one place."""
    done = [result for result in results if result.report]
    for result in done:
        _check_report(result)
    reports = [result.report for result in done]
    failures = {f"{item.corpus}, {item.row}, seed {item.seed}": item.failure for item in results if item.failure}
    settings = {result.key: {**LATER, **result.report["all settings"]} for result in done}
    common = _shared_by_all(list(settings.values()))
    return {
        "fresh": fresh.__version__,
        "runs": {"done": len(done), "failed": len(failures), "all": len(results)},
        "data": _data_of(done),
        "machines": counted(report["machine"] for report in reports),
        "finished": [
            min((report[TIMES]["finished"] for report in reports), default=""),
            max((report[TIMES]["finished"] for report in reports), default=""),
        ],
        **_seconds_of(each_once(done)),
        "settings of all": common,
        "each": [
            {
                "row": result.row,
                "corpus": result.corpus,
                "seed": result.seed,
                "key": result.key,
                "settings": {name: value for name, value in settings[result.key].items() if name not in common},
                "figures": {name: round(value, PLACES) for name, value in result.report["figures"].items()},
                "notes": result.report["notes"],
                TIMES: result.report[TIMES],
            }
            for result in done
        ],
        "failures": failures,
    }


def _data_of(done: Iterable[Result]) -> dict[str, list[dict[str, Any]]]:
    """List all documents that each corpus had, by seeds: these may draw the split, and methods leave some out."""
    found: dict[str, dict[tuple[Any, ...], set[int]]] = {}
    for result in done:
        kinds = found.setdefault(result.corpus, {})
        kinds.setdefault((result.report["data"], *result.report["documents"]), set()).add(result.seed)
    return {
        corpus: [
            {"digest": digest, "documents": documents, "seeds": sorted(seeds)}
            for (digest, *documents), seeds in kinds.items()
        ]
        for corpus, kinds in found.items()
    }


def _seconds_of(done: Sequence[Result]) -> dict[str, float]:
    """Add up how long runs took, and how long they would have taken one by one, with nothing shared."""
    alone = sum(result.report[TIMES]["seconds"] for result in done)
    shared = sum(result.report[TIMES].get("shared seconds", 0.0) for result in done)
    return {ALONE: round(alone, 1), ALL: round(alone + shared, 1)}


def _check_report(result: Result) -> None:
    """Refuse a report that does not say what stands behind its figures."""
    said = {**result.report, **result.report.get(TIMES, {})}
    wrong = [name for name, kind in TOLD.items() if not isinstance(said.get(name), kind)]
    if wrong:
        raise ConfigError(
            f"{REPORT} of {result.corpus}, {result.row}, seed {result.seed}, in runs/{result.key}, lacks: "
            f"{', '.join(wrong)}. Delete it, and give the `fresh run` command again."
        )


def _shared_by_all(settings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Take the settings that have one value in all runs."""
    if not settings:
        return {}
    first, *others = settings
    return {
        name: value for name, value in first.items() if all(name in other and other[name] == value for other in others)
    }


def counted(machines: Iterable[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Say how many runs were done on which kind of machine."""
    found = Counter(tuple(sorted(machine.items())) for machine in machines)
    return [{**dict(machine), "runs": count} for machine, count in found.items()]

import json
from typing import Any

import pytest

import fresh
from fresh.errors import ConfigError
from fresh.experiments.manifest import make_manifest
from fresh.experiments.results import RunResult
from fresh.training.config import LATER

MACHINE = {"card": "", "python": "3.11", "torch": "2.13"}


def report(corpus: str, seed: int, shared: float = 0.0, **others: Any) -> dict[str, Any]:
    return {
        "key": f"{corpus}-{seed}",
        "corpus": corpus,
        "data": f"digest of {corpus}",
        "documents": [3, 2, 1],
        "all settings": {"method": "fresh", "train.seed": seed, "ratio": 0.2},
        "figures": {"macro-F1": 0.12345678},
        "notes": ["a note"],
        "machine": MACHINE,
        "times": {"seconds": 2.0, "shared seconds": shared, "finished": f"2026-01-0{seed + 1}"},
        **others,
    }


def result(corpus: str, seed: int, **others: Any) -> RunResult:
    found = report(corpus, seed, **others)
    return RunResult(found["key"], "a row", corpus, seed, {}, found["figures"], None, found)


def test_what_is_the_same_stands_in_one_place() -> None:
    failed = RunResult("x", "b", "sst", 0, {}, failure="no memory")
    found = make_manifest([result("sst", 0), result("movies", 1, machine={**MACHINE, "card": "big"}), failed])
    assert found["fresh"] == fresh.__version__
    assert found["runs"] == {"done": 2, "failed": 1, "all": 3}
    assert found["data"]["movies"] == [{"digest": "digest of movies", "documents": [3, 2, 1], "seeds": [1]}]
    assert found["machines"] == [{**MACHINE, "runs": 1}, {**MACHINE, "card": "big", "runs": 1}]
    assert found["finished"] == ["2026-01-01", "2026-01-02"]
    assert found["settings of all"] == {"method": "fresh", "ratio": 0.2, **LATER}
    assert [run["settings"] for run in found["each"]] == [{"train.seed": 0}, {"train.seed": 1}]
    assert found["each"][0]["figures"] == {"macro-F1": 0.123457}
    assert found["failures"] == {"sst, b, seed 0": "no memory"}
    json.dumps(found)


def test_reports_from_before_a_setting_came_have_it_as_it_was() -> None:
    settings = {"method": "fresh", "train.seed": 0, "ratio": 0.2}
    kinds = [settings, {**settings, "train.schedule": "constant"}, {**settings, "train.schedule": "linear"}]
    runs = [result("sst", seed, **{"all settings": kind}) for seed, kind in enumerate(kinds)]
    assert make_manifest(runs[:2])["settings of all"]["train.schedule"] == "constant"
    assert [run["settings"] for run in make_manifest(runs)["each"]] == [
        {"train.schedule": "constant"},
        {"train.schedule": "constant"},
        {"train.schedule": "linear"},
    ]


def test_all_documents_of_a_corpus_are_listed_where_the_seed_draws_the_split() -> None:
    made = [
        result("reviews", 0, data="first"),
        result("reviews", 1, data="second"),
        result("reviews", 2, data="first"),
        result("reviews", 0, data="first", documents=[2, 2, 1]),
    ]
    assert make_manifest(made)["data"]["reviews"] == [
        {"digest": "first", "documents": [3, 2, 1], "seeds": [0, 2]},
        {"digest": "second", "documents": [3, 2, 1], "seeds": [1]},
        {"digest": "first", "documents": [2, 2, 1], "seeds": [0]},
    ]


def test_seconds_are_told_without_and_with_what_runs_share() -> None:
    found = make_manifest([result("sst", 0, shared=30.0), result("sst", 1), result("sst", 1)])
    assert found["seconds of runs, without what they share"] == 4.0
    assert found["seconds of runs, each with all that it shares"] == 34.0


def test_nothing_is_done_yet() -> None:
    found = make_manifest([RunResult("x", "b", "sst", 0, {})])
    assert found["runs"] == {"done": 0, "failed": 0, "all": 1}
    assert found["each"] == []
    assert found["finished"] == ["", ""]


def test_a_report_that_lacks_something_is_named() -> None:
    with pytest.raises(ConfigError, match=r"report\.json of sst, a row, seed 0, in runs/sst-0, lacks: data, notes\."):
        make_manifest([result("movies", 1), result("sst", 0, data=None, notes="none")])

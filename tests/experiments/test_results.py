import json
from pathlib import Path
from typing import Any

import pytest

import fresh
from fresh.errors import ConfigError
from fresh.experiments.results import RunResult, distinguishing_settings, make_manifest, read_results, select
from fresh.experiments.store import RunStore
from fresh.training.config import LATER
from made_up_runs import Made, encoder_runs, results, write


def test_durations_are_metrics_and_include_shared_work(tmp_path: Path) -> None:
    store = RunStore(write(tmp_path, [Made("ours", 0.5, key="k")]))
    assert read_results(store, None)[0].metrics == {"macro-F1": 0.5, "seconds": 2.0}
    store.save_report("k", {"figures": {"macro-F1": 0.5}, "times": {"seconds": 2.0, "shared seconds": 4.5}})
    assert read_results(store, "main")[0].metrics["seconds"] == 6.5
    with pytest.raises(ConfigError, match=r"holds no experiment\. Run one first: fresh run"):
        read_results(RunStore(tmp_path / "other"), None)


def test_values_may_contain_commas_and_unknown_conditions_are_refused() -> None:
    made = results([Made("ours, top_k"), Made("ours"), Made("theirs, top_k"), Made("top_k")])
    assert [run.row for run in select(made, {"row": "ours, top_k,top_k"})] == ["ours, top_k", "top_k"]
    with pytest.raises(ConfigError, match=r"methd is not a setting of these runs\. Did you mean method"):
        select(made, {"methd": "x"})
    with pytest.raises(ConfigError, match=r"hours is not a value of row in these runs\. Did you mean ours"):
        select(made, {"row": "ours,hours"})


def test_a_few_settings_distinguish_runs() -> None:
    small = [*encoder_runs("small", "a", 0.1, rate=1), *encoder_runs("small", "a", 0.1, rate=2)]
    made = results([*small, *encoder_runs("large", "a", 0.1, rate=1)])
    assert distinguishing_settings([made]) == ("encoder", "rate")
    assert distinguishing_settings([made[:2]]) == ("rate",)
    assert distinguishing_settings([]) == ()


# The manifest

MACHINE = {"card": "", "python": "3.11", "torch": "2.13"}


def result(corpus: str, seed: int, **others: Any) -> RunResult:
    report = {
        "data": f"digest of {corpus}",
        "documents": [3, 2, 1],
        "all settings": {"method": "fresh", "train.seed": seed, "ratio": 0.2},
        "figures": {"macro-F1": 0.12345678},
        "notes": ["a note"],
        "machine": MACHINE,
        "times": {"seconds": 2.0, "shared seconds": others.pop("shared", 0.0), "finished": f"2026-01-0{seed + 1}"},
        **others,
    }
    return RunResult(f"{corpus}-{seed}", "a row", corpus, seed, {}, {"macro-F1": 0.12345678}, None, report)


def test_what_all_runs_share_is_listed_once() -> None:
    failed = RunResult("x", "b", "sst", 0, {}, failure="no memory")
    found = make_manifest([result("sst", 0), result("movies", 1, machine={**MACHINE, "card": "big"}), failed])
    assert found["fresh"] == fresh.__version__
    assert found["runs"] == {"done": 2, "failed": 1, "all": 3}
    assert found["data"]["movies"] == [{"digest": "digest of movies", "documents": [3, 2, 1], "seeds": [1]}]
    assert found["machines"] == [{**MACHINE, "runs": 1}, {**MACHINE, "card": "big", "runs": 1}]
    assert found["finished"] == ["2026-01-01", "2026-01-02"]
    # A report from before a setting existed has the value that reproduces it, if its method has the setting.
    later = {name: value for name, value in LATER.items() if name.startswith("train.")}
    assert found["settings of all"] == {"method": "fresh", "ratio": 0.2, **later}
    scored = result("sst", 0, **{"all settings": {"method": "fresh", "scoring.steps": 5}})
    assert make_manifest([scored])["settings of all"]["scoring.evidence"] == "for"
    assert [run["settings"] for run in found["each"]] == [{"train.seed": 0}, {"train.seed": 1}]
    assert found["each"][0]["figures"] == {"macro-F1": 0.123457}
    assert found["failures"] == {"sst, b, seed 0": "no memory"}
    json.dumps(found)
    unfinished = make_manifest([RunResult("x", "b", "sst", 0, {})])
    assert (unfinished["runs"], unfinished["each"]) == ({"done": 0, "failed": 0, "all": 1}, [])
    assert unfinished["finished"] == ["", ""]


def test_a_report_from_before_a_setting_existed_has_its_earlier_value() -> None:
    settings = {"method": "fresh", "train.seed": 0, "ratio": 0.2}
    kinds = [settings, {**settings, "train.schedule": "constant"}, {**settings, "train.schedule": "linear"}]
    runs = [result("sst", seed, **{"all settings": kind}) for seed, kind in enumerate(kinds)]
    assert make_manifest(runs[:2])["settings of all"]["train.schedule"] == "constant"
    assert [run["settings"] for run in make_manifest(runs)["each"]] == [
        {"train.schedule": "constant"},
        {"train.schedule": "constant"},
        {"train.schedule": "linear"},
    ]


def test_each_split_of_a_corpus_is_listed_with_its_seeds() -> None:
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


def test_seconds_are_added_up_without_and_with_shared_work() -> None:
    found = make_manifest([result("sst", 0, shared=30.0), result("sst", 1), result("sst", 1)])
    assert found["seconds of runs, without what they share"] == 4.0
    assert found["seconds of runs, each with all that it shares"] == 34.0

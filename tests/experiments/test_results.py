"""Results that are read, selected, and told apart by their settings."""

from pathlib import Path

import pytest

from fresh.errors import ConfigError
from fresh.experiments.results import distinguishing_settings, read_results, select, status
from fresh.experiments.store import RunStore
from made_up_runs import Made, encoder_runs, results, write


def test_durations_are_metrics(tmp_path: Path) -> None:
    [result] = read_results(RunStore(write(tmp_path, [Made("ours", 0.5)])), None)
    assert result.metrics == {"macro-F1": 0.5, "seconds": 2.0}


def test_shared_work_counts_with_the_run_that_needs_it(tmp_path: Path) -> None:
    store = RunStore(write(tmp_path, [Made("ours", 0.5, key="k")]))
    store.save_report("k", {"figures": {"macro-F1": 0.5}, "times": {"seconds": 2.0, "shared seconds": 4.5}})
    [result] = read_results(store, "main")
    assert result.metrics["seconds"] == 6.5


def test_a_folder_without_experiments_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no experiment\. Run one first: fresh run"):
        read_results(RunStore(tmp_path), None)


def test_values_may_contain_commas() -> None:
    made = results([Made("ours, top_k"), Made("ours"), Made("theirs, top_k"), Made("top_k")])
    assert [run.row for run in select(made, {"row": "ours, top_k,top_k"})] == ["ours, top_k", "top_k"]


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"methd": "x"}, r"methd is not a setting of these runs\. Did you mean method"),
        ({"row": "ours,hours"}, r"hours is not a value of row in these runs\. Did you mean ours"),
    ],
)
def test_unknown_conditions_are_refused(conditions: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        select(results([Made("ours", 0.5)]), conditions)


def test_as_many_settings_tell_runs_apart_as_are_needed() -> None:
    small = [*encoder_runs("small", "a", 0.1, rate=1), *encoder_runs("small", "a", 0.1, rate=2)]
    made = results([*small, *encoder_runs("large", "a", 0.1, rate=1)])
    assert distinguishing_settings([made]) == ("encoder", "rate")
    assert distinguishing_settings([made[:2]]) == ("rate",)
    assert distinguishing_settings([]) == ()


def test_damaged_reports_are_named(tmp_path: Path) -> None:
    store = RunStore(write(tmp_path, [Made("ours", 0.5, key="k"), Made("theirs", failure="no", key="l")]))
    (store.run_folder("k") / "report.json").write_text("{", encoding="utf-8")
    assert [line.partition(",")[0] for line in status(read_results(store, "main"))] == [
        "2 runs: 0 done",
        "failed: sst",
        f"damaged: {store.run_folder('k') / 'report.json'}",
    ]

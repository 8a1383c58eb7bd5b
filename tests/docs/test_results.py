"""The result pages are what the reports behind them give."""

import importlib
import json
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from scipy.stats import ttest_1samp, ttest_rel

from fresh.errors import ConfigError
from fresh.experiments.figures import Line
from fresh.experiments.results import RunResult
from fresh.experiments.store import RunStore
from fresh.metrics.bootstrap import short

FOLDER = Path(__file__).parents[2] / "docs/results"


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Load the script, with a copy of the pages."""
    monkeypatch.syspath_prepend(str(FOLDER))
    module = importlib.import_module("make_results")
    pages = tmp_path / "docs/results"
    shutil.copytree(FOLDER, pages)
    shutil.copy(FOLDER.parents[1] / "README.md", tmp_path)
    names = {"HERE": pages, "REPORTS": pages / "runs.tgz", "MANIFEST": pages / "manifest.json"}
    copies = (pages / "main.md", pages / "proof.md", pages / "README.md", tmp_path / "README.md")
    for name, value in {**names, "PAGES": copies}.items():
        monkeypatch.setattr(module, name, value)
    yield module
    for name in ("make_results", "proof_tables", "result_tables", "result_times"):
        sys.modules.pop(name)


def call(module: ModuleType, monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    """Run the script, and return how it ends."""
    monkeypatch.setattr(sys, "argv", ["make_results.py", *words])
    with pytest.raises(SystemExit) as caught:
        module.main()
    return caught.value.code


def test_pages_are_up_to_date(results: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(results, monkeypatch, "--check") is None


def test_what_is_out_of_date_is_listed_and_made_again(
    results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    front, main = tmp_path / "README.md", tmp_path / "docs/results/main.md"
    before = [page.read_text(encoding="utf-8") for page in (front, main)]
    front.write_text(before[0].replace("| SST | .884 |", "| SST | .984 |"), encoding="utf-8")
    main.write_text(before[1].replace("| full text | .884", "| full text | .994") + "A word more.\n", encoding="utf-8")
    for name in ("lengths.svg", "human.png"):
        (tmp_path / "docs/results" / name).unlink()
    with monkeypatch.context() as changed:
        changed.setitem(results.FIGURES, "lengths", ("lengths", {"y": "accuracy"}))
        code = call(results, changed, "--check")
    listed = "{0}/main.md, README.md, {0}/manifest.json, {0}/lengths.svg, {0}/human.png".format("docs/results")
    assert code == f"Not up to date with runs.tgz: {listed}. To make them again: make results."
    drawn: list[list[Path]] = []
    monkeypatch.setattr(results, "plot_figure", lambda _drawn, places: drawn.append(places))
    assert (call(results, monkeypatch), len(drawn)) == (None, len(results.FIGURES))
    assert [page.read_text(encoding="utf-8") for page in (front, main)] == [before[0], before[1] + "A word more.\n"]


@pytest.fixture
def pair(results: ModuleType, tmp_path: Path) -> tuple[RunStore, RunStore]:
    """What is there, and a folder with one run of one of its experiments, which is to be added."""
    old, new = results.unpack(tmp_path / "old"), RunStore(tmp_path / "new")
    (new.path / "plans").mkdir(parents=True)
    first = next(run for run in old.read_plan("human")["runs"] if old.read_report(run["key"]))
    shutil.copytree(old.run_folder(first["key"]), new.run_folder(first["key"]))
    plan_some(new, old, [first])
    return old, new


def plan_some(new: RunStore, old: RunStore, planned: list[dict[str, Any]], about: str = "") -> None:
    """Plan some runs of the experiment, or others."""
    plan = {**old.read_plan("human"), "runs": planned, "about": about}
    (new.path / "plans/human.json").write_text(json.dumps(plan), encoding="utf-8")


def contents(runs: RunStore) -> dict[str, bytes]:
    """Read all reports."""
    return {path.parent.name: path.read_bytes() for path in (runs.path / "runs").glob("*/report.json")}


def test_new_reports_are_added(results: ModuleType, pair: tuple[RunStore, RunStore], tmp_path: Path) -> None:
    old, new = pair
    before, plan = contents(old), old.read_plan("human")
    shutil.copytree(next(new.run_folder(key) for key in contents(new)), new.run_folder("new"))
    new.run_folder("broken").mkdir()
    (new.run_folder("broken") / "report.json").write_text('{"version": 0}', encoding="utf-8")
    assert results.add(new, old, renew=False) == "Reports added: 1."
    assert contents(old) == {**before, "new": contents(new)["new"]}
    assert old.read_plan("human") == plan  # the new one has a part of its runs
    results.pack(old)
    packed = results.REPORTS.read_bytes()
    again = results.unpack(tmp_path / "again")
    assert contents(again) == contents(old)
    results.pack(again)
    assert results.REPORTS.read_bytes() == packed


def test_known_reports_are_replaced_only_with_renew(results: ModuleType, pair: tuple[RunStore, RunStore]) -> None:
    old, new = pair
    before, plan = contents(old), old.read_plan("human")
    [(key, text)] = contents(new).items()
    other = {**json.loads(text), "figures": {"macro-F1": 0.5}}
    (new.run_folder(key) / "report.json").write_text(json.dumps(other), encoding="utf-8")
    message = "Reports added: 0. Kept although the new ones differ (--renew takes those): 1."
    assert results.add(new, old, renew=False) == message
    assert contents(old) == before
    assert results.add(new, old, renew=True) == "Reports added: 1."
    assert contents(old) == {**before, key: contents(new)[key]}
    assert (len(plan["runs"]), len(old.read_plan("human")["runs"])) == (80, 1)


def test_a_repeated_run_differs_only_in_its_times(results: ModuleType, pair: tuple[RunStore, RunStore]) -> None:
    old, new = pair
    before = contents(old)
    [key] = contents(new)
    again = new.read_report(key)
    assert again is not None
    new.save_report(
        key, {**again, "times": {**again["times"], "seconds": 1.0, "finished": "2027-01-01T00:00:00+00:00"}}
    )
    assert results.add(new, old, renew=False) == "Reports added: 0."
    assert contents(old) == before


def test_saved_reports_keep_times_apart_from_figures(pair: tuple[RunStore, RunStore]) -> None:
    old, _ = pair
    reports = [old.read_report(key) or {} for key in contents(old)]
    assert len(reports) == 1433
    for report in reports:
        assert report["times"].keys() - {"explain seconds"} == {"seconds", "shared seconds", "finished"}
        assert not report["times"].keys() & (report.keys() | report["figures"].keys())


def test_a_plan_of_the_same_runs_or_more_is_taken(results: ModuleType, pair: tuple[RunStore, RunStore]) -> None:
    old, new = pair
    whole = old.read_plan("human")["runs"]
    plan_some(new, old, whole, "said otherwise")
    results.add(new, old, renew=False)
    assert old.read_plan("human")["about"] == "said otherwise"
    plan_some(new, old, [*whole, {**whole[0], "key": "new", "seed": 5}])
    results.add(new, old, renew=False)
    assert len(old.read_plan("human")["runs"]) == 81


def test_a_plan_of_other_runs_is_refused(results: ModuleType, pair: tuple[RunStore, RunStore]) -> None:
    old, new = pair
    before = old.read_plan("human")
    plan_some(new, old, [{**before["runs"][0], "key": "new", "seed": 5}])
    with pytest.raises(
        ConfigError, match=r"human in .* lacks 80 of the 80 runs in runs\.tgz, and has 1 other\..*--renew"
    ):
        results.add(new, old, renew=False)
    assert old.read_plan("human") == before


def test_a_folder_without_runs_is_refused(results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = results.REPORTS.read_bytes()
    message = f"{tmp_path / 'nowhere'} holds no experiment. Name a folder that `fresh run` wrote."
    assert call(results, monkeypatch, str(tmp_path / "nowhere")) == message
    assert results.REPORTS.read_bytes() == before


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<!-- goals -->", "<!-- goal -->", "In {}: goal is not a table. Did you mean goals?"),
        ("<!-- end -->", "", "The marks in {} are not in pairs: main table, goals, end"),
        ("<!-- shares -->", "", "The marks in {} are not in pairs: main table, end, goals, end, end"),
    ],
)
def test_wrong_marks_are_refused(old: str, new: str, message: str, results: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "docs/results/main.md"
    page.write_text(page.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError, match=f"^{re.escape(message.format(page))}"):
        results.fill_pages(RunStore(tmp_path))


def test_every_table_is_on_a_page(results: ModuleType) -> None:
    found = [name for page in results.PAGES for name in results.MARKED_TABLE.findall(page.read_text(encoding="utf-8"))]
    assert sorted(found) == sorted([*results.TABLES, results.STANDING])


@pytest.mark.parametrize(("share", "same"), [(1e-15, True), (1e-6, False)])
def test_digests_of_figures_ignore_the_last_digits(
    share: float, same: bool, results: ModuleType, tmp_path: Path
) -> None:
    runs = results.unpack(tmp_path)

    def nudged(line: Line) -> Line:
        return replace(line, points=tuple(point._replace(y=point.y * (1 + share)) for point in line.points))

    for drawn in results.collect_figures(runs).values():
        panels = tuple(replace(panel, lines=tuple(map(nudged, panel.lines))) for panel in drawn.panels)
        other = replace(drawn, panels=panels)
        assert other != drawn
        digests = [json.loads(results.describe_experiments(runs, {"a": one}))["figures"]["a"] for one in (drawn, other)]
        assert (digests[0] == digests[1]) == same


def made(seed: int, row: str, score: float | None, **about: Any) -> RunResult:
    """Make the result of a run up."""
    figures = {} if score is None else {"macro-F1": score}
    report = {"times": about.pop("times", {"finished": "2026-01-01T00:00:00+00:00", "seconds": 1.0})}
    return RunResult(f"{row}-{seed}", row, about.pop("corpus", "sst"), seed, about, figures, report=report)


def test_cells_give_the_number_of_seeds_if_some_are_missing(results: ModuleType) -> None:
    runs = [made(0, "full text", 0.8), made(1, "full text", 0.6), made(2, "full text", None)]
    assert str(results.result_tables.table_of(runs)["full text"]["sst"]) == ".700 (.600–.800; 2 seeds)"
    assert str(results.result_tables.table_of(runs[1:])["full text"]["sst"]) == ".600 (one seed)"
    assert str(results.result_tables.table_of(runs[:2])["full text"]["sst"]) == ".700 (.600–.800)"


def test_shares_are_of_the_full_text_with_the_same_seeds(results: ModuleType) -> None:
    row = "FRESH, attention, ratio 0.5x"
    full = [made(0, "full text", 0.8), made(1, "full text", 0.4)]
    assert (
        results.result_tables.against([*full, made(0, row, 0.6), made(1, row, None)], row, "sst")
        == ".600, 75.0% (one seed)"
    )
    assert results.result_tables.against([*full, made(0, row, 0.6), made(1, row, 0.3)], row, "sst") == ".450, 75.0%"
    assert results.result_tables.against(full, row, "sst") == "–"


def test_spreads_are_compared_with_gates_that_keep_the_same_kind_of_words(results: ModuleType) -> None:
    rows = {
        "Lei et al., top_k": (0.5, 0.6),
        "Lei et al., contiguous": (0.5, 0.52),
        "FRESH, a, top_k": (0.6, 0.65),
        "FRESH, a, contiguous": (0.6, 0.65),
        "FRESH, distilled": (0.6, 0.65),
    }
    runs = [made(seed, row, score) for row, scores in rows.items() for seed, score in enumerate(scores)]
    cells = [line.split(" | ")[:2] for line in results.result_tables.spreads(runs).splitlines()[2:]]
    assert cells == [
        ["| Lei et al., top_k", ".100"],
        ["| Lei et al., contiguous", ".020"],
        ["| FRESH, a, top_k", "**.050**"],
        ["| FRESH, a, contiguous", ".050"],
    ]
    few = [*runs, made(2, "FRESH, a, top_k", None)]
    assert "| FRESH, a, top_k | – |" in results.result_tables.spreads(few)


def test_a_period_ends_where_no_run_is_active(results: ModuleType) -> None:
    ends = (("00:01:00", 60.0), ("00:01:30", 80.0), ("00:04:00", 10.0), ("00:20:00", 5.0))
    runs = [
        made(seed, "a", 0.5, times={"finished": f"2026-01-01T{end}+00:00", "seconds": seconds})
        for seed, (end, seconds) in enumerate(ends)
    ]
    assert [round(end - start) for start, end in results.result_times.periods(runs)] == [240, 5]


def test_paired_tables_compare_seeds_that_both_have_and_correct_for_all_rows(results: ModuleType) -> None:
    def runs(row: str, scores: Sequence[float]) -> list[RunResult]:
        figures = [{"macro-F1": score, "reader macro-F1": score - 0.1 - seed / 50} for seed, score in enumerate(scores)]
        return [RunResult(f"{row}{seed}", row, "sst", seed, {}, own) for seed, own in enumerate(figures)]

    listed = [
        *runs("attention, own", (0.5,)),
        *runs("attention x gradient, for, own", (0.8, 0.7, 0.9, 0.8)),
        *runs("attention x gradient, both, own", (0.7, 0.65, 0.8)),
    ]
    tables = results.proof_tables
    [*_, row] = tables.evidence(listed).splitlines()
    p = ttest_rel([0.7, 0.65, 0.8], [0.8, 0.7, 0.9]).pvalue
    assert row.startswith("| SST | attention × gradient, both (3 seeds) | .717 | .800 | -.083 (")
    assert row.endswith(f"| {short(p)} |")  # a single test
    rows = tables.readers(listed).splitlines()[2:]
    names = ["attention (one seed)", "attention × gradient", "attention × gradient, both (3 seeds)"]
    assert [line.split(" | ")[1] for line in rows] == names
    assert rows[0].endswith("| .500 | .400 | +.100 | – |")
    three = ttest_1samp([0.1, 0.12, 0.14], 0).pvalue
    four = ttest_1samp([0.1, 0.12, 0.14, 0.16], 0).pvalue
    assert rows[1].endswith(f"| {short(2 * four)} |")
    assert rows[2].endswith(f"| .717 | .597 | +.120 (+.070 to +.170) | {short(max(three, 2 * four))} |")

"""The result pages are what the reports behind them give."""

import importlib
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fresh.experiment.folder import Runs
from fresh.experiment.results import Result

FOLDER = Path(__file__).parents[1] / "docs/results"


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Load the script, with a copy of the pages."""
    monkeypatch.syspath_prepend(str(FOLDER))
    module = importlib.import_module("make_results")
    pages = tmp_path / "docs/results"
    shutil.copytree(FOLDER, pages)
    shutil.copy(FOLDER.parents[1] / "README.md", tmp_path)
    names = {"HERE": pages, "REPORTS": pages / "runs.tgz", "MANIFEST": pages / "manifest.json"}
    copies = (pages / "main.md", pages / "README.md", tmp_path / "README.md")
    for name, value in {**names, "PAGES": copies}.items():
        monkeypatch.setattr(module, name, value)
    yield module
    for name in ("make_results", "tables"):
        sys.modules.pop(name)


def call(module: ModuleType, monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    """Run the script."""
    monkeypatch.setattr(sys, "argv", ["make_results.py", *words])
    module.main()


def test_the_pages_are_what_the_reports_give(results: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit) as caught:
        call(results, monkeypatch, "--check")
    assert caught.value.code == 0


def test_a_figure_that_no_report_has_is_told_and_made_again(
    results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    front, main = tmp_path / "README.md", tmp_path / "docs/results/main.md"
    before = [page.read_text(encoding="utf-8") for page in (front, main)]
    front.write_text(before[0].replace("| SST | .884 |", "| SST | .984 |"), encoding="utf-8")
    main.write_text(before[1].replace("| full text | .884", "| full text | .994") + "A word more.\n", encoding="utf-8")
    with pytest.raises(SystemExit) as caught:
        call(results, monkeypatch, "--check")
    assert caught.value.code == (
        "Not what runs.tgz gives: docs/results/main.md, README.md. Make them again: make results."
    )
    monkeypatch.setattr(results, "FIGURES", {})
    call(results, monkeypatch)
    assert [page.read_text(encoding="utf-8") for page in (front, main)] == [before[0], before[1] + "A word more.\n"]


def test_reports_are_added_and_none_is_lost(
    results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = results.unpacked(tmp_path / "old")
    [first, *rest] = old.plan("human")["runs"]
    new = Runs(tmp_path / "new")
    (new.path / "plans").mkdir(parents=True)
    part = {**old.plan("human"), "runs": [first]}
    other = {**old.plan("human"), "name": "other", "runs": [{**first, "key": "new"}]}
    for name, told in (("human", part), ("other", other)):
        (new.path / "plans" / f"{name}.json").write_text(json.dumps(told), encoding="utf-8")
    new.of("new").mkdir(parents=True)
    shutil.copy(old.of(first["key"]) / "report.json", new.of("new"))
    results.add(new.path)
    packed = results.REPORTS.read_bytes()
    found = results.unpacked(tmp_path / "both")
    assert [item["key"] for item in found.plan("human")["runs"]] == [first["key"], *(item["key"] for item in rest)]
    assert found.plan("other") == other
    keys = {path.name for path in (old.path / "runs").iterdir()}
    assert {path.name for path in (found.path / "runs").iterdir()} == {*keys, "new"}
    results.add(new.path)
    assert results.REPORTS.read_bytes() == packed


def made(seed: int, row: str, score: float | None, **about: Any) -> Result:
    """Make the result of a run up."""
    figures = {} if score is None else {"macro-F1": score}
    report = {"finished": "2026-01-01T00:00:00+00:00", "seconds": 1.0, **about.pop("report", {})}
    return Result(f"{row}-{seed}", row, about.pop("corpus", "sst"), seed, about, figures, report=report)


def test_cells_say_how_many_seeds_they_lack(results: ModuleType) -> None:
    runs = [made(0, "full text", 0.8), made(1, "full text", 0.6), made(2, "full text", None)]
    assert str(results.tables.table_of(runs)["full text"]["sst"]) == ".700 (.600–.800; 2 seeds)"
    assert str(results.tables.table_of(runs[1:])["full text"]["sst"]) == ".600 (one seed)"
    assert str(results.tables.table_of(runs[:2])["full text"]["sst"]) == ".700 (.600–.800)"


def test_shares_are_of_the_full_text_of_the_same_seeds(results: ModuleType) -> None:
    row = "FRESH, attention, ratio 0.5x"
    full = [made(0, "full text", 0.8), made(1, "full text", 0.4)]
    assert (
        results.tables.against([*full, made(0, row, 0.6), made(1, row, None)], row, "sst") == ".600, 75.0% (one seed)"
    )
    assert results.tables.against([*full, made(0, row, 0.6), made(1, row, 0.3)], row, "sst") == ".450, 75.0%"
    assert results.tables.against(full, row, "sst") == "–"


def test_a_stretch_of_work_ends_where_nothing_is_done_for_long(results: ModuleType) -> None:
    ends = (("00:01:00", 60.0), ("00:01:30", 80.0), ("00:04:00", 10.0), ("00:20:00", 5.0))
    runs = [
        made(seed, "a", 0.5, report={"finished": f"2026-01-01T{end}+00:00", "seconds": seconds})
        for seed, (end, seconds) in enumerate(ends)
    ]
    assert [round(end - start) for start, end in results.tables.stretches(runs)] == [240, 5]

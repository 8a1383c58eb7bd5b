"""Whom to look at, and times that nobody measured."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.cli.main import main
from fresh.study.annotators import add_annotators, exclude, make_admin_secret
from fresh.study.answers import median_seconds
from fresh.study.export import export_study
from fresh.study.importing import import_study
from fresh.study.overview import AnnotatorStatus as Doing
from fresh.study.overview import compute_results, get_condition_status, get_overview
from fresh.study.store import Store, create_study
from fresh.study.web.app import create_app
from studies import plan, two_ways
from visitors import strip_practice, visitor


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = create_study(tmp_path / "s", plan(two_ways(), sample=3, practice=0, checks=0, per_item=2))
    yield made
    made.close()


def answer_all(store: Store, milliseconds: str) -> None:
    """Let somebody new answer everything, each text in the same time."""
    person = strip_practice(visitor(create_app(store)).enter(add_annotators(store, 1)[0]))
    while person.text:
        person.give(milliseconds=milliseconds)


@given(st.lists(st.integers(1, 10**6), min_size=1), st.integers(0, 5))
def test_what_was_not_measured_is_no_time(times: list[int], n_unmeasured: int) -> None:
    assert median_seconds([*times, *[0] * n_unmeasured]) == median_seconds(times)
    assert median_seconds([0] * n_unmeasured) is None


def test_time_that_was_not_measured_is_a_dash(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    answer_all(store, "")
    assert main(["study", "status", str(Path(str(store.engine.url.database)).parent)]) == 0
    assert "  annotator 1: finished, 3 answers, – s an answer\n" in capsys.readouterr().out
    assert [one.seconds for one in get_condition_status(store)] == [None, None]
    assert [row.seconds for row in compute_results(store).rows] == [None, None]
    admin = visitor(create_app(store)).get("/admin").post("/admin/sign-in", code=make_admin_secret(store))
    assert admin.page.count('<td data-name="seconds">–</td>') == 3  # two conditions, one annotator


def test_exports_leave_out_time_that_was_not_measured_and_take_it_back(store: Store, tmp_path: Path) -> None:
    answer_all(store, "")
    answer_all(store, "1500")
    [table] = export_study(store, "csv", tmp_path / "a.csv")
    with table.open(encoding="utf-8", newline="") as file:
        assert [row["milliseconds"] for row in csv.DictReader(file)] == [""] * 3 + ["1500"] * 3
    [lines] = export_study(store, "jsonl", tmp_path / "a.jsonl")
    found = [json.loads(line)["milliseconds"] for line in lines.read_text(encoding="utf-8").splitlines()]
    assert found == [None] * 3 + [1500] * 3
    for place, form in ((table, "csv"), (lines, "jsonl")):
        other = create_study(tmp_path / form, plan(two_ways(), sample=3, practice=0, checks=0, per_item=2))
        assert import_study(other, form, place).n_new == 6
        assert [one.seconds for one in get_overview(other).annotators] == [None, 1.5]
        other.close()


@pytest.mark.parametrize(
    ("n_checks", "n_failed", "seconds", "flagged"),
    [
        (3, 1, 5.0, False),
        (3, 2, 5.0, True),
        (1, 1, None, True),
        (0, 0, 0.999, True),
        (0, 0, 1.0, False),
        (0, 0, None, False),
    ],
)
def test_whoever_fails_checks_or_is_too_fast_is_looked_at(
    n_checks: int, n_failed: int, seconds: float | None, flagged: bool
) -> None:
    for state in ("active", "left", "excluded"):
        person = Doing(1, None, state, True, 9, n_checks, n_failed, seconds)
        assert person.flagged == (flagged and state != "excluded")


def test_nobody_looks_at_whoever_is_excluded(store: Store) -> None:
    answer_all(store, "400")
    answer_all(store, "400")
    admin = visitor(create_app(store)).get("/admin").post("/admin/sign-in", code=make_admin_secret(store))
    assert "<b>2 to look at</b>" in admin.page
    exclude(store, 1)
    assert "<b>1 to look at</b>" in admin.get("/admin").page


def test_help_says_what_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["study", "status", "--help"])
    assert '"look here" marks whoever failed more than one attention check' in capsys.readouterr().out

"""What comes back from a study's own export: into the same study, and into one that was made again."""

import csv
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from elsewhere import told, write
from fresh.cli.main import main
from fresh.errors import StudyError
from fresh.study.annotators import add_annotators, exclude, readmit, record_consent, sign_in
from fresh.study.answers import Answer
from fresh.study.export import _answers_jsonl, export_study
from fresh.study.importing import ImportSummary, import_study
from fresh.study.overview import compute_results, get_overview, read_answers, read_responses
from fresh.study.service import next_item, save_answer
from fresh.study.store import Store, create_study
from studies import enroll, plan, two_ways


def made(place: str | Path) -> Store:
    return create_study(place, plan(two_ways(), sample=4, practice=1, checks=1, per_item=2))


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    """Three have answered all: one by a code, who fails the check, and two from a platform."""
    with closing(made(database)) as store:
        [code] = add_annotators(store, 1)
        person = sign_in(store, code)
        assert person is not None
        for who in (person.id, enroll(store, "p2").id, enroll(store, "p3").id):
            record_consent(store, who)
            while (task := next_item(store, who)) is not None:
                save_answer(store, who, task.item, Answer("pos", 3, 4, 1000) if who == 1 else Answer("neg", 1, 5, 2000))
        yield store


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Store]:
    """The same study, made again."""
    with closing(made(tmp_path / "copy")) as again:
        yield again


def rows_of(store: Store) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _answers_jsonl(store).splitlines()]


def lines(folder: Path, rows: list[dict[str, Any]]) -> Path:
    return write(folder / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def state(store: Store) -> list[tuple[str | None, str, int, int, int]]:
    return [
        (one.outside, one.state, one.n_answered, one.n_checks, one.n_failed) for one in get_overview(store).annotators
    ]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_what_does_not_count_there_does_not_count_here(store: Store, copy: Store, tmp_path: Path, form: str) -> None:
    exclude(store, 1)
    [file] = export_study(store, form, tmp_path / f"a.{form}")
    done = import_study(copy, form, file)
    assert told(done) == (18, 0, [])
    assert done.notes == [
        "4 of the new ones do not count, as in the file.",
        "Excluded, as nothing of theirs did: annotator 1.",
    ]
    assert [one[1:] for one in state(copy)] == [one[1:] for one in state(store)]
    assert compute_results(copy).rows == compute_results(store).rows
    assert get_overview(copy).n_answered == 8
    assert told(import_study(copy, form, file)) == (0, 18, [])
    assert readmit(copy, 1) == 0
    assert len(read_responses(copy)) == 12


def test_who_was_readmitted_too_late_is_not_excluded(store: Store, copy: Store, tmp_path: Path) -> None:
    """One of their answers does not count, since somebody else was given the place."""
    exclude(store, 1)
    theirs = {one["item"] for one in read_answers(store) if one["annotator"] == 1}
    for name in ("p4", "p5"):
        who, item = enroll(store, name).id, 0
        record_consent(store, who)
        while item not in theirs and (task := next_item(store, who)) is not None:
            item = task.item if task.kind == "real" else 0
            save_answer(store, who, task.item, Answer("pos", 3, 4, 1000))
    assert readmit(store, 1) == 1
    done = import_study(copy, "jsonl", lines(tmp_path, rows_of(store)))
    assert done.notes == ["1 of the new ones does not count, as in the file."]
    assert {one.state for one in get_overview(copy).annotators} == {"active"}
    assert [one.item for one in read_responses(copy)] == [one.item for one in read_responses(store)]


def test_what_was_excluded_since_is_named(store: Store, copy: Store, tmp_path: Path) -> None:
    import_study(copy, "jsonl", lines(tmp_path, rows_of(store)))
    exclude(store, 1)
    rows = [row for row in rows_of(store) if row["annotator"] == 1 and row["kind"] == "real"]
    done = import_study(copy, "jsonl", lines(tmp_path, rows))
    first = f"a.jsonl, line 1: the answer of annotator 1 to item {rows[0]['item']} counts here, other than in the file."
    assert (done.n_new, done.n_existing, len(done.skipped), done.skipped[0]) == (0, 0, 4, first)
    assert len(read_responses(copy)) == 12


def test_practice_and_checks_come_along(store: Store, copy: Store, tmp_path: Path) -> None:
    assert import_study(copy, "jsonl", lines(tmp_path, rows_of(store))).n_new == 12 + 3 + 3
    assert state(copy) == [("annotator 1", "active", 4, 1, 1), *state(store)[1:]]
    assert [one.flagged for one in get_overview(copy).annotators] == [True, False, False]
    told_of = ("kind", "item", "label", "confidence", "readability", "milliseconds", "at", "counted")
    kept = [[tuple(one[name] for name in told_of) for one in read_answers(made)] for made in (store, copy)]
    assert sorted(kept[0]) == sorted(kept[1])


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("kind", ["real", "check", "practice"])
def test_an_edited_row_makes_nobody_new(store: Store, tmp_path: Path, kind: str, older: bool) -> None:
    """Also in exports of earlier versions, which do not name the database."""
    before, rows = read_answers(store), rows_of(store)
    exclude(store, 2)  # so that there is room
    [place, *_] = [place for place, row in enumerate(rows) if row["kind"] == kind and row["annotator"] == 1]
    rows[place] |= {"label": "neg", "readability": 1}
    if older:
        rows = [{name: value for name, value in row.items() if name != "database"} for row in rows]
    done = import_study(store, "jsonl", lines(tmp_path, [rows[place]]))
    assert told(done) == (
        0,
        0,
        [
            f"a.jsonl, line 1: annotator 1 has answered item {rows[place]['item']} before, and otherwise. The first "
            "answer stands."
        ],
    )
    assert len(get_overview(store).annotators) == 3
    assert [one["label"] for one in read_answers(store)] == [one["label"] for one in before]


def test_an_annotator_is_known_by_number_whatever_else_was_edited(store: Store, tmp_path: Path) -> None:
    rows = [row | {"at": row["at"] + 5, "outside": "somebody", "milliseconds": 7} for row in rows_of(store)]
    with (tmp_path / "a.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    assert told(import_study(store, "csv", tmp_path / "a.csv")) == (0, 18, [])
    assert len(get_overview(store).annotators) == 3


def test_the_same_number_in_a_study_made_again_is_somebody_else(store: Store, copy: Store, tmp_path: Path) -> None:
    add_annotators(copy, 1)
    import_study(copy, "jsonl", lines(tmp_path, rows_of(store)))
    assert [one[:3] for one in state(copy)] == [
        (None, "active", 0),
        ("annotator 1", "active", 4),
        ("p2", "active", 4),
        ("p3", "active", 4),
    ]


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ({"annotator": 99}, "there is no annotator 99 in this study."),
        ({"annotator": "x"}, "there is no annotator x in this study."),
        ({"annotator": [1]}, "there is no annotator [1] in this study."),
        ({"counted": "maybe"}, "counted must be true or false, got 'maybe'."),
    ],
)
def test_what_an_export_cannot_say_is_refused(
    store: Store, tmp_path: Path, cells: dict[str, Any], problem: str
) -> None:
    rows = rows_of(store)
    rows[1] |= cells
    with pytest.raises(StudyError) as caught:
        import_study(store, "jsonl", lines(tmp_path, rows))
    assert str(caught.value) == f"a.jsonl, line 2: {problem}"


def test_a_check_is_no_real_item(store: Store, copy: Store, tmp_path: Path) -> None:
    """By its kind and its number, which must agree, and by its label."""
    [check, *_] = [row for row in rows_of(store) if row["kind"] == "check"]
    for cells in ({"kind": "real"}, {"kind": "practice"}):
        with pytest.raises(StudyError, match=rf"^a\.jsonl, line 1: there is no item {check['item']} in this study\.$"):
            import_study(copy, "jsonl", lines(tmp_path, [check | cells]))
    other = {"neg": "pos", "pos": "neg"}[check["gold"]]
    with pytest.raises(StudyError, match=r"^a\.jsonl, line 1: the item has another gold in this study\."):
        import_study(copy, "jsonl", lines(tmp_path, [check | {"gold": other}]))


def test_nothing_is_said_where_all_counts() -> None:
    assert ImportSummary(n_new=3).notes == []


def test_the_command_says_what_does_not_count(
    store: Store, copy: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exclude(store, 1)
    [file] = export_study(store, "csv", tmp_path / "a.csv")
    assert main(["study", "import", str(tmp_path / "copy"), str(file), "--as", "csv"]) == 0
    out, err = capsys.readouterr()
    assert out == "18 new, 0 there already, 0 left out.\n"
    assert err == (
        "4 of the new ones do not count, as in the file.\nExcluded, as nothing of theirs did: annotator 1.\n"
    )
    assert get_overview(copy).n_answered == 8

"""What an import takes, skips and refuses: answers of other studies, of this one, and participants of Prolific."""

import csv
import io
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from elsewhere import FLAT, annotation, items, lines, numbers, outcome, refusal, task, text_of, write
from fresh.errors import StudyError
from fresh.study import annotators as people
from fresh.study import importing
from fresh.study.annotators import add_annotators, exclude, find_annotator, readmit, record_consent
from fresh.study.answers import MAX_MILLISECONDS, Answer, parse_whole
from fresh.study.export import FORMATS, escape_mturk, export_study, format_csv, list_tickets, study_name
from fresh.study.importing import ImportSummary, group_problems, import_study, is_same
from fresh.study.overview import compute_results, get_overview, read_answers, read_responses
from fresh.study.raw_answers import parse_milliseconds
from fresh.study.service import next_item, save_answer
from fresh.study.store import Store, create_study
from studies import MakeStore, get_item, join, plan, two_ways, work

OTHER_STUDY = "The file belongs to another study: import it into the study that it was exported from."
FOUR: dict[str, Any] = {"sample": 4, "practice": 1, "checks": 1, "per_item": 2}


@pytest.fixture
def empty(make_store: MakeStore) -> Store:
    return make_store("study", **FOUR)


@pytest.fixture
def other(make_store: MakeStore) -> Store:
    return make_store("other", **FOUR, seed=1)


def row(item: Any, person: str = "ann", at: int | None = None, **others: Any) -> dict[str, Any]:
    return {"outside": person, "item": item, "at": at, **FLAT, **others}


def counted(store: Store) -> list[tuple[str, int]]:
    """Who answered what, of the answers that count."""
    return sorted((one["outside"], one["item"]) for one in read_answers(store) if one["counted"])


# Answers of another study.


@pytest.mark.parametrize("column", ["document", "condition", "gold", "study"])
def test_rows_that_contradict_the_item_are_refused(
    empty: Store, make_store: MakeStore, tmp_path: Path, column: str
) -> None:
    """Also in files without a name of the study, as older versions wrote them."""
    join(empty, "ann")
    work(empty, 1, 1)
    [one] = [record for record in read_answers(empty) if record["kind"] == "real"]
    fresh = make_store("fresh", **FOUR)
    file = lines(tmp_path / "a.jsonl", {**one, "outside": "bob"}, {**one, column: "else"})
    problem = f"a.jsonl, line 2: the item has a different {column} in this study. {OTHER_STUDY}"
    assert refusal(fresh, "jsonl", file) == [problem]
    assert import_study(fresh, "jsonl", lines(tmp_path / "a.jsonl", {**one, "study": study_name(empty)})).n_new == 1


def file_of(form: str, item: Any, text: str, folder: Path) -> Path:
    """An answer in a file of another tool."""
    if form == "mturk":
        cells = {"WorkerId": "W", "Input.item": item, "Input.text": text}
        cells |= {f"Answer.{name}": value for name, value in FLAT.items()}
        return write(folder / "a.csv", format_csv([cells], list(cells)))
    about: dict[str, Any] = {"instance_id": item, "user_id": "W", "labels": FLAT}
    if form == "label_studio":
        about = {"annotation_id": 1, "annotator": "W", "item": item, **FLAT}
    return write(folder / "a.json", [{**about, "text": text}])


@pytest.mark.parametrize(
    ("form", "place"), [("mturk", "a.csv, line 2"), ("potato", "a.json, row 1"), ("label_studio", "a.json, row 1")]
)
def test_rows_with_another_text_are_refused(empty: Store, other: Store, tmp_path: Path, form: str, place: str) -> None:
    """Items are found by their tickets, and by the numbers that older files have."""
    first = numbers(empty)[0]
    assert numbers(other)[0] == first
    file = file_of(form, first, escape_mturk(text_of(other, first)), tmp_path)
    assert refusal(empty, form, file) == [f"{place}: the item has a different text in this study. {OTHER_STUDY}"]
    file = file_of(form, list_tickets(other)[first], "", tmp_path)
    assert refusal(empty, form, file) == [f"{place}: the item is not in this study. {OTHER_STUDY}"]
    file = file_of(form, list_tickets(empty)[first], escape_mturk(text_of(empty, first)), tmp_path)
    assert outcome(import_study(empty, form, file)) == (1, 0, [])
    assert outcome(import_study(other, form, file_of(form, first, "", tmp_path))) == (1, 0, [])


@given(st.lists(st.text(st.characters(exclude_categories=("Zs", "Zl", "Zp", "Cc", "Cs")), min_size=1), min_size=1))
@example(["\U0001fffe"])  # which HTML takes for nothing
def test_texts_are_recognized_after_escaping_and_guarding(words: list[str]) -> None:
    text = " ".join(words)
    guarded = next(csv.DictReader(io.StringIO(format_csv([{"text": escape_mturk(text)}], ["text"]))))["text"]
    assert is_same(text, text)
    assert is_same(escape_mturk(text), text)
    assert is_same(guarded, text)
    assert not is_same(text + " more", text)


# Cells that cannot be.

AT = "at must be a whole number of milliseconds from 0 (1970) to 253402300799999 (the year 9999), got "


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ({"at": "99999999999999999999"}, f"{AT}'99999999999999999999'."),
        ({"at": 10**30}, f"{AT}1000000000000000000000000000000."),
        ({"at": "9" * 5000}, f"{AT}'{'9' * 59}."),
        ({"at": "x"}, f"{AT}'x'."),
        ({"at": "-5"}, f"{AT}'-5'."),
        ({"at": -5}, f"{AT}-5."),
        ({"kind": "weird"}, "'weird' is not a kind of answer. There are: real, practice, check."),
        ({"kind": ""}, "'' is not a kind of answer. There are: real, practice, check."),
        ({"milliseconds": "-4"}, "milliseconds must be a number of at least 0, got '-4'."),
        ({"milliseconds": "x"}, "milliseconds must be a number of at least 0, got 'x'."),
        ({"outside": "a" * 201}, "an annotator's name must have at most 200 characters, got 201."),
        ({"outside": "a\0b"}, "an annotator's name must not contain a NUL character, got 'a\\x00b'."),
        ({"item": "9" * 5000}, f"the item is not in this study. {OTHER_STUDY}"),
        ({"counted": "maybe"}, "counted must be true or false, got 'maybe'."),
    ],
)
def test_invalid_cells_are_refused_with_their_line(
    empty: Store, tmp_path: Path, cells: dict[str, Any], problem: str
) -> None:
    first, second = numbers(empty)[0], numbers(empty)[2]
    longest = row(first, "a" * 200) | {"at": "", "milliseconds": ""}
    file = lines(tmp_path / "a.jsonl", longest, {**row(second), **cells})
    assert refusal(empty, "jsonl", file) == [f"a.jsonl, line 2: {problem}"]
    assert outcome(import_study(empty, "jsonl", lines(tmp_path / "a.jsonl", longest))) == (1, 0, [])


CELLS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.lists(st.integers(), max_size=2)
)
NAMES = ("kind", "outside", "annotator", "item", "label", "confidence", "readability", "milliseconds", "at", "gold")


@given(st.dictionaries(st.sampled_from(NAMES), CELLS, max_size=4), st.sampled_from(["jsonl", "mturk", "potato"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_any_cell_is_imported_or_refused_with_its_line(empty: Store, tmp_path: Path, cells: Any, form: str) -> None:
    names = {
        "mturk": {"outside": "WorkerId", "item": "Input.item", "label": "Answer.label", "at": "SubmitTime"},
        "potato": {"outside": "user_id", "item": "instance_id"},
    }.get(form, {})
    named = {names.get(name, name): value for name, value in (row(numbers(empty)[0]) | cells).items()}
    refused = ""
    try:
        import_study(empty, form, lines(tmp_path / "a.jsonl", named))
    except StudyError as error:
        refused = str(error)
    assert all(line.startswith("a.jsonl, line 1: ") for line in refused.splitlines())


def test_each_problem_is_reported_once_with_its_first_place(empty: Store, tmp_path: Path) -> None:
    file = lines(tmp_path / "a.jsonl", *[row(numbers(empty)[0])] * 300)
    questions = "one label, one confidence, one readability, one annotator, one item"
    for form, problem in (
        ("label_studio", "this is not an answer in the format of Label Studio. Import its export as"),
        ("mturk", f"there must be exactly {questions}."),
    ):
        [found] = refusal(empty, form, file)
        assert found.startswith(f"a.jsonl, line 1 and 299 more rows: {problem}")
    problems = [("a", "a: x\na: y"), ("b", "b: y"), ("c", "z"), ("d", "d: y")]
    assert group_problems(problems) == "a: x\na and 2 more rows: y\nc: z"
    assert group_problems(problems[:2]) == "a: x\na and 1 more row: y"


@given(st.integers(0, 10**12), st.floats(min_value=0))
def test_numbers_are_read_in_any_notation_and_durations_are_limited_to_a_week(number: int, seconds: float) -> None:
    assert {parse_whole(written) for written in (number, str(number), f" {number} ", float(number))} == {number}
    expected = round(min(seconds * 1000, MAX_MILLISECONDS))
    assert parse_milliseconds("time", seconds) == parse_milliseconds("time", str(seconds)) == expected


@pytest.mark.parametrize("seconds", ["long", -1, "-0.5", float("nan"), [1]])
def test_invalid_durations_are_refused(seconds: Any) -> None:
    with pytest.raises(StudyError, match="lead_time must be a number of at least 0"):
        parse_milliseconds("lead_time", seconds)


@pytest.mark.parametrize("form", ["jsonl", "prolific"])
def test_an_import_that_fails_changes_nothing(
    empty: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """As if the disk were full in the middle."""
    first, _, third, *_ = numbers(empty)
    import_study(empty, "jsonl", lines(tmp_path / "a.jsonl", row(first, "a"), row(third, "a")))
    full = Mock(side_effect=[True, OSError("no space left")])

    def states() -> list[tuple[str | None, str]]:
        return [(one.outside, one.state) for one in get_overview(empty).annotators]

    file = lines(tmp_path / "b.jsonl", row(first, "b"), row(third, "b"))
    if form == "prolific":
        file = write(tmp_path / "p.csv", "Participant id,Status\nc,ACTIVE\na,REJECTED\n")
    with monkeypatch.context() as patch:
        patch.setattr(*((importing, "_save_real") if form == "jsonl" else (people, "release_assignment")), full)
        with pytest.raises(OSError, match="no space left"):
            import_study(empty, form, file)
    assert states() == [("a", "active")]
    assert len(read_responses(empty)) == 2
    import_study(empty, form, file)
    assert states() == ([("a", "active"), ("b", "active")] if form == "jsonl" else [("a", "excluded"), ("c", "active")])


# Who has seen what first.


def test_skipped_answers_count_as_seen(asking: Store, tmp_path: Path) -> None:
    """Also in a file that comes later; when the place is free again, the answer is taken. Items are named as there."""
    one, other = (list_tickets(asking)[item] for item in numbers(asking)[:2])
    rows = [row(one, name) for name in "abc"]
    left = [f"a.jsonl, line 3: item {one} has all the answers that it needs."]
    left.append(f"a.jsonl, line 4: a has already answered item {one} differently. The first answer stands.")
    file = lines(tmp_path / "a.jsonl", *rows, row(one, "a", label="neg"))
    assert outcome(import_study(asking, "jsonl", file)) == (2, 0, left)
    seen = f"b.jsonl, line 1: c has seen the document of item {other} in another condition."
    assert outcome(import_study(asking, "jsonl", lines(tmp_path / "b.jsonl", row(other, "c")))) == (0, 0, [seen])
    exclude(asking, find_annotator(asking, "a").id)
    assert outcome(import_study(asking, "jsonl", lines(tmp_path / "a.jsonl", *rows))) == (1, 2, [])
    assert counted(asking) == [("b", numbers(asking)[0]), ("c", numbers(asking)[0])]


def test_answers_skipped_rejected_or_unfinished_in_other_tools_count_as_seen(asking: Store, tmp_path: Path) -> None:
    one, two, three, *others = items(asking)
    seen = "{place}: ann has seen the document of item {item} in another condition."
    by = {"email": "ann"}
    tasks = [task(others[1], annotation(5, by=by)), task(one, annotation(1, by=by, was_cancelled=True, result=[]))]
    left = ["a.json, row 2, annotation 1: the answer of ann was skipped in the other tool."]
    left.append(seen.format(place="a.json, row 1, annotation 5", item=others[1]))
    assert outcome(import_study(asking, "label_studio", write(tmp_path / "a.json", tasks))) == (0, 0, left)
    worked = {"WorkerId": "ann", **{f"Answer.{name}": value for name, value in FLAT.items()}}
    at = ["Mon Mar 09 22:16:08 PDT 2026", "Mon Mar 09 22:15:08 PDT 2026"]
    rejected = lines(
        tmp_path / "b.jsonl",
        {**worked, "Input.item": others[2], "SubmitTime": at[0]},
        {**worked, "Input.item": two, "SubmitTime": at[1], "Reject": "too fast"},
    )
    left = ["b.jsonl, line 2: the answer of ann was rejected in the other tool."]
    left.append(seen.format(place="b.jsonl, line 1", item=others[2]))
    assert outcome(import_study(asking, "mturk", rejected)) == (0, 0, left)
    labels = {"label": {"Good": "Good"}}
    begun = lines(tmp_path / "c.jsonl", {"instance_id": three, "user_id": "ann", "labels": labels})
    left = ["c.jsonl, line 1: ann has not answered confidence and readability."]
    assert outcome(import_study(asking, "potato", begun)) == (0, 0, left)
    left = [seen.format(place="d.jsonl, line 1", item=others[3])]
    assert outcome(import_study(asking, "jsonl", lines(tmp_path / "d.jsonl", row(others[3])))) == (0, 0, left)
    get_item(asking, find_annotator(asking, "ann").id)
    assert read_responses(asking) == []


def test_rows_are_imported_in_order_of_time(asking: Store, tmp_path: Path) -> None:
    one, other = numbers(asking)[:2]
    rows = [row(one, "a"), row(other, "a", 2000), row(one, "b", 2000), row(other, "b", 1000)]
    left = [
        f"a.jsonl, line 3: b has seen the document of item {one} in another condition.",
        f"a.jsonl, line 1: a has seen the document of item {one} in another condition.",
    ]
    assert outcome(import_study(asking, "jsonl", lines(tmp_path / "a.jsonl", *rows))) == (2, 0, left)
    assert counted(asking) == [("a", other), ("b", other)]


def test_answers_of_excluded_annotators_are_skipped(empty: Store, tmp_path: Path) -> None:
    first, _, third = numbers(empty)[:3]
    import_study(empty, "jsonl", lines(tmp_path / "a.jsonl", row(first)))
    exclude(empty, 1)
    file = lines(tmp_path / "a.jsonl", row(first), row(third))
    assert outcome(import_study(empty, "jsonl", file)) == (0, 1, ["a.jsonl, line 2: ann is excluded."])


def test_names_that_look_like_formulas_are_guarded(empty: Store, tmp_path: Path) -> None:
    """People choose their names in some tools."""
    import_study(empty, "jsonl", lines(tmp_path / "a.jsonl", row(numbers(empty)[0], "=1+1")))
    assert FORMATS["prolific"].write(empty).splitlines()[1].startswith("'=1+1,")
    [file] = export_study(empty, "csv", tmp_path / "answers.csv")
    assert ",'=1+1," in file.read_text(encoding="utf-8")
    assert import_study(empty, "csv", file).n_existing == 1
    assert [one.outside for one in get_overview(empty).annotators] == ["=1+1"]


# What comes back from a study's own export: into the same study, and into one that was made again.


@pytest.fixture
def full(database: str) -> Iterator[Store]:
    """Three have answered all: one by a code, who fails the check, and two from a platform."""
    with closing(create_study(database, plan(two_ways(), **FOUR))) as store:
        add_annotators(store, 1)
        record_consent(store, 1)
        work(store, 1, answer=Answer("pos", 3, 4, 1000))
        for who in join(store, "p2", "p3"):
            work(store, who, answer=Answer("neg", 1, 5, 2000))
        yield store


@pytest.fixture
def copy(make_store: MakeStore) -> Store:
    """The same study, made again."""
    return make_store("copy", **FOUR)


def exported(store: Store) -> list[dict[str, Any]]:
    return [json.loads(line) for line in FORMATS["jsonl"].write(store).splitlines()]


def progress(store: Store) -> list[tuple[Any, ...]]:
    found = get_overview(store).annotators
    return [(one.outside, one.state, one.n_answered, one.n_checks, one.n_failed) for one in found]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_uncounted_answers_stay_uncounted(full: Store, copy: Store, tmp_path: Path, form: str) -> None:
    exclude(full, 1)
    [file] = export_study(full, form, tmp_path / f"a.{form}")
    done = import_study(copy, form, file)
    assert outcome(done) == (18, 0, [])
    assert done.notes == [
        "4 new answers do not count, as in the file.",
        "Excluded, since none of their answers count there: annotator 1.",
    ]
    assert ImportSummary(n_new=3).notes == []
    assert [one[1:] for one in progress(copy)] == [one[1:] for one in progress(full)]
    assert compute_results(copy).rows == compute_results(full).rows
    assert get_overview(copy).n_answered == 8
    assert outcome(import_study(copy, form, file)) == (0, 18, [])
    assert readmit(copy, 1) == 0
    assert len(read_responses(copy)) == 12


def test_annotators_with_some_counted_answers_are_not_excluded(full: Store, copy: Store, tmp_path: Path) -> None:
    """One of their answers does not count, since somebody else was given the place."""
    exclude(full, 1)
    theirs = {one["item"] for one in read_answers(full) if one["annotator"] == 1}
    for who in join(full, "p4", "p5"):
        item = 0
        while item not in theirs and (task := next_item(full, who)) is not None:
            item = task.item if task.kind == "real" else 0
            save_answer(full, who, task.item, Answer("pos", 3, 4, 1000))
    assert readmit(full, 1) == 1
    done = import_study(copy, "jsonl", lines(tmp_path / "a.jsonl", *exported(full)))
    assert done.notes == ["1 new answer does not count, as in the file."]
    assert {one.state for one in get_overview(copy).annotators} == {"active"}
    assert [one.item for one in read_responses(copy)] == [one.item for one in read_responses(full)]


def test_answers_excluded_since_the_import_are_reported(full: Store, copy: Store, tmp_path: Path) -> None:
    import_study(copy, "jsonl", lines(tmp_path / "a.jsonl", *exported(full)))
    exclude(full, 1)
    rows = [one for one in exported(full) if one["annotator"] == 1 and one["kind"] == "real"]
    done = import_study(copy, "jsonl", lines(tmp_path / "a.jsonl", *rows))
    first = f"a.jsonl, line 1: the answer of annotator 1 to item {rows[0]['item']} counts here, but not in the file."
    assert (done.n_new, done.n_existing, len(done.skipped), done.skipped[0]) == (0, 0, 4, first)
    assert len(read_responses(copy)) == 12


def test_practice_and_checks_are_imported(full: Store, copy: Store, tmp_path: Path) -> None:
    assert import_study(copy, "jsonl", lines(tmp_path / "a.jsonl", *exported(full))).n_new == 12 + 3 + 3
    assert progress(copy) == [("annotator 1", "active", 4, 1, 1), *progress(full)[1:]]
    flagged, copied = ([one.flagged for one in get_overview(store).annotators] for store in (full, copy))
    assert flagged == copied
    names = ("kind", "item", "label", "confidence", "readability", "milliseconds", "at", "counted")
    kept = [[tuple(one[name] for name in names) for one in read_answers(store)] for store in (full, copy)]
    assert sorted(kept[0]) == sorted(kept[1])


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("kind", ["real", "check", "practice"])
def test_an_edited_row_adds_no_annotator(full: Store, tmp_path: Path, kind: str, older: bool) -> None:
    """Also in exports of earlier versions, which do not name the database."""
    before, rows = [one["label"] for one in read_answers(full)], exported(full)
    exclude(full, 2)  # so that there is room
    [edited, *_] = [one for one in rows if one["kind"] == kind and one["annotator"] == 1]
    edited |= {"label": "neg", "readability": 1}
    if older:
        del edited["database"]
    reason = f"annotator 1 has already answered item {edited['item']} differently. The first answer stands."
    done = import_study(full, "jsonl", lines(tmp_path / "a.jsonl", edited))
    assert outcome(done) == (0, 0, [f"a.jsonl, line 1: {reason}"])
    assert len(get_overview(full).annotators) == 3
    assert [one["label"] for one in read_answers(full)] == before


def test_annotators_are_recognized_by_number_and_database(full: Store, copy: Store, tmp_path: Path) -> None:
    rows = [one | {"at": one["at"] + 5, "outside": "somebody", "milliseconds": 7} for one in exported(full)]
    file = write(tmp_path / "a.csv", format_csv(rows, list(rows[0])))
    assert outcome(import_study(full, "csv", file)) == (0, 18, [])
    assert len(get_overview(full).annotators) == 3
    add_annotators(copy, 1)
    import_study(copy, "jsonl", lines(tmp_path / "a.jsonl", *exported(full)))
    names = [(one[0], one[2]) for one in progress(copy)]
    assert names == [(None, 0), ("annotator 1", 4), ("p2", 4), ("p3", 4)]


@pytest.mark.parametrize("number", [99, "x", [1]])
def test_unknown_annotator_numbers_are_refused(full: Store, tmp_path: Path, number: Any) -> None:
    rows = exported(full)
    rows[1]["annotator"] = number
    with pytest.raises(StudyError, match=r"^a\.jsonl, line 2: there is no annotator \[?\w+\]? in this study\.$"):
        import_study(full, "jsonl", lines(tmp_path / "a.jsonl", *rows))


def test_checks_are_not_imported_as_real_items(full: Store, copy: Store, tmp_path: Path) -> None:
    """By its kind and its number, which must agree."""
    [check, *_] = [one for one in exported(full) if one["kind"] == "check"]
    for kind in ("real", "practice"):
        found = refusal(copy, "jsonl", lines(tmp_path / "a.jsonl", check | {"kind": kind}))
        assert found == [f"a.jsonl, line 1: there is no item {check['item']} in this study."]


# Prolific.

SUBMISSIONS = (
    "Submission id,Participant id,Status,Custom study tncs accepted at,Started at,Completed at,Reviewed at,Archived at,"
    "Time taken,Completion code,Total approvals,Fluent languages,Age,Sex"
)


def submissions(path: Path, *rows: tuple[str, str]) -> Path:
    cells = 'Not Applicable,,,,,1150,C12,389,"German, English",24,Male'
    return write(path, "\n".join([SUBMISSIONS, *(f"67{n},{who},{s},{cells}" for n, (who, s) in enumerate(rows)), ""]))


def test_prolific_statuses_become_states(asking: Store, tmp_path: Path) -> None:
    first, *_, last = numbers(asking)
    import_study(asking, "jsonl", lines(tmp_path / "a.jsonl", row(first, "a"), row(first, "d"), row(last, "c")))
    gone = [("b", "RETURNED"), ("c", "TIMED-OUT"), ("d", "REJECTED"), ("e", "SCREENED OUT")]
    here = [("a", "APPROVED"), ("f", "ACTIVE"), ("g", "AWAITING REVIEW")]
    file = submissions(tmp_path / "prolific_export.csv", *gone, *here, ("b", "APPROVED"))
    assert outcome(import_study(asking, "prolific", file)) == (4, 3, [])
    assert counted(asking) == [("a", first), ("c", last)]
    again = lines(tmp_path / "b.jsonl", row(first, "f"))  # the place of d is free
    assert outcome(import_study(asking, "jsonl", again)) == (1, 0, [])
    found = {one.outside: one.state for one in get_overview(asking).annotators}
    left, active = dict.fromkeys("ce", "left"), dict.fromkeys("abfg", "active")
    assert found == {**left, **active, "d": "excluded"}  # b came back and was approved
    assert outcome(import_study(asking, "prolific", file)) == (0, 7, [])
    header = "Participant id,answered,checks failed,state"
    assert FORMATS["prolific"].write(asking).splitlines()[::4] == [header, "b,0,0,not started"]
    older = write(tmp_path / "older.csv", "session_id,participant_id,status\n1,z,Timed-Out\n")
    assert outcome(import_study(asking, "prolific", older)) == (1, 0, [])
    assert get_overview(asking).annotators[-1].state == "left"


def test_problems_of_a_prolific_file_are_reported_together(asking: Store, tmp_path: Path) -> None:
    file = write(tmp_path / "p.csv", f"Participant id,Status\na,REJECTED\nb,REJECT\n,ACTIVE\n{'b' * 201},ACTIVE\n")
    assert refusal(asking, "prolific", file) == [
        "p.csv, line 3: REJECT is not a status of Prolific. Did you mean REJECTED?",
        "p.csv, line 4: an export of Prolific has the columns 'Participant id' and 'Status'.",
        "p.csv, line 5: an annotator's name must have at most 200 characters, got 201.",
    ]

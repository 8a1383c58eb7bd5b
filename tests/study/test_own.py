"""What a study takes for its own, and what it refuses: answers of another study, and cells that cannot be."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from elsewhere import numbers, text_of, told, write
from fresh.errors import StudyError
from fresh.study import importing
from fresh.study.annotators import record_consent
from fresh.study.answers import Answer
from fresh.study.export import escape_mturk, export_study, format_csv, list_tickets, study_name
from fresh.study.importing import group_problems, import_study, is_same
from fresh.study.items import Plan
from fresh.study.overview import get_overview, read_answers, read_responses
from fresh.study.service import next_item, save_answer
from fresh.study.store import Store, create_study
from studies import enroll, plan, two_ways

ELSEWHERE = "The file is of another study: import it into the one that it was exported from."


def seeded(seed: int) -> Plan:
    return plan(two_ways(), sample=4, practice=1, checks=1, per_item=2, seed=seed)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = create_study(tmp_path / "study", seeded(0))
    yield made
    made.close()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    made = create_study(tmp_path / "other", seeded(1))
    yield made
    made.close()


def refusal(store: Store, form: str, path: Path) -> list[str]:
    """Import what must be refused; nothing of it may stay."""
    with pytest.raises(StudyError) as caught:
        import_study(store, form, path)
    assert read_responses(store) == []
    assert get_overview(store).annotators == ()
    return str(caught.value).splitlines()


def answered(store: Store, n: int = 2) -> None:
    who = enroll(store, "ann").id
    record_consent(store, who)
    while (task := next_item(store, who)) is not None and len(read_responses(store)) < n:
        save_answer(store, who, task.item, Answer("pos", 3, 4, 1000))


def row(item: Any, **others: Any) -> dict[str, Any]:
    return {"outside": "ann", "item": item, "label": "pos", "confidence": 3, "readability": 4, **others}


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    return write(path, "".join(json.dumps(one) + "\n" for one in rows))


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_answers_of_another_study_are_refused(store: Store, other: Store, tmp_path: Path, form: str) -> None:
    answered(other)
    [file] = export_study(other, form, tmp_path / f"a.{form}")
    assert all(line.startswith(f"a.{form}, line ") and line.endswith(ELSEWHERE) for line in refusal(store, form, file))
    assert "another study" in refusal(store, form, file)[0].partition(" in this study. ")[0]


@pytest.mark.parametrize("column", ["document", "condition", "gold", "study"])
def test_what_contradicts_the_item_is_of_another_study(store: Store, tmp_path: Path, column: str) -> None:
    """Also in files without a name of the study, as older versions wrote them."""
    answered(store, 1)
    [one] = [record for record in read_answers(store) if record["kind"] == "real"]
    fresh = create_study(tmp_path / "fresh", seeded(0))
    good, bad = {**one, "outside": "bob"}, {**one, column: "else"}
    file = lines(tmp_path / "a.jsonl", good, bad)
    assert refusal(fresh, "jsonl", file) == [
        f"a.jsonl, line 2: the item has another {column} in this study. {ELSEWHERE}"
    ]
    assert import_study(fresh, "jsonl", lines(tmp_path / "a.jsonl", {**one, "study": study_name(store)})).n_new == 1
    fresh.close()


def elsewhere(form: str, item: Any, text: str, folder: Path) -> Path:
    """An answer in a file of another tool."""
    flat = {"label": "pos", "confidence": "3", "readability": "4"}
    if form == "mturk":
        answers = {f"Answer.{name}": value for name, value in flat.items()}
        cells = {"WorkerId": "W", "Input.item": item, "Input.text": text, **answers}
        return write(folder / "a.csv", format_csv([cells], list(cells)))
    about: dict[str, Any] = {"instance_id": item, "user_id": "W", "labels": flat}
    if form == "label_studio":
        about = {"annotation_id": 1, "annotator": "W", "item": item, **flat}
    return write(folder / "a.json", [{**about, "text": text}])


@pytest.mark.parametrize(
    ("form", "place"), [("mturk", "a.csv, line 2"), ("potato", "a.json, row 1"), ("label_studio", "a.json, row 1")]
)
def test_another_text_is_of_another_study(store: Store, other: Store, tmp_path: Path, form: str, place: str) -> None:
    """Items are found by their tickets, and by the numbers that older files have."""
    first = numbers(store)[0]
    assert numbers(other)[0] == first
    file = elsewhere(form, first, escape_mturk(text_of(other, first)), tmp_path)
    assert refusal(store, form, file) == [f"{place}: the item has another text in this study. {ELSEWHERE}"]
    file = elsewhere(form, list_tickets(other)[first], "", tmp_path)
    assert refusal(store, form, file) == [f"{place}: its item is none of this study. {ELSEWHERE}"]
    file = elsewhere(form, list_tickets(store)[first], escape_mturk(text_of(store, first)), tmp_path)
    assert told(import_study(store, form, file)) == (1, 0, [])
    assert told(import_study(other, form, elsewhere(form, first, "", tmp_path))) == (1, 0, [])


@given(st.lists(st.text(st.characters(exclude_categories=("Zs", "Zl", "Zp", "Cc", "Cs")), min_size=1), min_size=1))
@example(["\U0001fffe"])  # which HTML takes for nothing
def test_a_text_is_known_again_however_it_travelled(words: list[str]) -> None:
    text = " ".join(words)
    guarded = next(csv.DictReader(io.StringIO(format_csv([{"text": escape_mturk(text)}], ["text"]))))["text"]
    assert is_same(text, text)
    assert is_same(escape_mturk(text), text)
    assert is_same(guarded, text)
    assert not is_same(text + " more", text)


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
        ({"milliseconds": "-4"}, "milliseconds must be a number from 0, got '-4'."),
        ({"milliseconds": "x"}, "milliseconds must be a number from 0, got 'x'."),
        ({"outside": "a" * 201}, "a person's name must have at most 200 characters, got 201."),
        ({"outside": "a\0b"}, "a person's name must have no NUL in it, got 'a\\x00b'."),
        ({"item": "9" * 5000}, f"its item is none of this study. {ELSEWHERE}"),
    ],
)
def test_cells_that_cannot_be_are_refused_with_their_line(
    store: Store, tmp_path: Path, cells: dict[str, Any], problem: str
) -> None:
    first, second = numbers(store)[0], numbers(store)[2]
    file = lines(tmp_path / "a.jsonl", row(first), {**row(second), **cells})
    assert refusal(store, "jsonl", file) == [f"a.jsonl, line 2: {problem}"]


def test_a_name_of_200_characters_and_no_time_are_taken(store: Store, tmp_path: Path) -> None:
    file = lines(tmp_path / "a.jsonl", row(numbers(store)[0], outside="a" * 200, at="", milliseconds=""))
    assert told(import_study(store, "jsonl", file)) == (1, 0, [])
    long = write(tmp_path / "p.csv", f"Participant id,Status\n{'b' * 201},ACTIVE\n")
    with pytest.raises(
        StudyError, match=r"^p\.csv, line 2: a person's name must have at most 200 characters, got 201\.$"
    ):
        import_study(store, "prolific", long)


def test_an_import_that_breaks_leaves_nothing(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the disk were full at the second answer."""
    settle = importing._settle

    def full(session: Any, person: Any, one: Any) -> str:
        if one.item == numbers(store)[2]:
            raise OSError("no space left")
        return settle(session, person, one)

    monkeypatch.setattr(importing, "_settle", full)
    first, _, third, *_ = numbers(store)
    with pytest.raises(OSError, match="no space left"):
        import_study(store, "jsonl", lines(tmp_path / "a.jsonl", row(first), row(third)))
    assert read_responses(store) == []
    assert get_overview(store).annotators == ()


def test_what_is_wrong_in_all_rows_is_said_once(store: Store, tmp_path: Path) -> None:
    file = lines(tmp_path / "a.jsonl", *[row(numbers(store)[0])] * 300)
    assert refusal(store, "label_studio", file) == [
        "a.jsonl, line 1 and 299 more rows: this is not as Label Studio writes answers. Give its export as JSON, "
        "JSON-MIN, CSV or TSV."
    ]
    assert refusal(store, "mturk", file) == [
        "a.jsonl, line 1 and 299 more rows: there is no label, no confidence, no readability, no person, no item, or "
        "more than one."
    ]


def test_each_problem_is_said_with_its_first_place() -> None:
    problems = [("a", "a: x\na: y"), ("b", "b: y"), ("c", "z"), ("d", "d: y")]
    assert group_problems(problems) == "a: x\na and 2 more rows: y\nc: z"
    assert group_problems(problems[:2]) == "a: x\na and 1 more row: y"


def test_a_study_is_named_by_its_items(store: Store, other: Store, tmp_path: Path) -> None:
    again = create_study(tmp_path / "again", seeded(0))
    assert study_name(again) == study_name(store) != study_name(other)
    ways = {"human": {"kind": "human"}, "all": {"kind": "full_text"}}
    renamed = create_study(tmp_path / "renamed", plan(ways, sample=4, practice=1, checks=1, per_item=2))
    assert study_name(renamed) != study_name(store)
    for made in (again, renamed):
        made.close()


CELLS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.lists(st.integers(), max_size=2)
)
NAMES = ("kind", "outside", "annotator", "item", "label", "confidence", "readability", "milliseconds", "at", "gold")


@given(st.dictionaries(st.sampled_from(NAMES), CELLS, max_size=4), st.sampled_from(["jsonl", "mturk", "potato"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_any_cell_is_taken_or_refused_with_its_line(store: Store, tmp_path: Path, cells: Any, form: str) -> None:
    ways = {"mturk": {"outside": "WorkerId", "item": "Input.item", "label": "Answer.label", "at": "SubmitTime"}}
    ways["potato"] = {"outside": "user_id", "item": "instance_id"}
    named = {ways.get(form, {}).get(name, name): value for name, value in (row(numbers(store)[0]) | cells).items()}
    refused = ""
    try:
        import_study(store, form, lines(tmp_path / "a.jsonl", named))
    except StudyError as error:
        refused = str(error)
    assert all(line.startswith("a.jsonl, line 1: ") for line in refused.splitlines())

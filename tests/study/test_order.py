"""Who has seen what first, by what files tell; and files for others that tell nothing."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

import fresh.study.web.site
from elsewhere import asked, items, numbers, told, write
from fresh.errors import StudyError
from fresh.study.annotators import exclude, find_annotator
from fresh.study.export import SCALE_QUESTIONS, TICKET_LENGTH, export_study, list_tickets, make_ticket
from fresh.study.importing import import_study
from fresh.study.overview import read_answers, read_responses
from fresh.study.raw_answers import MAX_TIMESTAMP, parse_timestamp
from fresh.study.service import next_item
from fresh.study.store import Store

FLAT = {"label": "pos", "confidence": "3", "readability": "4"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = asked(tmp_path / "study")
    yield made
    made.close()


def annotation(person: str, minute: int, **others: Any) -> dict[str, Any]:
    results = [{"from_name": name, "value": {"choices": [value]}} for name, value in FLAT.items()]
    about = {"id": minute, "completed_by": {"email": person}, "created_at": f"2026-03-09T20:{minute:02}:00Z"}
    return {**about, "result": results, **others}


def task(item: Any, *annotations: dict[str, Any]) -> dict[str, Any]:
    return {"data": {"item": item}, "annotations": list(annotations)}


def row(person: str, item: int, at: int | None = None) -> dict[str, Any]:
    return {"outside": person, "item": item, "at": at, **FLAT}


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    return write(path, "".join(json.dumps(one) + "\n" for one in rows))


def taken(store: Store) -> list[tuple[str, int]]:
    """Who answered what, of the answers that count."""
    return sorted((one["outside"], one["item"]) for one in read_answers(store) if one["counted"])


@pytest.mark.parametrize("backwards", [False, True])
def test_whoever_answers_all_is_heard_about_each_document_as_they_saw_it_first(
    store: Store, tmp_path: Path, backwards: bool
) -> None:
    """Six people answer all tasks of a project in its order, of which each needs two answers."""
    tasks, _ = export_study(store, "label_studio", tmp_path / "tasks.json")
    order = [one["data"]["item"] for one in json.loads(tasks.read_text(encoding="utf-8"))]
    done = [
        task(ticket, *(annotation(f"p{person}", place) for person in range(6))) for place, ticket in enumerate(order)
    ]
    file = write(tmp_path / "project.json", done[::-1] if backwards else done)
    found = import_study(store, "label_studio", file)
    documents = {number: place // 2 for place, number in enumerate(numbers(store))}
    shown = {ticket: number for number, ticket in list_tickets(store).items()}
    first: dict[int, int] = {}
    for ticket in order:
        first.setdefault(documents[shown[ticket]], shown[ticket])
    assert {item for _, item in taken(store)} == set(first.values())
    assert found.n_new == 4 * 2
    assert len(found.skipped) == 8 * 6 - 4 * 2


def test_an_answer_that_was_left_out_was_seen(store: Store, tmp_path: Path) -> None:
    """Also in a file that comes later; when the place is free again, the answer is taken."""
    one, other = numbers(store)[:2]
    rows = [row("a", one), row("b", one), row("c", one)]
    full = f"a.jsonl, line 3: item {one} has all the answers that it needs."
    assert told(import_study(store, "jsonl", lines(tmp_path / "a.jsonl", *rows))) == (2, 0, [full])
    seen = f"b.jsonl, line 1: c has seen the document of item {other} otherwise cut."
    assert told(import_study(store, "jsonl", lines(tmp_path / "b.jsonl", row("c", other)))) == (0, 0, [seen])
    exclude(store, find_annotator(store, "a").id)
    assert told(import_study(store, "jsonl", lines(tmp_path / "a.jsonl", *rows))) == (1, 2, [])
    assert taken(store) == [("b", one), ("c", one)]


def test_what_was_skipped_rejected_or_not_finished_was_seen(store: Store, tmp_path: Path) -> None:
    one, two, three, *others = items(store)
    seen = "{place}: ann has seen the document of item {item} otherwise cut."
    skipped = write(
        tmp_path / "a.json",
        [task(others[1], annotation("ann", 5)), task(one, annotation("ann", 1, was_cancelled=True, result=[]))],
    )
    assert told(import_study(store, "label_studio", skipped)) == (
        0,
        0,
        [
            "a.json, row 2, annotation 1: the answer of ann was skipped there.",
            seen.format(place="a.json, row 1, annotation 5", item=others[1]),
        ],
    )
    answers = {f"Answer.{name}": value for name, value in FLAT.items()}
    worked = {"WorkerId": "ann", **answers}
    at = ["Mon Mar 09 22:16:08 PDT 2026", "Mon Mar 09 22:15:08 PDT 2026"]
    rejected = lines(
        tmp_path / "b.jsonl",
        {**worked, "Input.item": others[2], "SubmitTime": at[0]},
        {**worked, "Input.item": two, "SubmitTime": at[1], "Reject": "too fast"},
    )
    left = [
        "b.jsonl, line 2: the answer of ann was rejected there.",
        seen.format(place="b.jsonl, line 1", item=others[2]),
    ]
    assert told(import_study(store, "mturk", rejected)) == (0, 0, left)
    labels = {"label": {"Good": "Good"}}
    begun = lines(tmp_path / "c.jsonl", {"instance_id": three, "user_id": "ann", "labels": labels})
    left = ["c.jsonl, line 1: ann has not answered confidence and readability."]
    assert told(import_study(store, "potato", begun)) == (0, 0, left)
    left = [seen.format(place="d.jsonl, line 1", item=others[3])]
    assert told(import_study(store, "jsonl", lines(tmp_path / "d.jsonl", row("ann", others[3])))) == (0, 0, left)
    task_of_ann = next_item(store, find_annotator(store, "ann").id)
    assert task_of_ann is not None
    assert read_responses(store) == []


def test_rows_are_taken_in_the_order_of_their_times(store: Store, tmp_path: Path) -> None:
    one, other = numbers(store)[:2]
    file = lines(tmp_path / "a.jsonl", row("a", one), row("a", other, 2000), row("b", one, 2000), row("b", other, 1000))
    left = [
        f"a.jsonl, line 3: b has seen the document of item {one} otherwise cut.",
        f"a.jsonl, line 1: a has seen the document of item {one} otherwise cut.",
    ]
    assert told(import_study(store, "jsonl", file)) == (2, 0, left)
    assert taken(store) == [("a", other), ("b", other)]


def test_times_of_tools_are_read() -> None:
    assert (
        parse_timestamp("2026-03-09T22:16:08.728353Z")
        == parse_timestamp("2026-03-09T22:16:08.728353")
        == 1_773_094_568_728
    )
    assert parse_timestamp("Mon Mar 09 22:16:08 PDT 2026") == 1_773_119_768_000
    assert parse_timestamp(1.7e9) == 1_700_000_000_000
    unread: list[Any] = [
        None,
        "",
        "soon",
        "2026-99-99",
        -1,
        float("nan"),
        float("inf"),
        [],
        0,
        1e300,
        "9" * 5000,
        "Mon",
    ]
    assert [parse_timestamp(written) for written in unread] == [None] * len(unread)


@given(st.text() | st.floats() | st.integers())
def test_any_time_of_a_tool_is_read_or_not(written: Any) -> None:
    found = parse_timestamp(written)
    assert found is None or 0 <= found <= MAX_TIMESTAMP


@pytest.mark.parametrize("form", ["mturk", "potato", "label_studio"])
def test_neither_names_nor_order_of_items_tell_anything(store: Store, tmp_path: Path, form: str) -> None:
    """No name has the number in it, and the two versions of a document seldom stand after each other."""
    made = export_study(store, form, tmp_path / "items.jsonl")
    text = made[0].read_text(encoding="utf-8")
    tickets = list_tickets(store)
    places = [text.index(ticket) for ticket in tickets.values()]
    assert places == sorted(places)
    assert list(tickets.values()) == sorted(tickets.values())
    assert not any(ticket.isdecimal() or any(sign.isdigit() for sign in ticket) for ticket in tickets.values())
    assert f'"item": {numbers(store)[0]}' not in text
    again = export_study(store, form, tmp_path / "again.jsonl")
    assert again[0].read_text(encoding="utf-8") == text


@given(st.binary(min_size=32, max_size=32))
def test_tickets_are_shuffled_by_the_key(key: bytes) -> None:
    tickets = {item: make_ticket(key, item) for item in range(1, 201)}
    assert len(set(tickets.values())) == 200
    assert {len(ticket) for ticket in tickets.values()} == {TICKET_LENGTH}
    order = sorted(tickets, key=tickets.__getitem__)
    after = sum(abs(one - other) == 1 for one, other in pairwise(order))
    assert after < 20  # of 199; by chance two are to be expected


def test_groups_of_potato_name_items_as_the_data_does(store: Store, tmp_path: Path) -> None:
    data, settings = export_study(store, "potato", tmp_path / "items.jsonl")
    order = [json.loads(line)["id"] for line in data.read_text(encoding="utf-8").splitlines()]
    groups = yaml.safe_load(settings.read_text(encoding="utf-8"))["batch_assignment"]["groups"]
    for group in groups:
        assert group["instances"] == [item for item in order if item in group["instances"]]


def test_pages_elsewhere_ask_what_our_own_ask(store: Store, tmp_path: Path) -> None:
    """And speak of no practice and no checks, which they do not have."""
    own = (Path(fresh.study.web.site.__file__).parent / "pages" / "item.html").read_text(encoding="utf-8")
    for form in ("mturk", "potato", "label_studio"):
        _, settings = export_study(store, form, tmp_path / "items.jsonl")
        for question in SCALE_QUESTIONS.values():
            assert question in settings.read_text(encoding="utf-8")
            assert f'"{question}"' in own
    _, page = export_study(store, "mturk", tmp_path / "batch.csv")
    shown = page.read_text(encoding="utf-8")
    assert "say that you are not confident.</p>" in shown
    assert "practice" not in shown
    assert "certain answers" not in shown
    assert "First come a few examples for practice" in store.about["texts"]["instructions"]


def test_a_wrong_ticket_is_no_item(store: Store, tmp_path: Path) -> None:
    with pytest.raises(
        StudyError, match=r"^a\.json, row 1, annotation 1: its item is none of this study\. The file is"
    ):
        import_study(
            store, "label_studio", write(tmp_path / "a.json", [task("b" * TICKET_LENGTH, annotation("ann", 1))])
        )

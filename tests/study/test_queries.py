"""Queries of several parts, as people read them; what a model reads stays as it is."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from fresh.study.annotators import add_annotators
from fresh.study.display import QUERY_PARTS, format_query, split_query
from fresh.study.export import export_study
from fresh.study.importing import import_study
from fresh.study.items import make_plan
from fresh.study.schema import ItemRow
from fresh.study.store import Store, create_study
from fresh.study.web.app import create_app
from studies import corpus, load, study, two_ways
from visitors import strip_practice, visitor

ASKED = "What was on the desk ? || A pencil"
SPELT = "Question: what was on the desk ? Answer: a pencil"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    settings = study(two_ways(), corpus="multirc", data_dir="x", sample=4, practice=1, checks=1)
    made = create_study(tmp_path / "s", make_plan(settings, corpus(query=ASKED), load))
    yield made
    made.close()


def test_parts_have_the_names_of_their_corpus() -> None:
    assert split_query(ASKED.split(), "multirc") == [("Question", "What was on the desk ?"), ("Answer", "A pencil")]
    assert split_query(["a", "||", "b", "||", "c", "d"], "evinf") == [
        ("Intervention", "a"),
        ("Compared with", "b"),
        ("Outcome", "c d"),
    ]
    assert (
        split_query(["a", "||", "b"], "evinf")
        == split_query(["a", "||", "||", "b"], "mine.csv")
        == [("", "a"), ("", "b")]
    )
    assert split_query(["is", "it", "good", "?"], "multirc") == [("", "is it good ?")]
    assert split_query((), "multirc") == []
    assert format_query(["a", "||", "b", "||", "c"], "evinf") == "Intervention: a Compared with: b Outcome: c"
    assert format_query(["a", "||", "b"], "mine.csv") == "a / b"


@given(st.lists(st.sampled_from(["a", "b", "|", "||"])), st.sampled_from([*QUERY_PARTS, "mine.csv"]))
def test_no_word_is_lost_and_the_sign_is(query: list[str], name: str) -> None:
    shown = [word for _, part in split_query(query, name) for word in part.split()]
    assert shown == [word for word in query if word != "||"]


def test_pages_show_question_and_answer(store: Store) -> None:
    person = visitor(create_app(store)).enter(add_annotators(store, 1)[0])
    asked = [
        '<p class="query" dir="auto"><span class="muted">Question:</span> what was on the desk ?</p>',
        '<p class="query" dir="auto"><span class="muted">Answer:</span> a pencil</p>',
    ]
    for page in (person.get("/").page, person.get("/item").page):
        assert all(line in page for line in asked)
        assert "||" not in page
    shown: list[str] = []
    strip_practice(person)
    while person.text:  # also the check, which would stand out otherwise
        assert all(line in person.page for line in asked)
        shown.append(person.text)
        person.give()
    assert sum("this is a check" in text for text in shown) == 1


@pytest.mark.parametrize("form", ["mturk", "potato", "label_studio"])
def test_files_for_others_say_question_and_answer(store: Store, tmp_path: Path, form: str) -> None:
    made, _ = export_study(store, form, tmp_path / "items.jsonl")
    text = made.read_text(encoding="utf-8")
    assert text.count(SPELT) == 8
    assert "||" not in text


@pytest.mark.parametrize("query", [SPELT, ASKED.lower(), "other"])
def test_answers_come_back_with_the_query_as_it_was_exported_now_or_earlier(
    store: Store, tmp_path: Path, query: str
) -> None:
    made, _ = export_study(store, "label_studio", tmp_path / "tasks.json")
    task = json.loads(made.read_text(encoding="utf-8"))[0]
    given = {"label": "pos", "confidence": "3", "readability": "4"}
    results = [{"from_name": name, "value": {"choices": [value]}} for name, value in given.items()]
    task["data"]["query"] = query
    task["annotations"] = [{"id": 1, "completed_by": {"email": "ann"}, "result": results}]
    made.write_text(json.dumps([task]), encoding="utf-8")
    if query == "other":
        with pytest.raises(ValueError, match=r"^tasks\.json, row 1, annotation 1: the item has another query in this"):
            import_study(store, "label_studio", made)
    else:
        assert import_study(store, "label_studio", made).n_new == 1


def test_what_is_kept_is_what_the_model_reads(store: Store) -> None:
    with store.read_session() as session:
        kept = session.scalars(select(ItemRow.query)).all()
    assert len(kept) == 4 * 2 + 1 + 1 + 2  # texts in two conditions, practice, a check, examples
    assert all(query == ASKED.lower().split() for query in kept)

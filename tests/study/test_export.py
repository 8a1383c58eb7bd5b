import csv
import io
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from elsewhere import items, numbers, write
from fresh.errors import StudyError
from fresh.study.answers import SCALE_QUESTIONS, Answer
from fresh.study.config import OLD_PRACTICE_NOTE, PRACTICE_NOTE
from fresh.study.export import (
    FORMATS,
    TICKET_LENGTH,
    database_name,
    escape_mturk,
    export_paths,
    export_study,
    list_tickets,
    make_ticket,
    study_name,
)
from fresh.study.importing import import_study
from fresh.study.items import make_plan
from fresh.study.overview import compute_results, get_overview, read_answers
from fresh.study.store import Store, create_study
from studies import MakeStore, corpus, join, load, study, two_ways, work

TOOLS = ("mturk", "potato", "label_studio")


def test_answers_round_trip(store: Store, make_store: MakeStore, tmp_path: Path) -> None:
    first, second = join(store, "p1", "p2")
    work(store, first, answer=Answer("pos", 3, 4))  # on pages without scripts, which measure no time
    work(store, second)
    assert [one.seconds for one in get_overview(store).annotators] == [None, 1.5]
    rows = list(csv.DictReader(io.StringIO(FORMATS["csv"].write(store))))
    lines = [json.loads(line) for line in FORMATS["jsonl"].write(store).splitlines()]
    names = {"study": study_name(store), "database": database_name(store)}
    answers = read_answers(store)
    assert lines == [{**names, **one, "milliseconds": one["milliseconds"] or None} for one in answers]
    assert [names | {key: row[key] for key in names} for row in rows] == [names] * (12 + 4)
    assert [row["milliseconds"] for row in rows if row["kind"] == "real"] == [""] * 6 + ["1500"] * 6
    assert {row["counted"] for row in rows if row["kind"] != "real"} == {"False"}
    for form in ("csv", "jsonl"):
        [file] = export_study(store, form, tmp_path / f"answers.{form}")
        assert import_study(store, form, file).n_existing == 12 + 4
        other = make_store(form, sample=6, practice=1, checks=1, per_item=2)
        assert import_study(other, form, file).n_new == 12 + 4
        assert get_overview(other).started == [replace(one, started=False) for one in get_overview(store).started]
        assert compute_results(other).rows == compute_results(store).rows


@pytest.mark.parametrize("form", TOOLS)
def test_characters_that_pages_replace_are_exported_unchanged(hidden: Store, tmp_path: Path, form: str) -> None:
    [file, _] = export_study(hidden, form, tmp_path / "items.jsonl")
    assert "a\u202eb c" in file.read_text(encoding="utf-8").replace("\\u202e", "\u202e")


@pytest.mark.parametrize("form", TOOLS)
def test_neither_items_nor_their_order_reveal_anything(asking: Store, tmp_path: Path, form: str) -> None:
    """No name contains the number, and the items are in the random order of their names."""
    made = export_study(asking, form, tmp_path / "items.jsonl")
    text, *_ = texts = [file.read_text(encoding="utf-8") for file in made]
    assert not any(name in text for text in texts for name in ("doc-", "human"))
    tickets = list(list_tickets(asking).values())
    places = [text.index(ticket) for ticket in tickets]
    assert (places, tickets) == (sorted(places), sorted(tickets))
    assert not any(sign.isdigit() for sign in "".join(tickets))
    assert f'"item": {numbers(asking)[0]}' not in text
    again = export_study(asking, form, tmp_path / "again.jsonl")
    assert again[0].read_text(encoding="utf-8") == text


@given(st.binary(min_size=32, max_size=32))
def test_tickets_are_shuffled_by_the_key(key: bytes) -> None:
    tickets = {item: make_ticket(key, item) for item in range(1, 201)}
    assert len(set(tickets.values())) == 200
    assert {len(ticket) for ticket in tickets.values()} == {TICKET_LENGTH}
    order = sorted(tickets, key=tickets.__getitem__)
    assert sum(abs(one - other) == 1 for one, other in pairwise(order)) < 20  # of 199; two are to be expected


@pytest.mark.parametrize("form", TOOLS)
def test_other_tools_show_the_same_questions(asking: Store, tmp_path: Path, form: str) -> None:
    _, config = export_study(asking, form, tmp_path / "items.jsonl")
    assert all(question in config.read_text(encoding="utf-8") for question in SCALE_QUESTIONS.values())


@pytest.mark.parametrize("note", [PRACTICE_NOTE, OLD_PRACTICE_NOTE])
def test_other_tools_mention_no_practice(asking: Store, tmp_path: Path, note: str) -> None:
    texts = {**asking.about["texts"], "instructions": f"Say that you are not confident.{note}"}
    store = Store(asking.engine, {**asking.about, "texts": texts})
    _, page = export_study(store, "mturk", tmp_path / "batch.csv")
    shown = page.read_text(encoding="utf-8")
    assert "Say that you are not confident.</p>" in shown
    assert "practice" not in shown


def test_mturk_files_are_escaped(asking: Store, tmp_path: Path) -> None:
    assert escape_mturk("a 😀 <b> ${text} é") == "a &#128512; &lt;b&gt; &#36;{text} é"
    batch, form = export_study(asking, "mturk", tmp_path / "batch.csv")
    assert batch.read_text(encoding="utf-8").startswith("item,text,query\n")
    page = form.read_text(encoding="utf-8")
    assert "${text}" in page
    assert "${query}" in page
    assert '<label><input type="radio" name="label" value="neg" required> Bad &amp; dull</label>' in page


def test_studies_without_queries_export_none(store: Store, tmp_path: Path) -> None:
    for form in TOOLS:
        data, settings = (file.read_text(encoding="utf-8") for file in export_study(store, form, tmp_path / "a.jsonl"))
        assert "query" not in data + settings
        if form == "mturk":
            assert data.startswith("item,text\n")
            assert settings.count('type="radio"') == 11


def test_potato_shows_nobody_a_document_twice(asking: Store, tmp_path: Path) -> None:
    data, settings = export_study(asking, "potato", tmp_path / "potato.jsonl")
    config = yaml.safe_load(settings.read_text(encoding="utf-8"))
    assert {"item_properties", "task_dir", "output_annotation_dir", "annotation_task_name"} <= config.keys()
    assert config["data_files"] == ["potato.jsonl"]
    assert (config["max_annotations_per_item"], config["max_annotations_per_user"]) == (2, 4)
    schemes = config["annotation_schemes"]
    assert [scheme["name"] for scheme in schemes] == ["label", "confidence", "readability"]
    assert [scheme["label_requirement"] for scheme in schemes] == [{"required": True}] * 3
    assert schemes[0]["labels"] == ["Bad & dull", "Good"]
    assert [field["key"] for field in config["instance_display"]["fields"]] == ["query", "text"]
    rows = [json.loads(line) for line in data.read_text(encoding="utf-8").splitlines()]
    assert rows[0]["query"] == "is it good ?"
    names = [row["id"] for row in rows]
    groups = [group["instances"] for group in config["batch_assignment"]["groups"]]
    assert sorted(item for group in groups for item in group) == sorted(names)
    assert groups == [[name for name in names if name in group] for group in groups]
    documents = {list_tickets(asking)[item]: number % 4 for number, item in enumerate(items(asking))}
    assert [sorted(documents[item] for item in group) for group in groups] == [[0, 1, 2, 3]] * 2
    assert [group["max_annotators"] for group in config["batch_assignment"]["groups"]] == [2, 2]


def test_label_studio_choices_have_aliases(asking: Store, tmp_path: Path) -> None:
    _, settings = export_study(asking, "label_studio", tmp_path / "tasks.json")
    view = ElementTree.fromstring(settings.read_text(encoding="utf-8"))  # noqa: S314  # we wrote it
    choices = {one.attrib["name"]: [dict(choice.attrib) for choice in one] for one in view.iter("Choices")}
    assert [len(found) for found in choices.values()] == [2, 4, 5]
    assert choices["label"] == [{"value": "Bad & dull", "alias": "neg"}, {"value": "Good", "alias": "pos"}]
    assert choices["confidence"][2] == {"value": "pretty confident", "alias": "3"}
    assert next(header.attrib["value"] for header in view.iter("Header")) == "$query"


def test_invalid_export_paths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"cvs is not an export format.*csv\?"):
        export_paths("cvs", tmp_path / "x")
    with pytest.raises(StudyError, match=r"batch\.html.*configuration for mturk"):
        export_paths("mturk", tmp_path / "batch.html")


def test_a_study_is_named_by_its_items(make_store: MakeStore) -> None:
    settings = {"sample": 4, "practice": 1, "checks": 1, "per_item": 2}
    first, again, other = make_store(**settings), make_store("again", **settings), make_store("o", **settings, seed=1)
    renamed = make_store("renamed", **settings, ways={"human": {"kind": "human"}, "all": {"kind": "full_text"}})
    assert study_name(again) == study_name(first)
    assert len({study_name(store) for store in (first, other, renamed)}) == 3


PARTS = "Question: what was on the desk ? Answer: a pencil"
QUERY = "What was on the desk ? || A pencil"


@pytest.fixture
def multirc(tmp_path: Path) -> "Store":
    settings = study(two_ways(), corpus="multirc", data_dir="x", sample=4, practice=1, checks=1)
    return create_study(tmp_path / "multirc", make_plan(settings, corpus(query=QUERY), load))


@pytest.mark.parametrize("form", TOOLS)
def test_query_parts_are_named_in_exports(multirc: Store, tmp_path: Path, form: str) -> None:
    text = export_study(multirc, form, tmp_path / "items.jsonl")[0].read_text(encoding="utf-8")
    assert text.count(PARTS) == 8
    assert "||" not in text


@pytest.mark.parametrize("query", [PARTS, QUERY.lower(), "other"])
def test_queries_are_recognized_in_current_and_earlier_formats(multirc: Store, tmp_path: Path, query: str) -> None:
    made, _ = export_study(multirc, "label_studio", tmp_path / "tasks.json")
    task = json.loads(made.read_text(encoding="utf-8"))[0]
    given = {"label": "pos", "confidence": "3", "readability": "4"}
    results = [{"from_name": name, "value": {"choices": [value]}} for name, value in given.items()]
    task["data"]["query"] = query
    task["annotations"] = [{"id": 1, "completed_by": {"email": "ann"}, "result": results}]
    write(made, [task])
    if query == "other":
        with pytest.raises(ValueError, match=r"tasks\.json, row 1, annotation 1: .* different query"):
            import_study(multirc, "label_studio", made)
    else:
        assert import_study(multirc, "label_studio", made).n_new == 1

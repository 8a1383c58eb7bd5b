"""Files as Potato and Label Studio write them."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from elsewhere import answers, asked, items, text_of, told, write
from fresh.errors import StudyError
from fresh.study.answers import MAX_MILLISECONDS, Answer
from fresh.study.export import export_study, list_tickets
from fresh.study.importing import _whole, import_study, parse_milliseconds
from fresh.study.overview import get_overview, read_responses
from fresh.study.raw_answers import RawAnswer
from fresh.study.store import Store

SCALES = {"confidence": "pretty confident", "readability": "easy"}  # 3 and 4


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = asked(tmp_path / "study")
    yield made
    made.close()


def pairs(label: str = "Good", **others: str) -> list[Any]:
    """What one annotator chose, as a state of Potato 2 has it."""
    chosen = {"label": label, **SCALES, **others}
    return [[{"schema": scheme, "name": name}, name] for scheme, name in chosen.items() if name]


def state(user: str, done: dict[int, list[Any]]) -> dict[str, Any]:
    """A user_state.json, with less of what we do not read."""
    return {
        "user_id": user,
        "instance_id_ordering": [str(item) for item in done],
        "current_phase_and_page": ["annotation", None],
        "instance_id_to_label_to_value": {str(item): labels for item, labels in done.items()},
        "instance_id_to_span_to_value": {},
        "instance_id_to_behavioral_data": {
            str(item): {"instance_id": str(item), "session_start": 1.7e9, "total_time_ms": 4500} for item in done
        },
    }


def test_a_folder_of_potato_is_read(store: Store, tmp_path: Path) -> None:
    one, two, three, four, other, *_ = items(store)
    out = tmp_path / "potato-annotated"
    write(out / "ann" / "user_state.json", state("ann", {one: pairs(), two: pairs("Bad & dull"), other: pairs()}))
    write(out / "bob" / "user_state.json", state("bob", {one: pairs(), three: pairs(confidence=""), four: []}))
    write(out / "exports" / "csv" / "annotations.csv", "instance_id,user_id\n")
    left = [
        f"ann/user_state.json, row 1, {other}: ann has seen the document of item {other} otherwise cut.",
        f"bob/user_state.json, row 1, {three}: bob has not answered confidence.",
    ]
    assert told(import_study(store, "potato", out)) == (3, 0, left)
    good = (one, Answer("pos", 3, 4, 4500))
    assert answers(store) == [good, good, (two, Answer("neg", 3, 4, 4500))]
    assert told(import_study(store, "potato", out / "ann" / "user_state.json")) == (0, 2, left[:1])


def test_exports_of_potato_are_read(store: Store, tmp_path: Path) -> None:
    one, two, three, *_ = items(store)
    scales = {name: {step: step} for name, step in SCALES.items()}
    line = {"instance_id": str(one), "user_id": "ann", "labels": {"label": {"Good": "Good"}, **scales}}
    lines = write(tmp_path / "annotations.jsonl", json.dumps({**line, "spans": {}, "links": {}}) + "\n")
    assert told(import_study(store, "potato", lines)) == (1, 0, [])
    columns = "instance_id,user_id,label.Bad & dull,label.Good,confidence.pretty confident,readability.easy,label"
    rows = [f"{two},ann,Bad & dull,,pretty confident,easy,", f"{three},ann,x,x,pretty confident,easy,Good"]
    file = write(tmp_path / "annotations.csv", "\n".join([columns, *rows, ""]))
    assert told(import_study(store, "potato", file)) == (2, 0, [])
    file = write(tmp_path / "annotations.tsv", "\n".join([columns, *rows, ""]).replace(",", "\t"))
    assert told(import_study(store, "potato", file)) == (0, 2, [])
    assert [given.label for _, given in answers(store)] == ["pos", "neg", "pos"]


def test_potato_1_tells_who_answered_by_folders(store: Store, tmp_path: Path) -> None:
    [one, *_] = items(store)
    line = {
        "id": str(one),
        "displayed_text": "good",
        "label_annotations": {"label": {"Good": "true"}, "confidence": {"1": "true"}, "readability": {"easy": "true"}},
        "span_annotations": {},
        "behavioral_data": {"time_string": "Time spent: 0d 0h 1m 5s "},
    }
    write(tmp_path / "out" / "ann@x.org" / "annotated_instances.jsonl", json.dumps(line) + "\n")
    assert told(import_study(store, "potato", tmp_path / "out")) == (1, 0, [])
    assert answers(store) == [(one, Answer("pos", 1, 4, 65_000))]
    assert get_overview(store).annotators[0].outside == "ann@x.org"


def test_what_is_not_of_potato_is_refused(store: Store, tmp_path: Path) -> None:
    [one, *_] = items(store)
    with pytest.raises(StudyError, match=r"has no folders with user_state\.json or annotated_instances\.jsonl\. Name"):
        import_study(store, "potato", tmp_path)
    with pytest.raises(
        StudyError, match=r"^a\.json, row 1: this is not as Potato writes answers\. Give user_state\.json"
    ):
        import_study(store, "potato", write(tmp_path / "a.json", [{"item": 1}]))
    broken = {"instance_id_to_label_to_value": {str(one): [3]}}
    with pytest.raises(
        StudyError, match=r"^a\.json, row 1: this is not as it was exported \(TypeError.* Export it again"
    ):
        import_study(store, "potato", write(tmp_path / "a.json", broken))
    wrong = state("ann", {one: pairs("Great", confidence="sure"), 9999: pairs()})
    with pytest.raises(StudyError) as caught:
        import_study(store, "potato", write(tmp_path / "ann" / "user_state.json", wrong))
    assert str(caught.value).splitlines() == [
        f"ann/user_state.json, row 1, {one}: Great is not a label of this study. There are: neg, pos.",
        f"ann/user_state.json, row 1, {one}: confidence must be a whole number from 1 (not confident) to 4 (very "
        "confident), got 'sure'.",
        "ann/user_state.json, row 1, 9999: there is no item 9999 in this study.",
    ]
    assert read_responses(store) == []


def test_potato_is_told_to_show_nobody_a_document_twice(store: Store, tmp_path: Path) -> None:
    data, settings = export_study(store, "potato", tmp_path / "potato.jsonl")
    config = yaml.safe_load(settings.read_text(encoding="utf-8"))
    required = ("item_properties", "data_files", "task_dir", "output_annotation_dir", "annotation_task_name")
    assert set(required) <= config.keys()
    assert (config["max_annotations_per_item"], config["max_annotations_per_user"]) == (2, 4)
    assert all(scheme["label_requirement"] == {"required": True} for scheme in config["annotation_schemes"])
    assert config["annotation_schemes"][0]["labels"] == ["Bad & dull", "Good"]
    assert [field["key"] for field in config["instance_display"]["fields"]] == ["query", "text"]
    rows = [json.loads(line) for line in data.read_text(encoding="utf-8").splitlines()]
    assert rows[0]["query"] == "is it good ?"
    groups = [group["instances"] for group in config["batch_assignment"]["groups"]]
    assert sorted(item for group in groups for item in group) == sorted(row["id"] for row in rows)
    documents = {list_tickets(store)[item]: number % 4 for number, item in enumerate(items(store))}
    assert [sorted(documents[item] for item in group) for group in groups] == [[0, 1, 2, 3]] * 2
    assert all(group["max_annotators"] == 2 for group in config["batch_assignment"]["groups"])


def result(name: str, **value: Any) -> dict[str, Any]:
    [kind] = value
    return {"id": "Dx_aB91ISN", "from_name": name, "to_name": "text", "type": kind, "value": value, "origin": "manual"}


def annotation(number: int, label: str = "pos", by: Any = 7, **others: Any) -> dict[str, Any]:
    found = [result("label", choices=[label]), result("confidence", choices=["3"]), result("readability", rating=4)]
    times = {"created_at": "2026-03-09T22:16:08.728353Z", "lead_time": 4.288}
    about = {"was_cancelled": False, "ground_truth": False, "completed_by": by}
    return {"id": number, "result": found, **about, **times, **others}


def task(item: int, *annotations: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": 100 + item,
        "data": {"item": item, "query": "is it good ?"},
        "annotations": list(annotations),
        "drafts": [],
        "predictions": [],
        "project": 83,
    }


def test_tasks_of_label_studio_are_read(store: Store, tmp_path: Path) -> None:
    one, two, three, four, *_ = items(store)
    person = {"id": 8, "email": "ann@x.org", "first_name": "", "last_name": ""}
    tasks = [
        task(one, annotation(1), annotation(2, "neg", by=person), annotation(3, by=9)),
        task(two, annotation(4), annotation(5, "neg")),
        task(three, annotation(6, was_cancelled=True, result=[])),
        task(four),
    ]
    file = write(tmp_path / "project-83.json", tasks)
    left = [
        f"project-83.json, row 1, annotation 3: item {one} has all the answers that it needs.",
        f"project-83.json, row 2, annotation 5: Label Studio 7 has answered item {two} before, and otherwise. The "
        "first answer stands.",
        "project-83.json, row 3, annotation 6: the answer of Label Studio 7 was skipped there.",
    ]
    assert told(import_study(store, "label_studio", file)) == (3, 0, left)
    good = Answer("pos", 3, 4, 4288)
    assert answers(store) == [(one, good), (one, Answer("neg", 3, 4, 4288)), (two, good)]
    assert [one.outside for one in get_overview(store).annotators] == ["Label Studio 7", "ann@x.org", "Label Studio 9"]


@pytest.mark.parametrize("ending", ["json", "csv", "tsv"])
def test_flat_exports_of_label_studio_are_read(store: Store, tmp_path: Path, ending: str) -> None:
    one, two, *_ = items(store)
    rated: Any = [{"rating": 4}]
    flat = {"text": text_of(store, one), "label": "pos", "confidence": "3", "annotator": 7, "lead_time": 900_000.5}
    about = {"annotation_id": 1, "created_at": "2026-03-09T22:16:08Z", "updated_at": "2026-03-09T22:16:08Z"}
    rows: list[dict[str, Any]] = [
        {"id": 5, "item": one, "readability": rated, **flat, **about},
        {
            "id": 6,
            "item": two,
            "text": text_of(store, two),
            **dict.fromkeys(["annotator", *about]),
        },  # nobody has annotated it
    ]
    path = tmp_path / f"export.{ending}"
    if ending == "json":
        write(path, rows)
    else:
        rows[0]["readability"] = json.dumps(rated)
        with path.open("w", newline="", encoding="utf-8") as file:
            delimiter = {"csv": ",", "tsv": "\t"}[ending]
            writer = csv.DictWriter(file, sorted(rows[0]), quoting=csv.QUOTE_NONNUMERIC, delimiter=delimiter)
            writer.writeheader()
            writer.writerows(rows)
    assert told(import_study(store, "label_studio", path)) == (1, 0, [])
    assert answers(store) == [(one, Answer("pos", 3, 4, 7 * 24 * 3_600_000))]  # a page that lay open for days


def test_what_is_not_of_label_studio_is_refused(store: Store, tmp_path: Path) -> None:
    [one, *_] = items(store)
    with pytest.raises(
        StudyError, match=r"^a\.json, row 1: this is not as Label Studio writes answers\. Give its export"
    ):
        import_study(store, "label_studio", write(tmp_path / "a.json", [{"item": one}]))
    two_labels = annotation(1)
    two_labels["result"].append(result("label", choices=["neg"]))
    with pytest.raises(StudyError, match=r"^a\.json, row 1, annotation 1: there is no label, or more than one\.$"):
        import_study(store, "label_studio", write(tmp_path / "a.json", [task(one, two_labels)]))
    assert read_responses(store) == []


def test_label_studio_gives_back_what_labels_stand_for(store: Store, tmp_path: Path) -> None:
    _, settings = export_study(store, "label_studio", tmp_path / "tasks.json")
    view = ElementTree.fromstring(settings.read_text(encoding="utf-8"))  # noqa: S314  # we wrote it
    choices = {one.attrib["name"]: [dict(choice.attrib) for choice in one] for one in view.iter("Choices")}
    assert choices["label"] == [{"value": "Bad & dull", "alias": "neg"}, {"value": "Good", "alias": "pos"}]
    assert choices["confidence"][2] == {"value": "pretty confident", "alias": "3"}
    assert next(header.attrib["value"] for header in view.iter("Header")) == "$query"


def test_labels_that_are_shown_as_each_other_are_not_mixed_up(tmp_path: Path) -> None:
    """Potato keeps what people read, Label Studio what it stands for."""
    store = asked(tmp_path / "swapped", {"neg": "pos", "pos": "neg"})
    one, two, *_ = items(store)
    import_study(store, "potato", write(tmp_path / "ann" / "user_state.json", state("ann", {one: pairs("pos")})))
    import_study(store, "label_studio", write(tmp_path / "a.json", [task(two, annotation(1, "pos"))]))
    assert [given.label for _, given in answers(store)] == ["neg", "pos"]
    store.close()


def test_labels_that_are_called_true_and_false_are_read(tmp_path: Path) -> None:
    store = asked(tmp_path / "facts", {"neg": "false", "pos": "true"})
    one, two, three, *_ = items(store)
    given = state("ann", {one: pairs("false"), two: pairs("true")})
    import_study(store, "potato", write(tmp_path / "ann" / "user_state.json", given))
    row = f"instance_id,user_id,label.false,confidence,readability\n{three},ann,false,1,5\n"
    import_study(store, "potato", write(tmp_path / "annotations.csv", row))
    assert [given.label for _, given in answers(store)] == ["neg", "pos", "neg"]
    store.close()


@given(st.integers(0, 10**12))
def test_whole_numbers_are_read_however_they_are_written(number: int) -> None:
    assert _whole(number) == _whole(str(number)) == _whole(f" {number} ") == _whole(float(number)) == number


def took(spent: Any) -> RawAnswer:
    return RawAnswer("a.csv, line 2", "ann", 1, {}, spent, "lead_time")


@given(st.floats(min_value=0))
def test_a_time_is_kept_within_a_week(seconds: float) -> None:
    assert (
        parse_milliseconds(took(seconds))
        == parse_milliseconds(took(str(seconds)))
        == round(min(seconds * 1000, MAX_MILLISECONDS))
    )


@pytest.mark.parametrize("seconds", ["long", -1, "-0.5", float("nan"), [1]])
def test_what_is_no_time_is_refused(seconds: Any) -> None:
    with pytest.raises(StudyError) as caught:
        parse_milliseconds(took(seconds))
    assert str(caught.value) == f"lead_time must be a number from 0, got {seconds!r}."

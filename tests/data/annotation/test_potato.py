from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from fresh.data.annotation.potato import format_choices, format_project

TEXT = "A 😀 lovely film"
LOVELY = {"start": 4, "end": 10, "span": "lovely", "annotation": "RATIONALE"}
FILM = {"start": 11, "end": 15, "span": "film", "annotation": "TOPIC"}


def line(spans: Any = (LOVELY,), labels: Any = None, **fields: Any) -> dict[str, Any]:
    """A line of annotated_instances.jsonl of Potato 1."""
    return {
        "id": "d1",
        "displayed_text": TEXT,
        "label_annotations": {"label": {"good": "true"}} if labels is None else labels,
        "span_annotations": list(spans),
        "behavioral_data": {"time_string": "12"},
        **fields,
    }


def exported(user: str = "ann", spans: Any = (), **fields: Any) -> dict[str, Any]:
    """A line of annotations.jsonl of Potato 2."""
    marked = [{"start": s["start"], "end": s["end"], "label": s["annotation"], "text": s["span"]} for s in spans]
    own = {"labels": {"label": {"good": "good"}}, "spans": {"rationale": marked}, "links": {}}
    return {"instance_id": "d1", "user_id": user, **own, **fields}


GOOD, BOTH, FALSE = ("good", ("lovely",)), line([LOVELY, FILM]), {"false": "false", "true": "false"}
QUESTIONS = line(labels={"sentiment": {"good": "true"}, "length": {"short": "true"}})
SCHEMES = exported(text=TEXT) | {"spans": {"rationale": [LOVELY], "other": [{"start": 11, "end": 15, "name": "X"}]}}
CASES: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "a class": (line(), {}, GOOD),
    "one of two": (line(labels={"label": {"good": "1", "bad": "false"}}), {}, GOOD),
    "a typed answer": (line(labels={"label": {"text_box": "good"}}), {}, GOOD),
    "classes in labels": (line(labels={"label": {"labels": {"good": True, "bad": False}}}), {}, GOOD),
    "text": (line(labels={"label": "good"}), {}, GOOD),
    "the only question": (line(labels={"sentiment": {"good": "on"}}), {}, GOOD),
    "a class with the name false": (line(labels={"label": FALSE}), {}, ("false", ("lovely",))),
    "one of several questions": (QUESTIONS, {"label": "length"}, ("short", ("lovely",))),
    "the second version": (exported(spans=[LOVELY], text=TEXT), {}, GOOD),
    "all spans": (BOTH, {}, ("good", ("lovely", "film"))),
    "spans of a label": (BOTH, {"rationale": "TOPIC"}, ("good", ("film",))),
    "spans of a scheme": (SCHEMES, {"rationale": "other"}, ("good", ("film",))),
    "white space before the text": (line(displayed_text=f" \n{TEXT}"), {}, GOOD),
}


@pytest.mark.parametrize(("record", "settings", "expected"), CASES.values(), ids=CASES)
def test_annotations_are_read(kept: Any, record: Any, settings: dict[str, Any], expected: Any) -> None:
    assert kept(record, **settings) == [expected]


def test_several_annotators_of_one_text_vote(kept: Any, refusal: Any) -> None:
    lines = [line([LOVELY, FILM]), line([LOVELY]), line([]), line([LOVELY], id="d2")]
    assert kept(*lines, agreement=0.6) == [("good", ("lovely",))] * 2
    assert kept(*lines, agreement=0) == [("good", ("lovely", "film")), ("good", ("lovely",))]
    second = [exported("ann", [LOVELY], text=TEXT), exported("bob", [FILM])]
    assert kept(*second, agreement=0) == [("good", ("lovely", "film"))]
    other = line(labels={"label": {"bad": "true"}})
    assert "its annotators disagree on the label: good or bad." in refusal(line(), other)


def test_ids_and_queries_are_read(read: Any) -> None:
    [example] = read(exported(text=TEXT, query="Is it?"))
    assert (example.document.id, example.document.query, example.human) == ("d1", ("Is", "it", "?"), None)


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (exported(), "line 1: it holds no text: Potato 2 leaves the texts in the file of the tasks."),
        (line([{"start": "4", "end": 10}]), "a span needs start and end, in characters, got ('4', 10)"),
        (line([{**LOVELY, "span": "dull"}]), "the span (4, 10) should hold 'dull', but the text there is 'lovely'"),
        (QUESTIONS, "line 1: it has the questions length, sentiment. Name the one"),
        (line(labels=[]), "not the format of Potato's annotations (AttributeError(\"'list' object has no"),
        (line(labels={"label": {}}), "there is no label"),
    ],
)
def test_lines_that_cannot_be_used_are_refused(refusal: Any, record: Any, problem: str) -> None:
    assert problem in refusal(record)


def test_texts_in_the_configuration_of_a_project_are_quoted() -> None:
    question, answers = 'Is it "good"?', ["Yes: it is", "no"]
    schemes = [format_choices("label", question, answers, required=True)]
    config = yaml.safe_load(format_project("items.jsonl", "A: study", schemes, has_query=False, settings=""))
    [radio] = config["annotation_schemes"]
    assert (config["annotation_task_name"], radio["description"], radio["labels"]) == ("A: study", question, answers)
    assert config["instance_display"]["fields"] == [{"key": "text", "type": "text"}]

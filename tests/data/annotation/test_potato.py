from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import annotated
from fresh.data.annotation.aggregate import MEND
from fresh.data.annotation.potato_answers import read as read_lines
from fresh.data.readers import Row
from fresh.data.splits import DataConfig
from fresh.document import Document, Mask
from fresh.errors import DataError
from strategies import documents

TEXT = "A 😀 lovely film"
LOVELY = {"start": 4, "end": 10, "span": "lovely", "annotation": "RATIONALE"}
FILM = {"start": 11, "end": 15, "span": "film", "annotation": "TOPIC"}


def line(spans: Any = (LOVELY,), labels: Any = None, **more: Any) -> dict[str, Any]:
    """A line of annotated_instances.jsonl."""
    return {
        "id": "d1",
        "displayed_text": TEXT,
        "label_annotations": {"label": {"good": "true"}} if labels is None else labels,
        "span_annotations": list(spans),
        "behavioral_data": {"time_string": "12"},
        **more,
    }


def exported(user: str = "ann", label: str = "good", spans: Any = (), **more: Any) -> dict[str, Any]:
    """A line of Potato 2's annotations.jsonl."""
    marked = [{"start": s["start"], "end": s["end"], "label": s["annotation"], "text": s["span"]} for s in spans]
    labels = {"label": {label: label}}
    return {
        "instance_id": "d1",
        "user_id": user,
        "labels": labels,
        "spans": {"rationale": marked},
        "links": {},
        **more,
    }


def words(tmp_path: Path, *lines: Any, **settings: Any) -> list[tuple[str, str, tuple[str, ...] | None]]:
    found = annotated.read(annotated.write_lines(tmp_path / "out.jsonl", lines), **settings)
    cut = [None if example.human is None else example.document.cut(example.human).words for example in found]
    return [(item.document.id, item.label, kept) for item, kept in zip(found, cut, strict=True)]


def fails(tmp_path: Path, *lines: Any, **settings: Any) -> str:
    with pytest.raises(DataError) as caught:
        words(tmp_path, *lines, **settings)
    return str(caught.value)


def test_both_versions_are_read(tmp_path: Path) -> None:
    assert words(tmp_path, line()) == [("d1", "good", ("lovely",))]
    assert words(tmp_path, exported(spans=[LOVELY], text=TEXT)) == [("d1", "good", ("lovely",))]


@pytest.mark.parametrize(
    "labels",
    [
        {"label": {"good": "true"}},
        {"label": {"good": "1", "bad": "false"}},
        {"label": {"text_box": "good"}},
        {"label": {"labels": {"good": True, "bad": False}}},
        {"label": "good"},
        {"sentiment": {"good": "on"}},
    ],
)
def test_every_way_to_give_a_class_is_read(tmp_path: Path, labels: Any) -> None:
    assert words(tmp_path, line(labels=labels)) == [("d1", "good", ("lovely",))]


def test_one_of_several_questions_is_the_label(tmp_path: Path) -> None:
    labels = {"sentiment": {"good": "true"}, "length": {"short": "true"}}
    assert words(tmp_path, line(labels=labels), label="length") == [("d1", "short", ("lovely",))]
    assert fails(tmp_path, line(labels=labels)) == (
        "out.jsonl, line 1: it has the questions length, sentiment. Name the one that is the label with `label`."
    )


def test_spans_are_chosen_by_label_or_scheme(tmp_path: Path) -> None:
    both = line(spans=[LOVELY, FILM])
    assert words(tmp_path, both) == [("d1", "good", ("lovely", "film"))]
    assert words(tmp_path, both, rationale="TOPIC") == [("d1", "good", ("film",))]
    scheme = exported(spans=[LOVELY], text=TEXT)
    scheme["spans"]["other"] = [{"start": 11, "end": 15, "name": "X"}]
    assert words(tmp_path, scheme, rationale="other") == [("d1", "good", ("film",))]


def test_several_annotators_of_one_text_vote(tmp_path: Path) -> None:
    lines = [line([LOVELY, FILM]), line([LOVELY]), line([]), line([LOVELY], id="d2")]
    assert words(tmp_path, *lines, agreement=0.6) == [("d1", "good", ("lovely",)), ("d2", "good", ("lovely",))]
    assert words(tmp_path, *lines, agreement=0) == [("d1", "good", ("lovely", "film")), ("d2", "good", ("lovely",))]
    second = [exported("ann", "good", [LOVELY], text=TEXT), exported("bob", "good", [FILM])]
    assert words(tmp_path, *second, agreement=0) == [("d1", "good", ("lovely", "film"))]
    assert "its annotators disagree on the label: good or bad." in fails(
        tmp_path, line(), line(labels={"label": {"bad": "true"}})
    )


def test_white_space_before_the_text_is_not_counted(tmp_path: Path) -> None:
    assert words(tmp_path, line(displayed_text=f" \n{TEXT}")) == [("d1", "good", ("lovely",))]


def test_a_query_may_stand_beside(tmp_path: Path) -> None:
    path = annotated.write_lines(tmp_path / "out.jsonl", [exported(text=TEXT, query="Is it?")])
    [found] = annotated.read(path)
    assert (found.document.query, found.human) == (("Is", "it", "?"), None)


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (
            exported(),
            "it holds no text: Potato 2 leaves the texts in the file of the tasks. Add to each line the text of its "
            "instance_id, under the name text.",
        ),
        (line([{"start": "4", "end": 10}]), f"a span needs start and end, got {{'start': '4', 'end': 10}}. {MEND}"),
        (
            line([{**LOVELY, "span": "dull"}]),
            f"the span (4, 10) should hold 'dull', but the text there is 'lovely'. {MEND}",
        ),
        (line([{"start": 11, "end": 99}]), f"the span (11, 99) does not fit a text of 15 characters. {MEND}"),
        (
            line(labels=[]),
            f"it is not as Potato writes it (AttributeError(\"'list' object has no attribute 'items'\")). {MEND}",
        ),
        (line(labels={"label": {}}), "there is no label."),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, record: Any, told: str) -> None:
    assert fails(tmp_path, record).startswith(f"out.jsonl, line 1: {told}")


@given(documents())
def test_places_are_exact_after_a_round_trip(document: Document) -> None:
    mask = Mask.from_spans([(len(document.words) - 1, len(document.words))], len(document.words))
    explanation = annotated.explanation(document, mask)
    spans = [
        {"start": start, "end": end, "span": document.text[start:end], "annotation": "RATIONALE"}
        for start, end in explanation.spans
    ]
    rows = [Row(line(spans, displayed_text=document.text), "out.jsonl", "line 1", 1)]
    [found] = read_lines(rows, DataConfig())
    assert found.error is None
    [marked] = found.values["rationale"].annotators
    assert marked == explanation.spans

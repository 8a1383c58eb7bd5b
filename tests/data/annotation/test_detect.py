import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import annotated
from fresh.data.annotation.detect import KINDS, _recognise, unified
from fresh.data.readers import Row
from fresh.data.splits import DataConfig, load_splits
from fresh.document import Document, Mask
from fresh.errors import DataError, RowError

TASK = {"id": 1, "data": {"text": "Good film"}, "annotations": [], "predictions": []}
FLAT = {"id": 1, "text": "Good film", "label": "good", "annotator": 1, "annotation_id": 2, "lead_time": 3.5}
CATS = {"id": 1, "text": "Good film", "cats": ["good"], "entities": [[0, 4, "RATIONALE"]], "Comments": []}
TEXTCAT = {"text": "Good film", "label": "good", "_input_hash": 1, "_task_hash": 2, "answer": "accept"}
SAMPLES: dict[str, list[dict[str, Any]]] = {
    "label_studio": [TASK, FLAT, {"data": {"text": "a"}, "predictions": []}, {"data": {}, "completions": []}],
    "doccano": [
        CATS,
        {**CATS, "label": "x"},
        {"text": "a", "cats": []},
        {"text": "a", "label": []},
        {"text": "a", "label": ["x"]},
        {"text": "a", "label": [[0, 1, "X"]]},
    ],
    "prodigy": [TEXTCAT, {"text": "a", "spans": [], "answer": "ignore"}],
    "potato": [
        {"id": "1", "displayed_text": "a", "label_annotations": {}, "span_annotations": [], "behavioral_data": {}},
        {"instance_id": "1", "user_id": "u", "labels": {}, "spans": {}, "links": {}},
    ],
    "tasks": [{"id": "1", "text": "a", "predictions": {"label": "x"}}],
    "explained": [{"id": "1", "label": "x", "probabilities": {"x": 1.0}, "rationale": [], "ratio": 0.0}],
    "annotations": [{"annotation_id": "1", "evidences": [], "classification": "x"}],
    "table": [
        {"text": "a", "label": "x", "entities": ["b"], "cats": []},
        {"text": "a", "label": "x"},
        {"text": "a", "label": 1, "answer": "accept"},
        {},
        {"text": "a", "data": 3},
    ],
}


@pytest.mark.parametrize(("kind", "record"), [(kind, record) for kind, found in SAMPLES.items() for record in found])
def test_a_file_is_recognised_by_its_content(kind: str, record: dict[str, Any]) -> None:
    assert _recognise(record) == kind


def test_what_is_exported_is_recognised(tmp_path: Path) -> None:
    given = [annotated.explanation(Document.from_text("Good film"), Mask.full(2))]
    for tool, kind in (("label_studio", "label_studio"), ("doccano", "doccano"), ("potato", "tasks")):
        assert _recognise(annotated.exported(given, tmp_path, tool)[0]) == kind


def fails(path: Path, asked: str) -> str:
    with pytest.raises(DataError) as caught:
        load_splits(path, DataConfig(format=asked), seed=0)  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "asked", "message"),
    [
        (
            "doccano",
            "label_studio",
            "reviews.json looks like doccano's JSON lines, not Label Studio's JSON. "
            "Say format=doccano, or leave `format` out.",
        ),
        (
            "label_studio",
            "doccano",
            "reviews.json looks like Label Studio's JSON, not doccano's JSON lines. "
            "Say format=label_studio, or leave `format` out.",
        ),
        (
            "prodigy",
            "doccano",
            "reviews.json looks like Prodigy's JSON lines, not doccano's JSON lines. "
            "Say format=prodigy, or leave `format` out.",
        ),
        (
            "table",
            "prodigy",
            "reviews.json looks like a table of texts and labels, not Prodigy's JSON lines. "
            "Say format=table, or leave `format` out.",
        ),
        (
            "doccano",
            "table",
            "reviews.json looks like doccano's JSON lines, not a table of texts and labels. "
            "Say format=doccano, or leave `format` out.",
        ),
        (
            "tasks",
            "doccano",
            "reviews.json looks like tasks for Potato, not doccano's JSON lines. "
            "Give the file that the people's answers were exported to.",
        ),
        (
            "explained",
            "label_studio",
            "reviews.json looks like what fresh explain writes, not Label Studio's JSON. "
            "Give the file that the people's answers were exported to.",
        ),
        (
            "annotations",
            "eraser",
            "reviews.json looks like the annotations of an ERASER corpus, not an ERASER corpus. "
            "Give the folder or tar that it is in, with its documents.",
        ),
    ],
)
def test_another_tool_than_asked_is_named(tmp_path: Path, kind: str, asked: str, message: str) -> None:
    record = SAMPLES[kind][0]
    assert fails(annotated.write_list(tmp_path / "reviews.json", [record]), asked) == message
    assert fails(annotated.write_lines(tmp_path / "reviews.json", [record]), asked) == message


def test_an_eraser_folder_is_named_where_another_tool_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "train.jsonl").touch()
    assert fails(tmp_path, "doccano") == (
        f"{tmp_path.name} looks like an ERASER corpus, not doccano's JSON lines. "
        "Say format=eraser, or leave `format` out."
    )


def test_every_kind_has_a_name() -> None:
    assert set(SAMPLES) | {"eraser"} == set(KINDS)


def test_the_first_row_that_can_be_read_speaks_for_all(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    path.write_text("{\n" + json.dumps(CATS) + "\n", encoding="utf-8")
    [found] = annotated.read(path, skip_bad=True)
    assert found.human == Mask(np.array([True, False]))
    assert found.label == "good"


def test_a_file_of_broken_lines_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    path.write_text("{\n{\n", encoding="utf-8")
    assert fails(path, "doccano").startswith("all.jsonl, line 1: broken JSON")


@pytest.mark.parametrize("ending", ["json", "json.gz"])
def test_training_data_may_be_what_a_tool_exported(tmp_path: Path, ending: str) -> None:
    items = [
        {"id": i, "data": {"text": f"{label} film {i}"}, "annotations": [{"result": [choice(label)]}]}
        for i, label in enumerate(["good", "bad"] * 10)
    ]
    content = json.dumps(items).encode()
    path = tmp_path / f"export.{ending}"
    path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    splits = load_splits(path, DataConfig(), seed=0)
    assert (len(splits.train), splits.labels) == (16, ("bad", "good"))


def choice(label: str) -> dict[str, Any]:
    return {"from_name": "label", "to_name": "text", "type": "choices", "value": {"choices": [label]}}


def test_rows_that_cannot_be_read_are_passed_on_at_once() -> None:
    asked = 0

    def broken() -> Iterator[Row]:
        nonlocal asked
        for _ in range(1000):
            asked += 1
            yield Row({}, "r.jsonl", f"line {asked}", asked, RowError("r.jsonl", "broken.", "Mend it."))

    rows = unified(broken(), DataConfig())
    assert [next(rows).number for _ in range(3)] == [1, 2, 3]
    assert asked == 3

"""Exports of annotation tools whose annotators accepted what was loaded, as the tools' documentation describes them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fresh.data import BadRows, DataConfig, read_examples
from fresh.data.annotation import TOOLS, export
from fresh.document import Document, Example, Explanation, Mask
from fresh.rationale import Prediction

Record = dict[str, Any]


def explanation(document: Document, mask: Mask, label: str = "good") -> Explanation:
    return Explanation(document, mask, document.cut(mask), Prediction(label, {"bad": 0.125, "good": 0.875}))


def exported(explanations: Sequence[Explanation], folder: Path, tool: str) -> list[Record]:
    """Return what is written for a tool, parsed as JSON."""
    path = folder / f"tasks{TOOLS[tool].ending}"
    export(explanations, path, tool)
    content = path.read_text(encoding="utf-8")
    # Not splitlines, which would split texts too.
    parsed = json.loads(content if tool == "label_studio" else f"[{','.join(content.split(chr(10))[:-1])}]")
    assert isinstance(parsed, list)
    return parsed


def label_studio(tasks: Sequence[Record]) -> list[Record]:
    """Return Label Studio's JSON when an annotator submits every prediction unchanged."""
    own: Record = {"drafts": [], "meta": {}, "project": 1}
    return [
        {"id": number, **task, "annotations": [annotation(task["predictions"][0]["result"])], **own}
        for number, task in enumerate(tasks, start=1)
    ]


def annotation(result: Sequence[Mapping[str, Any]], **more: Any) -> Record:
    """Return an annotation of Label Studio, which writes line breaks in the text of a span as a backslash and an n."""
    shown = [{**item, "value": shown_value(item["value"]), "origin": "manual"} for item in result]
    return {"id": 7, "completed_by": 1, "result": shown, "was_cancelled": False, "lead_time": 4.2, **more}


def shown_value(value: Mapping[str, Any]) -> Record:
    breaks = {"\n": "\\n", "\r": "\\n"}
    return {**value, "text": value["text"].translate(str.maketrans(breaks))} if "text" in value else dict(value)


def json_min(tasks: Sequence[Record]) -> list[Record]:
    """Return Label Studio's JSON_MIN of the same annotations."""
    return [flat(task, number) for number, task in enumerate(label_studio(tasks), start=1)]


def flat(task: Record, number: int) -> Record:
    record = {**task["data"], "id": task["id"]}
    for item in task["annotations"][0]["result"]:
        if item["type"] == "labels":
            record.setdefault(item["from_name"], []).append(item["value"])
        else:
            [record[item["from_name"]]] = item["value"]["choices"]
    return {**record, "annotator": 1, "annotation_id": number, "created_at": "", "updated_at": "", "lead_time": 4.2}


def doccano(lines: Sequence[Record]) -> list[Record]:
    """Return doccano's export for intent detection and slot filling: other columns are unchanged."""
    return [{**line, "Comments": []} for line in lines]


def doccano_sequences(lines: Sequence[Record]) -> list[Record]:
    """Return doccano's export for sequence labeling, with the spans in the column label."""
    return [line | {"label": line["entities"], "entities": None, "Comments": []} for line in lines]


def prodigy(tasks: Sequence[Record]) -> list[Record]:
    """Return the JSON lines of Prodigy for the labels and spans of tasks for Potato."""
    return [
        {"text": task["text"], "meta": about(task), "answer": "accept", "_input_hash": number}
        | {"label": task["predictions"]["label"], "spans": task["predictions"]["rationale"]}
        for number, task in enumerate(tasks)
    ]


def potato(tasks: Sequence[Record]) -> list[Record]:
    """Return the annotated_instances.jsonl of Potato 1, which repeats the text of each span."""
    records = []
    for task in tasks:
        text, predictions = task["text"], task["predictions"]
        labels = {"label": {predictions["label"]: "true"}}
        spans = [
            {**span, "annotation": span["label"], "span": text[span["start"] : span["end"]]}
            for span in predictions["rationale"]
        ]
        records.append(about(task) | {"displayed_text": text, "label_annotations": labels, "span_annotations": spans})
    return records


def about(task: Record) -> Record:
    return {name: task[name] for name in ("id", "query") if name in task}


def read(path: Path, bad: BadRows | None = None, **settings: Any) -> list[Example]:
    return list(read_examples(path, DataConfig(**settings), bad))

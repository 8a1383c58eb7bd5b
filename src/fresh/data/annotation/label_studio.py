"""Label Studio: tasks with the model's label and spans as predictions, and exported annotations.

Formats of Label Studio 1.x: JSON (tasks with data, predictions and annotations) and JSON_MIN (one flat object for each
annotation). Spans count code points; versions before 2022 counted UTF-16 code units.
"""

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fresh.data.annotation.aggregate import RATIONALE_LABEL, Annotation, merge, parse_spans, single_choice
from fresh.data.config import DataConfig
from fresh.data.readers import Row
from fresh.document import Explanation
from fresh.text import from_utf16

USE_TEXT = "Use the tag Text in the labeling configuration: others give positions in HTML or in paragraphs."
CONFIG_ENDING = ".config.xml"
CONFIG = """\
<View>
{query}  <Labels name="rationale" toName="text">
    <Label value="{label}" background="#ffc069"/>
  </Labels>
  <Text name="text" value="$text" granularity="word"/>
  <Choices name="label" toName="text" choice="single" showInLine="true">
{choices}
  </Choices>
</View>
"""
QUERY = '  <Header value="$query"/>\n'
# Versions before 2022 counted UTF-16 code units, but files do not say so.
_parse_spans = functools.partial(parse_spans, recount=from_utf16, fix=USE_TEXT)


def matches(values: Mapping[str, Any]) -> bool:
    """Recognize a task, or a flat annotation of JSON_MIN."""
    if _is_task(values):
        return any(isinstance(values.get(name), list) for name in ("annotations", "completions", "predictions"))
    return "annotation_id" in values and "lead_time" in values


def _is_task(values: Mapping[str, Any]) -> bool:
    return isinstance(values.get("data"), Mapping)


def group(rows: Iterable[Row]) -> Iterable[Sequence[Row]]:
    """Group the flat annotations of a task, which JSON_MIN keeps next to each other."""

    def task_id(row: Row) -> tuple[str, Any]:
        is_flat = not row.error and not _is_task(row.values) and row.values.get("id") is not None
        return ("task", row.values["id"]) if is_flat else ("row", row.number)

    return (list(rows) for _, rows in itertools.groupby(rows, task_id))


def parse(rows: Sequence[Row], config: DataConfig) -> Row:
    """Parse a task, or all flat annotations of a task."""
    row = rows[0]
    if not _is_task(row.values):
        fields = {name: value for name, value in row.values.items() if not _holds_spans(value)}
        return merge(row, fields, [_parse_flat(row, config) for row in rows], config)
    fields = dict(row.values["data"])
    if config.id and config.id not in fields:
        fields[config.id] = row.values.get("id")
    all_items = row.values.get("annotations") or row.values.get("completions") or []
    items = [item for item in all_items if not item.get("was_cancelled") and not item.get("skipped")]
    # A reviewer marks an annotation as the ground truth to settle a disagreement; then no other counts.
    items = [item for item in items if item.get("ground_truth")] or items
    annotations = [_parse_annotation(row, item, fields.get(config.text), config) for item in items]
    unlabeled = "it was skipped." if all_items else "nobody has annotated it."
    return merge(row, fields, annotations, config, "" if items or fields.get(config.label) is not None else unlabeled)


def _parse_annotation(row: Row, annotation: Mapping[str, Any], text: Any, config: DataConfig) -> Annotation:
    """Parse one annotation; ignore results that are neither a class of the text nor a span."""
    marked: list[tuple[Mapping[str, Any], Sequence[str]]] = []
    choices: dict[str, Any] = {}
    for item in annotation.get("result") or ():
        kind, name, value = str(item.get("type")), str(item.get("from_name")), item.get("value") or {}
        if kind == "choices" and "start" not in value:
            choices[name] = parse_choice(value)
        elif kind.endswith("labels"):
            marked.append((value, (name, *(value.get(kind) or ()))))
    return Annotation(_parse_spans(row, text, marked, config), choices)


def _parse_flat(row: Row, config: DataConfig) -> Annotation:
    named = [(name, region) for name, value in row.values.items() if _holds_spans(value) for region in value]
    marked = [(region, (name, *region["labels"])) for name, region in named]
    has_label = config.label in row.values and not _holds_spans(row.values[config.label])
    choices = {config.label: parse_choice(row.values[config.label])} if has_label else {}
    return Annotation(_parse_spans(row, row.values.get(config.text), marked, config), choices)


def _holds_spans(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)


def parse_choice(value: Any) -> Any:
    """Unwrap a choice or a number of stars: one as itself, several as a tuple, none as None."""
    choices = value.get("choices", value.get("rating")) if isinstance(value, Mapping) else value
    return single_choice(choices) if isinstance(choices, list) else choices


def to_task(explanation: Explanation, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an explanation to a task with a prediction: the spans, the class and its probability."""
    text, prediction = explanation.document.text, explanation.prediction
    result: list[dict[str, Any]] = []
    for number, (start, end) in enumerate(explanation.spans, start=1):
        region = {"start": start, "end": end, "text": text[start:end], "labels": [RATIONALE_LABEL]}
        result.append({"id": f"span-{number}", "from_name": "rationale", "type": "labels", "value": region})
    choices = {"choices": [prediction.label]}
    result.append({"id": "class", "from_name": "label", "type": "choices", "value": choices})
    result = [item | {"to_name": "text", "origin": "prediction"} for item in result]
    model = {"model_version": "fresh", "score": prediction.probability, "result": result}
    return {"data": fields, "predictions": [model]}


def format_config(_data: str, labels: Sequence[str], has_query: bool) -> str:
    """Format the labeling configuration."""
    from xml.sax.saxutils import quoteattr  # slow to import

    choices = "\n".join(f"    <Choice value={quoteattr(label)}/>" for label in labels)
    return CONFIG.format(query=QUERY if has_query else "", label=RATIONALE_LABEL, choices=choices)

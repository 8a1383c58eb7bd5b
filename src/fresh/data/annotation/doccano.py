"""doccano: JSON lines of text, classes and spans.

Formats of doccano 1.8: what a project for intent detection and slot filling reads and writes (text, cats, entities),
and what one for sequence labeling (label, a list of spans) or text classification (label, a list of classes) writes.
Its pages index texts as JavaScript does, so spans count UTF-16 code units; "count grapheme clusters" must be off.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from fresh.data.annotation.aggregate import (
    FIX,
    Annotation,
    NoLabel,
    is_rationale_label,
    merge_annotations,
    parse_row,
    raise_span_errors,
    single_choice,
)
from fresh.data.config import DataConfig
from fresh.data.readers import Row
from fresh.document import Explanation
from fresh.errors import RowError
from fresh.text import from_utf16, to_utf16

ENDING = ".jsonl"
RATIONALE_LABEL = "RATIONALE"
COLUMNS = ("label", "entities", "cats", "relations", "Comments")


def is_doccano(values: Mapping[str, Any]) -> bool:
    """Recognize a line of doccano, and not a table with a label and lists in other columns."""
    lists = {name for name in COLUMNS if isinstance(values.get(name), list)}
    return "text" in values and (
        "label" in lists or (("label" not in values or "Comments" in lists) and bool(lists & {"entities", "cats"}))
    )


def read(rows: Iterable[Row], config: DataConfig) -> Iterator[Row]:
    """Convert lines of doccano to rows of a table."""
    for row in rows:
        yield parse_row(row, "doccano", partial(_parse_line, row, config))


def _parse_line(row: Row, config: DataConfig) -> Row:
    fields = {name: value for name, value in row.values.items() if name not in COLUMNS or not isinstance(value, list)}
    label = row.values.get("label")
    items = label if isinstance(label, list) else []
    has_cats = isinstance(row.values.get("cats"), list)
    classes = row.values["cats"] if has_cats else [item for item in items if not isinstance(item, list | tuple | dict)]
    if (has_cats or classes) and (config.label not in fields or config.label == DataConfig().label):
        fields[config.label] = single_choice(classes)
    # Our own export holds the model's rationale. doccano adds comments to what it exports.
    if "probability" in fields and "Comments" not in row.values:
        fields[config.label] = NoLabel("nobody has annotated it.")
    entities = row.values.get("entities")
    spans = [item for item in (entities if isinstance(entities, list) else items) if item not in classes]
    return merge_annotations(row, fields, [Annotation(_parse_spans(row, spans, config), {})], config)


def _parse_spans(row: Row, items: Iterable[Any], config: DataConfig) -> tuple[tuple[int, int], ...]:
    """Read the spans of a line, in characters."""
    labeled = (_parse_span(row, item) for item in items)
    units = [(start, end) for start, end, name in labeled if is_rationale_label(config, name)]
    text = row.values.get(config.text)
    if not isinstance(text, str):
        return ()  # the missing text is reported where texts are read
    spans = from_utf16(text, units)
    raise_span_errors(
        row.place,
        (
            f"the span ({start}, {end}) does not fit a text of {to_utf16(text, [(0, len(text))])[0][1]} UTF-16 code "
            "units, or cuts a character."
            for (start, end), span in zip(units, spans, strict=True)
            if span is None
        ),
    )
    return tuple(span for span in spans if span is not None)


def _parse_span(row: Row, item: Any) -> tuple[int, int, str]:
    """Read start, end and label of a span, which is a list or, with relations, an object."""
    try:
        start, end, name = (
            (item["start_offset"], item["end_offset"], item["label"]) if isinstance(item, Mapping) else item
        )
        if type(start) is int and type(end) is int:
            return start, end, str(name)
    except (KeyError, TypeError, ValueError):
        pass
    raise RowError(row.place, f"a span is [start, end, label], got {item!r:.60}.", FIX)


def format_task(explanation: Explanation) -> str:
    """Format an explanation as a line with the model's label and spans."""
    document, prediction = explanation.document, explanation.prediction
    record = {
        "id": document.id,
        "text": document.text,
        "cats": [prediction.label],
        "entities": [[start, end, RATIONALE_LABEL] for start, end in to_utf16(document.text, explanation.spans)],
        "probability": prediction.probability,
    }
    if document.query:
        record["query"] = " ".join(document.query)
    return json.dumps(record, ensure_ascii=False)

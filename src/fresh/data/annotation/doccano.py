"""doccano: JSON lines of text, classes and spans.

Formats of doccano 1.8: projects for intent detection and slot filling read and write text, cats and entities; projects
for sequence labeling and text classification write label, a list of spans or of classes. Spans count UTF-16 code units,
as JavaScript does; the project setting "count grapheme clusters" must be off.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from fresh.data.annotation.aggregate import (
    FIX,
    RATIONALE_LABEL,
    Annotation,
    is_rationale_label,
    merge_annotations,
    parse_groups,
    set_aside,
    single_choice,
)
from fresh.data.config import DataConfig
from fresh.data.readers import Row
from fresh.document import Explanation
from fresh.errors import RowError
from fresh.text import from_utf16, to_utf16

COLUMNS = ("label", "entities", "cats", "relations", "Comments")


def is_doccano(values: Mapping[str, Any]) -> bool:
    """Recognize a line of doccano, but not a table with a label and lists in other columns."""
    lists = {name for name in COLUMNS if isinstance(values.get(name), list)}
    return "text" in values and (
        "label" in lists or (("label" not in values or "Comments" in lists) and bool(lists & {"entities", "cats"}))
    )


def read(rows: Iterable[Row], config: DataConfig) -> Iterator[Row]:
    """Convert lines of doccano to rows of a table."""
    return parse_groups(([row] for row in rows), "doccano", partial(_parse_line, config=config))


def _parse_line(lines: Sequence[Row], config: DataConfig) -> Row:
    [row] = lines
    fields = {name: value for name, value in row.values.items() if name not in COLUMNS or not isinstance(value, list)}
    label = row.values.get("label")
    items = label if isinstance(label, list) else []
    has_cats = isinstance(row.values.get("cats"), list)
    classes = row.values["cats"] if has_cats else [item for item in items if not isinstance(item, list | tuple | dict)]
    if (has_cats or classes) and (config.label not in fields or config.label == DataConfig().label):
        fields[config.label] = single_choice(classes)
    # A task of ours that doccano did not export, which would add Comments: the rationale is the model's.
    if "probability" in fields and "Comments" not in row.values:
        fields[config.label] = set_aside(row, "nobody has annotated it.")
    entities = row.values.get("entities")
    spans = [item for item in (entities if isinstance(entities, list) else items) if item not in classes]
    return merge_annotations(row, fields, [Annotation(_parse_spans(row, spans, config), {})], config)


def _parse_spans(row: Row, items: Iterable[Any], config: DataConfig) -> tuple[tuple[int, int], ...]:
    labeled = (_parse_span(row, item) for item in items)
    units = [(start, end) for start, end, name in labeled if is_rationale_label(config, name)]
    text = row.values.get(config.text)
    if not isinstance(text, str):
        return ()  # the missing text is reported where texts are read
    spans: list[tuple[int, int]] = []
    for (start, end), span in zip(units, from_utf16(text, units), strict=True):
        if span is None:
            [(_, size)] = to_utf16(text, [(0, len(text))])
            problem = f"the span ({start}, {end}) does not fit a text of {size} UTF-16 code units, or cuts a character."
            raise RowError(row.place, problem, FIX)
        spans.append(span)
    return tuple(spans)


def _parse_span(row: Row, item: Any) -> tuple[int, int, str]:
    """Parse start, end and label of a span, which is a list or, in projects with relations, an object."""
    try:
        start, end, name = (
            (item["start_offset"], item["end_offset"], item["label"]) if isinstance(item, Mapping) else item
        )
        if type(start) is int and type(end) is int:
            return start, end, str(name)
    except (KeyError, TypeError, ValueError):
        pass
    raise RowError(row.place, f"a span is [start, end, label], got {item!r:.60}.", FIX)


def to_task(explanation: Explanation) -> dict[str, Any]:
    """Convert an explanation to a line with the model's label and spans."""
    document, prediction = explanation.document, explanation.prediction
    task = {
        "id": document.id,
        "text": document.text,
        "cats": [prediction.label],
        "entities": [[start, end, RATIONALE_LABEL] for start, end in to_utf16(document.text, explanation.spans)],
        "probability": prediction.probability,
    }
    return task | {"query": " ".join(document.query)} if document.query else task

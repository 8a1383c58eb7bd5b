"""doccano: JSON lines of text, classes and spans.

Formats of doccano 1.8: projects for intent detection and slot filling read and write text, cats and entities; projects
for sequence labeling and text classification write label, a list of spans or of classes. Spans count UTF-16 code units,
as JavaScript does; the project setting "count grapheme clusters" must be off.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fresh.data.annotation.aggregate import FIX, RATIONALE_LABEL, Annotation, merge, single_choice
from fresh.data.config import DEFAULTS, DataConfig
from fresh.data.readers import Row
from fresh.document import Explanation
from fresh.errors import RowError
from fresh.text import from_utf16, to_utf16

SPAN_FIELDS = ("start_offset", "end_offset", "label")
COLUMNS = ("label", "entities", "cats", "relations", "Comments")


def matches(values: Mapping[str, Any]) -> bool:
    """Recognize a line of doccano, but not a table with a label and lists in other columns."""
    lists = {name for name in COLUMNS if isinstance(values.get(name), list)}
    return "text" in values and (
        "label" in lists or (("label" not in values or "Comments" in lists) and bool(lists & {"entities", "cats"}))
    )


def parse(lines: Sequence[Row], config: DataConfig) -> Row:
    """Parse a line, which holds all annotations of its text."""
    [row] = lines
    fields = {name: value for name, value in row.values.items() if name not in COLUMNS or not isinstance(value, list)}
    label = row.values.get("label")
    items = label if isinstance(label, list) else []
    has_cats = isinstance(row.values.get("cats"), list)
    classes = row.values["cats"] if has_cats else [item for item in items if not isinstance(item, list | tuple | dict)]
    if (has_cats or classes) and (config.label not in fields or config.label == DEFAULTS.label):
        fields[config.label] = single_choice(classes)
    # A task of ours that doccano did not export, which would add Comments: the rationale is the model's.
    is_task = "probability" in fields and "Comments" not in row.values
    entities = row.values.get("entities")
    spans = [item for item in (entities if isinstance(entities, list) else items) if item not in classes]
    named = [_parse_span(row, item) for item in spans]
    units = [(start, end) for start, end, name in named if config.rationale in (DEFAULTS.rationale, name)]
    text = row.values.get(config.text)
    if not isinstance(text, str):
        text, units = "", []  # the missing text is reported where texts are read
    points = from_utf16(text, units)
    if None in points:
        [(_, size)] = to_utf16(text, [(0, len(text))])
        wrong = f"the span {units[points.index(None)]}"
        raise RowError(row.place, f"{wrong} does not fit a text of {size} UTF-16 code units, or cuts a character.", FIX)
    annotation = Annotation(tuple(span for span in points if span), {})
    return merge(row, fields, [annotation], config, "nobody has annotated it." if is_task else "")


def _parse_span(row: Row, item: Any) -> tuple[int, int, str]:
    """Parse a span, which is a list or, in projects with relations, an object."""
    try:
        start, end, name = map(item.get, SPAN_FIELDS) if isinstance(item, Mapping) else item
    except (TypeError, ValueError):
        start = end = name = None
    if type(start) is not int or type(end) is not int:
        raise RowError(row.place, f"a span is [start, end, label], got {item!r:.60}.", FIX)
    return start, end, str(name)


def to_task(explanation: Explanation, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an explanation to a line with the model's label and spans."""
    spans = to_utf16(explanation.document.text, explanation.spans)
    entities = [[start, end, RATIONALE_LABEL] for start, end in spans]
    prediction = explanation.prediction
    return {**fields, "cats": [prediction.label], "entities": entities, "probability": prediction.probability}

"""doccano: JSON lines of text, classes and spans.

The format of doccano 1.8: what a project for intent detection and slot filling reads and writes (text, cats, entities),
and what one for sequence labelling (label, a list of spans) or text classification (label, a list of classes) writes.
Its pages cut texts as JavaScript does, so its places are UTF-16 code units; "count grapheme clusters" must be off.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from fresh.data.annotation.aggregate import MEND, Answer, Unanswered, guarded, joined, one_of, refuse_bad, wants
from fresh.data.config import DataConfig
from fresh.data.readers import Row
from fresh.document import Explanation
from fresh.errors import RowError
from fresh.text import from_utf16, to_utf16

ENDING = ".jsonl"
MARK = "RATIONALE"
OWN = ("label", "entities", "cats", "relations", "Comments")


def looks_like(values: Mapping[str, Any]) -> bool:
    """Recognise a line of doccano's, and not a table with a label and lists in other columns."""
    lists = {name for name in OWN if isinstance(values.get(name), list)}
    return "text" in values and (
        "label" in lists or (("label" not in values or "Comments" in lists) and bool(lists & {"entities", "cats"}))
    )


def read(rows: Iterable[Row], config: DataConfig) -> Iterator[Row]:
    """Turn lines of doccano's into rows of a table."""
    for row in rows:
        yield guarded(row, "doccano", partial(_read_line, row, config))


def _read_line(row: Row, config: DataConfig) -> Row:
    """Turn one line into a row."""
    fields = {name: value for name, value in row.values.items() if name not in OWN or not isinstance(value, list)}
    given = row.values.get("label")
    label = given if isinstance(given, list) else []
    named = isinstance(row.values.get("cats"), list)
    classes = row.values["cats"] if named else [item for item in label if not isinstance(item, list | tuple | dict)]
    if (named or classes) and (config.label not in fields or config.label == DataConfig().label):
        fields[config.label] = one_of(classes)
    if "probability" in fields and "Comments" not in row.values:  # what `write` wrote: doccano adds the comments
        fields[config.label] = Unanswered("nobody has annotated it.")
    entities = row.values.get("entities")
    marked = [item for item in (entities if isinstance(entities, list) else label) if item not in classes]
    return joined(row, fields, [Answer(_spans_of(row, marked, config), {})], config)


def _spans_of(row: Row, marked: Iterable[Any], config: DataConfig) -> tuple[tuple[int, int], ...]:
    """Read the spans of a line, in characters."""
    spans = [(start, end) for start, end, name in (_parts_of(row, item) for item in marked) if wants(config, name)]
    text = row.values.get(config.text)
    if not isinstance(text, str):
        return ()  # the missing text is told where texts are read
    found = from_utf16(text, spans)
    refuse_bad(
        row.place,
        (
            f"the span ({start}, {end}) does not fit a text of {to_utf16(text, [(0, len(text))])[0][1]} UTF-16 code "
            "units, or cuts a character."
            for (start, end), span in zip(spans, found, strict=True)
            if span is None
        ),
    )
    return tuple(span for span in found if span is not None)


def _parts_of(row: Row, item: Any) -> tuple[int, int, str]:
    """Take a span apart, which is a list or, with relations, an object."""
    try:
        start, end, name = (
            (item["start_offset"], item["end_offset"], item["label"]) if isinstance(item, Mapping) else item
        )
        if type(start) is int and type(end) is int:
            return start, end, str(name)
    except (KeyError, TypeError, ValueError):
        pass
    raise RowError(row.place, f"a span is [start, end, label], got {item!r:.60}.", MEND)


def write(explanation: Explanation) -> str:
    """Write an explanation as a line with the model's answer and spans."""
    document, prediction = explanation.document, explanation.prediction
    record = {
        "id": document.id,
        "text": document.text,
        "cats": [prediction.label],
        "entities": [[start, end, MARK] for start, end in to_utf16(document.text, explanation.spans)],
        "probability": prediction.probability,
    }
    if document.query:
        record["query"] = " ".join(document.query)
    return json.dumps(record, ensure_ascii=False)

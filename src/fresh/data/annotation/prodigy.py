"""Prodigy: the JSON lines of `prodigy db-out`.

The task format of its documentation ("Annotation interfaces"): text, spans (start, end), answer, and a class as label,
as accept among options, or as cats. Spans count code points.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from fresh.data.annotation.aggregate import (
    Annotation,
    check_span_texts,
    group_rows,
    is_rationale_label,
    merge_annotations,
    parse_groups,
    parse_span,
    set_aside,
    single_choice,
)
from fresh.data.config import DataConfig
from fresh.data.readers import Row

ANSWERS = {"accept": "accepted", "reject": "rejected", "ignore": "ignored"}
SIGNS = ("_input_hash", "_task_hash", "_view_id", "spans", "tokens", "options", "accept")
FIELDS = ("spans", "tokens", "options", "accept", "cats", "meta", "answer", "label")


def is_prodigy(values: Mapping[str, Any]) -> bool:
    """Recognize a line of Prodigy."""
    return "text" in values and str(values.get("answer")) in ANSWERS and any(sign in values for sign in SIGNS)


def read(rows: Iterable[Row], config: DataConfig) -> Iterator[Row]:
    """Convert lines of Prodigy to rows of a table; all lines about one text become one row."""
    texts = group_rows(rows, lambda row: str(row.values.get("_input_hash", f"row {row.number}")))
    return parse_groups(texts, "Prodigy", partial(_parse_lines, config=config))


def _parse_lines(lines: Sequence[Row], config: DataConfig) -> Row:
    accepted = [row for row in lines if row.values.get("answer") == "accept"]
    fields: dict[str, Any] = {}
    for row in accepted or lines[:1]:
        fields |= dict(row.values["meta"]) if isinstance(row.values.get("meta"), Mapping) else {}
        fields |= {name: value for name, value in row.values.items() if name not in FIELDS}
    # Annotators reject or ignore a task to leave it out, whatever its annotations.
    if not accepted:
        verb = ANSWERS.get(str(lines[0].values.get("answer")), "not answered")
        fields[config.label] = set_aside(lines[0], f"it was {verb}.")
    has_label = config.label in fields
    annotations = [
        Annotation(_parse_spans(row, config), {} if has_label else _parse_label(row.values, config)) for row in accepted
    ]
    return merge_annotations((accepted or lines)[0], fields, annotations, config)


def _parse_label(values: Mapping[str, Any], config: DataConfig) -> dict[str, Any]:
    """Parse the class of a text: chosen among options, shown and accepted, or one of cats."""
    if isinstance(values.get("accept"), list):
        chosen = tuple(values["accept"])
    elif isinstance(values.get("cats"), Mapping):
        chosen = tuple(name for name, score in values["cats"].items() if score > 0.5)
    elif values.get("label") is not None:
        chosen = (values["label"],)
    else:
        return {}
    return {config.label: single_choice(chosen)}


def _parse_spans(row: Row, config: DataConfig) -> tuple[tuple[int, int], ...] | None:
    if not isinstance(row.values.get("spans"), list):
        return None
    items = [item for item in row.values["spans"] if is_rationale_label(config, str(item.get("label")))]
    spans = tuple(parse_span(row, item) for item in items)
    text = row.values.get(config.text)
    if isinstance(text, str):
        check_span_texts(row, text, spans, [item.get("text") for item in items])
    return spans

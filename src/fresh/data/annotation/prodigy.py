"""Prodigy: the JSON lines of `prodigy db-out`.

The task format of its documentation ("Annotation interfaces"): text, spans (start, end), answer, and a class as label,
as accept among options, or as cats. Spans count code points.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fresh.data.annotation.aggregate import Annotation, merge, parse_spans, single_choice
from fresh.data.config import DataConfig
from fresh.data.readers import Row
from fresh.text import Spans

ANSWERS = {"accept": "accepted", "reject": "rejected", "ignore": "ignored"}
SIGNS = ("_input_hash", "_task_hash", "_view_id", "spans", "tokens", "options", "accept")
FIELDS = ("spans", "tokens", "options", "accept", "cats", "meta", "answer", "label")


def matches(values: Mapping[str, Any]) -> bool:
    """Recognize a line of Prodigy."""
    return "text" in values and str(values.get("answer")) in ANSWERS and any(sign in values for sign in SIGNS)


def text_id(row: Row) -> str:
    """Name the text that a line is about."""
    return str(row.values.get("_input_hash", f"row {row.number}"))


def parse(lines: Sequence[Row], config: DataConfig) -> Row:
    """Parse all lines about one text."""
    accepted = [row for row in lines if row.values.get("answer") == "accept"]
    fields: dict[str, Any] = {}
    for row in accepted or lines[:1]:
        fields |= dict(row.values["meta"]) if isinstance(row.values.get("meta"), Mapping) else {}
        fields |= {name: value for name, value in row.values.items() if name not in FIELDS}
    if not accepted:  # annotators reject or ignore a task to leave it out, whatever its annotations
        verb = ANSWERS.get(str(lines[0].values.get("answer")), "not answered")
        return merge(lines[0], fields, [], config, set_aside=f"it was {verb}.")
    choices = [{} if config.label in fields else _parse_label(row.values, config) for row in accepted]
    annotations = [Annotation(_parse_spans(row, config), chosen) for row, chosen in zip(accepted, choices, strict=True)]
    return merge(accepted[0], fields, annotations, config)


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


def _parse_spans(row: Row, config: DataConfig) -> Spans | None:
    items = row.values.get("spans")
    if not isinstance(items, list):
        return None
    return parse_spans(row, row.values.get(config.text), [(i, (str(i.get("label")),)) for i in items], config)

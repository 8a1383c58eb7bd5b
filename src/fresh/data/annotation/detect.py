"""Which tool a file comes from, told by its content."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from fresh.data.annotation import doccano, label_studio, potato_answers, prodigy
from fresh.data.config import DataConfig
from fresh.data.readers import Row
from fresh.errors import DataError

KINDS = {
    "label_studio": "Label Studio's JSON",
    "prodigy": "Prodigy's JSON lines",
    "doccano": "doccano's JSON lines",
    "potato": "Potato's annotations",
    "tasks": "tasks for Potato",
    "explained": "what fresh explain writes",
    "annotations": "the annotations of an ERASER corpus",
    "eraser": "an ERASER corpus",
    "table": "a table of texts and labels",
}
"""What each kind of file is called in errors."""


def unified(rows: Iterable[Row], config: DataConfig) -> Iterator[Row]:
    """Turn a tool's rows into a table's rows; the first that can be read speaks for all."""
    rest = iter(rows)
    for row in rest:
        if row.error:
            yield row
            continue
        found = _recognise(row.values)
        if config.format not in ("auto", found):
            raise DataError(wrong_kind(row.name, found, config.format))
        together = itertools.chain([row], rest)
        yield from READERS[found](together, config) if found in READERS else together


def _recognise(values: Mapping[str, Any]) -> str:
    """Tell from its first object what kind of file it is."""
    for name, looks_like in SIGNS.items():
        if looks_like(values):
            return name
    return "table"


def wrong_kind(name: str, found: str, asked: str) -> str:
    """Say that a file is of another kind than was asked for, and what to do."""
    if found == "annotations":
        way_out = "Give the folder or tar that it is in, with its documents."
    elif found in ("tasks", "explained"):
        way_out = "Give the file that the people's answers were exported to."
    else:
        way_out = f"Say format={found}, or leave `format` out."
    return f"{name} looks like {KINDS[found]}, not {KINDS[asked]}. {way_out}"


SIGNS: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "label_studio": label_studio.looks_like,
    "prodigy": prodigy.looks_like,
    "doccano": doccano.looks_like,
    "potato": potato_answers.looks_like,
    "tasks": lambda values: "text" in values and isinstance(values.get("predictions"), Mapping),
    "explained": lambda values: {"rationale", "probabilities", "ratio"} <= values.keys(),
    "annotations": lambda values: {"annotation_id", "evidences"} <= values.keys(),
}

READERS: dict[str, Callable[[Iterable[Row], DataConfig], Iterator[Row]]] = {
    "label_studio": label_studio.read,
    "prodigy": prodigy.read,
    "doccano": doccano.read,
    "potato": potato_answers.read,
}

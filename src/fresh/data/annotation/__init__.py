"""Annotation tools: write tasks with the model's rationales for people to correct, and read what they marked."""

import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from fresh._io import atomic_write, check_output, write_text
from fresh.config import suggest
from fresh.data.annotation import doccano, label_studio, potato, prodigy
from fresh.data.annotation.aggregate import FIX, check_span_texts, to_word_spans
from fresh.data.config import DataConfig
from fresh.data.readers import Row
from fresh.document import Document, Explanation, Mask
from fresh.errors import DataError, RowError
from fresh.rationale import Prediction

__all__ = ["TOOLS", "ExportResult", "export", "export_paths", "read_explanations"]


def _group_by(text_id: Callable[[Row], str], rows: Iterable[Row]) -> Iterable[Sequence[Row]]:
    """Group the rows about one text, wherever they are in the file."""
    groups: dict[Hashable, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.number if row.error else text_id(row)].append(row)
    return groups.values()


@dataclass(frozen=True, slots=True)
class _Format:
    title: str
    """Its name in error messages."""
    matches: Callable[[Mapping[str, Any]], bool] = lambda _values: False
    parse: Callable[[Sequence[Row], DataConfig], Row] | None = None
    """Parses the rows about one text into one; a table needs no parsing."""
    group: Callable[[Iterable[Row]], Iterable[Sequence[Row]]] = lambda rows: ([row] for row in rows)
    """Groups the rows about one text."""


# The order matters: a task for Potato, for example, also looks like a table.
FORMATS = {
    "label_studio": _Format("Label Studio's JSON", label_studio.matches, label_studio.parse, label_studio.group),
    "prodigy": _Format("Prodigy's JSON lines", prodigy.matches, prodigy.parse, partial(_group_by, prodigy.text_id)),
    "doccano": _Format("doccano's JSON lines", doccano.matches, doccano.parse),
    "potato": _Format("Potato's annotations", potato.matches, potato.parse, partial(_group_by, potato.text_id)),
    "tasks": _Format("tasks for Potato", lambda row: "text" in row and isinstance(row.get("predictions"), Mapping)),
    "explained": _Format("output of fresh explain", lambda row: {"rationale", "probabilities", "ratio"} <= row.keys()),
    "annotations": _Format(
        "the annotations of an ERASER corpus", lambda row: {"annotation_id", "evidences"} <= row.keys()
    ),
    "eraser": _Format("an ERASER corpus"),
    "table": _Format("a table of texts and labels"),
}


def to_table(rows: Iterable[Row], config: DataConfig) -> Iterator[Row]:
    """Convert the rows of an annotation tool to rows of a table; the first readable row decides the format.

    Rows about one text become one; if that fails, the first of them keeps the error, and reading continues.
    """
    rest = iter(rows)
    for row in rest:
        if row.error:
            yield row
            continue
        name = _recognize(row.values)
        check_format(row.name, name, config)
        kind, rows = FORMATS[name], itertools.chain([row], rest)
        if kind.parse is None:
            yield from rows
            return
        for group in kind.group(rows):
            try:
                yield group[0] if group[0].error else kind.parse(group, config)
            except RowError as error:
                yield replace(group[0], values={}, error=error)
            except (AttributeError, KeyError, TypeError) as error:
                problem = f"this is not the format of {kind.title} ({error!r:.80})."
                yield replace(group[0], values={}, error=RowError(group[0].place, problem, FIX))


def _recognize(values: Mapping[str, Any]) -> str:
    return next((name for name, kind in FORMATS.items() if kind.matches(values)), "table")


def check_format(name: str, actual: str, config: DataConfig) -> None:
    """Refuse a file whose format differs from the setting."""
    if config.format in ("auto", actual):
        return
    if actual == "annotations":
        fix = "Give the folder or tar that it is in, with its documents."
    elif actual in ("tasks", "explained"):
        fix = "Give the file that the annotation tool exported."
    else:
        fix = f"Set format={actual}, or leave `format` out."
    raise DataError(f"{name} looks like {FORMATS[actual].title}, not {FORMATS[config.format].title}. {fix}")


@dataclass(frozen=True, slots=True)
class _Exporter:
    title: str
    ending: str
    to_task: Callable[[Explanation, Mapping[str, Any]], dict[str, Any]]
    """Converts an explanation to a task, given the fields that every tool shows: id, text and perhaps query."""
    config_ending: str = ""
    format_config: Callable[[str, Sequence[str], bool], str] | None = None
    """Formats the tool's configuration from the name of the file, the labels, and whether there are queries."""


TOOLS = {
    "label_studio": _Exporter(
        "Label Studio", ".json", label_studio.to_task, label_studio.CONFIG_ENDING, label_studio.format_config
    ),
    "doccano": _Exporter("doccano", ".jsonl", doccano.to_task),
    "potato": _Exporter("Potato", potato.ENDING, potato.to_task, potato.CONFIG_ENDING, potato.format_config),
}


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The files of an export."""

    count: int
    """Number of tasks."""
    files: tuple[Path, ...]
    """The tasks and, if the tool needs one, the configuration."""


def export(explanations: Iterable[Explanation], path: str | Path, tool: str) -> ExportResult:
    """Write explanations as tasks for a tool, one at a time; the files appear when all tasks are written.

    :param tool: Name of the tool: label_studio, doccano or potato.
    """
    target, *configs = export_paths(path, tool)
    exporter, labels, has_query, count = TOOLS[tool], set[str](), False, 0
    before, between, after = ("[\n", ",\n", "\n]\n") if exporter.ending == ".json" else ("", "\n", "\n")
    with atomic_write(target) as partial:
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            file.write(before)
            for count, explanation in enumerate(explanations, start=1):
                document = explanation.document
                labels |= explanation.prediction.probabilities.keys()
                fields = {"id": document.id or f"document-{count}", "text": document.text}
                if document.query:
                    fields["query"], has_query = " ".join(document.query), True
                task = exporter.to_task(explanation, fields)
                file.write(f"{between if count > 1 else ''}{json.dumps(task, ensure_ascii=False)}")
            file.write(after)
        if not count:
            raise DataError("There is nothing to export: no text was explained.")
        # Before the tasks appear, because once they do, the export is complete.
        if exporter.format_config:
            write_text(configs[0], exporter.format_config(target.name, sorted(labels), has_query))
    return ExportResult(count, (target, *configs))


def export_paths(path: str | Path, tool: str) -> tuple[Path, ...]:
    """List the files that an export writes; refuse a path that cannot be written."""
    if tool not in TOOLS:
        raise DataError(suggest(tool, "a tool that can be exported to", TOOLS))
    exporter, target = TOOLS[tool], Path(path)
    if not target.name.endswith(exporter.ending):
        problem = f"{exporter.title} reads {exporter.ending} files, but the output is {target.name}."
        raise DataError(f"{problem} Give it the ending {exporter.ending}.")
    check_output(target, overwrite=True)
    config = target.with_name(target.name.removesuffix(exporter.ending) + exporter.config_ending)
    return (target, config) if exporter.config_ending else (target,)


def read_explanations(rows: Iterable[Row], documents: Iterable[Document]) -> Iterator[Explanation]:
    """Join the records of `fresh explain`, which hold no texts, with the explained documents.

    :param documents: The documents in the order of the records; documents without a record are skipped.
    """
    rest = iter(documents)
    for row in rows:
        if row.error:
            raise row.error
        document = next((document for document in rest if document.id == row.values.get("id")), None)
        if document is None:
            problem = f"there is no document {row.values.get('id')!r} in the input, or not in this order."
            raise RowError(row.place, problem, "Give the file that was explained, with the same `text` and `id`.")
        try:
            spans = tuple((int(item["start"]), int(item["end"])) for item in row.values["rationale"])
            expected = [str(item["text"]) for item in row.values["rationale"]]
            probabilities = {str(label): float(share) for label, share in row.values["probabilities"].items()}
            prediction = Prediction(str(row.values["label"]), probabilities)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            problem = "this is not a record of an explanation."
            raise RowError(row.place, problem, "Give a file that fresh explain wrote.") from error
        check_span_texts(row, document.text, spans, expected)
        mask = Mask.from_spans(to_word_spans(spans, document), len(document.words))
        yield Explanation(document, mask, document.cut(mask), prediction)

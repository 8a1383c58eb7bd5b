"""Answers as other tools write them, not yet checked against a study.

Readable are our own exports; the results of a batch of Mechanical Turk; user_state.json and the exports
annotations.jsonl, .csv and .tsv of Potato 2, and annotated_instances.jsonl of Potato 1; the exports JSON, JSON-MIN, CSV
and TSV of Label Studio 1.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import mktime_tz, parsedate_tz
from itertools import chain
from pathlib import Path
from typing import Any

from fresh.config import suggest
from fresh.data.annotation import label_studio, potato
from fresh.data.readers import Row, read_rows
from fresh.errors import StudyError
from fresh.reporting.tables import escape_formula
from fresh.study.answers import MAX_MILLISECONDS, QUESTIONS, parse_whole

KINDS = ("real", "practice", "check")
OWN_FIELDS = ("study", "document", "condition", "gold")  # what our own export says about an item besides its number
SHOWN_FIELDS = ("text", "query")  # what other tools say about an item
COUNTED = {"true": True, "false": False, "": True, "none": True}
MAX_TIMESTAMP = 253_402_300_799_999  # the last millisecond of the year 9999
POTATO_STATE = "user_state.json"
POTATO_1_FILE = "annotated_instances.jsonl"
POTATO_1_TIME = re.compile(r"(\d+)d (\d+)h (\d+)m (\d+)s")


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """An answer as a file contains it."""

    place: str  # where it is in the file
    annotator: Any
    item: Any
    answers: Mapping[str, Any]  # the answer to each question; None for no answer, or several
    milliseconds: int = 0
    at: int | None = None  # time of the answer, in milliseconds since 1970
    complete: bool = True  # whether the tool saves only complete answers; otherwise some may be missing
    void: str = ""  # "skipped" or "rejected": the annotator has seen the item, and nothing else counts
    about: Mapping[str, Any] = field(default_factory=dict)  # what the file says about the item
    # Only our own exports have these: whether the answer was part of the results, and who gave it in which database.
    kind: str = "real"
    counted: bool = True
    database: Any = None
    number: Any = None

    @property
    def unanswered(self) -> list[str]:
        """List the questions without an answer."""
        return [name for name in QUESTIONS if self.answers.get(name) in (None, "")]


def parse_milliseconds(name: str, value: Any, per_second: int = 1) -> int:
    """Parse the duration of an answer, at most a week, since some tools count while nobody looks.

    :param name: Field of the file, for errors.
    :param per_second: Number of units in a second.
    """
    try:
        seconds = float(value or 0) / per_second
    except (TypeError, ValueError, OverflowError):
        seconds = -1
    if not seconds >= 0:  # also NaN
        raise StudyError(f"{name} must be a number of at least 0, got {value!r:.60}.")
    return round(min(seconds * 1000, MAX_MILLISECONDS))


def parse_timestamp(written: Any) -> int | None:
    """Parse a point in time to milliseconds since 1970; None if that is impossible.

    Label Studio writes ISO 8601, Mechanical Turk "Mon Mar 09 22:16:08 PDT 2026", Potato seconds since 1970.
    """
    try:
        text = str(written).strip()
        if isinstance(written, int | float):
            seconds = float(written)
        elif text[:1].isdigit():
            date = datetime.fromisoformat(text)
            seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
        else:
            parts = parsedate_tz(text)
            seconds = 0 if parts is None else mktime_tz(parts)
        return round(seconds * 1000) if 0 < seconds <= MAX_TIMESTAMP / 1000 else None
    except (ValueError, OverflowError, TypeError, IndexError):
        return None


def _read_own(row: Row) -> Iterator[RawAnswer]:
    values = {name: unguard(value) for name, value in row.values.items()}
    kind, number, counted = values.get("kind", "real"), values.get("annotator"), values.get("counted")
    at = None if values.get("at") in (None, "") else parse_whole(values["at"])
    if kind not in KINDS:
        raise StudyError(suggest(f"{kind!r:.60}", "a kind of answer", KINDS))
    if str(counted).strip().lower() not in COUNTED:
        raise StudyError(f"counted must be true or false, got {counted!r:.60}.")
    if at is not None and not (type(at) is int and 0 <= at <= MAX_TIMESTAMP):
        limits = f"from 0 (1970) to {MAX_TIMESTAMP} (the year 9999)"
        raise StudyError(f"at must be a whole number of milliseconds {limits}, got {values['at']!r:.60}.")
    yield RawAnswer(
        row.place,
        values.get("outside") or (annotator_name(number) if number else None),
        values.get("item"),
        {name: values.get(name) for name in QUESTIONS},
        parse_milliseconds("milliseconds", values.get("milliseconds"), 1000),
        at,
        about={name: values.get(name) for name in OWN_FIELDS},
        kind=kind,
        counted=COUNTED[str(counted).strip().lower()],
        database=values.get("database"),
        number=number,
    )


def unguard(value: Any) -> Any:
    """Remove the apostrophe that keeps a spreadsheet from evaluating a cell."""
    guarded = isinstance(value, str) and value[:1] == "'" and escape_formula(value[1:]) == value
    return value[1:] if guarded else value


def annotator_name(number: Any) -> str:
    """Name an annotator of another study who has no name on a platform."""
    return f"annotator {number}"


def _read_mturk(row: Row) -> Iterator[RawAnswer]:
    values = row.values
    # Requesters reject work by filling in this column and uploading the file, perhaps after importing it here.
    rejected = values.get("AssignmentStatus") == "Rejected" or bool(values.get("Reject"))
    text, answers = values.get("Answer.taskAnswers"), dict[str, Any]()
    try:
        [found] = json.loads(text) if text and not rejected else [{}]
        for name, value in found.items():
            answers[name] = _checked_box(value) if isinstance(value, Mapping) else value
    except (ValueError, AttributeError, TypeError) as error:
        raise StudyError(f"Answer.taskAnswers is not in the format of Mechanical Turk: {text!r:.60}.") from error
    for name in QUESTIONS:  # otherwise in its own column, or in columns that are true or false
        boxes = {box: str(value).lower() == "true" for box, value in _columns_under(values, f"Answer.{name}.").items()}
        answers.setdefault(name, values.get(f"Answer.{name}") or _checked_box(boxes))
    yield RawAnswer(
        row.place,
        values.get("WorkerId"),
        values.get("Input.item"),
        {name: answers[name] for name in QUESTIONS},
        parse_milliseconds("WorkTimeInSeconds", values.get("WorkTimeInSeconds")),
        parse_timestamp(values.get("SubmitTime")),
        void="rejected" if rejected else "",
        about={name: values.get(f"Input.{name}") for name in SHOWN_FIELDS},
    )


def _checked_box(boxes: Mapping[str, Any]) -> str | None:
    checked = [name for name, value in boxes.items() if value is True]
    return checked[0] if len(checked) == 1 else None


def _read_potato(row: Row) -> Iterator[RawAnswer]:
    values = row.values
    if "instance_id_to_label_to_value" in values:  # the state of one annotator
        times = values.get("instance_id_to_behavioral_data") or {}
        for item, labels in values["instance_id_to_label_to_value"].items():
            by_scheme: dict[str, Any] = {}
            for choice, value in () if isinstance(labels, Mapping) else labels:
                by_scheme.setdefault(choice["schema"], {})[choice["name"]] = value
            place, chosen = f"{row.place}, {item}", labels if isinstance(labels, Mapping) else by_scheme
            yield from _potato_answer(place, values.get("user_id"), item, chosen, times.get(item))
    elif "label_annotations" in values:  # Potato 1
        times = values.get("behavioral_data")
        yield from _potato_answer(row.place, row.name, values.get("id"), values["label_annotations"], times)
    elif {"instance_id", "user_id"} <= values.keys():  # an export of Potato 2
        # Columns such as label.Positive belong to one question; a column named label takes precedence.
        columns = {name: values.get(name) or _columns_under(values, f"{name}.") for name in QUESTIONS}
        labels = values.get("labels", columns)
        about = {name: values.get(name) for name in SHOWN_FIELDS}
        yield from _potato_answer(row.place, values["user_id"], values["instance_id"], labels, about=about)
    else:
        raise _wrong_format("Potato", "user_state.json, or the jsonl, csv or tsv file of python -m potato.export")


def _potato_answer(
    place: str, annotator: Any, item: Any, labels: Any, behavior: Any = None, about: Mapping[str, Any] | None = None
) -> Iterator[RawAnswer]:
    choices: dict[str, list[Any]] = {}
    for name in QUESTIONS:
        answer = labels.get(name)
        empty = answer in (None, "")  # a label may be named "false"
        choices[name] = potato.parse_choices(answer) if isinstance(answer, Mapping) else [] if empty else [answer]
    if any(choices.values()):
        answers = {name: chosen[0] if len(chosen) == 1 else None for name, chosen in choices.items()}
        times = behavior if isinstance(behavior, Mapping) else {}
        if match := POTATO_1_TIME.search(str(times.get("time_string"))):
            days, hours, minutes, seconds = map(int, match.groups())
            time = parse_milliseconds("time_string", ((days * 24 + hours) * 60 + minutes) * 60 + seconds)
        else:
            time = parse_milliseconds("total_time_ms", times.get("total_time_ms"), 1000)
        started = parse_timestamp(times.get("session_start"))
        yield RawAnswer(place, annotator, item, answers, time, started, complete=False, about=about or {})


def _columns_under(values: Mapping[str, Any], start: str) -> dict[str, Any]:
    return {key.removeprefix(start): value for key, value in values.items() if key.startswith(start)}


def _read_label_studio(row: Row) -> Iterator[RawAnswer]:
    values = row.values
    if isinstance(values.get("data"), Mapping):  # a task with all its annotations
        for annotation in values.get("annotations") or ():
            results: dict[str, list[Any]] = {}
            for result in annotation.get("result") or ():
                results.setdefault(result.get("from_name"), []).append(_single_choice(result.get("value")))
            answers = {name: results[name][0] if len(results.get(name, ())) == 1 else None for name in QUESTIONS}
            place = f"{row.place}, annotation {annotation.get('id')}"
            yield _label_studio_answer(place, annotation.get("completed_by"), values["data"], answers, annotation)
    elif "annotation_id" in values:  # a flat annotation; tasks without one have an empty id
        if values["annotation_id"] not in (None, ""):
            answers = {name: _single_choice(values.get(name)) for name in QUESTIONS}
            yield _label_studio_answer(row.place, values.get("annotator"), values, answers, values)
    else:
        raise _wrong_format("Label Studio", "its export as JSON, JSON-MIN, CSV or TSV")


def _label_studio_answer(
    place: str, annotator: Any, data: Mapping[str, Any], answers: Mapping[str, Any], annotation: Mapping[str, Any]
) -> RawAnswer:
    if isinstance(annotator, Mapping):
        annotator = annotator.get("email") or annotator.get("id")
    return RawAnswer(
        place,
        f"Label Studio {annotator}" if str(annotator).isdecimal() else annotator,  # not a number of an annotator here
        data.get("item"),
        answers,
        parse_milliseconds("lead_time", annotation.get("lead_time")),
        parse_timestamp(annotation.get("created_at")),
        void="skipped" if annotation.get("was_cancelled") else "",
        about={name: data.get(name) for name in SHOWN_FIELDS},
    )


def _single_choice(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(("[", "{")):  # a cell of a CSV export
        value = json.loads(value)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], Mapping):
        [value] = value
    choice = label_studio.parse_choice(value)
    return None if isinstance(choice, tuple) else choice


def _wrong_format(tool: str, files: str) -> StudyError:
    return StudyError(f"this is not an answer in the format of {tool}. Import {files}.")


READERS: dict[str, Callable[[Row], Iterator[RawAnswer]]] = {
    "csv": _read_own,
    "jsonl": _read_own,
    "mturk": _read_mturk,
    "potato": _read_potato,
    "label_studio": _read_label_studio,
}


def read_raw_answers(path: Path, format: str, problems: list[tuple[str, str]]) -> Iterator[RawAnswer]:
    """Read all answers in a file, or in the folder that Potato writes.

    :param problems: Collects the rows that cannot be read, each with its place.
    """
    files = [path]
    if format == "potato" and path.is_dir():
        files = [file for name in (POTATO_STATE, POTATO_1_FILE) for file in sorted(path.glob(f"*/{name}"))]
        if not files:
            raise StudyError(
                f"{path} has no folders with {POTATO_STATE} or {POTATO_1_FILE}. Import the output folder of Potato."
            )
    for row in chain.from_iterable(read_rows(file, _name_file(file)) for file in files):
        try:
            if row.error:
                raise row.error
            yield from list(READERS[format](row))  # all answers of a row, or none
        except (AttributeError, KeyError, IndexError, TypeError, json.JSONDecodeError) as error:
            problems.append((row.place, f"unexpected contents ({error!r:.80}). Export the file again."))
        except ValueError as error:
            problems.append((row.place, str(error)))


def _name_file(file: Path) -> str:
    # Potato's files have the same name for all annotators, whose folders differ.
    folder = file.absolute().parent.name
    return {POTATO_STATE: f"{folder}/{POTATO_STATE}", POTATO_1_FILE: folder}.get(file.name, file.name)

"""What files of other tools say that people answered, taken out as it stands there; nothing is judged yet.

Read are: our own export; the results of a batch of Mechanical Turk; user_state.json and the exports annotations.jsonl,
.csv and .tsv of Potato 2, and annotated_instances.jsonl of Potato 1; the exports JSON, JSON-MIN, CSV and TSV of Label
Studio 1.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from fresh.config import suggest
from fresh.data.readers import Row, read_rows
from fresh.errors import StudyError
from fresh.reporting.tables import escape_formula
from fresh.study.importing.claim import ASKED, OWN, SHOWN, Claim
from fresh.study.importing.moments import moment

KINDS = ("real", "practice", "check")
UNCHOSEN = (None, False, "", "false")
"""What Potato writes beside a choice that was not made, or was taken back."""
STATE = "instance_id_to_label_to_value"
STATE_FILE = "user_state.json"
FIRST_FILE = "annotated_instances.jsonl"
"""Of Potato 1: it does not say who answered, the name of its folder does."""
SPENT = re.compile(r"(\d+)d (\d+)h (\d+)m (\d+)s")
"""How Potato 1 writes times."""


def _own_claims(row: Row) -> Iterator[Claim]:
    """Read a row as `fresh study export` writes it."""
    values = {name: as_it_was(value) for name, value in row.values.items()}
    kind = values.get("kind", "real")
    if kind not in KINDS:
        raise StudyError(f"{row.place}: {suggest(f'{kind!r:.60}', 'a kind of answer', KINDS)}")
    number = values.get("annotator")
    yield Claim(
        row.place,
        values.get("outside") or (annotator_name(number) if number else None),
        values.get("item"),
        {name: values.get(name) for name in ASKED},
        values.get("milliseconds"),
        "milliseconds",
        1000,
        values.get("at"),
        about={name: values.get(name) for name in OWN},
        kind=kind,
        counted=values.get("counted"),
        database=values.get("database"),
        annotator=number,
    )


def as_it_was(value: Any) -> Any:
    """Take away the apostrophe that keeps a spreadsheet from computing a cell."""
    guarded = isinstance(value, str) and value[:1] == "'" and escape_formula(value[1:]) == value
    return value[1:] if guarded else value


def annotator_name(number: Any) -> str:
    """Name somebody of another study who has no name on any platform."""
    return f"annotator {number}"


def _mturk_claims(row: Row) -> Iterator[Claim]:
    """Read a row of the results of Mechanical Turk; rejected work, also if it is not told them yet, is void."""
    values = row.values
    rejected = values.get("AssignmentStatus") == "Rejected" or bool(values.get("Reject"))
    given = {} if rejected else _task_answers(row)
    yield Claim(
        row.place,
        values.get("WorkerId"),
        values.get("Input.item"),
        {name: given[name] if name in given else _mturk_answer(values, name) for name in ASKED},
        values.get("WorkTimeInSeconds"),
        "WorkTimeInSeconds",
        at=moment(values.get("SubmitTime")),
        void="rejected" if rejected else "",
        about={name: values.get(f"Input.{name}") for name in SHOWN},
    )


def _task_answers(row: Row) -> dict[str, Any]:
    """Read the one column that holds all answers of a page of crowd elements."""
    text = row.values.get("Answer.taskAnswers")
    if not text:
        return {}
    try:
        [given] = json.loads(text)
        return {name: _one_true(value) if isinstance(value, Mapping) else value for name, value in given.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise StudyError(
            f"{row.place}: Answer.taskAnswers is not as Mechanical Turk writes it: {text!r:.60}."
        ) from error


def _mturk_answer(values: Mapping[str, Any], name: str) -> Any:
    """Find an answer in its own column, or among columns that are true or false."""
    start = f"Answer.{name}."
    boxes = {
        key.removeprefix(start): str(value).lower() == "true"
        for key, value in values.items()
        if key[: len(start)] == start
    }
    return values.get(f"Answer.{name}") or _one_true(boxes)


def _one_true(boxes: Mapping[str, Any]) -> str | None:
    """Find the only box that is checked."""
    checked = [name for name, value in boxes.items() if value is True]
    return checked[0] if len(checked) == 1 else None


def _potato_claims(row: Row) -> Iterator[Claim]:
    """Read a state of one annotator, or a line or row of an export; who answered nothing is passed over."""
    values = row.values
    if STATE in values:
        times = values.get("instance_id_to_behavioral_data") or {}
        for item, labels in values[STATE].items():
            place = f"{row.place}, {item}"
            yield from _potato_claim(place, values.get("user_id"), item, _by_scheme(labels), times.get(item))
    elif "label_annotations" in values:
        times = values.get("behavioral_data")
        yield from _potato_claim(row.place, row.name, values.get("id"), values["label_annotations"], times)
    elif {"instance_id", "user_id"} <= values.keys():
        labels = values["labels"] if "labels" in values else _columns_by_scheme(values)
        yield from _potato_claim(row.place, values["user_id"], values["instance_id"], labels, about=_shown_in(values))
    else:
        raise _not_as(row, "Potato", "user_state.json, or what python -m potato.export writes as jsonl, csv or tsv")


def _potato_claim(
    place: str, person: Any, item: Any, labels: Any, behaviour: Any = None, about: Mapping[str, Any] | None = None
) -> Iterator[Claim]:
    """Read what one annotator said of one item, unless they said nothing."""
    chosen = {name: _potato_choices(labels.get(name)) for name in ASKED}
    if any(chosen.values()):
        answers = {name: found[0] if len(found) == 1 else None for name, found in chosen.items()}
        began = moment(behaviour.get("session_start")) if isinstance(behaviour, Mapping) else None
        yield Claim(place, person, item, answers, *_potato_time(behaviour), began, whole=False, about=about or {})


def _shown_in(values: Mapping[str, Any]) -> dict[str, Any]:
    """Take out what was shown, where a file tells it."""
    return {name: values.get(name) for name in SHOWN}


def _potato_choices(found: Any) -> list[Any]:
    """List what was chosen of one question."""
    if not isinstance(found, Mapping):
        return [] if found in (None, "") else [found]
    inner = found["labels"] if isinstance(found.get("labels"), Mapping) else found
    return [name for name, value in inner.items() if value == name or value not in UNCHOSEN]  # a label may be "false"


def _potato_time(behaviour: Any) -> tuple[Any, str, int]:
    """Find how long somebody looked at an item, where that stands, and in which unit; 0 if it was not kept."""
    if not isinstance(behaviour, Mapping):
        return 0, "time_string", 1
    found = SPENT.search(str(behaviour.get("time_string")))
    if found is not None:
        days, hours, minutes, seconds = map(int, found.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds, "time_string", 1
    return behaviour.get("total_time_ms"), "total_time_ms", 1000


def _by_scheme(labels: Any) -> Mapping[str, Any]:
    """Sort pairs of a choice and its value, as a state has them, by what was asked."""
    if isinstance(labels, Mapping):
        return labels
    sorted_out: dict[str, dict[str, Any]] = {}
    for choice, value in labels:
        sorted_out.setdefault(choice["schema"], {})[choice["name"]] = value
    return sorted_out


def _columns_by_scheme(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Sort columns such as label.Positive by what was asked; a column without a choice has the last word."""
    sorted_out: dict[str, Any] = {name: values[name] for name in ASKED if values.get(name)}
    for name in ASKED:
        start = f"{name}."
        chosen = {key.removeprefix(start): value for key, value in values.items() if key.startswith(start)}
        sorted_out.setdefault(name, chosen)
    return sorted_out


def _label_studio_claims(row: Row) -> Iterator[Claim]:
    """Read all annotations of a task, or one that stands alone; those that were skipped are void."""
    values = row.values
    if isinstance(values.get("data"), Mapping):
        for annotation in values.get("annotations") or ():
            yield _label_studio_claim(f"{row.place}, annotation {annotation.get('id')}", values["data"], annotation)
    elif "annotation_id" in values:
        if values["annotation_id"] not in (None, ""):
            answers = {name: _single(values.get(name)) for name in ASKED}
            yield _timed_claim(row.place, values.get("annotator"), values, answers, values)
    else:
        raise _not_as(row, "Label Studio", "its export as JSON, JSON-MIN, CSV or TSV")


def _label_studio_claim(place: str, data: Mapping[str, Any], annotation: Mapping[str, Any]) -> Claim:
    """Read one annotation of a task."""
    found: dict[str, list[Any]] = {}
    for result in annotation.get("result") or ():
        found.setdefault(result.get("from_name"), []).append(_single(result.get("value")))
    answers = {name: found[name][0] if len(found.get(name, ())) == 1 else None for name in ASKED}
    return _timed_claim(place, annotation.get("completed_by"), data, answers, annotation)


def _timed_claim(
    place: str, person: Any, data: Mapping[str, Any], answers: Mapping[str, Any], annotation: Mapping[str, Any]
) -> Claim:
    """Put together what stands in a task, and what in an annotation of it."""
    return Claim(
        place,
        _label_studio_person(person),
        data.get("item"),
        answers,
        annotation.get("lead_time"),
        "lead_time",
        at=moment(annotation.get("created_at")),
        void="skipped" if annotation.get("was_cancelled") else "",
        about=_shown_in(data),
    )


def _label_studio_person(person: Any) -> Any:
    """Name somebody by their address, or by their number there, which says nothing elsewhere."""
    if isinstance(person, Mapping):
        person = person.get("email") or person.get("id")
    return f"Label Studio {person}" if str(person).isdecimal() else person


def _single(value: Any) -> Any:
    """Take the only choice, or the number of stars, out of what it is wrapped in."""
    if isinstance(value, str) and value.startswith(("[", "{")):
        value = json.loads(value)
    if isinstance(value, Mapping):
        value = value.get("choices", value.get("rating"))
    if isinstance(value, list):
        return _single(value[0]) if len(value) == 1 else None
    return value


def _not_as(row: Row, tool: str, files: str) -> StudyError:
    """Say that a row is not of some tool."""
    return StudyError(f"{row.place}: this is not as {tool} writes answers. Give {files}.")


def rows_of(path: Path, form: str) -> Iterator[Row]:
    """Read the rows of a file; of Potato also those of the whole folder that it writes."""
    if form != "potato" or not path.is_dir():
        return read_rows(path, _called(path))
    files = [file for name in (STATE_FILE, FIRST_FILE) for file in sorted(path.glob(f"*/{name}"))]
    if not files:
        raise StudyError(
            f"{path} has no folders with {STATE_FILE} or {FIRST_FILE}. Name the folder that Potato writes to."
        )
    return chain.from_iterable(read_rows(file, _called(file)) for file in files)


def _called(file: Path) -> str:
    """Name a file; one that has the same name for all annotators by the folder of its annotator."""
    folder = file.absolute().parent.name
    return {STATE_FILE: f"{folder}/{STATE_FILE}", FIRST_FILE: folder}.get(file.name, file.name)


def claims_of(row: Row, form: str) -> list[Claim]:
    """Take out what a row says, or say that it cannot be understood."""
    if row.error:
        raise row.error
    try:
        return list(CLAIMS[form](row))
    except (AttributeError, KeyError, IndexError, TypeError, json.JSONDecodeError) as error:
        raise StudyError(f"{row.place}: this is not as it was exported ({error!r:.80}). Export it again.") from error


CLAIMS: dict[str, Callable[[Row], Iterator[Claim]]] = {
    "csv": _own_claims,
    "jsonl": _own_claims,
    "mturk": _mturk_claims,
    "potato": _potato_claims,
    "label_studio": _label_studio_claims,
}

"""Answers that were given elsewhere, and what a crowd platform says of people, brought into a study."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import select

from fresh.config import unknown
from fresh.study.answer import Answer, StudyError
from fresh.study.desk import columns_of, take
from fresh.study.people import consent, enrol, exclude, find, leave
from fresh.study.schema import AnswerRow, AssignmentRow, ItemRow
from fresh.study.store import Store, now

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Foreign:
    """An answer that somebody gave elsewhere."""

    place: str
    """Where it stands in the file."""
    person: str
    item: int
    answer: Answer


@dataclass(slots=True)
class Imported:
    """What became of a file."""

    n_new: int = 0
    n_repeated: int = 0
    left_out: list[str] = field(default_factory=list)
    """Answers that the plan has no room for, each with its reason."""


def read_table(path: Path) -> Iterator[tuple[str, Fields]]:
    """Read rows of comma-separated values or JSON lines, and where each stands."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path} cannot be read: {error}.") from error
    if path.suffix != ".jsonl":
        for number, row in enumerate(csv.DictReader(text.splitlines()), start=2):
            yield f"{path.name}, line {number}", {key: value for key, value in row.items() if key is not None}
        return
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise StudyError(f"{path.name}, line {number} is not JSON: {error}.") from error
        if not isinstance(row, dict):
            raise StudyError(f"{path.name}, line {number} is no JSON object.")
        yield f"{path.name}, line {number}", row


def own_row(place: str, row: Fields) -> Foreign | None:
    """Read a row as `fresh study export` writes it; practice and checks are passed over."""
    if row.get("kind", "real") != "real":
        return None
    person = row.get("outside") or row.get("annotator")
    return foreign(place, person, row.get("item"), row, row.get("milliseconds") or 0)


def mturk_row(place: str, row: Fields) -> Foreign | None:
    """Read a row of the results of Mechanical Turk; rejected work is passed over."""
    if row.get("AssignmentStatus") == "Rejected":
        return None
    answers = {name: mturk_answer(row, name) for name in ("label", "confidence", "readability")}
    seconds = row.get("WorkTimeInSeconds") or 0
    return foreign(place, row.get("WorkerId"), row.get("Input.item"), answers, float(seconds) * 1000)


def mturk_answer(row: Fields, name: str) -> Any:
    """Find an answer in its own column, or among columns that are true or false."""
    given = row.get(f"Answer.{name}")
    if given:
        return given
    start = f"Answer.{name}."
    chosen = [key.removeprefix(start) for key, value in row.items() if key.startswith(start) and is_true(value)]
    return chosen[0] if len(chosen) == 1 else None


def is_true(value: Any) -> bool:
    """Tell whether a cell says yes."""
    return str(value).strip().lower() == "true"


def foreign(place: str, person: Any, item: Any, row: Fields, milliseconds: Any) -> Foreign:
    """Make an answer of the values of a row, or say what is wrong with them."""
    missing = [name for name in ("label", "confidence", "readability") if row.get(name) in (None, "")]
    missing += [name for name, value in (("the person", person), ("item", item)) if value in (None, "")]
    if missing:
        raise StudyError(f"{place}: there is no {', no '.join(missing)}, or more than one.")
    try:
        scales = int(row["confidence"]), int(row["readability"])
        return Foreign(place, str(person), int(item), Answer(str(row["label"]), *scales, int(milliseconds)))
    except ValueError as error:
        raise StudyError(f"{place}: {error}") from error


def import_answers(store: Store, path: Path, read: Callable[[str, Fields], Foreign | None]) -> Imported:
    """Bring in the answers of a file. If a row cannot be understood, all such rows are named and nothing is done."""
    answers: list[Foreign] = []
    problems: list[str] = []
    with store.reading() as session:
        known = set(session.scalars(select(ItemRow.id).where(ItemRow.kind == "real")))
    for place, row in read_table(path):
        try:
            found = read(place, row)
        except ValueError as error:
            problems.append(str(error))
            continue
        if found is None:
            continue
        if found.item not in known:
            problems.append(f"{place}: there is no item {found.item} in this study.")
        if found.answer.label not in store.labels:
            problems.append(f"{place}: {unknown(found.answer.label, 'a label of this study', store.labels)}")
        answers.append(found)
    if problems:
        raise StudyError("\n".join(problems))
    done = Imported()
    for one in answers:
        bring_in(store, one, done)
    return done


def bring_in(store: Store, one: Foreign, done: Imported) -> None:
    """Save an answer from elsewhere, if the plan has room for it."""
    person = enrol(store, one.person)
    if not person.consented:
        consent(store, person.id)
    with store.writing() as session:
        find(session, person.id)
        item = session.get_one(ItemRow, one.item)
        held = session.scalar(
            select(AssignmentRow).where(AssignmentRow.annotator == person.id, AssignmentRow.document == item.document)
        )
        if held is not None and held.item != item.id:
            done.left_out.append(f"{one.place}: {one.person} has seen the document of item {one.item} otherwise cut.")
        elif held is not None and session.scalar(select(AnswerRow).where(AnswerRow.assignment == held.id)):
            done.n_repeated += 1
        elif (held is None or held.state == "released") and not take(session, item.id):
            done.left_out.append(f"{one.place}: item {one.item} has all the answers that it needs.")
        else:
            assert item.document is not None
            held = held or AssignmentRow(annotator=person.id, item=item.id, document=item.document, at=now())
            held.state = "answered"
            session.add(held)
            session.flush()
            session.add(AnswerRow(assignment=held.id, **columns_of(one.answer)))
            done.n_new += 1


def import_prolific(store: Store, path: Path) -> Imported:
    """Take in the participants of Prolific; who returned or timed out has left, who was rejected is excluded."""
    done = Imported()
    for place, row in read_table(path):
        plain = {key.strip().lower().replace("_", " "): str(value).strip() for key, value in row.items()}
        if not plain.get("participant id") or "status" not in plain:
            raise StudyError(f"{place}: Prolific's export has the columns 'Participant id' and 'Status'.")
        person = enrol(store, plain["participant id"])
        status = plain["status"].upper().replace("-", " ")
        done.n_new += 1
        if status in ("RETURNED", "TIMED OUT"):
            leave(store, person.id)
        elif status == "REJECTED":
            exclude(store, person.id)
    return done


def import_study(store: Store, form: str, path: Path) -> Imported:
    """Bring a file into a study."""
    if form == "prolific":
        return import_prolific(store, path)
    if form not in ROWS:
        raise StudyError(unknown(form, "a form that a study can import", (*ROWS, "prolific")))
    return import_answers(store, path, ROWS[form])


ROWS: dict[str, Callable[[str, Fields], Foreign | None]] = {"csv": own_row, "jsonl": own_row, "mturk": mturk_row}

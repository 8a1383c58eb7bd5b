"""Answers that were given elsewhere, and what a crowd platform says of people, brought into a study."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from fresh.config import unknown
from fresh.readers import Row, read_rows
from fresh.study.answer import LONGEST, Answer, StudyError
from fresh.study.claims import ASKED, CLAIMS, Claim, annotator_name, claims_of, rows_of
from fresh.study.desk import columns_of, take
from fresh.study.exporting import questions_of
from fresh.study.people import consent, enrol, exclude, find, leave
from fresh.study.schema import AnnotatorRow, AnswerRow, AssignmentRow, ItemRow
from fresh.study.store import Store, now

GONE = ("RETURNED", "TIMED-OUT", "SCREENED OUT")
HERE = ("RESERVED", "ACTIVE", "AWAITING REVIEW", "APPROVED")
STATUSES = (*HERE, *GONE, "REJECTED")
"""What Prolific says of a submission."""
NEW, REPEATED = "new", "there already"


@dataclass(frozen=True, slots=True)
class Foreign:
    """An answer that somebody gave elsewhere."""

    place: str
    """Where it stands in the file."""
    person: str
    item: int
    answer: Answer
    at: int | None = None


@dataclass(slots=True)
class Imported:
    """What became of a file."""

    n_new: int = 0
    n_repeated: int = 0
    left_out: list[str] = field(default_factory=list)
    """Answers that the plan has no room for, or that are not finished, each with its reason."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a study knows, to understand answers by."""

    items: frozenset[int]
    meanings: Mapping[str, Mapping[str, str]]
    """For each question, what may stand in a file, and which answer it is."""


def known_to(store: Store, form: str) -> Known:
    """List items, and how answers are written: Potato keeps what people read, the others what it stands for."""
    meanings: dict[str, Mapping[str, str]] = {}
    for name, (_, answers) in questions_of(store).items():
        read = {shown.strip(): value for value, shown in answers.items()}
        stands = {value: value for value in answers}
        meanings[name] = {**stands, **read} if form == "potato" else {**read, **stands}
    with store.reading() as session:
        items = session.scalars(select(ItemRow.id).where(ItemRow.kind == "real")).all()
    return Known(frozenset(items), meanings)


def foreign(claim: Claim, known: Known) -> Foreign:
    """Understand an answer, or say all that is wrong with it."""
    told = {name: meaning_of(claim.answers.get(name), known.meanings[name]) for name in ASKED}
    about = {"person": claim.person, "item": claim.item}
    missing = [name for name, value in (told | about).items() if value in (None, "")]
    if missing:
        raise StudyError(f"{claim.place}: there is no {', no '.join(missing)}, or more than one.")
    item, label = whole(claim.item), str(told["label"])
    problems = []
    if type(item) is not int or item not in known.items:
        problems.append(f"there is no item {item} in this study.")
    if label not in known.meanings["label"].values():
        problems.append(unknown(label, "a label of this study", sorted(set(known.meanings["label"].values()))))
    try:
        scales = whole(told["confidence"]), whole(told["readability"])
        answer = Answer(label, *scales, milliseconds(claim.seconds))
    except ValueError as error:
        problems += str(error).splitlines()
    if problems:
        raise StudyError("\n".join(f"{claim.place}: {problem}" for problem in problems))
    at = whole(claim.at)
    return Foreign(claim.place, str(claim.person).strip(), item, answer, at if type(at) is int else None)


def meaning_of(given: Any, meanings: Mapping[str, str]) -> Any:
    """Find which answer was meant; what cannot be found stays as it is."""
    written = str(given).strip()
    return None if given in (None, "") else meanings.get(written, given)


def whole(value: Any) -> Any:
    """Read a whole number, however it is written; anything else stays as it is."""
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def milliseconds(seconds: Any) -> int:
    """Read a time; tools that count while nobody looks say more than a week, which is the most that is kept."""
    try:
        time = float(seconds or 0)
    except (TypeError, ValueError):
        time = math.nan
    if not time >= 0:
        raise StudyError(f"a time must be a number of seconds from 0, got {seconds!r}.")
    return round(min(time * 1000, LONGEST))


def import_answers(store: Store, path: Path, form: str) -> Imported:
    """Bring in the answers of a file. If a row cannot be understood, all such rows are named and nothing is done."""
    known, done = known_to(store, form), Imported()
    answers: list[Foreign] = []
    problems: list[str] = []
    for row in rows_of(path, form):
        try:
            claims = claims_of(row, form)
        except ValueError as error:
            problems.append(str(error))
            continue
        for claim in claims:
            unfinished = [name for name in ASKED if claim.answers.get(name) in (None, "")]
            if unfinished and not claim.whole:
                done.left_out.append(f"{claim.place}: {claim.person} has not answered {' and '.join(unfinished)}.")
                continue
            try:
                answers.append(foreign(claim, known))
            except ValueError as error:
                problems.append(str(error))
    if problems:
        raise StudyError("\n".join(problems))
    people: dict[str, int] = {}
    for one in answers:
        bring_in(store, one, people, done)
    return done


def bring_in(store: Store, one: Foreign, people: dict[str, int], done: Imported) -> None:
    """Save an answer from elsewhere, if the plan has room for it.

    :param people: Whoever was found or taken in already.
    """
    if is_here(store, one):
        done.n_repeated += 1
        return
    if one.person not in people:
        people[one.person] = enrol(store, one.person).id
        consent(store, people[one.person])
    with store.writing() as session:
        became = settle(session, find(session, people[one.person]), one)
    if became == NEW:
        done.n_new += 1
    elif became == REPEATED:
        done.n_repeated += 1
    else:
        done.left_out.append(f"{one.place}: {became}")


def is_here(store: Store, one: Foreign) -> bool:
    """Tell whether an answer is one of this very study, which comes back from its own export."""
    these = (
        select(AnnotatorRow.outside, AnnotatorRow.id)
        .join(AssignmentRow, AssignmentRow.annotator == AnnotatorRow.id)
        .join(AnswerRow, AnswerRow.assignment == AssignmentRow.id)
        .where(AssignmentRow.item == one.item, AnswerRow.at == one.at, AnswerRow.label == one.answer.label)
    )
    with store.reading() as session:
        found = session.execute(these).all() if one.at is not None else []
    return any(one.person == (outside or annotator_name(number)) for outside, number in found)


def settle(session: Session, person: AnnotatorRow, one: Foreign) -> str:
    """Save an answer, and say that it is new; or that it was there; or why it is left out."""
    item = session.get_one(ItemRow, one.item)
    held = session.scalar(
        select(AssignmentRow).where(AssignmentRow.annotator == person.id, AssignmentRow.document == item.document)
    )
    if held is not None and held.item != item.id:
        return f"{one.person} has seen the document of item {one.item} otherwise cut."
    if held is not None and session.scalar(select(AnswerRow).where(AnswerRow.assignment == held.id)):
        return REPEATED
    if person.state == "excluded":
        return f"{one.person} is excluded."
    if (held is None or held.state == "released") and not take(session, item.id):
        return f"item {one.item} has all the answers that it needs."
    assert item.document is not None
    held = held or AssignmentRow(annotator=person.id, item=item.id, document=item.document, at=now())
    held.state = "answered"
    session.add(held)
    session.flush()
    given = columns_of(one.answer)
    session.add(AnswerRow(assignment=held.id, **given | {"at": given["at"] if one.at is None else one.at}))
    return NEW


def import_prolific(store: Store, path: Path) -> Imported:
    """Take in the participants of Prolific; who returned or timed out has left, who was rejected is excluded."""
    told: dict[str, set[str]] = {}
    problems: list[str] = []
    for row in read_rows(path):
        try:
            participant, status = submission_of(row)
            told.setdefault(participant, set()).add(status)
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise StudyError("\n".join(problems))
    with store.reading() as session:
        before = set(session.scalars(select(AnnotatorRow.outside)))
    done = Imported(n_new=len(told.keys() - before), n_repeated=len(told.keys() & before))
    for participant, statuses in told.items():
        person = enrol(store, participant)
        if "REJECTED" in statuses:
            exclude(store, person.id)
        elif statuses <= set(GONE):
            leave(store, person.id)
    return done


def submission_of(row: Row) -> tuple[str, str]:
    """Read who made a submission, and what became of it; older exports write small letters and underscores."""
    if row.error:
        raise row.error
    plain = {key.strip().lower().replace("_", " "): str(value).strip() for key, value in row.values.items()}
    if not plain.get("participant id") or not plain.get("status"):
        raise StudyError(f"{row.place}: Prolific's export has the columns 'Participant id' and 'Status'.")
    status = plain["status"].upper().replace("_", " ").replace("TIMED OUT", "TIMED-OUT")
    if status not in STATUSES:
        raise StudyError(f"{row.place}: {unknown(status, 'a status that Prolific gives', STATUSES)}")
    return plain["participant id"], status


def import_study(store: Store, form: str, path: Path) -> Imported:
    """Bring a file into a study; of Potato also the whole folder that it writes."""
    if form == "prolific":
        return import_prolific(store, path)
    if form not in CLAIMS:
        raise StudyError(unknown(form, "a form that a study can import", (*CLAIMS, "prolific")))
    return import_answers(store, path, form)

"""Answers that were given elsewhere, and what a crowd platform says of people, brought into a study."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from fresh.config import suggest
from fresh.data.readers import Row, read_rows
from fresh.errors import StudyError
from fresh.study.annotators import end_part, find, new_code, release, taken_in
from fresh.study.answer import Answer
from fresh.study.importing.claim import ASKED
from fresh.study.importing.match import Foreign, at_once, foreign, known_to, wrong_name
from fresh.study.importing.moments import LATEST
from fresh.study.importing.parsers import CLAIMS, annotator_name, claims_of, rows_of
from fresh.study.keys import row_of
from fresh.study.schema import AnnotatorRow, AnswerRow, AsideRow, AssignmentRow, ItemRow
from fresh.study.service import columns_of, take
from fresh.study.store import Store, now

GONE = ("RETURNED", "TIMED-OUT", "SCREENED OUT")
HERE = ("RESERVED", "ACTIVE", "AWAITING REVIEW", "APPROVED")
STATUSES = (*HERE, *GONE, "REJECTED")
"""What Prolific says of a submission."""
NEW, REPEATED = "new", "there already"


@dataclass(slots=True)
class _Imported:
    """What became of a file."""

    n_new: int = 0
    n_repeated: int = 0
    left_out: list[str] = field(default_factory=list)
    """Answers that the plan has no room for, or that are not finished, each with its reason."""
    n_uncounted: int = 0
    """Of the new ones, those that do not count, since they did not where they come from."""
    excluded: list[str] = field(default_factory=list)
    """People who are new, and excluded, since nothing of theirs counted there."""

    @property
    def notes(self) -> list[str]:
        """Say what came in and does not count."""
        if not self.n_uncounted:
            return []
        these = f"{self.n_uncounted:,} of the new ones {'does' if self.n_uncounted == 1 else 'do'} not count"
        who = f"Excluded, as nothing of theirs did: {', '.join(self.excluded)}."
        return [f"{these}, as in the file.", *([who] if self.excluded else [])]


def _import_answers(store: Store, path: Path, form: str) -> _Imported:
    """Bring in the answers of a file, all or nothing.

    If a row cannot be understood, all such rows are named and nothing is done. Rows are taken in the order of their
    times, where the file tells them: of a document that somebody has seen twice, the first time counts.
    """
    answers = _understood(store, path, form)
    codes, done = _codes_for(store, {one.person for one in answers if one.annotator is None}), _Imported()
    with store.writing() as session:
        row_of(session)  # so that nobody is taken in twice
        before = set(session.scalars(select(AnnotatorRow.outside)))
        for one in sorted(answers, key=lambda one: LATEST if one.at is None else one.at):
            _bring_in(session, one, codes, done)
        for person in session.scalars(_without_count(answers, before)):
            person.state = "excluded"
            done.excluded.append(str(person.outside))
    return done


def _understood(store: Store, path: Path, form: str) -> list[Foreign]:
    """Understand all rows of a file, or say what is wrong with which."""
    known = known_to(store, form)
    answers: list[Foreign] = []
    problems: list[tuple[str, str]] = []
    for row in rows_of(path, form):
        try:
            claims = claims_of(row, form)
        except ValueError as error:
            problems.append((row.place, str(error)))
            continue
        for claim in claims:
            try:
                answers.append(foreign(claim, known))
            except ValueError as error:
                problems.append((claim.place, str(error)))
    if problems:
        raise StudyError(at_once(problems))
    return answers


def _codes_for(store: Store, names: Set[str]) -> dict[str, tuple[str, str]]:
    """Draw the codes that new people get, which takes long, before others have to wait; nobody is told them."""
    with store.reading() as session:
        new = names - set(session.scalars(select(AnnotatorRow.outside)))
    return {name: new_code() for name in sorted(new)}


def _bring_in(session: Session, one: Foreign, codes: Mapping[str, tuple[str, str]], done: _Imported) -> None:
    """Save an answer from elsewhere, if the plan has room for it.

    :param codes: Salt and code of whoever may have to be taken in.
    """
    person = _owner(session, one) or taken_in(session, one.person, partial(codes.__getitem__, one.person))
    person.consented = person.consented or now()  # whoever answered has agreed to that elsewhere
    became = _settle(session, person, one) if one.kind == "real" else _settle_aside(session, person, one)
    if became == NEW:
        done.n_new += 1
        done.n_uncounted += one.kind == "real" and not one.counted
    elif became == REPEATED:
        done.n_repeated += 1
    else:
        done.left_out.append(f"{one.place}: {became}")


def _owner(session: Session, one: Foreign) -> AnnotatorRow | None:
    """Find whose answer of this very study it is that comes back from its own export.

    Exports of earlier versions do not name the database: there an answer is known by its item and its time.
    """
    if one.annotator is not None:
        return find(session, one.annotator)
    if one.at is None or one.answer is None:
        return None
    real = (
        select(AssignmentRow.annotator)
        .join(AnswerRow, AnswerRow.assignment == AssignmentRow.id)
        .where(AssignmentRow.item == one.item, AnswerRow.at == one.at)
    )
    aside = select(AsideRow.annotator).where(AsideRow.item == one.item, AsideRow.at == one.at)
    these = select(AnnotatorRow).where(AnnotatorRow.id.in_(real if one.kind == "real" else aside))
    rows = session.scalars(these)
    return next((row for row in rows if one.person == (row.outside or annotator_name(row.id))), None)


def _settle(session: Session, person: AnnotatorRow, one: Foreign) -> str:
    """Save an answer, and say that it is new; or that it was there; or why it is left out.

    Whatever becomes of the answer, the person has seen the document, and that is kept.
    """
    held = _held_or_seen(session, person, one)
    there = session.scalar(select(AnswerRow).where(AnswerRow.assignment == held.id))
    otherwise = held.item != one.item
    if otherwise and held.state == "released" and there is None:
        held.state = "seen"  # so that it is not given to them again
    if one.answer is None:
        return one.why
    if otherwise:
        return f"{one.person} has seen the document of item {one.called} otherwise cut."
    if there is not None:
        return _compared(there, one, held.state == "answered")
    if not one.counted:
        release(session, held.id)
        held.state = "released"
    elif person.state == "excluded":
        return f"{one.person} is excluded."
    elif held.state != "open" and not take(session, one.item):
        return f"item {one.called} has all the answers that it needs."
    else:
        held.state = "answered"
    session.add(AnswerRow(assignment=held.id, **_columns_at(one.answer, one.at)))
    session.flush()
    return NEW


def _held_or_seen(session: Session, person: AnnotatorRow, one: Foreign) -> AssignmentRow:
    """Find what somebody has of a document, or keep that they have seen it."""
    document = session.get_one(ItemRow, one.item).document
    assert document is not None
    these = select(AssignmentRow).where(AssignmentRow.annotator == person.id, AssignmentRow.document == document)
    held = session.scalar(these)
    if held is None:
        at = now() if one.at is None else one.at
        held = AssignmentRow(annotator=person.id, item=one.item, document=document, state="seen", at=at)
        session.add(held)
        session.flush()
    return held


def _settle_aside(session: Session, person: AnnotatorRow, one: Foreign) -> str:
    """Save an answer to a practice item or an attention check, and say that it is new, or what was there."""
    there = session.scalar(select(AsideRow).where(AsideRow.annotator == person.id, AsideRow.item == one.item))
    if there is not None:
        return _compared(there, one)
    assert one.answer is not None
    session.add(AsideRow(annotator=person.id, item=one.item, **_columns_at(one.answer, one.at)))
    session.flush()
    return NEW


def _compared(there: AnswerRow | AsideRow, one: Foreign, counts: bool = False) -> str:
    """Say that an answer was there; or that another one was, or one that counts.

    :param counts: Whether the one that is there is part of the results.
    """
    if one.answer is not None and any(getattr(there, name) != getattr(one.answer, name) for name in ASKED):
        return f"{one.person} has answered item {one.called} before, and otherwise. The first answer stands."
    if counts and not one.counted:
        return f"the answer of {one.person} to item {one.called} counts here, other than in the file."
    return REPEATED


def _columns_at(answer: Answer, at: int | None) -> dict[str, Any]:
    """Write an answer as columns, with the time when it was given, if that is known."""
    return columns_of(answer) | ({} if at is None else {"at": at})


def _without_count(answers: Iterable[Foreign], before: Set[str | None]) -> Select[AnnotatorRow]:
    """Select the people who are new, and none of whose answers counted in the file.

    :param before: Names of those who were there.
    """
    real = [one for one in answers if one.kind == "real"]
    names = {one.person for one in real} - {one.person for one in real if one.counted} - before
    return select(AnnotatorRow).where(AnnotatorRow.outside.in_(sorted(names))).order_by(AnnotatorRow.id)


def _import_prolific(store: Store, path: Path) -> _Imported:
    """Take in the participants of Prolific; who returned or timed out has left, who was rejected is excluded."""
    told: dict[str, set[str]] = {}
    problems: list[tuple[str, str]] = []
    for row in read_rows(path):
        try:
            participant, status = _submission_of(row)
            told.setdefault(participant, set()).add(status)
        except ValueError as error:
            problems.append((row.place, str(error)))
    if problems:
        raise StudyError(at_once(problems))
    codes = _codes_for(store, told.keys())
    with store.writing() as session:
        row_of(session)
        for participant, statuses in told.items():
            person = taken_in(session, participant, partial(codes.__getitem__, participant))
            if "REJECTED" in statuses:
                end_part(session, person, "excluded", ("open", "answered"))
            elif statuses <= set(GONE):
                end_part(session, person, "left", ("open",))
    return _Imported(n_new=len(codes), n_repeated=len(told) - len(codes))


def _submission_of(row: Row) -> tuple[str, str]:
    """Read who made a submission, and what became of it; older exports write small letters and underscores."""
    if row.error:
        raise row.error
    plain = {key.strip().lower().replace("_", " "): str(value).strip() for key, value in row.values.items()}
    if not plain.get("participant id") or not plain.get("status"):
        raise StudyError(f"{row.place}: Prolific's export has the columns 'Participant id' and 'Status'.")
    for problem in wrong_name(plain["participant id"]):
        raise StudyError(f"{row.place}: {problem}")
    status = plain["status"].upper().replace("_", " ").replace("TIMED OUT", "TIMED-OUT")
    if status not in STATUSES:
        raise StudyError(f"{row.place}: {suggest(f'{status:.60}', 'a status that Prolific gives', STATUSES)}")
    return plain["participant id"], status


def import_study(store: Store, form: str, path: Path) -> _Imported:
    """Bring a file into a study; of Potato also the whole folder that it writes."""
    if form == "prolific":
        return _import_prolific(store, path)
    if form not in CLAIMS:
        raise StudyError(suggest(form, "a form that a study can import", (*CLAIMS, "prolific")))
    return _import_answers(store, path, form)

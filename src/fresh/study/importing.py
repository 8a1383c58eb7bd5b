"""Answers that were given elsewhere, and what a crowd platform says of people, brought into a study."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from fresh.config import unknown
from fresh.readers import Row, read_rows
from fresh.study.answer import StudyError
from fresh.study.claims import CLAIMS, annotator_name, claims_of, rows_of
from fresh.study.desk import columns_of, take
from fresh.study.keys import row_of
from fresh.study.moments import LATEST
from fresh.study.people import end_part, new_code, taken_in
from fresh.study.schema import AnnotatorRow, AnswerRow, AssignmentRow, ItemRow
from fresh.study.store import Store, now
from fresh.study.understanding import Foreign, at_once, foreign, known_to, wrong_name

GONE = ("RETURNED", "TIMED-OUT", "SCREENED OUT")
HERE = ("RESERVED", "ACTIVE", "AWAITING REVIEW", "APPROVED")
STATUSES = (*HERE, *GONE, "REJECTED")
"""What Prolific says of a submission."""
NEW, REPEATED = "new", "there already"


@dataclass(slots=True)
class Imported:
    """What became of a file."""

    n_new: int = 0
    n_repeated: int = 0
    left_out: list[str] = field(default_factory=list)
    """Answers that the plan has no room for, or that are not finished, each with its reason."""


def import_answers(store: Store, path: Path, form: str) -> Imported:
    """Bring in the answers of a file, all or nothing.

    If a row cannot be understood, all such rows are named and nothing is done. Rows are taken in the order of their
    times, where the file tells them: of a document that somebody has seen twice, the first time counts.
    """
    answers = understood(store, path, form)
    codes, done = codes_for(store, {one.person for one in answers}), Imported()
    with store.writing() as session:
        row_of(session)  # so that nobody is taken in twice
        for one in sorted(answers, key=lambda one: LATEST if one.at is None else one.at):
            bring_in(session, one, codes, done)
    return done


def understood(store: Store, path: Path, form: str) -> list[Foreign]:
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


def codes_for(store: Store, names: Set[str]) -> dict[str, tuple[str, str]]:
    """Draw the codes that new people get, which takes long, before others have to wait; nobody is told them."""
    with store.reading() as session:
        new = names - set(session.scalars(select(AnnotatorRow.outside)))
    return {name: new_code() for name in sorted(new)}


def bring_in(session: Session, one: Foreign, codes: Mapping[str, tuple[str, str]], done: Imported) -> None:
    """Save an answer from elsewhere, if the plan has room for it.

    :param codes: Salt and code of whoever may have to be taken in.
    """
    became = REPEATED
    if not is_here(session, one):
        person = taken_in(session, one.person, partial(codes.__getitem__, one.person))
        person.consented = person.consented or now()  # whoever answered has agreed to that elsewhere
        became = settle(session, person, one)
    if became == NEW:
        done.n_new += 1
    elif became == REPEATED:
        done.n_repeated += 1
    elif became:
        done.left_out.append(f"{one.place}: {became}")


def is_here(session: Session, one: Foreign) -> bool:
    """Tell whether an answer is one of this very study, which comes back from its own export."""
    if one.at is None or one.answer is None:
        return False
    these = (
        select(AnnotatorRow.outside, AnnotatorRow.id)
        .join(AssignmentRow, AssignmentRow.annotator == AnnotatorRow.id)
        .join(AnswerRow, AnswerRow.assignment == AssignmentRow.id)
        .where(AssignmentRow.item == one.item, AnswerRow.at == one.at, AnswerRow.label == one.answer.label)
    )
    return any(one.person == (outside or annotator_name(number)) for outside, number in session.execute(these).all())


def settle(session: Session, person: AnnotatorRow, one: Foreign) -> str:
    """Save an answer, and say that it is new; or that it was there; or why it is left out.

    Whatever becomes of the answer, the person has seen the document, and that is kept.
    """
    item = session.get_one(ItemRow, one.item)
    assert item.document is not None
    held = session.scalar(
        select(AssignmentRow).where(AssignmentRow.annotator == person.id, AssignmentRow.document == item.document)
    )
    if held is None:
        at = now() if one.at is None else one.at
        held = AssignmentRow(annotator=person.id, item=item.id, document=item.document, state="seen", at=at)
        session.add(held)
        session.flush()
    answered = session.scalar(select(AnswerRow).where(AnswerRow.assignment == held.id))
    if held.item != item.id and held.state == "released" and not answered:
        held.state = "seen"  # so that it is not given to them again
    if one.answer is None:
        return one.why
    if held.item != item.id:
        return f"{one.person} has seen the document of item {one.item} otherwise cut."
    if answered:
        return REPEATED
    if person.state == "excluded":
        return f"{one.person} is excluded."
    if held.state != "open" and not take(session, item.id):
        return f"item {one.item} has all the answers that it needs."
    held.state = "answered"
    given = columns_of(one.answer)
    session.add(AnswerRow(assignment=held.id, **given | {"at": given["at"] if one.at is None else one.at}))
    session.flush()
    return NEW


def import_prolific(store: Store, path: Path) -> Imported:
    """Take in the participants of Prolific; who returned or timed out has left, who was rejected is excluded."""
    told: dict[str, set[str]] = {}
    problems: list[tuple[str, str]] = []
    for row in read_rows(path):
        try:
            participant, status = submission_of(row)
            told.setdefault(participant, set()).add(status)
        except ValueError as error:
            problems.append((row.place, str(error)))
    if problems:
        raise StudyError(at_once(problems))
    codes = codes_for(store, told.keys())
    with store.writing() as session:
        row_of(session)
        for participant, statuses in told.items():
            person = taken_in(session, participant, partial(codes.__getitem__, participant))
            if "REJECTED" in statuses:
                end_part(session, person, "excluded", ("open", "answered"))
            elif statuses <= set(GONE):
                end_part(session, person, "left", ("open",))
    return Imported(n_new=len(codes), n_repeated=len(told) - len(codes))


def submission_of(row: Row) -> tuple[str, str]:
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
        raise StudyError(f"{row.place}: {unknown(f'{status:.60}', 'a status that Prolific gives', STATUSES)}")
    return plain["participant id"], status


def import_study(store: Store, form: str, path: Path) -> Imported:
    """Bring a file into a study; of Potato also the whole folder that it writes."""
    if form == "prolific":
        return import_prolific(store, path)
    if form not in CLAIMS:
        raise StudyError(unknown(form, "a form that a study can import", (*CLAIMS, "prolific")))
    return import_answers(store, path, form)

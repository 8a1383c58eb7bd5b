"""What a server does for one annotator: give the next item, take an answer once."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, false, func, select, update
from sqlalchemy.orm import Session

from fresh.config import suggest
from fresh.errors import StudyError
from fresh.rationale import Rationale
from fresh.study.annotators import find
from fresh.study.answer import Answer, EndedError, NotGivenError, PausedError
from fresh.study.assignment import Free, Reader, checks_due, choose, own
from fresh.study.schema import AnnotatorRow, AnswerRow, AsideRow, AssignmentRow, ItemRow, StudyRow
from fresh.study.store import Store, now

NOT_HERE = {
    "left": "You have left this study. To take part again, ask whoever runs it to readmit you.",
    "excluded": "Your part in this study has ended.",
}
PAUSED = "The study is paused. Come back later; your answers are saved."
NOT_GIVEN = "Item {item} was not given to you. Go on with the one that is shown."


@dataclass(frozen=True, slots=True)
class Task:
    """What somebody is to answer now."""

    item: int
    kind: str
    """real, practice or check; people see the first and the last alike."""
    rationale: Rationale


@dataclass(frozen=True, slots=True)
class Saved:
    """An answer that is in the database."""

    answer: Answer
    repeated: bool
    """Whether it was there before; then the first answer stands."""
    label: str | None = None
    """The right label, for practice."""


@dataclass(frozen=True, slots=True)
class _Progress:
    """How far somebody has come; attention checks count, so that nobody can tell them from other items."""

    n_practised: int
    n_practice: int
    n_answered: int
    n_most: int
    """Items that they may do, at most; fewer, if others are faster."""


def next_task(store: Store, annotator: int) -> Task | None:
    """Give somebody what they are to answer next: the same until they answer it; nothing when all is done."""
    with store.writing() as session:
        person = find(session, annotator)
        _check_active(person)
        if session.scalar(select(StudyRow.paused)):
            raise PausedError(PAUSED)
        item = _practice_of(session, annotator) or _held_by(session, annotator) or _check_of(store, session, person)
        item = item or _give_again(session, annotator) or _give(store, session, person)
        return None if item is None else task_of(item)


def _check_active(person: AnnotatorRow) -> None:
    """Refuse whoever does not take part, or not yet."""
    if person.state != "active":
        raise EndedError(NOT_HERE[person.state])
    if person.consented is None:
        raise StudyError("Agree to take part first.")


def task_of(item: ItemRow) -> Task:
    """Take what may be shown of an item."""
    return Task(item.id, item.kind, Rationale(tuple(item.words), tuple(item.query)))


def _practice_of(session: Session, annotator: int) -> ItemRow | None:
    """Find the first practice item that is not answered."""
    done = select(AsideRow.item).where(AsideRow.annotator == annotator)
    wanted = select(ItemRow).where(ItemRow.kind == "practice", ItemRow.id.not_in(done))
    return session.scalar(wanted.order_by(ItemRow.id).limit(1))


def _held_by(session: Session, annotator: int) -> ItemRow | None:
    """Find what somebody was given and has not answered."""
    held = select(AssignmentRow.item).where(AssignmentRow.annotator == annotator, AssignmentRow.state == "open")
    return session.scalar(select(ItemRow).where(ItemRow.id.in_(held)))


def _check_of(store: Store, session: Session, person: AnnotatorRow) -> ItemRow | None:
    """Find an attention check, if it is time for one."""
    if person.arrival is None or not store.about["n_checks"]:
        return None
    had = select(AsideRow.item).where(AsideRow.annotator == person.id)
    checks = select(ItemRow).where(ItemRow.kind == "check").order_by(ItemRow.id)
    left = session.scalars(checks.where(ItemRow.id.not_in(had))).all()
    due = checks_due(store.shape, store.about["n_checks"], person.arrival, count(session, person.id, "answered"))
    return left[0] if left and store.about["n_checks"] - len(left) < due else None


def count(session: Session, annotator: int, state: str) -> int:
    """Count what somebody has in some state."""
    these = select(func.count()).where(AssignmentRow.annotator == annotator, AssignmentRow.state == state)
    return session.scalar(these) or 0


def _lost_by(annotator: int) -> Select[AssignmentRow]:
    """Select what somebody was given here and gave back without an answer, the first first."""
    answered = select(AnswerRow.assignment)
    mine = (AssignmentRow.annotator == annotator, AssignmentRow.state == "released")
    return select(AssignmentRow).where(*mine, AssignmentRow.id.not_in(answered)).order_by(AssignmentRow.id)


def _give_again(session: Session, annotator: int) -> ItemRow | None:
    """Give somebody what they gave back, if nobody else has taken the place: it is the only cut that they have seen."""
    for assignment in session.scalars(_lost_by(annotator)).all():
        if take(session, assignment.item):
            assignment.state, assignment.at = "open", now()
            return session.get(ItemRow, assignment.item, populate_existing=True)
    return None


def _give(store: Store, session: Session, person: AnnotatorRow) -> ItemRow | None:
    """Give somebody an item that still wants people, if there is one for them."""
    if person.arrival is None:
        counted = update(StudyRow).values(arrivals=StudyRow.arrivals + 1).returning(StudyRow.arrivals)
        person.arrival = session.execute(counted).scalar_one() - 1
    seen = (
        select(ItemRow.document, ItemRow.condition)
        .join(AssignmentRow, AssignmentRow.item == ItemRow.id)
        .where(AssignmentRow.annotator == person.id)
        .order_by(AssignmentRow.id)
    )
    reader = Reader(person.arrival, tuple((d or 0, c or 0) for d, c in session.execute(seen).all()))
    while True:
        found = _planned(store, session, reader) or choose(store.shape, reader, _free_items(session))
        if found is None:
            return None
        if take(session, found.item):
            break
    session.add(AssignmentRow(annotator=person.id, item=found.item, document=found.document, state="open", at=now()))
    return session.get(ItemRow, found.item, populate_existing=True)


def _planned(store: Store, session: Session, reader: Reader) -> Free | None:
    """Look whether somebody's own item of the plan is free, which is mostly so and quickly found."""
    document, condition = own(store.shape, reader)
    return choose(
        store.shape, reader, _free_items(session, ItemRow.document == document, ItemRow.condition == condition)
    )


def _free_items(session: Session, *where: Any) -> list[Free]:
    """List items that still want people."""
    columns = select(ItemRow.id, ItemRow.document, ItemRow.condition, ItemRow.taken)
    rows = session.execute(columns.where(ItemRow.kind == "real", ItemRow.taken < ItemRow.wanted, *where))
    return [Free(item, document or 0, condition or 0, taken) for item, document, condition, taken in rows]


def take(session: Session, item: int) -> bool:
    """Take a place at an item, unless the last one went meanwhile."""
    place = update(ItemRow).where(ItemRow.id == item, ItemRow.taken < ItemRow.wanted)
    return session.scalar(place.values(taken=ItemRow.taken + 1).returning(ItemRow.id)) is not None


def save(store: Store, annotator: int, item: int, answer: Answer) -> Saved:
    """Save an answer, once: posted again, the first one stands."""
    if answer.label not in store.labels:
        raise StudyError(suggest(answer.label, "a label of this study", store.labels))
    with store.writing() as session:
        person, shown = find(session, annotator), session.get(ItemRow, item)
        if shown is None:
            raise StudyError(f"There is no item {item} in this study.")
        if shown.kind == "real":
            return _save_real(session, person, shown, answer)
        return _save_aside(store, session, person, shown, answer)


def _save_aside(store: Store, session: Session, person: AnnotatorRow, item: ItemRow, answer: Answer) -> Saved:
    """Save an answer to a practice item or an attention check, if its turn has come."""
    told = item.label if item.kind == "practice" else None
    there = session.scalar(select(AsideRow).where(AsideRow.annotator == person.id, AsideRow.item == item.id))
    if there is not None:
        return Saved(answer_of(there), True, told)
    _check_active(person)
    due = _practice_of(session, person.id) if item.kind == "practice" else _check_of(store, session, person)
    if due is None or due.id != item.id:
        raise NotGivenError(NOT_GIVEN.format(item=item.id))
    session.add(AsideRow(annotator=person.id, item=item.id, **columns_of(answer)))
    return Saved(answer, False, told)


def _save_real(session: Session, person: AnnotatorRow, item: ItemRow, answer: Answer) -> Saved:
    """Save an answer that counts; one that comes late, only if nobody else was given the place."""
    held = session.scalar(
        select(AssignmentRow)
        .where(AssignmentRow.annotator == person.id, AssignmentRow.item == item.id)
        .with_for_update()
    )
    if held is None:
        raise NotGivenError(NOT_GIVEN.format(item=item.id))
    there = session.scalar(select(AnswerRow).where(AnswerRow.assignment == held.id))
    if there is not None:
        return Saved(answer_of(there), True)
    _check_active(person)
    if held.state == "released" and not take(session, item.id):
        raise NotGivenError(f"Item {item.id} was given to somebody else, since no answer came. Go on with the next.")
    held.state = "answered"
    session.add(AnswerRow(assignment=held.id, **columns_of(answer)))
    return Saved(answer, False)


def readmit(store: Store, annotator: int) -> int:
    """Let somebody take part again who left or was excluded.

    :return: How many of their answers do not count, since others were given the places meanwhile.
    """
    with store.writing() as session:
        row = find(session, annotator)
        row.state = "active"
        set_aside = (
            select(AssignmentRow)
            .join(AnswerRow, AnswerRow.assignment == AssignmentRow.id)
            .where(AssignmentRow.annotator == annotator, AssignmentRow.state == "released")
        )
        n_gone = 0
        for assignment in session.scalars(set_aside.order_by(AssignmentRow.item)).all():
            if take(session, assignment.item):
                assignment.state = "answered"
            else:
                n_gone += 1
        return n_gone


def columns_of(answer: Answer) -> dict[str, Any]:
    """Write an answer as columns."""
    names = ("label", "confidence", "readability", "milliseconds")
    return {name: getattr(answer, name) for name in names} | {"at": now()}


def answer_of(row: AnswerRow | AsideRow) -> Answer:
    """Read an answer back."""
    return Answer(row.label, row.confidence, row.readability, row.milliseconds)


def progress(store: Store, annotator: int) -> _Progress:
    """Say how far somebody has come."""
    with store.reading() as session:
        aside = (
            select(ItemRow.kind, func.count())
            .join(AsideRow, ItemRow.id == AsideRow.item)
            .where(AsideRow.annotator == annotator)
            .group_by(ItemRow.kind)
        )
        done = dict(session.execute(aside).tuples().all())
        n_answered = count(session, annotator, "answered") + done.get("check", 0)
        n_most = store.shape.share + store.about["n_checks"]
        return _Progress(done.get("practice", 0), store.about["n_practice"], n_answered, n_most)


def may_get_more(store: Store, annotator: int) -> bool:
    """Say whether something may come for somebody who gets nothing now: what others hold, and may yet give back."""
    mine = AssignmentRow.annotator == annotator
    with store.reading() as session:
        seen = session.scalars(select(AssignmentRow.document).where(mine)).all()
        lost = [assignment.item for assignment in session.scalars(_lost_by(annotator))]
        new = AssignmentRow.document.not_in(seen) if len(seen) < store.shape.share else false()
        held = select(func.count()).where(~mine, AssignmentRow.state == "open")
        return bool(session.scalar(held.where(new | AssignmentRow.item.in_(lost))))

"""Assign items to annotators, save each answer once, and return what annotators may see again."""

from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Select, false, func, select, update
from sqlalchemy.orm import Session

from fresh.config import suggest
from fresh.errors import InactiveAnnotatorError, NotAssignedError, StudyError, StudyPausedError
from fresh.rationale import Rationale
from fresh.study.annotators import lock_annotator, take_place
from fresh.study.answers import Answer
from fresh.study.assignment import OpenItem, choose_item, count_due_checks, planned_pair
from fresh.study.schema import AnnotatorRow, AnswerRow, AssignmentRow, ItemRow, PracticeAnswerRow, StudyRow
from fresh.study.store import Store, now_ms

INACTIVE = {
    "left": "You have left this study. To take part again, ask the person who runs it to readmit you.",
    "excluded": "Your participation in this study has ended.",
}
PAUSED = "The study is paused. Come back later; your answers are saved."
NOT_ASSIGNED = "Item {item} is not assigned to you. Continue with the one that is shown."


@dataclass(frozen=True, slots=True)
class Task:
    """An item to answer, without what annotators must not see."""

    item: int
    kind: str  # only "practice" may be shown: a check must look like a real item
    rationale: Rationale


@dataclass(frozen=True, slots=True)
class SavedAnswer:
    """An answer that is in the database."""

    answer: Answer
    repeated: bool  # the item was answered before, and the first answer stands
    label: str | None = None  # the right label, for practice


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an annotator; attention checks count as items, so that they do not stand out."""

    n_practiced: int
    n_practice: int
    n_answered: int
    max_items: int  # an annotator gets fewer if others are faster


@dataclass(frozen=True, slots=True)
class SolvedItem:
    """A text with its label."""

    rationale: Rationale
    label: str
    answer: Answer | None = None  # the annotator's


def next_item(store: Store, annotator: int) -> Task | None:
    """Return the item that an annotator answers next, the same until they answer it; None if nothing is left."""
    with store.write_session() as session:
        # Two windows of one person wait for each other at this lock, so that both show the same item.
        person = lock_annotator(session, annotator)
        _check_active(person)
        if session.scalar(select(StudyRow.paused)):
            raise StudyPausedError(PAUSED)
        held = select(AssignmentRow.item).where(AssignmentRow.annotator == annotator, AssignmentRow.state == "open")
        item = (
            _next_practice(session, annotator)
            or session.scalar(select(ItemRow).where(ItemRow.id.in_(held)))
            or _due_check(store, session, person)
            or _reassign(session, annotator)
            or _assign(store, session, person)
        )
        return None if item is None else Task(item.id, item.kind, _rationale_of(item))


def _check_active(person: AnnotatorRow) -> None:
    if person.state != "active":
        raise InactiveAnnotatorError(INACTIVE[person.state])
    if person.consented is None:
        raise StudyError("Agree to take part first.")


def _rationale_of(item: ItemRow) -> Rationale:
    return Rationale(tuple(item.words), tuple(item.query))


def _next_practice(session: Session, annotator: int) -> ItemRow | None:
    done = select(PracticeAnswerRow.item).where(PracticeAnswerRow.annotator == annotator)
    left = select(ItemRow).where(ItemRow.kind == "practice", ItemRow.id.not_in(done))
    return session.scalar(left.order_by(ItemRow.id).limit(1))


def _due_check(store: Store, session: Session, person: AnnotatorRow) -> ItemRow | None:
    n_checks = store.about["n_checks"]
    if person.arrival is None or not n_checks:
        return None
    done = select(PracticeAnswerRow.item).where(PracticeAnswerRow.annotator == person.id)
    checks = select(ItemRow).where(ItemRow.kind == "check", ItemRow.id.not_in(done))
    left = session.scalars(checks.order_by(ItemRow.id)).all()
    due = count_due_checks(store.design, n_checks, person.arrival, _count_answered(session, person.id))
    return left[0] if left and n_checks - len(left) < due else None


def _count_answered(session: Session, annotator: int) -> int:
    answered = (AssignmentRow.annotator == annotator, AssignmentRow.state == "answered")
    return session.scalar(select(func.count()).where(*answered)) or 0


def _given_back(annotator: int) -> Select[AssignmentRow]:
    released = (AssignmentRow.annotator == annotator, AssignmentRow.state == "released")
    answered = select(AnswerRow.assignment)
    return select(AssignmentRow).where(*released, AssignmentRow.id.not_in(answered)).order_by(AssignmentRow.id)


def _reassign(session: Session, annotator: int) -> ItemRow | None:
    # They may not read these documents in another condition, so that without this the study could stay incomplete.
    for assignment in session.scalars(_given_back(annotator)).all():
        if take_place(session, assignment.item):
            assignment.state, assignment.at = "open", now_ms()
            return session.get(ItemRow, assignment.item, populate_existing=True)
    return None


def _assign(store: Store, session: Session, person: AnnotatorRow) -> ItemRow | None:
    if person.arrival is None:
        # Counted in the database: two people who start at once must not share a row of the Latin square.
        counted = update(StudyRow).values(arrivals=StudyRow.arrivals + 1).returning(StudyRow.arrivals)
        person.arrival = session.execute(counted).scalar_one() - 1
    theirs = (
        select(ItemRow.document, ItemRow.condition)
        .join(AssignmentRow, AssignmentRow.item == ItemRow.id)
        .where(AssignmentRow.annotator == person.id)
        .order_by(AssignmentRow.id)
    )
    seen = [(document or 0, condition or 0) for document, condition in session.execute(theirs)]
    document, condition = planned_pair(store.design, person.arrival, len(seen))
    planned = (ItemRow.document == document, ItemRow.condition == condition)
    while True:
        # The planned item is nearly always free; an index finds it without reading all open items.
        chosen = choose_item(store.design, person.arrival, seen, _open_items(session, *planned))
        chosen = chosen or choose_item(store.design, person.arrival, seen, _open_items(session))
        if chosen is None:
            return None
        if take_place(session, chosen.item):
            break
    at = now_ms()
    session.add(AssignmentRow(annotator=person.id, item=chosen.item, document=chosen.document, state="open", at=at))
    return session.get(ItemRow, chosen.item, populate_existing=True)  # `take_place` bypasses the session


def _open_items(session: Session, *where: Any) -> list[OpenItem]:
    columns = select(ItemRow.id, ItemRow.document, ItemRow.condition, ItemRow.taken)
    rows = session.execute(columns.where(ItemRow.kind == "real", ItemRow.taken < ItemRow.wanted, *where))
    return [OpenItem(item, document or 0, condition or 0, taken) for item, document, condition, taken in rows]


def save_answer(store: Store, annotator: int, item: int, answer: Answer) -> SavedAnswer:
    """Save an answer once: if it is sent again, the first one stands."""
    if answer.label not in store.labels:
        raise StudyError(suggest(answer.label, "a label of this study", store.labels))
    with store.write_session() as session:
        person, shown = lock_annotator(session, annotator), session.get(ItemRow, item)
        if shown is None:
            raise StudyError(f"There is no item {item} in this study.")
        if shown.kind == "real":
            return _save_real(session, person, shown, answer)
        return _save_practice(store, session, person, shown, answer)


def _save_practice(store: Store, session: Session, person: AnnotatorRow, item: ItemRow, answer: Answer) -> SavedAnswer:
    label = item.label if item.kind == "practice" else None
    theirs = (PracticeAnswerRow.annotator == person.id, PracticeAnswerRow.item == item.id)
    row = session.scalar(select(PracticeAnswerRow).where(*theirs))
    if row is not None:
        return SavedAnswer(_answer_of(row), True, label)
    _check_active(person)
    due = _next_practice(session, person.id) if item.kind == "practice" else _due_check(store, session, person)
    if due is None or due.id != item.id:
        raise NotAssignedError(NOT_ASSIGNED.format(item=item.id))
    session.add(PracticeAnswerRow(annotator=person.id, item=item.id, **answer_columns(answer)))
    return SavedAnswer(answer, False, label)


def _save_real(session: Session, person: AnnotatorRow, item: ItemRow, answer: Answer) -> SavedAnswer:
    # Locked, so that a late answer and the release of its item do not cross.
    theirs = (AssignmentRow.annotator == person.id, AssignmentRow.item == item.id)
    held = session.scalar(select(AssignmentRow).where(*theirs).with_for_update())
    if held is None:
        raise NotAssignedError(NOT_ASSIGNED.format(item=item.id))
    row = session.scalar(select(AnswerRow).where(AnswerRow.assignment == held.id))
    if row is not None:
        return SavedAnswer(_answer_of(row), True)
    _check_active(person)
    if held.state == "released" and not take_place(session, item.id):
        raise NotAssignedError(
            f"Item {item.id} was assigned to somebody else, since no answer came in time. Continue with the next one."
        )
    held.state = "answered"
    session.add(AnswerRow(assignment=held.id, **answer_columns(answer)))
    return SavedAnswer(answer, False)


def answer_columns(answer: Answer, at: int | None = None) -> dict[str, Any]:
    """Return the database columns of an answer.

    :param at: Time of the answer; now by default.
    """
    return {**asdict(answer), "at": now_ms() if at is None else at}


def _answer_of(row: AnswerRow | PracticeAnswerRow) -> Answer:
    return Answer(row.label, row.confidence, row.readability, row.milliseconds)


def get_progress(store: Store, annotator: int) -> Progress:
    """Return the progress of an annotator."""
    with store.read_session() as session:
        by_kind = (
            select(ItemRow.kind, func.count())
            .join(PracticeAnswerRow, ItemRow.id == PracticeAnswerRow.item)
            .where(PracticeAnswerRow.annotator == annotator)
            .group_by(ItemRow.kind)
        )
        done = dict(session.execute(by_kind).tuples().all())
        n_answered = _count_answered(session, annotator) + done.get("check", 0)
        max_items = store.design.max_items + store.about["n_checks"]
        return Progress(done.get("practice", 0), store.about["n_practice"], n_answered, max_items)


def may_get_more(store: Store, annotator: int) -> bool:
    """Check whether an annotator with nothing to do may get an item later, which somebody else holds now."""
    theirs = AssignmentRow.annotator == annotator
    with store.read_session() as session:
        seen = session.scalars(select(AssignmentRow.document).where(theirs)).all()
        given_back = [assignment.item for assignment in session.scalars(_given_back(annotator))]
        new = AssignmentRow.document.not_in(seen) if len(seen) < store.design.max_items else false()
        held = select(func.count()).where(~theirs, AssignmentRow.state == "open")
        return bool(session.scalar(held.where(new | AssignmentRow.item.in_(given_back))))


def list_items(store: Store, annotator: int) -> list[int]:
    """List all items that may have been shown to an annotator to answer."""
    given = select(AssignmentRow.item).where(AssignmentRow.annotator == annotator)
    with store.read_session() as session:
        others = session.scalars(select(ItemRow.id).where(ItemRow.kind.in_(("practice", "check")))).all()
        return [*session.scalars(given.order_by(AssignmentRow.id.desc())).all(), *others]


def list_examples(store: Store) -> list[SolvedItem]:
    """List the examples of the instructions."""
    rows = store.read(select(ItemRow).where(ItemRow.kind == "example").order_by(ItemRow.id))
    return [SolvedItem(_rationale_of(row), row.label) for (row,) in rows]


def get_feedback(store: Store, annotator: int, item: int) -> SolvedItem:
    """Return the label of a practice item that an annotator has answered."""
    theirs = (PracticeAnswerRow.annotator == annotator, PracticeAnswerRow.item == item)
    with store.read_session() as session:
        row = session.scalar(select(PracticeAnswerRow).where(*theirs))
        shown = session.get(ItemRow, item)
        if row is None or shown is None or shown.kind != "practice":
            raise NotAssignedError(
                "You get feedback on practice texts, after your answer. Continue with the next text."
            )
        return SolvedItem(_rationale_of(shown), shown.label, _answer_of(row))

"""What somebody may look at again: their own items, examples, the feedback of practice."""

from dataclasses import dataclass

from sqlalchemy import select

from fresh.rationale import Rationale
from fresh.study.answer import Answer, NotGivenError
from fresh.study.schema import AsideRow, AssignmentRow, ItemRow
from fresh.study.service import answer_of, task_of
from fresh.study.store import Store

ASIDE = ("practice", "check")


@dataclass(frozen=True, slots=True)
class _Solved:
    """A text with its right label."""

    rationale: Rationale
    label: str
    answer: Answer | None = None
    """What somebody answered."""


def items_of(store: Store, annotator: int) -> list[int]:
    """List what may have been shown to somebody to be answered."""
    held = select(AssignmentRow.item).where(AssignmentRow.annotator == annotator)
    with store.reading() as session:
        aside = session.scalars(select(ItemRow.id).where(ItemRow.kind.in_(ASIDE))).all()
        return [*session.scalars(held.order_by(AssignmentRow.id.desc())).all(), *aside]


def examples_of(store: Store) -> list[_Solved]:
    """List the examples of the instructions."""
    with store.reading() as session:
        rows = session.scalars(select(ItemRow).where(ItemRow.kind == "example").order_by(ItemRow.id)).all()
        return [_Solved(task_of(row).rationale, row.label) for row in rows]


def feedback(store: Store, annotator: int, item: int) -> _Solved:
    """Tell the right label of a practice item that somebody has answered."""
    with store.reading() as session:
        given = session.scalar(select(AsideRow).where(AsideRow.annotator == annotator, AsideRow.item == item))
        shown = session.get(ItemRow, item)
        if given is None or shown is None or shown.kind != "practice":
            raise NotGivenError("There is feedback for practice only, and after your answer. Go on with the next text.")
        return _Solved(task_of(shown).rationale, shown.label, answer_of(given))

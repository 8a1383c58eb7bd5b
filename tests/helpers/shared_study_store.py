"""What tests of study store share with others."""

from collections.abc import Iterator

import pytest
from sqlalchemy import func, select

from fresh.study.annotators import record_consent
from fresh.study.answers import Answer
from fresh.study.schema import AssignmentRow, ItemRow
from fresh.study.service import next_item, save_answer
from fresh.study.store import Store, create_study
from studies import enroll, plan, two_ways

YES = Answer("pos", 3, 4, 1500)


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    made = create_study(database, plan(two_ways(), sample=6, practice=1, checks=1, per_item=2))
    yield made
    made.close()


def people(store: Store, n: int) -> list[int]:
    found = [enroll(store, f"person {number}").id for number in range(n)]
    for one in found:
        record_consent(store, one)
    return found


def work(store: Store, who: int, most: int = 1000) -> int:
    """Answer so many real items, and count them."""
    for done in range(most):
        while (task := next_item(store, who)) is not None and task.kind != "real":
            save_answer(store, who, task.item, YES)
        if task is None:
            return done
        save_answer(store, who, task.item, YES)
    return most


def check(store: Store) -> None:
    """See that no place was given twice, and that all is counted right."""
    with store.read_session() as session:
        live = dict(
            session.execute(
                select(AssignmentRow.item, func.count())
                .where(AssignmentRow.state != "released")
                .group_by(AssignmentRow.item)
            )
            .tuples()
            .all()
        )
        for item in session.scalars(select(ItemRow).where(ItemRow.kind == "real")):
            assert item.taken == live.get(item.id, 0) <= item.wanted

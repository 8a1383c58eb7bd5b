"""What may be answered: only what is shown."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from fresh.study.answer import Answer, StudyError
from fresh.study.desk import next_task, save
from fresh.study.people import consent, enrol
from fresh.study.schema import ItemRow
from fresh.study.store import Store, create_study
from studies import plan, two_ways

YES = Answer("pos", 3, 4, 1500)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = create_study(tmp_path, plan(two_ways(), sample=6, practice=2, checks=2, per_item=2))
    yield made
    made.close()


def of_kind(store: Store, kind: str) -> list[int]:
    with store.reading() as session:
        return list(session.scalars(select(ItemRow.id).where(ItemRow.kind == kind).order_by(ItemRow.id)))


def test_checks_and_practice_cannot_be_answered_before_they_are_shown(store: Store) -> None:
    who = enrol(store, "p1").id
    first, second = of_kind(store, "practice")
    with pytest.raises(StudyError, match=r"^Agree to take part first\.$"):
        save(store, who, first, YES)
    consent(store, who)
    for item in (second, *of_kind(store, "check")):
        with pytest.raises(StudyError) as caught:
            save(store, who, item, YES)
        assert str(caught.value) == f"Item {item} was not given to you. Go on with the one that is shown."
    seen: list[str] = []
    while (task := next_task(store, who)) is not None:
        seen.append(task.kind)
        save(store, who, task.item, YES)
    assert (seen.count("practice"), seen.count("check"), seen.count("real")) == (2, 2, 6)

"""What may be answered: only what is shown."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from fresh.errors import StudyError
from fresh.study.annotators import leave, record_consent
from fresh.study.answers import Answer
from fresh.study.schema import ItemRow
from fresh.study.service import may_get_more, next_item, save_answer
from fresh.study.store import Store, create_study
from studies import enroll, plan, two_ways

YES = Answer("pos", 3, 4, 1500)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = create_study(tmp_path, plan(two_ways(), sample=6, practice=2, checks=2, per_item=2))
    yield made
    made.close()


def of_kind(store: Store, kind: str) -> list[int]:
    with store.read_session() as session:
        return list(session.scalars(select(ItemRow.id).where(ItemRow.kind == kind).order_by(ItemRow.id)))


def test_checks_and_practice_cannot_be_answered_before_they_are_shown(store: Store) -> None:
    who = enroll(store, "p1").id
    first, second = of_kind(store, "practice")
    with pytest.raises(StudyError, match=r"^Agree to take part first\.$"):
        save_answer(store, who, first, YES)
    record_consent(store, who)
    for item in (second, *of_kind(store, "check")):
        with pytest.raises(StudyError) as caught:
            save_answer(store, who, item, YES)
        assert str(caught.value) == f"Item {item} was not given to you. Go on with the one that is shown."
    seen: list[str] = []
    while (task := next_item(store, who)) is not None:
        seen.append(task.kind)
        save_answer(store, who, task.item, YES)
    assert (seen.count("practice"), seen.count("check"), seen.count("real")) == (2, 2, 6)


def test_who_gets_nothing_may_get_what_others_give_back(tmp_path: Path) -> None:
    store = create_study(tmp_path / "small", plan(two_ways(), sample=1, practice=0, checks=0, per_item=1))
    first, second, third = people = [enroll(store, name).id for name in ("p1", "p2", "p3")]
    for who in people:
        record_consent(store, who)
    held = [next_item(store, who) for who in people]
    assert held[2] is None
    assert [may_get_more(store, who) for who in people] == [False, False, True]
    assert held[0] is not None
    save_answer(store, first, held[0].item, YES)
    leave(store, second)
    assert not may_get_more(store, third)  # it is free now
    assert next_item(store, third) == held[1]
    assert not may_get_more(store, third)
    store.close()


def test_only_its_owner_reads_the_database(store: Store, tmp_path: Path) -> None:
    record_consent(store, enroll(store, "p1").id)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir() if path.name.startswith("study.db")}
    assert modes["study.db"] == 0o600
    assert set(modes.values()) == {0o600}

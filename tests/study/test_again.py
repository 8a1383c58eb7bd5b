"""What somebody gave back is theirs again while nobody else has the place."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from elsewhere import write
from fresh.errors import NotAssignedError
from fresh.study.annotators import exclude, leave, readmit, record_consent, release_expired
from fresh.study.answers import Answer
from fresh.study.importing import import_study
from fresh.study.overview import get_overview, read_responses
from fresh.study.schema import AssignmentRow, ItemRow
from fresh.study.service import Task, may_get_more, next_item, save_answer
from fresh.study.store import Store, create_study, now_ms
from studies import enroll, plan, two_ways

YES = Answer("pos", 3, 4, 1500)
DAY = 25 * 3_600_000


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    """Eight answers, which two people can give."""
    made = create_study(database, plan(two_ways(), sample=4, practice=0, checks=0, per_item=1))
    yield made
    made.close()


def person(store: Store, name: str) -> int:
    who = enroll(store, name).id
    record_consent(store, who)
    return who


def given_to(store: Store, who: int) -> Task:
    task = next_item(store, who)
    assert task is not None
    return task


def work(store: Store, who: int, most: int = 9) -> int:
    """Answer so many items, and count them."""
    for done in range(most):
        task = next_item(store, who)
        if task is None:
            return done
        save_answer(store, who, task.item, YES)
    return most


def stay_away(store: Store) -> None:
    assert release_expired(store, now_ms() + DAY) == 1


def given_rows(store: Store, who: int) -> list[tuple[int, str]]:
    with store.read_session() as session:
        rows = select(AssignmentRow).where(AssignmentRow.annotator == who).order_by(AssignmentRow.id)
        return [(row.item, row.state) for row in session.scalars(rows)]


def other_cut(store: Store, item: int) -> int:
    """The same document in the other condition."""
    with store.read_session() as session:
        this = session.get_one(ItemRow, item)
        cuts = select(ItemRow.id).where(ItemRow.document == this.document, ItemRow.id != item)
        return session.scalars(cuts).one()


def test_who_stays_away_and_comes_back_goes_on_where_they_were(store: Store) -> None:
    first, second = person(store, "p1"), person(store, "p2")
    work(store, first, 1)
    task = given_to(store, first)
    stay_away(store)
    assert get_overview(store).n_more == 0
    time.sleep(0.01)
    back = now_ms()
    assert given_to(store, first) == task
    with store.read_session() as session:
        [at] = session.scalars(select(AssignmentRow.at).where(AssignmentRow.state == "open"))
    assert at >= back  # it lies before them anew
    assert [state for _, state in given_rows(store, first)] == ["answered", "open"]
    assert (work(store, first), work(store, second)) == (3, 4)
    assert len(read_responses(store)) == 8
    assert [one.status for one in get_overview(store).annotators] == ["finished", "finished"]


def test_it_comes_before_new_ones_also_if_nothing_else_is_left(store: Store) -> None:
    first = person(store, "p1")
    work(store, first, 3)
    task = given_to(store, first)
    stay_away(store)
    [about] = get_overview(store).annotators
    assert about.status == "active"
    assert given_to(store, first) == task
    assert work(store, first) == 1


def test_what_somebody_else_has_stays_gone(store: Store) -> None:
    """Until they give it back: then it is theirs as before."""
    first, *others = (person(store, name) for name in ("p1", "p2", "p3"))
    task = given_to(store, first)
    stay_away(store)
    with_it = next(who for who in others if answer_others_until(store, who, task.item))
    assert given_to(store, first) != task
    work(store, first)
    assert may_get_more(store, first)
    assert get_overview(store).annotators[0].status == "active"
    leave(store, with_it)
    assert given_to(store, first) == task
    assert not may_get_more(store, first)


def answer_others_until(store: Store, who: int, item: int) -> bool:
    """Answer until some item is before somebody; say whether it came."""
    while (task := next_item(store, who)) is not None:
        if task.item == item:
            return True
        save_answer(store, who, task.item, YES)
    return False


def test_what_somebody_else_has_answered_never_comes_again(store: Store) -> None:
    first, *others = (person(store, name) for name in ("p1", "p2", "p3"))
    task = given_to(store, first)
    stay_away(store)
    for who in others:
        work(store, who)
    assert len(read_responses(store)) == 8
    assert not may_get_more(store, first)
    assert [one.status for one in get_overview(store).annotators] == ["finished"] * 3
    assert next_item(store, first) is None
    with pytest.raises(NotAssignedError, match="was given to somebody else"):
        save_answer(store, first, task.item, YES)


@pytest.mark.parametrize("end", [exclude, leave])
def test_who_is_readmitted_gets_what_was_before_them(store: Store, end: Callable[[Store, int], int]) -> None:
    first, second = person(store, "p1"), person(store, "p2")
    work(store, first, 2)
    task = given_to(store, first)
    end(store, first)
    assert get_overview(store).n_more == 1
    assert readmit(store, first) == 0
    assert get_overview(store).n_more == 0
    assert given_to(store, first) == task
    assert (work(store, first), work(store, second)) == (2, 4)
    assert len(read_responses(store)) == 8


def test_an_answer_that_does_not_count_is_not_asked_for_again(store: Store) -> None:
    first = person(store, "p1")
    item = given_to(store, first).item
    save_answer(store, first, item, YES)
    exclude(store, first)
    others = [person(store, name) for name in ("p2", "p3")]
    with_it = next(who for who in others if answer_others_until(store, who, item))
    assert readmit(store, first) == 1
    leave(store, with_it)
    assert given_to(store, first).item != item


def test_two_windows_get_it_once(store: Store) -> None:
    first = person(store, "p1")
    task = given_to(store, first)
    stay_away(store)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: next_item(store, first), range(8))) == {task}
    with store.read_session() as session:
        assert session.get_one(ItemRow, task.item).taken == 1


def rejected(store: Store, folder: Path, item: int) -> None:
    cells = f"WorkerId,Input.item,Reject\np1,{item},too fast\n"
    import_study(store, "mturk", write(folder / "r.csv", cells))


def test_what_was_seen_elsewhere_is_not_given_here(store: Store, tmp_path: Path) -> None:
    first = person(store, "p1")
    item = given_to(store, person(store, "p0")).item
    rejected(store, tmp_path, other_cut(store, item))
    exclude(store, 2)
    work(store, first)
    assert {item, other_cut(store, item)}.isdisjoint(one.item for one in read_responses(store))
    assert len(read_responses(store)) == 3


def test_what_was_seen_otherwise_cut_meanwhile_is_not_given_again(store: Store, tmp_path: Path) -> None:
    first = person(store, "p1")
    item = given_to(store, first).item
    stay_away(store)
    rejected(store, tmp_path, other_cut(store, item))
    assert work(store, first) == 3
    assert (item, "seen") in given_rows(store, first)


STEPS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["look", "answer", "leave", "exclude", "back", "stale"])))


@given(steps=STEPS)
@settings(max_examples=40, deadline=None)
def test_whoever_comes_and_goes_the_plan_is_kept(
    steps: list[tuple[int, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Nobody sees a document in two conditions, and either all answers are there or it is told that people lack."""
    store = create_study(tmp_path_factory.mktemp("s"), plan(two_ways(), sample=3, practice=0, checks=0, per_item=2))
    crowd = [person(store, f"p{number}") for number in range(4)]
    shown: dict[tuple[int, int], set[int]] = {}
    for number, step in steps:
        step_of(store, crowd[number], step, shown)
    for who in crowd:
        readmit(store, who)
    crowd += [person(store, f"new {number}") for number in range(get_overview(store).n_more)]
    for who in crowd:
        while (task := next_item(store, who)) is not None:
            see(store, who, task, shown)
            save_answer(store, who, task.item, YES)
    assert all(len(items) == 1 for items in shown.values())
    found = get_overview(store)
    assert found.n_answered == 12 or found.n_more > 0
    assert not any(one.status == "active" for one in found.annotators)
    store.close()


def step_of(store: Store, who: int, step: str, shown: dict[tuple[int, int], set[int]]) -> None:
    active = {one.id: one.state == "active" for one in get_overview(store).annotators}[who]
    if step in ("look", "answer") and active:
        task = next_item(store, who)
        if task is not None:
            see(store, who, task, shown)
            save_answer(store, who, task.item, YES) if step == "answer" else None
    elif step in ("leave", "exclude", "back"):
        {"leave": leave, "exclude": exclude, "back": readmit}[step](store, who)
    elif step == "stale":
        release_expired(store, now_ms() + DAY)


def see(store: Store, who: int, task: Task, shown: dict[tuple[int, int], set[int]]) -> None:
    with store.read_session() as session:
        document = session.get_one(ItemRow, task.item).document
    assert document is not None
    shown.setdefault((who, document), set()).add(task.item)

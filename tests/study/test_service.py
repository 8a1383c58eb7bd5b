"""Items are given and answered once, by plan; what somebody gave back is theirs again while nobody has the place."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from elsewhere import numbers, write
from fresh.errors import NotAssignedError, StudyError
from fresh.study.annotators import exclude, leave, readmit, record_consent, release_expired, set_paused
from fresh.study.answers import Answer
from fresh.study.importing import import_study
from fresh.study.overview import get_overview, read_answers, read_responses
from fresh.study.schema import AssignmentRow, ItemRow
from fresh.study.service import (
    Progress,
    SavedAnswer,
    Task,
    get_feedback,
    get_progress,
    list_examples,
    list_items,
    may_get_more,
    next_item,
    save_answer,
)
from fresh.study.store import Store, create_study, now_ms
from studies import HOURS, YES, MakeStore, check_places, enroll, get_item, join, plan, two_ways, work

NO = Answer("neg", 1, 2, 900)


def test_annotators_get_practice_real_items_and_checks(stored: Store) -> None:
    [who] = join(stored, "p1")
    kinds: list[str] = []
    while (task := next_item(stored, who)) is not None:
        assert next_item(stored, who) == task  # the same until it is answered
        kinds.append(task.kind)
        saved = save_answer(stored, who, task.item, YES)
        assert saved.label in (("neg", "pos") if task.kind == "practice" else (None,))
        assert save_answer(stored, who, task.item, NO) == SavedAnswer(YES, True, saved.label)  # the first stands
    assert kinds == ["practice", "real", "real", "real", "check", "real", "real", "real"]
    assert get_progress(stored, who) == Progress(1, 1, 7, 7)  # with the check
    assert [one["kind"] for one in read_answers(stored)] == [*["real"] * 6, "practice", "check"]
    check_places(stored)


def test_invalid_answers_are_refused(stored: Store) -> None:
    one, two = join(stored, "p1", "p2")
    work(stored, one, 1)
    task = get_item(stored, one)
    with pytest.raises(NotAssignedError, match=rf"Item {task.item} is not assigned to you"):
        save_answer(stored, two, task.item, YES)
    with pytest.raises(StudyError, match=r"poss is not a label of this study.*pos\?"):
        save_answer(stored, one, task.item, Answer("poss", 1, 1))
    with pytest.raises(StudyError, match="no item 9999"):
        save_answer(stored, one, 9999, YES)
    with pytest.raises(StudyError, match="no annotator 77"):
        next_item(stored, 77)
    with pytest.raises(StudyError, match="Agree to take part first"):
        next_item(stored, enroll(stored, "new"))


def test_practice_and_checks_are_answered_in_order(make_store: MakeStore) -> None:
    store = make_store(sample=6, practice=2, checks=2, per_item=2)
    who = enroll(store, "p1")
    first, second = numbers(store, "practice")
    with pytest.raises(StudyError, match="Agree to take part first"):
        save_answer(store, who, first, YES)
    record_consent(store, who)
    for item in (second, *numbers(store, "check")):
        with pytest.raises(NotAssignedError, match=rf"Item {item} is not assigned to you"):
            save_answer(store, who, item, YES)
    seen: list[str] = []
    while (task := next_item(store, who)) is not None:
        seen.append(task.kind)
        save_answer(store, who, task.item, YES)
    assert (seen.count("practice"), seen.count("check"), seen.count("real")) == (2, 2, 6)


def test_feedback_needs_answered_practice_and_examples_take_no_answers(stored: Store) -> None:
    [who] = join(stored, "p1")
    practice, check = (numbers(stored, kind)[0] for kind in ("practice", "check"))
    task = get_item(stored, who)
    with pytest.raises(NotAssignedError, match="feedback on practice"):
        get_feedback(stored, who, task.item)
    label = save_answer(stored, who, task.item, YES).label
    solved = get_feedback(stored, who, task.item)
    assert (solved.rationale, solved.label, solved.answer) == (task.rationale, label, YES)
    assert set(list_items(stored, who)) == {practice, check}
    work(stored, who)  # the check among them
    with pytest.raises(NotAssignedError):
        get_feedback(stored, who, check)
    examples, [item, *_] = list_examples(stored), numbers(stored, "example")
    assert len(examples) == 2
    documents = [int(one.rationale.words[0].removeprefix("word").partition(".")[0]) for one in examples]
    assert [one.label for one in examples] == [("neg", "pos")[number % 2] for number in documents]
    assert item not in list_items(stored, who)
    with pytest.raises(NotAssignedError):
        save_answer(stored, who, item, YES)


def test_a_paused_study_saves_answers_and_assigns_nothing(stored: Store) -> None:
    [who] = join(stored, "p1")
    task = get_item(stored, who)
    assert [set_paused(stored, True), set_paused(stored, True)] == [True, False]  # whether it changes anything
    with pytest.raises(StudyError, match="paused"):
        next_item(stored, who)
    save_answer(stored, who, task.item, YES)
    assert [set_paused(stored, False), set_paused(stored, False)] == [True, False]
    assert next_item(stored, who) != task


@pytest.mark.parametrize(("end", "n_counted"), [(leave, 2), (exclude, 0)])
def test_annotators_who_leave_or_are_excluded_release_their_places(
    stored: Store, end: Callable[[Store, int], int], n_counted: int
) -> None:
    who, *others = join(stored, *"abcdef")
    work(stored, who, 2)
    held = get_item(stored, who)
    end(stored, who)
    leave(stored, who)  # changes nothing any more
    match = "You have left this study" if n_counted else "Your participation in this study has ended"
    with pytest.raises(StudyError, match=match):
        next_item(stored, who)
    with pytest.raises(StudyError, match=match):
        save_answer(stored, who, held.item, YES)
    assert sum(work(stored, other) for other in others) == 24 - n_counted
    check_places(stored)


def test_late_answers_are_saved_while_a_place_is_free(stored: Store) -> None:
    who, late, *others = join(stored, *"abcdef")
    for one in (who, late):
        work(stored, one, 1)
    task, other = get_item(stored, who), get_item(stored, late)
    assert release_expired(stored) == 0
    assert release_expired(stored, now_ms() + 25 * HOURS) == 2
    assert not save_answer(stored, who, task.item, YES).repeated
    for one in others:
        work(stored, one)
    with pytest.raises(NotAssignedError, match=rf"Item {other.item} was assigned to somebody else"):
        save_answer(stored, late, other.item, YES)
    check_places(stored)


@pytest.mark.parametrize("is_new", [True, False])
def test_two_windows_of_one_annotator_get_one_item_and_one_answer(stored: Store, is_new: bool) -> None:
    """Also if it is an item that they gave back."""
    [who] = join(stored, "p1")
    work(stored, who, 1)
    if not is_new:
        get_item(stored, who)
        stay_away(stored)
    with ThreadPoolExecutor(8) as pool:
        [item] = {task.item for task in pool.map(lambda _: get_item(stored, who), range(16))}
        saved = list(pool.map(lambda n: save_answer(stored, who, item, (YES, NO)[n % 2]), range(16)))
    assert sum(not one.repeated for one in saved) == 1
    assert len({one.answer for one in saved}) == 1
    check_places(stored)


def test_waiting_annotators_get_released_items(make_store: MakeStore) -> None:
    store = make_store(sample=1, practice=0, checks=0, per_item=1)
    first, second, third = people = join(store, "p1", "p2", "p3")
    held = [next_item(store, who) for who in people]
    assert held[2] is None
    assert [may_get_more(store, who) for who in people] == [False, False, True]
    assert held[0] is not None
    save_answer(store, first, held[0].item, YES)
    leave(store, second)
    assert not may_get_more(store, third)  # it is free now
    assert next_item(store, third) == held[1]
    assert not may_get_more(store, third)


def stay_away(store: Store) -> None:
    assert release_expired(store, now_ms() + 25 * HOURS) == 1


def assignments(store: Store, who: int) -> list[tuple[int, str]]:
    with store.read_session() as session:
        rows = select(AssignmentRow).where(AssignmentRow.annotator == who).order_by(AssignmentRow.id)
        return [(row.item, row.state) for row in session.scalars(rows)]


def other_condition(store: Store, item: int) -> int:
    """The same document in the other condition."""
    with store.read_session() as session:
        this = session.get_one(ItemRow, item)
        return session.scalars(select(ItemRow.id).where(ItemRow.document == this.document, ItemRow.id != item)).one()


def answer_until(store: Store, who: int, item: int) -> bool:
    """Answer until some item is before somebody; say whether it came."""
    while (task := next_item(store, who)) is not None:
        if task.item == item:
            return True
        save_answer(store, who, task.item, YES)
    return False


def test_annotators_who_return_get_their_expired_item_again(eight: Store) -> None:
    first, second = join(eight, "p1", "p2")
    work(eight, first, 1)
    task = get_item(eight, first)
    stay_away(eight)
    assert get_overview(eight).n_more == 0
    time.sleep(0.01)
    back = now_ms()
    assert get_item(eight, first) == task
    with eight.read_session() as session:
        [at] = session.scalars(select(AssignmentRow.at).where(AssignmentRow.state == "open"))
    assert at >= back  # it lies before them anew
    assert [state for _, state in assignments(eight, first)] == ["answered", "open"]
    assert (work(eight, first, 2), work(eight, second)) == (2, 4)
    task = get_item(eight, first)
    stay_away(eight)  # also if nothing else is left
    assert get_overview(eight).annotators[0].status == "active"
    assert get_item(eight, first) == task
    assert work(eight, first) == 1
    assert [one.status for one in get_overview(eight).annotators] == ["finished", "finished"]


def test_a_reassigned_item_comes_back_only_when_it_is_released(eight: Store) -> None:
    first, *others = join(eight, "p1", "p2", "p3")
    task = get_item(eight, first)
    stay_away(eight)
    with_it = next(who for who in others if answer_until(eight, who, task.item))
    assert get_item(eight, first) != task
    work(eight, first)
    assert may_get_more(eight, first)
    assert get_overview(eight).annotators[0].status == "active"
    leave(eight, with_it)
    assert get_item(eight, first) == task
    assert not may_get_more(eight, first)


def test_an_item_answered_by_another_annotator_does_not_come_back(eight: Store) -> None:
    first, *others = join(eight, "p1", "p2", "p3")
    task = get_item(eight, first)
    stay_away(eight)
    for who in others:
        work(eight, who)
    assert len(read_responses(eight)) == 8
    assert not may_get_more(eight, first)
    assert [one.status for one in get_overview(eight).annotators] == ["finished"] * 3
    assert next_item(eight, first) is None
    with pytest.raises(NotAssignedError, match="was assigned to somebody else"):
        save_answer(eight, first, task.item, YES)


@pytest.mark.parametrize(("end", "n_released"), [(exclude, 3), (leave, 1)])
def test_readmitted_annotators_get_their_held_item_again(
    eight: Store, end: Callable[[Store, int], int], n_released: int
) -> None:
    first, second = join(eight, "p1", "p2")
    work(eight, first, 2)
    task = get_item(eight, first)
    assert [end(eight, first), end(eight, first)] == [n_released, 0]
    assert get_overview(eight).n_more == 1
    assert readmit(eight, first) == 0
    assert get_overview(eight).n_more == 0
    assert get_item(eight, first) == task
    assert (work(eight, first), work(eight, second)) == (2, 4)
    assert len(read_responses(eight)) == 8


def test_an_uncounted_answer_is_not_requested_again(eight: Store) -> None:
    [first] = join(eight, "p1")
    item = get_item(eight, first).item
    save_answer(eight, first, item, YES)
    exclude(eight, first)
    with_it = next(who for who in join(eight, "p2", "p3") if answer_until(eight, who, item))
    assert readmit(eight, first) == 1
    leave(eight, with_it)
    assert get_item(eight, first).item != item


def reject(store: Store, folder: Path, item: int) -> None:
    import_study(store, "mturk", write(folder / "r.csv", f"WorkerId,Input.item,Reject\np1,{item},too fast\n"))


def test_documents_seen_in_another_tool_are_not_assigned(eight: Store, tmp_path: Path) -> None:
    first, other = join(eight, "p1", "p0")
    item = get_item(eight, other).item
    reject(eight, tmp_path, other_condition(eight, item))
    exclude(eight, other)
    work(eight, first)
    assert {item, other_condition(eight, item)}.isdisjoint(one.item for one in read_responses(eight))
    assert len(read_responses(eight)) == 3


def test_an_item_seen_meanwhile_in_another_condition_is_not_assigned_again(eight: Store, tmp_path: Path) -> None:
    [first] = join(eight, "p1")
    item = get_item(eight, first).item
    stay_away(eight)
    reject(eight, tmp_path, other_condition(eight, item))
    assert work(eight, first) == 3
    assert (item, "seen") in assignments(eight, first)


STEPS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["look", "answer", "leave", "exclude", "back", "stale"])))


@pytest.mark.parametrize("n_histories", [8, pytest.param(200, marks=pytest.mark.slow)])
def test_the_plan_holds_whoever_comes_and_goes(n_histories: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    @given(steps=STEPS)
    @settings(max_examples=n_histories, deadline=None)
    def check(steps: list[tuple[int, str]]) -> None:
        come_and_go(steps, tmp_path_factory.mktemp("s"))

    check()


def come_and_go(steps: list[tuple[int, str]], folder: Path) -> None:
    """Nobody sees a document in two conditions; all answers are there, or it is said that people are missing."""
    store = create_study(folder, plan(two_ways(), sample=3, practice=0, checks=0, per_item=2))
    people = join(store, "p0", "p1", "p2", "p3")
    shown: dict[tuple[int, int], set[int]] = {}

    def see(who: int, task: Task) -> None:
        with store.read_session() as session:
            document = session.get_one(ItemRow, task.item).document or 0
        shown.setdefault((who, document), set()).add(task.item)

    for number, step in steps:
        who = people[number]
        active = {one.id: one.state == "active" for one in get_overview(store).annotators}[who]
        if step in ("look", "answer") and active and (task := next_item(store, who)) is not None:
            see(who, task)
            save_answer(store, who, task.item, YES) if step == "answer" else None
        elif step in ("leave", "exclude", "back"):
            {"leave": leave, "exclude": exclude, "back": readmit}[step](store, who)
        elif step == "stale":
            release_expired(store, now_ms() + 25 * HOURS)
    for who in people:
        readmit(store, who)
    for who in [*people, *join(store, *(f"new {number}" for number in range(get_overview(store).n_more)))]:
        while (task := next_item(store, who)) is not None:
            see(who, task)
            save_answer(store, who, task.item, YES)
    assert all(len(items) == 1 for items in shown.values())
    found = get_overview(store)
    assert found.n_answered == 12 or found.n_more > 0
    assert not any(one.status == "active" for one in found.annotators)
    check_places(store)
    store.close()

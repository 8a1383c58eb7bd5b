"""Secrets of a served study, what people may look at again, and how conditions stand; on both databases."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select

from fresh.errors import NotAssignedError, RepeatedRequestError, StudyError
from fresh.study.annotators import (
    add_annotators,
    admin_session_version,
    code_version,
    exclude,
    get_annotator,
    is_admin,
    last_annotator,
    leave,
    make_admin_secret,
    readmit,
    record_consent,
    renew_code,
    set_admin_secret,
    sign_in,
    signing_key,
)
from fresh.study.answers import Answer
from fresh.study.overview import get_condition_status, read_responses
from fresh.study.schema import ItemRow, StudyRow
from fresh.study.service import get_feedback, list_examples, list_items, next_item, save_answer
from fresh.study.store import Store, create_study, open_study
from shared_study_store import YES, check, people, work
from studies import plan, two_ways


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    made = create_study(database, plan(two_ways(), sample=6, practice=1, checks=1, per_item=2))
    yield made
    made.close()


def test_all_servers_sign_with_one_key(store: Store, database: str) -> None:
    other = open_study(database)
    with ThreadPoolExecutor(8) as pool:
        [key] = set(pool.map(lambda number: signing_key((store, other)[number % 2]), range(8)))
    assert len(key) == 32
    other.close()


def test_the_admin_secret_is_shown_once_and_kept_as_a_hash(store: Store) -> None:
    assert not is_admin(store, "")
    secret = make_admin_secret(store)
    assert secret is not None
    assert make_admin_secret(store) is None
    assert is_admin(store, f" {secret}\n")
    assert is_admin(store, secret.replace("-", ""))
    for wrong in ("", secret[:-1], secret + "a", admin_session_version(store)):
        assert not is_admin(store, wrong)
    with store.read_session() as session:
        kept = session.execute(select(StudyRow.admin_salt, StudyRow.admin_code, StudyRow.key)).one()
    assert not any(part in str(value) for part in (secret, secret.replace("-", "")) for value in kept)


def test_a_new_secret_ends_the_old_one(store: Store) -> None:
    first = make_admin_secret(store)
    mark = admin_session_version(store)
    second = make_admin_secret(store, anew=True)
    assert first is not None
    assert second is not None
    assert (is_admin(store, first), is_admin(store, second), admin_session_version(store) == mark) == (
        False,
        True,
        False,
    )


def test_a_secret_of_ones_own_is_long_and_stays(store: Store) -> None:
    told = r"^The secret of the admin page must have at least 12 letters, got 11\. Choose a longer one\.$"
    with pytest.raises(StudyError, match=told):
        set_admin_secret(store, "abc-def-ghi-jk")
    set_admin_secret(store, "correct horse battery\n")
    mark = admin_session_version(store)
    set_admin_secret(store, "correct horse battery")
    assert admin_session_version(store) == mark
    assert is_admin(store, "correct horse battery")
    set_admin_secret(store, "another horse battery")
    assert not is_admin(store, "correct horse battery")


def test_a_lost_code_is_replaced(store: Store) -> None:
    [code] = add_annotators(store, 1)
    who = sign_in(store, code)
    assert who is not None
    mark = code_version(store, who.id)
    renewed = renew_code(store, who.id)
    assert code_version(store, who.id) != mark
    assert sign_in(store, code) is None
    assert sign_in(store, renewed) == who == get_annotator(store, who.id)
    assert get_annotator(store, 99) is None
    with pytest.raises(StudyError, match=r"^There is no annotator 99 in this study\.$"):
        renew_code(store, 99)


def test_examples_are_shown_with_their_labels_and_cannot_be_answered(store: Store) -> None:
    found = list_examples(store)
    assert len(found) == 2
    numbers = [int(one.rationale.words[0].removeprefix("word").partition(".")[0]) for one in found]
    assert [one.label for one in found] == [("neg", "pos")[number % 2] for number in numbers]
    [who] = people(store, 1)
    with store.read_session() as session:
        item = session.scalars(select(ItemRow.id).where(ItemRow.kind == "example")).first()
    assert item is not None
    assert item not in list_items(store, who)
    with pytest.raises(
        NotAssignedError, match=rf"^Item {item} was not given to you\. Go on with the one that is shown"
    ):
        save_answer(store, who, item, YES)


def test_practice_and_checks_are_answered_in_their_turn_only(store: Store) -> None:
    [who] = people(store, 1)
    with store.read_session() as session:
        ids = dict(session.execute(select(ItemRow.kind, ItemRow.id).where(ItemRow.kind != "real")).tuples().all())
    with pytest.raises(NotAssignedError):
        save_answer(store, who, ids["check"], YES)
    task = next_item(store, who)
    assert task is not None
    with pytest.raises(NotAssignedError, match=r"^There is get_feedback for practice only, and after your answer"):
        get_feedback(store, who, task.item)
    label = save_answer(store, who, task.item, YES).label
    solved = get_feedback(store, who, task.item)
    assert (solved.rationale, solved.label, solved.answer) == (task.rationale, label, YES)
    assert set(list_items(store, who)) == {ids["practice"], ids["check"]}
    work(store, who)  # the check among them
    with pytest.raises(NotAssignedError):
        get_feedback(store, who, ids["check"])


def test_nobody_practises_who_has_not_agreed(store: Store) -> None:
    [code] = add_annotators(store, 1)
    who = sign_in(store, code)
    assert who is not None
    with store.read_session() as session:
        practice = session.scalars(select(ItemRow.id).where(ItemRow.kind == "practice")).one()
    with pytest.raises(StudyError, match=r"^Agree to take part first\.$"):
        save_answer(store, who.id, practice, YES)
    record_consent(store, who.id)
    assert not save_answer(store, who.id, practice, YES).repeated


def test_whoever_is_readmitted_counts_again_as_far_as_places_are_left(store: Store) -> None:
    who, *others = people(store, 5)
    work(store, who, 3)
    exclude(store, who)
    assert readmit(store, who) == 0
    assert len(read_responses(store)) == 3
    check(store)
    leave(store, who)
    assert readmit(store, who) == 0
    assert work(store, who, 1) == 1
    exclude(store, who)
    taken = sum(work(store, other) for other in others)
    n_gone = readmit(store, who)
    assert (taken + 4 - n_gone, n_gone > 0) == (24, True)
    check(store)


def test_conditions_stand_as_their_answers_do(store: Store) -> None:
    one, two = people(store, 2)
    for who, label in ((one, "pos"), (two, "pos")):
        task = next_item(store, who)
        assert task is not None
        save_answer(store, who, task.item, YES)
        for _ in range(2):
            task = next_item(store, who)
            assert task is not None
            save_answer(store, who, task.item, Answer(label, 2, 2, 4000))
    found = {one.condition: one for one in get_condition_status(store)}
    assert {name: (one.n_answered, one.n_planned, one.seconds) for name, one in found.items()} == {
        "human": (2, 12, 4.0),
        "full": (2, 12, 4.0),
    }
    agreement = found["human"].agreement
    assert agreement is not None
    assert agreement.raw is None  # nobody compares yet: each text has one answer


def test_of_many_who_ask_for_the_same_codes_at_once_one_gets_them(store: Store) -> None:
    [code] = add_annotators(store, 1, after=0)
    assert sign_in(store, code) is not None
    mark = code_version(store, 1)

    def repeated(ask: Callable[[], object]) -> bool:
        try:
            ask()
        except RepeatedRequestError:
            return True
        return False

    def several(ask: Callable[[], object]) -> list[bool]:
        with ThreadPoolExecutor(4) as pool:
            return sorted(pool.map(lambda _: repeated(ask), range(4)))

    assert several(lambda: add_annotators(store, 2, after=1)) == [False, True, True, True]
    assert several(lambda: renew_code(store, 1, mark)) == [False, True, True, True]
    assert last_annotator(store) == 3

"""Annotators come and go; codes and the admin secret."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from fresh.errors import RepeatedRequestError, StudyError
from fresh.study import annotators as people
from fresh.study.annotators import (
    add_annotators,
    exclude,
    find_annotator,
    get_annotator,
    is_admin,
    make_admin_secret,
    readmit,
    renew_code,
    session_version,
    set_admin_secret,
    sign_in,
    signing_key,
)
from fresh.study.overview import get_overview, read_responses
from fresh.study.schema import AnnotatorRow, AssignmentRow, StudyRow
from fresh.study.store import Store, now_ms, open_study
from studies import HOURS, as_earlier, enroll, get_item, join, work


@pytest.fixture
def small(eight: Store) -> Store:
    """The eight answers in the one order of earlier versions."""
    return as_earlier(eight)


def test_answers_of_readmitted_annotators_count_where_places_are_free(small: Store) -> None:
    [who] = join(small, "p1")
    work(small, who, 3)  # items 1, 4, 5: the first documents, in turn in either condition
    get_item(small, who)
    assert exclude(small, who) == 4
    assert read_responses(small) == []
    second, third = join(small, "p2", "p3")
    work(small, second, 1)
    work(small, third, 1)
    assert [(one.item, one.annotator) for one in read_responses(small)] == [(1, third), (2, second)]
    assert readmit(small, who) == 1
    assert [(one.item, one.annotator) for one in read_responses(small)][2:] == [(4, who), (5, who)]
    assert readmit(small, who) == 1
    assert get_item(small, who).item == 8  # what was before them
    for one in (who, second, third):
        work(small, one)
    assert [one.item for one in read_responses(small)] == list(range(1, 9))


def test_expired_items_are_released_in_item_order(small: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by whoever excludes somebody: else two servers on PostgreSQL could wait for each other."""
    first, second = join(small, "p1", "p2")
    work(small, first, 3)
    get_item(small, first)  # item 8
    get_item(small, second)  # item 2, given later
    given_back: list[int] = []

    def release(session: Session, assignment: int) -> bool:
        given_back.append(session.get_one(AssignmentRow, assignment).item)
        return True

    monkeypatch.setattr(people, "release_assignment", release)
    assert people.release_expired(small, now_ms() + 25 * HOURS) == 2
    assert given_back == [2, 8]


def test_annotators_are_found_by_number_or_name(stored: Store) -> None:
    first, second = enroll(stored, "2"), enroll(stored, "W2")
    assert find_annotator(stored, str(first)).outside == "2"
    assert find_annotator(stored, "2").id == find_annotator(stored, "W2").id == second
    for wrong in ("W", "99", "9" * 30, "²", ""):
        with pytest.raises(StudyError, match=rf"no annotator '{wrong}'.*fresh study status"):
            find_annotator(stored, wrong)
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: enroll(stored, "p1"), range(8)))) == 1  # added once


def test_codes_sign_in_and_only_their_hashes_are_stored(stored: Store) -> None:
    first, second = add_annotators(stored, 2)
    found = sign_in(stored, f" {first.upper()} ")
    assert found is not None
    assert (found.id, found.state, found.consented) == (1, "active", None)
    assert sign_in(stored, first.replace("-", "")) is not None
    without_code = enroll(stored, "W1")
    for secret in ("", "0" * 12):
        assert sign_in(stored, f"{without_code}-{secret}") is None
    assert sign_in(stored, second[:-1] + ("a" if second[-1] != "a" else "b")) is None
    for wrong in ("", "1", "999-aaaa-bbbb-cccc", "²-aaaa", f"{found.id}-", "x" * 1000):
        assert sign_in(stored, wrong) is None
    with stored.read_session() as session:
        coded = select(AnnotatorRow).where(AnnotatorRow.outside.is_(None))
        kept = [value for row in session.scalars(coded) for value in (row.salt, row.code)]
    secret = first.partition("-")[2]
    assert not any(secret in value or secret.replace("-", "") in value for value in kept)
    assert len(set(kept)) == 4
    with pytest.raises(StudyError, match=r"at least 1, got 0"):
        add_annotators(stored, 0)


def test_a_renewed_code_replaces_the_old_one(stored: Store) -> None:
    [code] = add_annotators(stored, 1)
    who = sign_in(stored, code)
    assert who is not None
    version = session_version(stored, who.id)
    renewed = sign_in(stored, renew_code(stored, who.id))
    assert session_version(stored, who.id) != version
    assert sign_in(stored, code) is None
    assert renewed is not None
    assert renewed.id == who.id
    assert get_annotator(stored, 99) is None
    with pytest.raises(StudyError, match="no annotator 99"):
        renew_code(stored, 99)


def test_of_simultaneous_requests_for_the_same_codes_one_succeeds(stored: Store) -> None:
    [code] = add_annotators(stored, 1, after=0)
    person = sign_in(stored, code)
    assert person is not None

    def is_repeated(ask: Callable[[], object]) -> bool:
        try:
            ask()
        except RepeatedRequestError:
            return True
        return False

    def several(ask: Callable[[], object]) -> list[bool]:
        with ThreadPoolExecutor(4) as pool:
            return sorted(pool.map(lambda _: is_repeated(ask), range(4)))

    assert several(lambda: add_annotators(stored, 2, after=1)) == [False, True, True, True]
    assert several(lambda: renew_code(stored, 1, person.code)) == [False, True, True, True]
    assert [one.id for one in get_overview(stored).annotators] == [1, 2, 3]


def test_all_servers_share_one_signing_key(stored: Store, database: str) -> None:
    with closing(open_study(database)) as other, ThreadPoolExecutor(8) as pool:
        [key] = set(pool.map(lambda number: signing_key((stored, other)[number % 2]), range(8)))
    assert len(key) == 32


def test_the_admin_secret_is_shown_once_and_stored_as_a_hash(stored: Store) -> None:
    assert not is_admin(stored, "")
    secret = make_admin_secret(stored)
    assert secret is not None
    assert make_admin_secret(stored) is None
    assert is_admin(stored, f" {secret}\n")
    assert is_admin(stored, secret.replace("-", ""))
    for wrong in ("", secret[:-1], secret + "a", session_version(stored, None)):
        assert not is_admin(stored, wrong)
    with stored.read_session() as session:
        kept = session.execute(select(StudyRow.admin_salt, StudyRow.admin_code, StudyRow.key)).one()
    assert not any(part in str(value) for part in (secret, secret.replace("-", "")) for value in kept)
    version = session_version(stored, None)
    second = make_admin_secret(stored, replace=True)
    assert second is not None
    assert (is_admin(stored, secret), is_admin(stored, second)) == (False, True)
    assert session_version(stored, None) != version


def test_a_custom_secret_must_be_long_and_keeps_sessions(stored: Store) -> None:
    with pytest.raises(StudyError, match=r"at least 12 characters.*got 11"):
        set_admin_secret(stored, "abc-def-ghi-jk")
    set_admin_secret(stored, "correct horse battery\n")
    version = session_version(stored, None)
    set_admin_secret(stored, "correct horse battery")
    assert session_version(stored, None) == version
    assert is_admin(stored, "correct horse battery")
    set_admin_secret(stored, "another horse battery")
    assert session_version(stored, None) != version
    assert not is_admin(stored, "correct horse battery")

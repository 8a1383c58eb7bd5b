"""Sessions, form tokens, tickets and tries: pure parts of the pages of a study."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.web.problems import Problem
from fresh.web.study.sessions import HOUR, Role, Session, Signer
from fresh.web.study.tries import MOST_ADDRESSES, Tries, network

SIGNER = Signer(b"k" * 32, hours=2)
ROLES: tuple[Role, ...] = ("visitor", "annotator", "admin")


@given(st.sampled_from(ROLES), st.integers(0, 10**9 - 1), st.integers(0, 10**13), st.text(max_size=8))
def test_a_session_is_read_back_as_it_was_and_in_its_role_only(role: Role, who: int, at: int, mark: str) -> None:
    session = SIGNER.begin(role, at, who)
    token = SIGNER.write(session, mark)
    marks = {who: mark}
    assert SIGNER.read(token, role, marks.__getitem__) == session
    for other in ROLES:
        assert (SIGNER.read(token, other, marks.__getitem__) is None) == (other != role)
    assert SIGNER.read(token, role, lambda _who: mark + "x") is None
    assert Signer(b"l" * 32).read(token, role, marks.__getitem__) is None


@given(st.data())
def test_no_changed_letter_passes(data: st.DataObject) -> None:
    token = SIGNER.write(SIGNER.begin("annotator", 5, 7))
    place = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters().filter(lambda letter: letter != token[place]))
    assert SIGNER.read(token[:place] + other + token[place + 1 :], "annotator") is None


@given(st.text())
def test_no_made_up_token_passes(token: str) -> None:
    assert SIGNER.read(token, "annotator") is None
    assert SIGNER.read(f"annotator.1.1.x.{token}", "annotator") is None


def test_a_session_lasts_as_long_as_somebody_is_there() -> None:
    session = Session("annotator", 1, at=1000, nonce="n")
    assert not SIGNER.is_over(session, 1000 + 2 * HOUR)
    assert SIGNER.is_over(session, 1001 + 2 * HOUR)
    later = SIGNER.renewed(session, 1000 + HOUR)
    assert not SIGNER.is_over(later, 1000 + 3 * HOUR)
    assert SIGNER.form_token(later) == SIGNER.form_token(session)


def test_form_tokens_differ_between_sessions_and_roles() -> None:
    session = Session("annotator", 1, at=1000, nonce="n")
    others = [replace(session, nonce="m"), replace(session, role="admin"), replace(session, role="visitor")]
    assert len({SIGNER.form_token(one) for one in (session, *others)}) == 4


@given(st.integers(1, 500), st.integers(1, 500))
def test_tickets_tell_nothing_and_are_somebodys_own(annotator: int, item: int) -> None:
    ticket = SIGNER.ticket(annotator, item)
    assert len(ticket) == 32
    assert ticket not in (SIGNER.ticket(annotator + 1, item), SIGNER.ticket(annotator, item + 1))
    assert ticket != Signer(b"l" * 32).ticket(annotator, item)


def test_too_many_wrong_codes_have_to_wait() -> None:
    clock = [0.0]
    tries = Tries(3, 600, lambda: clock[0])
    for clock[0] in (0, 60, 90):
        tries.begin("10.0.0.1")
    for clock[0], wait, told in ((90, 510, "9 minutes"), (599, 1, "1 minute")):
        with pytest.raises(Problem) as caught:
            tries.begin("10.0.0.1")
        assert caught.value.status_code == 429
        assert caught.value.detail == f"Too many wrong codes came from here. Wait {told}, then try again."
        assert caught.value.headers == {"Retry-After": str(wait)}
    tries.begin("10.0.0.2")
    clock[0] = 600
    tries.begin("10.0.0.1")


def test_right_codes_are_not_held_against_anybody() -> None:
    tries = Tries(2, 600, lambda: 0.0)
    for _ in range(50):
        tries.begin("10.0.0.1")
        tries.forgive("10.0.0.1")
    assert tries.wrong == {}
    tries.begin("10.0.0.1")
    tries.begin("10.0.0.1")
    tries.forgive("10.0.0.1")
    assert len(tries.wrong["10.0.0.1"]) == 1


def test_many_addresses_do_not_fill_the_memory() -> None:
    clock = [0.0]
    tries = Tries(2, 600, lambda: clock[0])
    for number in range(MOST_ADDRESSES):
        tries.begin(f"name {number}")
    clock[0] = 601
    tries.begin("one more")
    assert list(tries.wrong) == ["one more"]


@pytest.mark.parametrize(
    ("address", "whose"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8:0:0:ffff::2", "2001:db8::/64"),
        ("2001:db8:0:1::2", "2001:db8:0:1::/64"),
        ("::1", "::/64"),
        ("testclient", "testclient"),
        ("", ""),
    ],
)
def test_one_person_has_many_addresses_in_ipv6(address: str, whose: str) -> None:
    assert network(address) == whose

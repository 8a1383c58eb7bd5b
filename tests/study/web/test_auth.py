"""Sessions, form tokens, tickets and the limit on wrong codes."""

import asyncio
import threading
import time
from dataclasses import replace

import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response

from fresh.study.web.auth import HOUR, MAX_CHECKS, MAX_NETWORKS, RateLimiter, Role, Session, Signer, _network_of
from fresh.web.errors import Problem
from visitors import BROWSER, Person, advance_clock, site_of, visitor

SIGNER = Signer(b"k" * 32, hours=2)
ROLES: tuple[Role, ...] = ("visitor", "annotator", "admin")


@given(st.sampled_from(ROLES), st.integers(0, 10**9 - 1), st.integers(0, 10**13), st.text(max_size=8))
def test_sessions_round_trip_in_their_role_only(role: Role, who: int, at: int, version: str) -> None:
    session = Session(role, who, at)
    token = SIGNER.write(session, version)
    versions = {who: version}
    assert SIGNER.read(token, role, versions.__getitem__) == session
    for other in ROLES:
        assert (SIGNER.read(token, other, versions.__getitem__) is None) == (other != role)
    assert SIGNER.read(token, role, lambda _who: version + "x") is None
    assert Signer(b"l" * 32).read(token, role, versions.__getitem__) is None


@given(st.data(), st.text())
def test_a_token_with_a_changed_character_is_refused(data: st.DataObject, forged: str) -> None:
    token = SIGNER.write(Session("annotator", 7, 5))
    place = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters().filter(lambda letter: letter != token[place]))
    for wrong in (token[:place] + other + token[place + 1 :], forged, f"annotator.1.1.x.{forged}"):
        assert SIGNER.read(wrong, "annotator") is None


def test_a_session_lasts_while_it_is_used() -> None:
    session = Session("annotator", 1, at=1000, nonce="n")
    assert not SIGNER.has_ended(session, 1000 + 2 * HOUR)
    assert SIGNER.has_ended(session, 1001 + 2 * HOUR)
    later = replace(session, at=1000 + HOUR)
    assert not SIGNER.has_ended(later, 1000 + 3 * HOUR)
    assert SIGNER.form_token(later) == SIGNER.form_token(session)
    others = [replace(session, nonce="m"), replace(session, role="admin"), replace(session, role="visitor")]
    assert len({SIGNER.form_token(one) for one in (session, *others)}) == 4


@given(st.integers(1, 500), st.integers(1, 500))
def test_tickets_depend_on_annotator_item_and_key(annotator: int, item: int) -> None:
    ticket = SIGNER.ticket(annotator, item)
    assert len(ticket) == 32
    assert ticket not in (SIGNER.ticket(annotator + 1, item), SIGNER.ticket(annotator, item + 1))
    assert ticket != Signer(b"l" * 32).ticket(annotator, item)


def test_a_request_in_flight_during_sign_out_does_not_renew_the_session(person: Person, app: FastAPI) -> None:
    sessions = site_of(app).sessions
    cookie = "; ".join(f"{name}={value}" for name, value in person.client.cookies.items())
    request = Request({"type": "http", "headers": [(b"cookie", cookie.encode())], "scheme": "http", "path": "/"})
    session = sessions.require(request, "annotator")
    advance_clock(app, 1)
    for ended in (False, True):
        if ended:
            sessions.end(Response(), session)
        renewed = Response()
        sessions.renew(request, renewed, session)
        token = renewed.headers["set-cookie"].partition(";")[0].partition("=")[2]
        found = sessions.signer.read(token, "annotator", lambda who: sessions.version("annotator", who))
        assert (found is None) == ended


def test_sessions_of_other_studies_are_refused(person: Person, app: FastAPI) -> None:
    sessions, other = site_of(app).sessions, Signer(b"another study")
    for token in (other.write(Session("annotator", 1, sessions.clock())), "annotator.1.1.1.1", "", "\u00e4"):
        stranger = visitor(app)
        header = {"Cookie": f"{sessions.cookie_name('annotator')}={token}".encode()}
        stranger.answer = stranger.client.get("/item", headers={**BROWSER, **header})
        assert (stranger.status, stranger.alerts) == (401, ["You are not signed in. Sign in first."])


def test_many_wrong_codes_slow_an_address_down_for_ten_minutes() -> None:
    clock = [0.0]
    limiter = RateLimiter(3, 600, 0, lambda: clock[0])
    for clock[0] in (0, 60, 90):
        assert not limiter.is_slowed("10.0.0.1")
        assert asyncio.run(limiter.check("10.0.0.1", lambda: None)) is None
    assert limiter.is_slowed("10.0.0.1")
    assert not limiter.is_slowed("10.0.0.2")
    for who in (7, 0):  # right codes are not counted, nor that of the admin
        assert [asyncio.run(limiter.check(f"10.0.0.{n}", lambda who=who: who)) for n in (1, 2, 2, 2)] == [who] * 4  # type: ignore[misc]
    assert limiter.failures.keys() == {"10.0.0.1"}
    clock[0] = 599
    assert limiter.is_slowed("10.0.0.1")
    clock[0] = 600
    assert not limiter.is_slowed("10.0.0.1")


def test_a_slowed_address_has_few_concurrent_checks_and_blocks_no_other() -> None:
    limiter, go_on = RateLimiter(1, 600, 0), threading.Event()

    def find() -> int:
        assert go_on.wait(60)
        return 7

    async def flood() -> None:
        for address in ("10.0.0.1", "10.0.0.2"):
            await limiter.check(address, lambda: None)
        checks = [asyncio.create_task(limiter.check("10.0.0.1", find)) for _ in range(MAX_CHECKS)]
        try:
            async with asyncio.timeout(30):
                while limiter.n_checks.get("10.0.0.1") != MAX_CHECKS:
                    await asyncio.sleep(0.001)
            with pytest.raises(Problem, match="Try again in a few seconds") as caught:
                await limiter.check("10.0.0.1", find)
            assert (caught.value.status_code, caught.value.headers) == (429, {"Retry-After": "5"})
            assert await limiter.check("10.0.0.2", lambda: 8) == 8
            assert await limiter.check("10.0.0.3", lambda: 9) == 9
        finally:
            go_on.set()
        assert await asyncio.gather(*checks) == [7] * MAX_CHECKS
        assert await limiter.check("10.0.0.1", find) == 7
        assert limiter.n_checks == {}

    asyncio.run(flood())


def test_pauses_occupy_no_threads() -> None:
    limiter = RateLimiter(1, 600, pause=3600)
    ended: list[str] = []

    async def flood() -> None:
        addresses = [f"10.0.0.{number}" for number in range(20)]  # with 4 checks each, twice the threads that there are
        for address in addresses:
            await limiter.check(address, lambda: None)
        checks = [
            asyncio.create_task(limiter.check(address, lambda address=address: ended.append(address)))  # type: ignore[misc]
            for address in addresses
            for _ in range(MAX_CHECKS)
        ]
        async with asyncio.timeout(30):
            while len(ended) < len(checks):
                await asyncio.sleep(0.001)
        with pytest.raises(Problem):
            await limiter.check(addresses[0], lambda: 7)
        assert await limiter.check("10.0.1.1", lambda: 8) == 8
        for check in checks:
            check.cancel()
        await asyncio.wait(checks)
        assert limiter.n_checks == {}

    asyncio.run(flood())


def test_only_wrong_codes_from_a_slowed_address_are_delayed() -> None:
    async def times() -> list[float]:
        limiter, took = RateLimiter(1), []
        for found in (None, 7, None):
            begin = time.monotonic()
            await limiter.check("10.0.0.1", lambda found=found: found)  # type: ignore[misc]
            took.append(time.monotonic() - begin)
        return took

    assert [took >= 1 for took in asyncio.run(times())] == [False, False, True]


def test_old_addresses_are_forgotten() -> None:
    clock = [0.0]
    limiter = RateLimiter(2, 600, 0, lambda: clock[0])
    for number in range(MAX_NETWORKS):
        limiter._record(f"name {number}", None)
    clock[0] = 601
    asyncio.run(limiter.check("one more", lambda: None))
    assert list(limiter.failures) == ["one more"]


def test_an_ipv6_client_is_its_network() -> None:
    for address in ("192.0.2.7", "::ffff:192.0.2.7"):
        assert _network_of(address) == "192.0.2.7"
    for address in ("2001:db8::1", "2001:db8:0:0:ffff::2"):
        assert _network_of(address) == "2001:db8::/64"
    assert (_network_of("2001:db8:0:1::2"), _network_of("::1")) == ("2001:db8:0:1::/64", "::/64")
    assert (_network_of("testclient"), _network_of("")) == ("testclient", "")

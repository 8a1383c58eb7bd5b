"""`fresh study serve` as a process: its words, a kill in the middle, two servers, a crowd."""

import re
import signal
import sqlite3
import stat
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest
from sqlalchemy import select, update
from starlette.testclient import TestClient

from fresh.cli.main import main
from fresh.study.annotators import add_annotators, is_admin
from fresh.study.overview import read_answers
from fresh.study.schema import AssignmentRow
from fresh.study.store import create_study, open_study
from fresh.study.web.app import create_app
from fresh.web.server import bind
from studies import plan, two_ways
from visitors import Person, crowd, server_of


def made(place: str, n_people: int, **settings: int) -> list[str]:
    """Make a study, and codes for it."""
    with closing(create_study(place, plan(two_ways(), **{"n": 60, "sample": 50, "practice": 1, **settings}))) as store:
        return add_annotators(store, n_people)


def test_the_command_says_where_it_is_and_its_secret_once(tmp_path: Path) -> None:
    place = str(tmp_path / "s")
    made(place, 1)
    with server_of(place) as (address, server, told):
        found = re.fullmatch(
            rf"Admin page: {re.escape(address)}/admin\. Its secret, shown this once: (\w{{4}}-\w{{4}}-\w{{4}})", told
        )
        assert found is not None
        with closing(open_study(place)) as store:
            assert is_admin(store, found[1])
        assert httpx.get(f"{address}/health").json() == {"status": "ok", "database": "ready"}
        server.send_signal(signal.SIGINT)
        assert server.wait(20) == 130
    with server_of(place) as (address, _, told):
        before = "Its secret was shown, or written to a file, before; a new one: --new-admin-secret."
        assert told == f"Admin page: {address}/admin. {before}"
    with server_of(place, "--new-admin-secret") as (_, _, told), closing(open_study(place)) as store:
        assert is_admin(store, told.split()[-1])
        assert not is_admin(store, found[1])


@pytest.mark.parametrize("page", ["/", "/admin"])
def test_a_flood_of_wrong_codes_does_not_lock_out_another_slowed_address(tmp_path: Path, page: str) -> None:
    place = str(tmp_path / "s")
    [code] = made(place, 1)
    sign_in, ended, seen = f"{page.rstrip('/')}/sign-in", threading.Event(), set()
    with server_of(place, "--trusted-proxy", "127.0.0.1") as (address, _, told), ExitStack() as clients:
        code, welcome = (code, "I agree") if page == "/" else (told.split()[-1], "How the study stands")

        def person_from(whence: str) -> Person:
            headers = {"X-Forwarded-For": whence}
            client = httpx.Client(base_url=address, headers=headers, follow_redirects=True, timeout=60)
            return Person(clients.enter_context(client)).get(page)

        def flood() -> None:
            person = person_from("192.0.2.1")
            form = person.field("form")
            while not ended.is_set():
                seen.add(person.post(sign_in, form=form, code="1-aaaa-bbbb-cccc").status)
                ended.wait(0.05)

        def slow_down(whence: str) -> Person:
            person = person_from(whence)
            assert {person.post(sign_in, code="1-aaaa-bbbb-cccc").status for _ in range(20)} == {403}
            return person

        slow_down("192.0.2.1")
        people = [slow_down(f"192.0.2.{number}") for number in (2, 3)]
        threads = [threading.Thread(target=flood) for _ in range(8)]
        for thread in threads:
            thread.start()
        try:
            until = time.monotonic() + 30
            while 429 not in seen and time.monotonic() < until:
                time.sleep(0.01)
            pages = [person.post(sign_in, code=code) for person in people]
        finally:
            ended.set()
            for thread in threads:
                thread.join()
    assert seen == {403, 429}
    assert [(person.status, welcome in person.page) for person in pages] == [(200, True)] * 2


@pytest.mark.parametrize("options", [(), ("--trusted-proxy", "10.0.0.0/8", "--trusted-proxy", "127.0.0.1")])
def test_only_a_proxy_that_was_named_is_believed(tmp_path: Path, options: tuple[str, ...]) -> None:
    place = str(tmp_path / "s")
    made(place, 1)
    with server_of(place, *options) as (address, _, _):
        cookie = httpx.get(address, headers={"X-Forwarded-Proto": "https"}).headers["set-cookie"]
    assert ("secure" in cookie.lower()) == bool(options)


def test_the_secret_can_be_kept_in_a_file(tmp_path: Path) -> None:
    place, file = str(tmp_path / "s"), tmp_path / "secret.txt"
    made(place, 1)
    with server_of(place, "--admin-secret-file", str(file)) as (address, _, told):
        assert told == f"Admin page: {address}/admin. Its secret was written to {file}."
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with closing(open_study(place)) as store:
        assert is_admin(store, file.read_text(encoding="utf-8"))
        file.write_text("a secret of my own\n", encoding="utf-8")
        with server_of(place, "--admin-secret-file", str(file)) as (address, _, told):
            assert told == f"Admin page: {address}/admin. Its secret is in {file}."
        assert is_admin(store, "a secret of my own")


def test_what_cannot_be_served_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(tmp_path / "s")
    made(place, 1)

    def complaint(*given: str) -> str:
        assert main(["study", "serve", *given]) == 1
        return capsys.readouterr().err

    nowhere = tmp_path / "nowhere"
    assert complaint(str(nowhere), "--port", "0") == (
        f"fresh study: There is no study in {nowhere}. Make one with: fresh study new STUDY.toml --out {nowhere}\n"
    )
    said = "--session-hours must be at least 0.01, got 0.0."
    assert complaint(place, "--port", "0", "--session-hours", "0") == f"fresh study: {said}\n"
    for wrong, why in (
        ("*", "'*' does not appear to be an IPv4 or IPv6 network"),
        ("10.0.0.1/8", "10.0.0.1/8 has host"),
    ):
        told = complaint(place, "--port", "0", "--trusted-proxy", wrong)
        said = "--trusted-proxy takes an IP address or a network, such as 127.0.0.1 or 10.0.0.0/24: "
        assert told.startswith(f"fresh study: {said}{why}")
    (tmp_path / "short").write_text("short", encoding="utf-8")
    said = "The secret of the admin page must have at least 12 letters, got 5. Choose a longer one."
    assert complaint(place, "--port", "0", "--admin-secret-file", str(tmp_path / "short")) == f"fresh study: {said}\n"
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        said = f"Port {port} of 127.0.0.1 is in use. Choose another with --port, or let one be found with --port 0."
        assert complaint(place, "--port", str(port)) == f"fresh study: {said}\n"


def test_acknowledged_answers_survive_a_kill_and_sessions_too(database: str) -> None:
    codes = made(database, 6, per_item=3)
    told: set[tuple[int, str]] = set()
    people: dict[int, Person] = {}
    lock, enough = threading.Lock(), threading.Event()

    def work(address: str, code: str) -> None:
        who = int(code.partition("-")[0])
        person = people[who] = Person(httpx.Client(base_url=address, timeout=30))
        try:
            person.get().post("/sign-in", code=code)
            person.get().post("/consent")
            while person.get("/item").text:
                text = person.text
                person.post(
                    "/answer", ticket=person.field("ticket"), label="pos", confidence=1, readability=1, milliseconds=5
                )
                assert person.status == 303
                with lock:
                    told.add((who, text))
                    if len(told) > 60:
                        enough.set()
        except httpx.TransportError:
            return  # the server was killed

    with server_of(database) as (address, server, _):
        threads = [threading.Thread(target=work, args=(address, code)) for code in codes]
        for thread in threads:
            thread.start()
        assert enough.wait(60)
        server.send_signal(signal.SIGKILL)
        for thread in threads:
            thread.join()
    with closing(open_study(database)) as store:
        saved = [(one["annotator"], one["item"]) for one in read_answers(store)]
    assert len(saved) == len(set(saved))
    assert len(told) <= len(saved) <= len(told) + len(codes)  # one each may have been saved and not yet told
    with server_of(database) as (address, _, _):
        for who, person in people.items():
            person.client.base_url = address
            assert person.get("/item").status == 200  # still signed in
            assert (who, person.text) not in told
            person.client.close()
    if "://" not in database:
        with closing(sqlite3.connect(Path(database) / "study.db")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_what_lies_too_long_is_given_back_while_a_server_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fresh.study.web.app.EVERY", 0.02)
    [code] = made(str(tmp_path / "s"), 1, practice=0)
    store = open_study(tmp_path / "s")
    with TestClient(create_app(store), base_url="http://127.0.0.1") as client:
        person = Person(client).enter(code).get("/item")
        first = person.text
        with store.write_session() as session:
            session.execute(update(AssignmentRow).values(at=0))
        for _ in range(500):
            time.sleep(0.01)
            with store.read_session() as session:
                states = session.scalars(select(AssignmentRow.state)).all()
            if states == ["released"]:
                break
        assert states == ["released"]
        assert person.get("/item").text == first  # nobody else was given it


def test_two_servers_and_a_crowd_lose_and_double_nothing(database: str) -> None:
    codes = made(database, 12, per_item=2, sample=15)
    with server_of(database) as (one, _, _), server_of(database) as (other, _, _):
        found = crowd(database, [one, other], codes, seconds=60)
    assert found.errors == ()
    assert (found.lost, found.doubled, found.beyond) == (0, 0, 0)
    assert found.n_counted == 15 * 2 * 2

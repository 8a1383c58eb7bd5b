"""`fresh study serve` as a process: what it prints, a kill in the middle, two servers, many people."""

import re
import signal
import sqlite3
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import httpx
import numpy as np
import pytest

from fresh.cli.main import main
from fresh.study.annotators import add_annotators, is_admin
from fresh.study.overview import read_answers
from fresh.study.store import create_study, open_study
from fresh.web.server import bind
from studies import plan, two_ways
from visitors import Person, crowd, server_of


def made(place: str, n_people: int, **settings: int) -> list[str]:
    """Make a study, and codes for it."""
    with closing(create_study(place, plan(two_ways(), **{"n": 60, "sample": 50, "practice": 1, **settings}))) as store:
        return add_annotators(store, n_people)


def test_the_command_prints_its_url_and_once_the_secret(tmp_path: Path) -> None:
    place = str(tmp_path / "s")
    made(place, 1)
    with server_of(place) as (address, server, line):
        found = re.search(rf"^Admin page: {re.escape(address)}/admin\..*(\w{{4}}-\w{{4}}-\w{{4}})$", line)
        assert found is not None
        with closing(open_study(place)) as store:
            assert is_admin(store, found[1])
        assert httpx.get(f"{address}/health").json() == {"status": "ok", "database": "ready"}
        server.send_signal(signal.SIGINT)
        assert server.wait(20) == 130
    with server_of(place) as (address, _, line):
        assert re.search(rf"^Admin page: {address}/admin\..*--new-admin-secret", line)
    with server_of(place, "--new-admin-secret") as (_, _, line), closing(open_study(place)) as store:
        assert is_admin(store, line.split()[-1])
        assert not is_admin(store, found[1])


def test_the_secret_can_be_stored_in_a_file(tmp_path: Path) -> None:
    place, file = str(tmp_path / "s"), tmp_path / "secret.txt"
    made(place, 1)
    with server_of(place, "--admin-secret-file", str(file)) as (address, _, line):
        assert re.search(rf"^Admin page: {address}/admin\..*written to {file}", line)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with closing(open_study(place)) as store:
        assert is_admin(store, file.read_text(encoding="utf-8"))
        file.write_text("a secret of my own\n", encoding="utf-8")
        with server_of(place, "--admin-secret-file", str(file)) as (address, _, line):
            assert re.search(rf"^Admin page: {address}/admin\..* in {file}", line)
        assert is_admin(store, "a secret of my own")


@pytest.mark.parametrize("page", ["/", "/admin"])
def test_wrong_codes_from_one_address_do_not_block_another(tmp_path: Path, page: str) -> None:
    place = str(tmp_path / "s")
    [code] = made(place, 1)
    sign_in, ended, seen = f"{page.rstrip('/')}/sign-in", threading.Event(), set()
    with server_of(place, "--trusted-proxy", "127.0.0.1") as (address, _, line), ExitStack() as clients:
        code, welcome = (code, "I agree") if page == "/" else (line.split()[-1], "<h1>Progress</h1>")

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
        person = slow_down("192.0.2.2")
        threads = [threading.Thread(target=flood) for _ in range(8)]
        for thread in threads:
            thread.start()
        try:
            until = time.monotonic() + 30
            while 429 not in seen and time.monotonic() < until:
                time.sleep(0.01)
            person.post(sign_in, code=code)
        finally:
            ended.set()
            for thread in threads:
                thread.join()
    assert seen == {403, 429}
    assert (person.status, welcome in person.page) == (200, True)


@pytest.mark.parametrize("options", [(), ("--trusted-proxy", "10.0.0.0/8", "--trusted-proxy", "127.0.0.1")])
def test_only_a_named_proxy_is_trusted(tmp_path: Path, options: tuple[str, ...]) -> None:
    place = str(tmp_path / "s")
    made(place, 1)
    with server_of(place, *options) as (address, _, _):
        cookie = httpx.get(address, headers={"X-Forwarded-Proto": "https"}).headers["set-cookie"]
    assert ("secure" in cookie.lower()) == bool(options)


def test_startup_errors_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(tmp_path / "s")
    made(place, 1)

    def complaint(*given: str) -> str:
        assert main(["study", "serve", *given, "--port", "0"]) == 1
        return capsys.readouterr().err

    assert re.search(r"no study in .*nowhere", complaint(str(tmp_path / "nowhere")))
    assert "--session-hours must be at least 0.01, got 0.0." in complaint(place, "--session-hours", "0")
    for wrong, why in (("*", "'*' does not appear to be"), ("10.0.0.1/8", "10.0.0.1/8 has host")):
        assert re.search(rf"--trusted-proxy.*{re.escape(why)}", complaint(place, "--trusted-proxy", wrong))
    (tmp_path / "short").write_text("short", encoding="utf-8")
    assert re.search("at least 12 characters.*got 5", complaint(place, "--admin-secret-file", str(tmp_path / "short")))
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert main(["study", "serve", place, "--port", str(port)]) == 1
        assert re.search(rf"Port {port} .*in use", capsys.readouterr().err)


@pytest.mark.parametrize("n_kills", [1, pytest.param(11, marks=pytest.mark.slow)])
def test_acknowledged_answers_and_sessions_survive_kills(database: str, n_kills: int) -> None:
    codes, generator = made(database, 4, per_item=3), np.random.default_rng(0)
    people = [Person(httpx.Client(timeout=30, follow_redirects=True)) for _ in codes]
    told: set[tuple[int, str]] = set()

    def work(who: int) -> None:
        person = people[who - 1]
        with suppress(httpx.TransportError):  # the server was killed
            while text := person.get("/item").text:
                assert person.give().status == 200
                told.add((who, text))

    for n_before in range(n_kills + 1):
        with server_of(database) as (address, server, _), ThreadPoolExecutor(len(codes)) as pool:
            for who, person in enumerate(people, 1):
                person.client.base_url = address
                if n_before == 0:
                    person.enter(codes[who - 1])
                assert person.get("/item").status == 200  # still signed in
                assert (who, person.text) not in told
            if n_before == n_kills:
                break
            ends, n_enough = pool.map(work, range(1, 5)), len(told) + generator.integers(1, 15)
            while len(told) < n_enough:
                time.sleep(0.001)
            time.sleep(generator.uniform(0, 0.05))
            server.send_signal(signal.SIGKILL)
            list(ends)
        with closing(open_study(database)) as store:
            saved = [(one["annotator"], one["item"]) for one in read_answers(store)]
        assert len(saved) == len(set(saved))
        most = len(told) + len(codes) * (n_before + 1)  # one each may have been saved and not yet told
        assert 0 < len(told) <= len(saved) <= most
    for person in people:
        person.client.close()
    if "://" not in database:
        with closing(sqlite3.connect(Path(database) / "study.db")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize(("n_people", "n_documents"), [(4, 4), pytest.param(12, 15, marks=pytest.mark.slow)])
def test_two_servers_under_load_lose_and_duplicate_nothing(database: str, n_people: int, n_documents: int) -> None:
    codes = made(database, n_people, per_item=2, sample=n_documents)
    with server_of(database) as (one, _, _), server_of(database) as (other, _, _):
        found = crowd(database, [one, other], codes, seconds=60)
    assert (found.n_counted, found.n_faults) == (n_documents * 2 * 2, 0), found

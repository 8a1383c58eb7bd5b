"""The app as a whole: cookies, health, a database that is down."""

import re
import resource
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from fastapi import FastAPI
from sqlalchemy import event, select, update
from sqlalchemy.exc import IntegrityError, InternalError, OperationalError
from starlette.testclient import TestClient

from fresh.study.annotators import add_annotators
from fresh.study.overview import read_answers
from fresh.study.schema import AssignmentRow, StudyRow
from fresh.study.store import Store, create_study, open_study
from fresh.study.web.app import StudyServeConfig, create_app
from studies import MakeStore, plan, two_ways
from visitors import ANSWER, BROWSER, Person, finish_practice, server_of, visitor

READY = {"status": "ok", "database": "ready"}
BROKEN = (503, {"status": "broken", "database": "cannot be written to"})


def health(client: TestClient) -> tuple[int, Any]:
    answer = client.get("/health")
    return answer.status_code, answer.json()


def failing(error: type[Exception]) -> Callable[..., None]:
    def fail(*_given: Any) -> None:
        raise error("", {}, Exception("a secret"))

    return fail


def test_cookies_are_http_only_and_same_site(store: Store) -> None:
    [code] = add_annotators(store, 1)
    for config, base_url, secure in (
        (StudyServeConfig(), "http://127.0.0.1", False),
        (StudyServeConfig(), "https://127.0.0.1", True),
        (StudyServeConfig(https=True), "http://127.0.0.1", True),
    ):
        person = visitor(create_app(store, config), base_url).get()
        cookies = person.answer.headers.get_list("set-cookie")
        if not config.https:
            fields = {"form": person.field("form"), "code": code}
            sent = person.client.post("/sign-in", data=fields, follow_redirects=False)
            cookies += sent.headers.get_list("set-cookie")
            assert len(cookies) == 3
        for cookie in cookies:
            assert re.match(r"study_[0-9a-f]{8}_(visitor|annotator)=", cookie)
            assert "; HttpOnly" in cookie
            assert "; SameSite=strict" in cookie
            assert "; Path=/" in cookie
            assert ("; Secure" in cookie) == secure or "Max-Age=0" in cookie


def test_unknown_host_names_are_refused(app: FastAPI) -> None:
    person = visitor(app)
    person.answer = person.client.get("/", headers={**BROWSER, "Host": "evil.example"})
    assert (person.status, "evil.example" in person.alerts[0]) == (421, True)


def test_a_running_server_releases_expired_items(
    make_store: MakeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fresh.study.web.app.RELEASE_SECONDS", 0.02)
    [code] = add_annotators(make_store(sample=4, practice=0, checks=0), 1)
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


def test_health_and_metrics(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    with TestClient(app, base_url="http://127.0.0.1") as client:
        assert health(client) == (200, READY)
        assert 'route="/health"' in client.get("/metrics").text
        monkeypatch.setattr(Store, "write_session", failing(OperationalError))
        assert health(client) == BROKEN


def test_concurrent_health_checks_leave_nothing_behind(stored: Store) -> None:
    with TestClient(create_app(stored), base_url="http://127.0.0.1") as client, ThreadPoolExecutor(8) as pool:
        assert {one.status_code for one in pool.map(lambda _: client.get("/health"), range(32))} == {200}
        with stored.read_session() as session:
            assert session.scalars(select(StudyRow.id)).all() == [1]


def test_an_answer_that_cannot_be_saved_is_reported(
    person: Person, app: FastAPI, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(connection: Any, *_given: Any) -> None:
        connection.execute("PRAGMA query_only = ON")

    store.engine.dispose()
    event.listen(store.engine, "connect", refuse)
    assert person.send().status == 503
    assert person.alerts[0].startswith("Your answer was not saved: the database of the study cannot be written to")
    assert "<h1>Something went wrong</h1>" in person.page
    assert "Back to the study" in person.page
    assert person.answer.headers["retry-after"] == "60"
    assert "attempt to write a readonly database" in caplog.text
    assert [one["kind"] for one in read_answers(store)] == ["practice"]
    with TestClient(app, base_url="http://127.0.0.1") as client:
        assert health(client) == BROKEN


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (OperationalError, 503, "The database of the study cannot be used right now."),
        (InternalError, 500, "Internal server error"),
        (IntegrityError, 500, "Internal server error"),
    ],
)
def test_database_errors_are_shown_without_details(
    person: Person, monkeypatch: pytest.MonkeyPatch, error: type[Exception], status: int, told: str
) -> None:
    monkeypatch.setattr(Store, "read_session", failing(error))
    assert person.get("/item").status == status
    assert person.alerts[0].startswith(told)
    assert "a secret" not in person.page
    assert (">Try again</a>" in person.page, "retry-after" in person.answer.headers) == (status == 503,) * 2


def test_health_fails_while_the_database_cannot_grow(tmp_path: Path) -> None:
    place = tmp_path / "s"
    with closing(create_study(place, plan(two_ways(), sample=6, practice=1, checks=1, per_item=2))) as store:
        [code] = add_annotators(store, 1)
    with server_of(str(place)) as (address, server, _), httpx.Client(base_url=address, follow_redirects=True) as client:
        person = finish_practice(Person(client).enter(code))
        answer = {"ticket": person.field("ticket"), **ANSWER}
        assert client.get("/health").status_code == 200
        size = (place / "study.db-wal").stat().st_size
        for room in range(0, 16384, 4096):  # as long as an answer finds no room, and a little longer
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size + room, resource.RLIM_INFINITY))
            assert client.get("/health").status_code == 503
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        assert person.post("/answer", **answer).status == 503
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert client.get("/health").json() == READY
        assert person.get("/item").post("/answer", **answer).status == 200


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_health_fails_while_postgresql_is_read_only(stored: Store, postgres: str) -> None:
    with psycopg.connect(postgres, autocommit=True) as server:
        name = str(stored.engine.url.database)

        def change(setting: str) -> None:
            server.execute(f'ALTER DATABASE "{name}" {setting}')
            server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])

        client = TestClient(create_app(stored), base_url="http://127.0.0.1", raise_server_exceptions=False)
        person = finish_practice(Person(client).enter(add_annotators(stored, 1)[0]))
        answer = {"ticket": person.field("ticket"), **ANSWER}
        assert health(client) == (200, READY)
        change("SET default_transaction_read_only = on")
        assert health(client) == BROKEN
        assert person.post("/answer", **answer).status == 503
        change("SET default_transaction_read_only = off")
        assert person.get("/item").post("/answer", **answer).status == 200
        change("WITH ALLOW_CONNECTIONS false")
        assert health(client) == BROKEN

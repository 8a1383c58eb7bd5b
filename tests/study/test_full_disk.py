"""A study on a disk without room: nothing is said to be saved that is not, and nothing half-made stays."""

import errno
import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy import event, select
from sqlalchemy.exc import InternalError, OperationalError
from starlette.testclient import TestClient

import fresh.study.store
from fresh._io import write_text
from fresh.cli.main import main
from fresh.study.annotators import add_annotators
from fresh.study.overview import read_answers
from fresh.study.schema import StudyRow
from fresh.study.store import Store, _prepare, create_study
from fresh.study.web.app import create_app
from studies import plan, two_ways
from visitors import Person, server_of, strip_practice, visitor

NO_ROOM = "PRAGMA max_page_count = 1"
"""Lets SQLite say that the disk is full as soon as it wants one page more."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = create_study(tmp_path / "s", plan(two_ways(), sample=6, practice=1, checks=1, per_item=2))
    yield made
    made.close()


def close_for_writing(store: Store) -> None:
    """Have the database refuse all that is written from now on, as a full disk does."""

    def refuse(connection: Any, *_given: Any) -> None:
        connection.execute("PRAGMA query_only = ON")

    store.engine.dispose()
    event.listen(store.engine, "connect", refuse)


def test_an_answer_that_is_not_saved_is_told_so(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    app = create_app(store)
    person = strip_practice(visitor(app).enter(add_annotators(store, 1)[0]))
    close_for_writing(store)
    answer = {"ticket": person.field("ticket"), "label": "pos", "confidence": 1, "readability": 1}
    person.post("/answer", **answer)
    assert person.status == 503
    assert person.told == [
        "What you sent was not saved: the database of the study cannot be written to at the moment. Go back to the "
        "page before and send it again; if that does not help, tell whoever runs the study."
    ]
    assert "<h1>Something went wrong</h1>" in person.page
    assert "Back to the study" in person.page
    assert person.answer.headers["retry-after"] == "60"
    assert "attempt to write a readonly database" in caplog.text
    assert [one["kind"] for one in read_answers(store)] == ["practice"]


def test_a_database_that_is_away_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    person = strip_practice(visitor(create_app(store)).enter(add_annotators(store, 1)[0]))

    def away(*_given: Any) -> None:
        raise OperationalError("", {}, Exception("a secret"))

    monkeypatch.setattr(Store, "read_session", away)
    assert person.get("/item").told == [
        "The database of the study cannot be used at the moment. Try again; if that does not help, tell whoever runs "
        "the study."
    ]
    assert person.status == 503
    assert "a secret" not in person.page
    assert ">Try again</a>" in person.page


def test_another_internal_error_of_a_database_is_an_unexpected_error(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = strip_practice(visitor(create_app(store)).enter(add_annotators(store, 1)[0]))

    def broken(*_given: Any) -> None:
        raise InternalError("", {}, Exception("a secret"))

    monkeypatch.setattr(Store, "read_session", broken)
    assert person.get("/item").status == 500
    assert person.told == ["Something went wrong that should not have. What it was stands in the log of the server."]
    assert "retry-after" not in person.answer.headers
    assert "a secret" not in person.page


def test_a_study_that_takes_no_answers_is_not_ready(store: Store) -> None:
    with TestClient(create_app(store), base_url="http://127.0.0.1") as client:
        assert client.get("/health").json() == {"status": "ok", "database": "ready"}
        close_for_writing(store)
        answer = client.get("/health")
    assert (answer.status_code, answer.json()) == (503, {"status": "broken", "database": "cannot be written to"})


def test_health_fails_while_the_files_of_a_study_cannot_grow(tmp_path: Path) -> None:
    place = tmp_path / "s"
    with closing(create_study(place, plan(two_ways(), sample=6, practice=1, checks=1, per_item=2))) as store:
        [code] = add_annotators(store, 1)
    with server_of(str(place)) as (address, server, _), httpx.Client(base_url=address, follow_redirects=True) as client:
        person = strip_practice(Person(client).enter(code))
        answer = {"ticket": person.field("ticket"), "label": "pos", "confidence": 1, "readability": 1}
        assert client.get("/health").status_code == 200
        size = (place / "study.db-wal").stat().st_size
        for room in range(0, 16384, 4096):  # as long as an answer finds no room, and a little longer
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size + room, resource.RLIM_INFINITY))
            health = client.get("/health")
            assert (health.status_code, health.json()["status"]) == (503, "broken")
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        assert person.post("/answer", **answer).status == 503
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert client.get("/health").json() == {"status": "ok", "database": "ready"}
        assert person.get("/item").post("/answer", **answer).status == 200


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
@pytest.mark.parametrize("ailment", ["SET default_transaction_read_only = on", "WITH ALLOW_CONNECTIONS false"])
def test_health_fails_while_postgresql_takes_nothing(database: str, postgres: str, ailment: str) -> None:
    with (
        closing(create_study(database, plan(two_ways()))) as store,
        TestClient(create_app(store), base_url="http://127.0.0.1") as client,
        psycopg.connect(postgres, autocommit=True) as server,
    ):
        assert client.get("/health").json() == {"status": "ok", "database": "ready"}
        name = str(store.engine.url.database)
        server.execute(f'ALTER DATABASE "{name}" {ailment}')
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        answer = client.get("/health")
        assert (answer.status_code, answer.json()) == (503, {"status": "broken", "database": "cannot be written to"})


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_an_answer_that_a_read_only_postgresql_does_not_take_can_be_given_later(database: str, postgres: str) -> None:
    settings = plan(two_ways(), sample=6, practice=1, checks=1, per_item=2)
    with (
        closing(create_study(database, settings)) as store,
        psycopg.connect(postgres, autocommit=True) as server,
    ):
        person = strip_practice(visitor(create_app(store)).enter(add_annotators(store, 1)[0]))
        answer = {"ticket": person.field("ticket"), "label": "pos", "confidence": 1, "readability": 1}
        name = str(store.engine.url.database)
        for switch, status in (("on", 503), ("off", 200)):
            server.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = {switch}')
            server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
            assert person.post("/answer", **answer).status == status


def test_health_leaves_nothing_behind_and_may_be_asked_by_many_at_once(database: str) -> None:
    with (
        closing(create_study(database, plan(two_ways()))) as store,
        TestClient(create_app(store), base_url="http://127.0.0.1") as client,
        ThreadPoolExecutor(8) as pool,
    ):
        assert {one.status_code for one in pool.map(lambda _: client.get("/health"), range(32))} == {200}
        with store.read_session() as session:
            assert session.scalars(select(StudyRow.id)).all() == [1]


def test_a_study_that_finds_no_room_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("films.csv").write_text("text,label\na good film,pos\na bad film,neg\n", encoding="utf-8")
    settings = "corpus = 'films.csv'\nsample = 1\npractice = 0\n[conditions.all]\nkind = 'full_text'\n"
    Path("s.toml").write_text(settings, encoding="utf-8")

    def full(connection: Any, record: Any) -> None:
        _prepare(connection, record)
        connection.execute(NO_ROOM)

    with monkeypatch.context() as patched:
        patched.setattr(fresh.study.store, "_prepare", full)
        assert main(["study", "new", "s.toml", "--out", "x"]) == 1
        assert capsys.readouterr().err == (
            "fresh study: The database sqlite:///x/study.db cannot be used: database or disk is full.\n"
        )
    assert not Path("x").exists()
    assert main(["study", "new", "s.toml", "--out", "x"]) == 0
    capsys.readouterr()
    monkeypatch.setattr(fresh.study.store, "_prepare", full)
    assert main(["study", "codes", "x", "500"]) == 1
    assert capsys.readouterr().err == (
        "fresh study: The database of the study cannot be used: database or disk is full.\n"
    )


def test_a_file_that_finds_no_room_is_named(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_given: Any, **_more: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "write_text", full)
    assert main(["study", "export", "s", "--as", "csv", "--output", "answers.csv"]) == 1
    assert capsys.readouterr().err == (
        "fresh study: answers.csv cannot be read or written (No space left on device). Make room there, or choose "
        "another place.\n"
    )
    with pytest.raises(OSError, match=r"No space left on device: 'notes\.txt'$"):
        write_text(Path("notes.txt"), "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s"]

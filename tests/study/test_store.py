"""Databases of studies: made, opened, migrated, shared by servers, out of room."""

import shutil
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from sqlalchemy import select, text

import fresh.study.store
from elsewhere import outcome
from fresh.cli.main import main
from fresh.errors import StudyError
from fresh.study.annotators import is_admin, sign_in
from fresh.study.importing import import_study
from fresh.study.overview import get_overview, read_answers, read_responses
from fresh.study.schema import AnnotatorRow, Base
from fresh.study.store import Store, _prepare, create_study, open_study
from studies import MakeStore, plan, two_ways, work
from visitors import rush

EARLIER = Path(__file__).parents[1] / "data_files" / "study"
"""A study of the version of November 2026: four documents, two conditions, three codes and somebody from outside."""


def test_a_study_reopens_unchanged(stored: Store, database: str) -> None:
    with closing(open_study(database)) as again:
        assert (again.about, again.design) == (stored.about, stored.design)
        assert (list(again.labels.items()), again.conditions) == ([("pos", "Good"), ("neg", "Bad")], ("human", "full"))
    with pytest.raises(StudyError, match=r"already a study.*another place"):
        create_study(database, plan(two_ways()))
    with stored.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


def undo_migrations(op: Operations) -> None:
    """Turn new tables into those of the first version."""
    op.drop_index("items_by_kind", "items")
    op.drop_index("items_by_plan", "items")
    for table, columns in (
        ("annotators", ("outside", "sign_outs")),
        ("study", ("key", "admin_salt", "admin_code", "admin_sign_outs")),
    ):
        with op.batch_alter_table(table) as batch:
            for column in columns:
                batch.drop_column(column)
    op.execute("UPDATE alembic_version SET version_num = 'a1'")


def test_an_older_study_is_migrated_and_a_newer_one_refused(database: str) -> None:
    store = create_study(database, plan(two_ways()))
    with store.engine.connect().execution_options(writes=True) as connection:
        undo_migrations(Operations(MigrationContext.configure(connection)))
        connection.execute(text("INSERT INTO annotators (salt, code, state) VALUES ('00', '11', 'active')"))
        connection.commit()
    with closing(open_study(database)) as again, again.read_session() as session:
        [row] = session.scalars(select(AnnotatorRow))
        assert (row.code, row.outside, row.sign_outs) == ("11", None, 0)
        assert compare_metadata(MigrationContext.configure(session.connection()), Base.metadata) == []
    with store.engine.connect().execution_options(writes=True) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'z9'"))
        connection.commit()
    with pytest.raises(StudyError, match=r"newer version of fresh.*z9"):
        open_study(database)
    store.close()


def test_a_study_of_the_previous_version_opens_and_continues(tmp_path: Path) -> None:
    """With its codes, its secret, its answers, its open item, and files that it exported."""
    (tmp_path / "s").mkdir()
    shutil.copy(EARLIER / "study.db", tmp_path / "s")
    codes = [line.partition(",")[2] for line in (EARLIER / "codes.csv").read_text(encoding="utf-8").splitlines()[1:]]
    with closing(open_study(tmp_path / "s")) as store:
        assert is_admin(store, "correct horse battery")
        people = [sign_in(store, code) for code in codes]
        assert [person and bool(person.consented) for person in people] == [True, True, False]
        found = [(one.outside, one.status, one.n_answered) for one in get_overview(store).annotators]
        assert found == [(None, "finished", 4), (None, "active", 2), (None, "not started", 0), ("W3", "left", 1)]
        assert len(read_responses(store)) == 7
        assert outcome(import_study(store, "csv", EARLIER / "answers.csv")) == (0, len(read_answers(store)), [])
        tasks = (EARLIER / "tasks.json").read_text(encoding="utf-8")
        (tmp_path / "tasks.json").write_text(tasks.replace('"data"', '"annotations": [], "data"'), encoding="utf-8")
        assert outcome(import_study(store, "label_studio", tmp_path / "tasks.json")) == (0, 0, [])
        assert work(store, 2) == 2
        assert [one.status for one in get_overview(store).annotators][:2] == ["finished", "finished"]


@pytest.mark.parametrize(
    ("place", "match"),
    [
        ("nowhere", r"no study in .*nowhere.*fresh study new"),
        ("", r"no study in the database.*fresh study new"),
        ("mysql://root@localhost/x", r"mysql.*not supported.*sqlite or postgresql"),
        ("postgresql://me:secret@127.0.0.1:1/x", r"postgresql\+psycopg://me:\*\*\*@127\.0\.0\.1:1/x cannot be used"),
    ],
)
def test_places_without_a_study_are_refused(tmp_path: Path, place: str, match: str) -> None:
    (tmp_path / "study.db").touch()
    with pytest.raises(StudyError, match=match):
        open_study(place if "://" in place else tmp_path / place)


def test_sqlite_files_are_durable_and_private(tmp_path: Path) -> None:
    with closing(create_study(tmp_path, plan(two_ways()))) as store:
        with store.engine.connect() as connection:
            assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
            assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
        assert set(modes.values()) == {0o600}
        assert "study.db" in modes
    assert sqlite3.connect(tmp_path / "study.db").execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize("name", ["a b", "what?mode=ro", "50%20", "#1", "ü"])
def test_folder_names_with_special_characters_work(make_store: MakeStore, tmp_path: Path, name: str) -> None:
    make_store(name)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    with closing(open_study(tmp_path / name)) as store:
        assert store.conditions == ("human", "full")


def test_a_busy_server_does_not_starve_another(make_store: MakeStore, tmp_path: Path) -> None:
    """SQLite's own way to wait let the other starve, for longer than it is willing to wait: "database is locked"."""
    busy, ended = make_store(), threading.Event()

    def write() -> None:
        """Write without a pause, each time as long as on a slow disk."""
        while not ended.is_set():
            with busy.write_session() as session:
                session.execute(text("SELECT 1"))
                time.sleep(0.05)

    def wait(store: Store) -> float:
        time.sleep(0.06)
        start = time.monotonic()
        with store.write_session() as session:
            session.execute(text("UPDATE study SET paused = NOT paused"))
        return time.monotonic() - start

    with closing(open_study(tmp_path / "s")) as other:
        threads = [threading.Thread(target=write) for _ in range(3)]
        for thread in threads:
            thread.start()
        waits = [wait(other) for _ in range(4)]
        ended.set()
        for thread in threads:
            thread.join()
    assert sum(waits) < 12, "Far from a minute for each, after which it would give up."


def test_a_read_only_database_is_reported(
    make_store: MakeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_store()

    def only_read(connection: Any, record: Any) -> None:
        _prepare(connection, record)
        connection.execute("PRAGMA query_only = ON")  # also for whoever may do everything, as in containers

    monkeypatch.setattr(fresh.study.store, "_prepare", only_read)
    with pytest.raises(StudyError, match=r"study\.db is not writable \(attempt to write.*file and its folder"):
        open_study(tmp_path / "s")


def test_a_full_disk_leaves_no_partial_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("films.csv").write_text("text,label\na good film,pos\na bad film,neg\n", encoding="utf-8")
    settings = "corpus = 'films.csv'\nsample = 1\npractice = 0\n[conditions.all]\nkind = 'full_text'\n"
    Path("s.toml").write_text(settings, encoding="utf-8")

    def full(connection: Any, record: Any) -> None:
        _prepare(connection, record)
        connection.execute("PRAGMA max_page_count = 1")  # the disk is full as soon as one more page is needed

    with monkeypatch.context() as patched:
        patched.setattr(fresh.study.store, "_prepare", full)
        assert main(["study", "new", "s.toml", "--out", "x"]) == 1
        assert "x/study.db cannot be used: database or disk is full." in capsys.readouterr().err
    assert not Path("x").exists()
    assert main(["study", "new", "s.toml", "--out", "x"]) == 0
    capsys.readouterr()
    monkeypatch.setattr(fresh.study.store, "_prepare", full)
    assert main(["study", "codes", "x", "60"]) == 1
    assert "cannot be used: database or disk is full." in capsys.readouterr().err


@pytest.mark.parametrize(("n_documents", "n_people"), [(10, 8), pytest.param(40, 30, marks=pytest.mark.slow)])
def test_many_annotators_lose_and_duplicate_nothing(database: str, n_documents: int, n_people: int) -> None:
    made = plan(two_ways(), n=n_documents + 10, sample=n_documents, practice=1, checks=2, per_item=3)
    create_study(database, made).close()
    found = rush(database, n_people)
    assert (found.n_counted, found.n_faults) == (n_documents * 2 * 3, 0), found

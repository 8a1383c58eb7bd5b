"""A study in a database, SQLite in a folder or PostgreSQL by its URL: create it, open it, migrate it."""

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.util import CommandError
from sqlalchemy import URL, Connection, Engine, Select, create_engine, event, make_url, select, text
from sqlalchemy.exc import ArgumentError, OperationalError
from sqlalchemy.orm import Session

from fresh._optional import optional_import
from fresh.errors import StudyError
from fresh.study.assignment import Design
from fresh.study.items import Plan
from fresh.study.schema import Base, DocumentRow, ItemRow, StudyRow

FILE = "study.db"
BUSY_SECONDS = 60  # how long to wait for other writers
RETRY_SECONDS = 0.001
MIGRATION_LOCK = 7_203_717  # an arbitrary number: the PostgreSQL advisory lock of whoever migrates


class Store:
    """An open study.

    :param about: What is fixed when a study is made: title, texts, labels, conditions, settings.
    """

    def __init__(self, engine: Engine, about: Mapping[str, Any]) -> None:
        self.engine, self.about = engine, about
        # Studies of earlier versions have no `own_orders`: all their annotators share one order, which must not change.
        seed = about["seed"] if about.get("own_orders") else None
        self.design = Design(about["n_documents"], len(about["conditions"]), about["per_item"], about["most"], seed)
        # On SQLite, one thread writes at a time; others would poll.
        self.write_lock = Lock() if engine.dialect.name == "sqlite" else nullcontext()

    @property
    def labels(self) -> dict[str, str]:
        """Return all labels, and how annotators see each."""
        return dict(self.about["labels"])

    @property
    def conditions(self) -> tuple[str, ...]:
        """Return the names of the conditions."""
        return tuple(self.about["conditions"])

    def read_session(self) -> Session:
        """Open a session that reads."""
        return Session(self.engine)

    def read(self, query: Select[*tuple[Any, ...]]) -> Sequence[Any]:
        """Return all rows of a query."""
        with self.read_session() as session:
            return session.execute(query).all()

    @contextmanager
    def write_session(self) -> Iterator[Session]:
        """Open a session that commits durably when the block succeeds, and writes nothing otherwise."""
        with (
            self.write_lock,
            self.engine.connect().execution_options(writes=True) as connection,
            Session(connection) as session,
        ):
            yield session
            session.commit()
            if self.engine.dialect.name == "sqlite":
                # Another process that waits looks every millisecond; without a pause it found none for 17 seconds.
                connection.close()
                time.sleep(3 * RETRY_SECONDS)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def now_ms() -> int:
    """Return the time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@contextmanager
def _connected(place: str | Path) -> Iterator[Engine]:
    url = URL.create("sqlite", database=str(Path(place) / FILE))  # not a string: the path may contain ? or %
    try:
        if "://" in str(place):
            url = make_url(str(place).replace("postgresql://", "postgresql+psycopg://", 1))
    except ArgumentError as error:
        raise StudyError(f"{place} is not the URL of a database. Write postgresql://USER@HOST/NAME.") from error
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise StudyError(f"{url.get_backend_name()} databases are not supported. Use sqlite or postgresql.")
    if url.get_backend_name() == "postgresql":
        optional_import("psycopg", "postgres", "A study in PostgreSQL")
        # Up to 40 connections, one for each thread that answers requests; those that were cut meanwhile are replaced.
        engine = create_engine(url, pool_size=10, max_overflow=30, pool_pre_ping=True)
    else:
        engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS})
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "begin", _begin)
    try:
        yield engine
    except OperationalError as error:
        engine.dispose()
        name = repr(engine.url)  # without its password
        code = getattr(error.orig, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
        if code not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            raise StudyError(f"The database {name} cannot be used: {error.orig}.") from error
        raise StudyError(
            f"The database {name} is not writable ({error.orig}). Even commands that only show a study need to write: "
            "allow it for the file and its folder."
        ) from error
    except BaseException:
        engine.dispose()
        raise


def _prepare(connection: Any, _record: Any) -> None:
    # Readers do not wait for writers (WAL), and a commit is on the disk (FULL).
    connection.isolation_level = None  # `_begin` begins transactions, not the driver
    for line in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {line}")


def _begin(connection: Connection) -> None:
    if not connection.get_execution_options().get("writes", False):
        connection.exec_driver_sql("BEGIN")
        return
    # A writer takes the lock at once: a transaction that reads first and then writes could not be retried.
    # SQLite itself looks ten times a second whether other writers are done. A busy server pauses for less than a
    # millisecond between two answers, so a second server on the same study starved for minutes. Look more often.
    raw: Any = connection.connection.dbapi_connection
    deadline = time.monotonic() + BUSY_SECONDS
    raw.execute("PRAGMA busy_timeout=0")
    try:
        while time.monotonic() < deadline:
            try:
                raw.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    break
                time.sleep(RETRY_SECONDS)
            else:
                return
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # fails again, as the SQLAlchemy error that callers catch
    finally:
        raw.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")


def _migrate(engine: Engine) -> None:
    """Create the tables, or migrate those of an older version; refuse those of a newer one."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    with engine.connect().execution_options(writes=True) as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"))
        config.attributes["connection"] = connection
        current = MigrationContext.configure(connection).get_current_revision()
        if current is None:
            # New tables come from the schema: migrations only say how the tables of older versions change.
            Base.metadata.create_all(connection)
            command.stamp(config, "head")
        else:
            try:
                command.upgrade(config, "head")
            except CommandError as error:
                raise StudyError(
                    f"The study at {engine.url!r} was made by a newer version of fresh (its tables have "
                    f"revision {current}). Install that version to open it."
                ) from error
        connection.commit()


def open_study(place: str | Path) -> Store:
    """Open a study, and migrate it if an older version made it.

    :param place: The folder of the study, or the URL of its database.
    """
    if "://" not in str(place) and not (Path(place) / FILE).is_file():
        raise StudyError(f"There is no study in {place}. Make one with: fresh study new STUDY.toml --out {place}")
    with _connected(place) as engine:
        with engine.connect() as connection:
            revision = MigrationContext.configure(connection).get_current_revision()
        if revision is not None:
            _migrate(engine)
        with Session(engine) as session:
            row = None if revision is None else session.scalar(select(StudyRow))
            if row is None:
                raise StudyError(
                    f"There is no study in the database {engine.url!r}. Make one with: fresh study new "
                    "STUDY.toml --database URL"
                )
            return Store(engine, row.about)


def create_study(place: str | Path, plan: Plan) -> Store:
    """Write a plan into an empty database, in one transaction."""
    if "://" not in str(place):
        Path(place).mkdir(parents=True, exist_ok=True)
        (Path(place) / FILE).touch(0o600)  # the database contains the key that signs sessions
    with _connected(place) as engine:
        _migrate(engine)
        config, study = plan.study.config, plan.study
        about = {name: getattr(config, name) for name in ("title", "corpus", "seed", "per_item", "most", "hours")}
        about |= {"texts": asdict(config.texts), "question": study.question, "labels": dict(plan.labels)}
        about |= {"n_documents": len(plan.documents), "n_practice": len(plan.practice), "n_checks": len(plan.checks)}
        about |= {"conditions": [condition.name for condition in study.conditions], "own_orders": True}
        store = Store(engine, about)
        with store.write_session() as session:
            if session.scalar(select(StudyRow)) is not None:
                raise StudyError(f"There is already a study at {engine.url!r}. Choose another place.")
            session.add(StudyRow(id=1, about=about))
            documents = enumerate(plan.documents)
            session.add_all(DocumentRow(id=i, name=d.id, label=d.label, text=d.text) for i, d in documents)
            session.flush()
            for item in (*plan.practice, *plan.checks, *plan.items, *plan.examples):
                row = ItemRow(
                    kind=item.kind,
                    document=item.document,
                    condition=item.condition,
                    words=list(item.rationale.words),
                    query=list(item.rationale.query),
                    label=item.label,
                    asked_confidence=None if item.expected is None else item.expected.confidence,
                    asked_readability=None if item.expected is None else item.expected.readability,
                    wanted=config.per_item if item.kind == "real" else 0,
                )
                session.add(row)
        return store

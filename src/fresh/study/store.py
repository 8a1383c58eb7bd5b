"""A study in a database: SQLite in a folder, or PostgreSQL by its address; made, opened, brought up to date."""

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Self

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, select, text
from sqlalchemy.exc import ArgumentError, OperationalError
from sqlalchemy.orm import Session

from fresh._optional import optional_import
from fresh.errors import StudyError
from fresh.study.assignment import Shape
from fresh.study.items import Item, Plan
from fresh.study.schema import DocumentRow, ItemRow, StudyRow

FILE = "study.db"
PATIENCE = 60
"""Seconds to wait for others who write."""
AGAIN = 0.001
"""Seconds until one looks again whether they still do."""
LOCK = 7_203_717
"""Any number, by which PostgreSQL lets one process at a time bring the tables up to date."""


@dataclass(frozen=True, slots=True)
class Store:
    """An open study."""

    engine: Engine
    about: Mapping[str, Any]
    """What was fixed when it was made: title, texts, labels, conditions, settings."""
    shape: Shape
    turn: AbstractContextManager[Any]
    """Lets one thread at a time write, where the database would have them ask again and again."""

    @classmethod
    def of(cls, engine: Engine, about: Mapping[str, Any]) -> Self:
        """Take a study as it was fixed."""
        return cls(engine, about, _shape_of(about), Lock() if engine.dialect.name == "sqlite" else nullcontext())

    @property
    def labels(self) -> dict[str, str]:
        """All labels, and how people read each."""
        return dict(self.about["labels"])

    @property
    def conditions(self) -> tuple[str, ...]:
        """The names of the conditions."""
        return tuple(self.about["conditions"])

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Look at one state of the database."""
        with Session(self.engine) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Change something: all of it, for good, when the block ends well, else nothing."""
        with (
            self.turn,
            self.engine.connect().execution_options(writes=True) as connection,
            Session(connection) as session,
        ):
            yield session
            session.commit()

    def close(self) -> None:
        """Let go of all connections."""
        self.engine.dispose()


def now() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _address(place: str | Path) -> URL:
    """Find the database of a study: in its folder, or at an address."""
    if "://" not in str(place):
        return URL.create("sqlite", database=str(Path(place) / FILE))  # any name will do: nothing in it is a sign
    return make_url(str(place).replace("postgresql://", "postgresql+psycopg://", 1))


def hidden(url: URL) -> str:
    """Name a database without its password."""
    return url.render_as_string(hide_password=True)


def _connect(place: str | Path) -> Engine:
    """Prepare connections to a database."""
    try:
        url = _address(place)
    except ArgumentError as error:
        raise StudyError(f"{place} is no address of a database. Write postgresql://USER@HOST/NAME.") from error
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise StudyError(f"{url.get_backend_name()} is not a database for a study. There are: sqlite, postgresql.")
    if url.get_backend_name() == "postgresql":
        optional_import("psycopg", "postgres", "A study in PostgreSQL")
        return create_engine(url, pool_size=10, max_overflow=30, pool_pre_ping=True)
    engine = create_engine(url, connect_args={"timeout": PATIENCE})
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: Any, _record: Any) -> None:
    """Set up a connection of SQLite: readers do not wait for writers, and what is saved is on the disk."""
    connection.isolation_level = None  # transactions begin where we say
    for line in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {line}")


def _begin(connection: Connection) -> None:
    """Begin a transaction of SQLite; whoever writes waits for others at once, not in the middle."""
    if connection.get_execution_options().get("writes", False):
        _wait_to_write(connection)
    else:
        connection.exec_driver_sql("BEGIN")


def _wait_to_write(connection: Connection) -> None:
    """Begin to write when nobody else does.

    SQLite looks whether others are done ten times a second, and a server that has much to write pauses for less than a
    millisecond between two answers: another one on the same study would wait for minutes. So look more often.
    """
    raw: Any = connection.connection.dbapi_connection
    until = time.monotonic() + PATIENCE
    raw.execute("PRAGMA busy_timeout=0")
    try:
        while time.monotonic() < until:
            try:
                raw.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    break
                time.sleep(AGAIN)
            else:
                return
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # fails again, as an error that callers know
    finally:
        raw.execute(f"PRAGMA busy_timeout={PATIENCE * 1000}")


def _migrations() -> Config:
    """Find the migrations that come along."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config


def _bring_up_to_date(engine: Engine, to: str = "head") -> None:
    """Make the tables, or change those of an older version; those of a newer one are refused."""
    config = _migrations()
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    with engine.connect().execution_options(writes=True) as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))
        current = MigrationContext.configure(connection).get_current_revision()
        if current is not None and current not in known:
            raise StudyError(
                f"The study at {hidden(engine.url)} was made by a newer version of fresh "
                f"(its tables are of version {current}). Install that version to open it."
            )
        config.attributes["connection"] = connection
        command.upgrade(config, to)
        connection.commit()


def open_study(place: str | Path) -> Store:
    """Open a study that is there.

    :param place: The folder of the study, or the address of its database.
    """
    if "://" not in str(place) and not (Path(place) / FILE).is_file():
        raise StudyError(f"There is no study in {place}. Make one with: fresh study new STUDY.toml --out {place}")
    with _ready(place) as engine:
        with engine.connect() as connection:
            made = MigrationContext.configure(connection).get_current_revision()
        if made is not None:
            _bring_up_to_date(engine)
        with Session(engine) as session:
            found = None if made is None else session.scalar(select(StudyRow))
            if found is None:
                raise StudyError(
                    f"The database {hidden(_address(place))} holds no study. "
                    "Make one with: fresh study new STUDY.toml --database URL"
                )
            return Store.of(engine, found.about)


@contextmanager
def _ready(place: str | Path) -> Iterator[Engine]:
    """Connect to a database; if what is done with it fails, nothing stays open."""
    engine = _connect(place)
    try:
        yield engine
    except OperationalError as error:
        engine.dispose()
        raise StudyError(_unusable(place, error)) from error
    except BaseException:
        engine.dispose()
        raise


def _unusable(place: str | Path, error: OperationalError) -> str:
    """Say why a database cannot be used."""
    code = getattr(error.orig, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
        return (
            f"The database {hidden(_address(place))} cannot be written to ({error.orig}). A study is written to also "
            "where it is only looked at: see that you may write to the file and to its folder."
        )
    return f"The database {hidden(_address(place))} cannot be used: {error.orig}."


def _shape_of(about: Mapping[str, Any]) -> Shape:
    """Read how large a study is; in one that an earlier version made, all read the documents in one order."""
    seed = about["seed"] if about.get("own_orders") else None
    return Shape(about["n_documents"], len(about["conditions"]), about["per_item"], about["most"], seed)


def create_study(place: str | Path, plan: Plan) -> Store:
    """Write a plan into an empty database, in one move."""
    if "://" not in str(place):
        _make_room(Path(place))
    with _ready(place) as engine:
        _bring_up_to_date(engine)
        store = Store.of(engine, _about_of(plan))
        with store.writing() as session:
            if session.scalar(select(StudyRow)) is not None:
                raise StudyError(f"There is a study at {hidden(_address(place))} already. Choose another place.")
            session.add(StudyRow(id=1, about=_about_of(plan)))
            sources = enumerate(plan.documents)
            session.add_all(DocumentRow(id=i, name=d.id, label=d.label, text=d.text) for i, d in sources)
            session.flush()
            session.add_all(_row_of(item, plan) for item in (*plan.practice, *plan.checks, *plan.items, *plan.examples))
        return store


def claim_folder(folder: Path) -> None:
    """Make a folder for a study; refuse one that is there, also if somebody else made it just now."""
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        there = f"{folder} is there already. Choose another folder."
        raise StudyError(there if isinstance(error, FileExistsError) else _no_room(folder, error)) from error


def _make_room(folder: Path) -> None:
    """Make the folder of a study, and an empty file for its database."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE).touch(0o600)  # it holds the key that sessions are signed with
    except OSError as error:
        raise StudyError(_no_room(folder, error)) from error


def _no_room(folder: Path, error: OSError) -> str:
    """Say why a study cannot be written to a folder."""
    return f"The study cannot be written to {folder} ({error.strerror}). Choose a folder that you may write to."


def _about_of(plan: Plan) -> dict[str, Any]:
    """Write down what does not change any more."""
    config = plan.study.config
    settings = {name: getattr(config, name) for name in ("title", "corpus", "seed", "per_item", "most", "hours")}
    fixed = {"texts": asdict(config.texts), "question": plan.study.question, "labels": dict(plan.labels)}
    sizes = {"n_documents": len(plan.documents), "n_practice": len(plan.practice), "n_checks": len(plan.checks)}
    return {**settings, **fixed, **sizes, "conditions": list(plan.conditions), "own_orders": True}


def _row_of(item: Item, plan: Plan) -> ItemRow:
    """Write an item as a row."""
    real, asked = item.kind == "real", item.asked
    return ItemRow(
        kind=item.kind,
        document=item.document if real else None,
        condition=item.condition if item.condition >= 0 else None,
        words=list(item.rationale.words),
        query=list(item.rationale.query),
        label=item.label,
        asked_confidence=None if asked is None else asked.confidence,
        asked_readability=None if asked is None else asked.readability,
        wanted=plan.study.config.per_item if real else 0,
        taken=0,
    )

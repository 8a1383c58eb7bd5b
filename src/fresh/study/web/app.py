"""A study in the browser."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from secrets import token_hex

from fastapi import FastAPI
from sqlalchemy import delete, insert
from sqlalchemy.exc import InternalError, OperationalError, SQLAlchemyError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

import fresh
from fresh.config import check_min, raise_all
from fresh.errors import StudyError
from fresh.study.annotators import release_stale
from fresh.study.keys import signing_key
from fresh.study.schema import StudyRow
from fresh.study.store import Store
from fresh.study.web.admin_views import Admin
from fresh.study.web.annotator_views import Annotating
from fresh.study.web.sessions import Signer
from fresh.study.web.site import Site, make_assets, make_templates
from fresh.study.web.visits import Sessions
from fresh.web.metrics import ServerMetrics
from fresh.web.security import SecurityConfig, allowed_hosts, check_host, check_proxy
from fresh.web.server import make_app

MOST_BYTES = 16 * 1024
"""Size of a form, at most: all of them are small."""
PROBE = 32 * 1024
"""Bytes that /health writes; random ones, since PostgreSQL compresses others."""
EVERY = 60.0
"""Seconds after which it is looked for texts that lie too long."""


@dataclass(frozen=True, slots=True)
class StudyServeConfig:
    """How a study is reached."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    allow_hosts: frozenset[str] = frozenset()
    """Further names under which it is reached, such as that of a reverse proxy."""
    https: bool = False
    """Whether it is reached over https only."""
    session_hours: float = 12.0
    """How long a session lasts in which nothing happens."""
    trusted_proxies: frozenset[str] = frozenset()
    """Proxies, by address or network, whose X-Forwarded-For and X-Forwarded-Proto are believed."""

    def __post_init__(self) -> None:
        raise_all(
            *check_min(0.01, session_hours=self.session_hours),
            *map(check_host, sorted(self.allow_hosts)),
            *map(check_proxy, sorted(self.trusted_proxies)),
        )


def create_app(store: Store, config: StudyServeConfig | None = None) -> FastAPI:
    """Make the app; it closes the study when it ends."""
    config = config or StudyServeConfig()
    assets = make_assets()
    signer = Signer(signing_key(store), config.session_hours)
    site = Site(store, Sessions(store, signer, config.https), make_templates(assets))

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(_release_regularly(store))
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        store.close()

    def read_only(request: Request, error: Exception) -> Response:
        # By name, since psycopg may not be installed; any other internal error is a bug, not a database that is away.
        if isinstance(error, InternalError) and type(error.orig).__name__ == "ReadOnlySqlTransaction":
            return site.away(request, error)
        raise error

    rules = SecurityConfig(allowed_hosts(config.host, config.allow_hosts), max_body_bytes=MOST_BYTES)
    given = {"lifespan": lifespan, "openapi_url": None}
    app = make_app("fresh study", fresh.__version__, rules, assets, ServerMetrics(), site.teller(), **given)
    app.add_exception_handler(StudyError, site.refused)
    app.add_exception_handler(OperationalError, site.away)
    app.add_exception_handler(InternalError, read_only)
    _add_routes(app, site)
    return app


async def _release_regularly(store: Store) -> None:
    """Give to others what lies too long, for as long as the server runs."""
    while True:
        with suppress(SQLAlchemyError):  # a database that is away for a while must not end this for good
            await run_in_threadpool(release_stale, store)
        await asyncio.sleep(EVERY)


def _add_routes(app: FastAPI, site: Site) -> None:
    """Say what answers where."""
    people, admin = Annotating(site), Admin(site)
    shown: dict[str, Callable[..., Response]] = {
        "/": people.start,
        "/item": people.item,
        "/practice/{ticket}": people.practice,
        "/leave": people.ask_to_leave,
        "/left": people.left,
        "/admin": admin.start,
        "/admin/person/{annotator}/{action}": admin.ask,
        "/admin/results": admin.results,
        "/admin/export/{form}": admin.export,
    }
    posted: dict[str, Callable[..., Response | Awaitable[Response]]] = {
        "/sign-in": people.door.sign_in,
        "/sign-out": people.door.sign_out,
        "/consent": people.consent,
        "/answer": people.answer,
        "/leave": people.leave,
        "/admin/sign-in": admin.door.sign_in,
        "/admin/sign-out": admin.door.sign_out,
        "/admin/pause": admin.pause,
        "/admin/person": admin.person,
        "/admin/codes": admin.codes,
    }
    for method, routes in (("GET", shown), ("POST", posted)):
        for path, answer in routes.items():
            app.add_api_route(path, answer, methods=[method], response_class=Response, response_model=None)

    @app.get("/health")
    def health() -> Response:
        """Say whether answers can be stored: write more than an answer takes, and delete it again."""
        try:
            with site.store.writing() as session:
                # Nobody else sees the row, but its pages are written: 41,200 bytes of SQLite's log; an answer takes
                # 12,360. An update that changes nothing writes 0 bytes, and succeeds on a full disk.
                session.execute(insert(StudyRow).values(id=0, about={"probe": token_hex(PROBE // 2)}))
                session.execute(delete(StudyRow).where(StudyRow.id == 0))
        except SQLAlchemyError:
            return JSONResponse({"status": "broken", "database": "cannot be written to"}, 503)
        return JSONResponse({"status": "ok", "database": "ready"})

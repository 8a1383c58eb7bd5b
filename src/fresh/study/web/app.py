"""The app that serves a study."""

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
from fresh.study.annotators import release_expired, signing_key
from fresh.study.schema import StudyRow
from fresh.study.store import Store
from fresh.study.web.admin_views import AdminViews
from fresh.study.web.annotator_views import AnnotatorViews
from fresh.study.web.auth import Sessions, Signer
from fresh.study.web.site import NO_PAGE, Login, Site, make_templates
from fresh.web.errors import ErrorRenderer
from fresh.web.metrics import ServerMetrics
from fresh.web.security import SecurityConfig, allowed_hosts, check_host, check_proxy
from fresh.web.server import make_app

MAX_BYTES = 16 * 1024  # all forms are small
PROBE_BYTES = 32 * 1024
RELEASE_SECONDS = 60.0  # how often expired items are released


@dataclass(frozen=True, slots=True)
class StudyServeConfig:
    """Settings of a study server."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    allow_hosts: frozenset[str] = frozenset()
    """Further host names under which it can be reached, such as that of a reverse proxy."""
    https: bool = False
    """Whether it is reached over https only."""
    session_hours: float = 12.0
    """How long a session lasts without a request."""
    trusted_proxies: frozenset[str] = frozenset()
    """Proxies, by address or network, whose X-Forwarded-For and X-Forwarded-Proto headers are used."""

    def __post_init__(self) -> None:
        raise_all(
            *check_min(0.01, session_hours=self.session_hours),
            *map(check_host, sorted(self.allow_hosts)),
            *map(check_proxy, sorted(self.trusted_proxies)),
        )


def create_app(store: Store, config: StudyServeConfig | None = None) -> FastAPI:
    """Create the app that serves a study; it closes the store at the end."""
    config = config or StudyServeConfig()
    templates, assets = make_templates()
    sessions = Sessions(store, Signer(signing_key(store), config.session_hours), config.https)
    site = Site(store, sessions, templates)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(_release_regularly(store))
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        store.close()

    security = SecurityConfig(allowed_hosts(config.host, config.allow_hosts), max_body_bytes=MAX_BYTES)
    options = {"lifespan": lifespan, "openapi_url": None}
    renderer = ErrorRenderer(site.error_page, NO_PAGE)
    app = make_app("fresh study", fresh.__version__, security, assets, ServerMetrics(), renderer, **options)
    app.add_exception_handler(StudyError, site.study_error)
    app.add_exception_handler(OperationalError, site.database_error)

    @app.exception_handler(InternalError)
    def internal_error(request: Request, error: InternalError) -> Response:
        # By name, since psycopg is optional; any other internal error is a bug, not a read-only database.
        if type(error.orig).__name__ == "ReadOnlySqlTransaction":
            return site.database_error(request, error)
        raise error

    people, admin = AnnotatorViews(site), AdminViews(site)
    login, admin_login = Login(site, "annotator"), Login(site, "admin")
    pages: dict[str, Callable[..., Response]] = {
        "/": people.start,
        "/item": people.item,
        "/practice/{ticket}": people.practice,
        "/leave": people.confirm_leave,
        "/left": people.left,
        "/admin": admin.start,
        "/admin/person/{annotator}/{action}": admin.confirm,
        "/admin/results": admin.results,
        "/admin/export/{format}": admin.export,
    }
    forms: dict[str, Callable[..., Response | Awaitable[Response]]] = {
        "/sign-in": login.sign_in,
        "/sign-out": login.sign_out,
        "/consent": people.consent,
        "/answer": people.answer,
        "/leave": people.leave,
        "/admin/sign-in": admin_login.sign_in,
        "/admin/sign-out": admin_login.sign_out,
        "/admin/pause": admin.pause,
        "/admin/person": admin.change,
        "/admin/codes": admin.codes,
    }
    for method, routes in (("GET", pages), ("POST", forms)):
        for path, endpoint in routes.items():
            app.add_api_route(path, endpoint, methods=[method], response_class=Response, response_model=None)

    @app.get("/health")
    def health() -> Response:
        """Check whether answers can be saved, by writing more than an answer takes and deleting it."""
        try:
            with store.write_session() as session:
                # Nobody else sees the row, but its pages are written: 41,200 bytes of SQLite's log, while an answer
                # takes 12,360. An update that changes nothing writes 0 bytes, and succeeds on a full disk. The bytes
                # are random since PostgreSQL compresses others.
                session.execute(insert(StudyRow).values(id=0, about={"probe": token_hex(PROBE_BYTES // 2)}))
                session.execute(delete(StudyRow).where(StudyRow.id == 0))
        except SQLAlchemyError:
            return JSONResponse({"status": "broken", "database": "cannot be written to"}, 503)
        return JSONResponse({"status": "ok", "database": "ready"})

    return app


async def _release_regularly(store: Store) -> None:
    while True:
        with suppress(SQLAlchemyError):  # a database that is down for a while must not end this for good
            await run_in_threadpool(release_expired, store)
        await asyncio.sleep(RELEASE_SECONDS)

"""Saved models in the browser, and as a JSON interface."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fastapi import FastAPI
from pydantic import BaseModel
from starlette.responses import HTMLResponse, JSONResponse, Response

import fresh
from fresh.config import raise_all
from fresh.serving.job_routes import UPLOAD, job_routes
from fresh.serving.jobs import ENDINGS, JobLimits, Jobs
from fresh.serving.models import Models
from fresh.serving.routes import Documented, explaining
from fresh.serving.schemas import MOST_CHARACTERS
from fresh.web.assets import Assets, files_of, templates_of
from fresh.web.errors import ALWAYS, problems
from fresh.web.metrics import ServerMetrics
from fresh.web.security import Rules, hosts_of, wrong_host
from fresh.web.server import OPENAPI, make_app

ABOUT = (
    "Text classification that shows exactly the words an answer was made from. Errors are problem details (RFC 9457); "
    "answers are what `fresh explain` writes."
)
FORM = 64 * 1024
"""What a form may hold beside its file, in bytes."""


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """How a server is reached, and what it takes."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    allow_hosts: frozenset[str] = frozenset()
    """Further names under which it is reached, such as that of a reverse proxy."""
    seconds: float = 30.0
    """How long a request may take to come, and then to be answered."""
    jobs: JobLimits = field(default_factory=JobLimits)
    """How many files are taken, and how large."""

    def __post_init__(self) -> None:
        raise_all(*map(wrong_host, sorted(self.allow_hosts)))


class Health(BaseModel):
    """How a server is."""

    status: str
    models: dict[str, str]


def create_app(models: Models, measures: ServerMetrics, config: ServeConfig | None = None) -> FastAPI:
    """Make the app; it closes the models when it ends."""
    config = config or ServeConfig()
    jobs = Jobs(measures, config.jobs)
    assets = Assets(_shared() | files_of("fresh.web", "pages"))
    page = templates_of("fresh.web", "pages", assets).get_template("serve.html")

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        jobs.close()
        models.close()

    rules = Rules(
        hosts_of(config.host, config.allow_hosts),
        larger={UPLOAD: config.jobs.most_bytes + FORM},
        seconds=config.seconds,
    )
    app = make_app("fresh serve", fresh.__version__, rules, assets, measures, description=ABOUT, lifespan=lifespan)
    app.include_router(explaining(models, config.seconds))
    app.include_router(job_routes(models, jobs))

    stopped: Documented = {503: {"description": "A model has stopped.", "model": Health}}

    @app.get(
        "/health", summary="Whether all models answer", tags=["server"], responses={**stopped, **problems(*ALWAYS)}
    )
    def health() -> Health:
        """Say how each model is; 503 if one has stopped."""
        found = {name: served.health() for name, served in models.served.items()}
        well = "stopped" not in found.values()
        told = {"status": "ok" if well else "broken", "models": found}
        return JSONResponse(told, 200 if well else 503)  # type: ignore[return-value]

    @app.get("/", include_in_schema=False)
    def index() -> Response:
        abouts = [served.about() for served in models.served.values()]
        limits = {
            "characters": MOST_CHARACTERS,
            "rows": config.jobs.most_rows,
            "bytes": config.jobs.most_bytes,
            "kept": config.jobs.kept,
        }
        return HTMLResponse(page.render(models=abouts, limits=limits, endings=ENDINGS, openapi=OPENAPI))

    return app


def _shared() -> dict[str, bytes]:
    """Take the look of the report page."""
    return {
        name: content
        for name, content in files_of("fresh.reporting.html").items()
        if name in ("page.css", "explorer.css")
    }

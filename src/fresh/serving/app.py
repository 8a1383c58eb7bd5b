"""The app of `fresh serve`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.responses import HTMLResponse, JSONResponse, Response

import fresh
from fresh.serving.config import MAX_CHARACTERS, ServeConfig
from fresh.serving.jobs import FILE_TYPES, UPLOAD, Jobs, job_routes
from fresh.serving.models import Models
from fresh.serving.routes import model_routes
from fresh.serving.schemas import Health
from fresh.web.errors import COMMON_STATUSES, problem_responses
from fresh.web.metrics import ServerMetrics
from fresh.web.security import SecurityConfig, allowed_hosts
from fresh.web.server import OPENAPI, Assets, make_app, read_assets, template_environment

_DESCRIPTION = (
    "Text classification that shows exactly the words each answer was computed from. Errors are problem details "
    "(RFC 9457); records are those of `fresh explain`."
)
_FORM_BYTES = 64 * 1024  # a form without its file
_REPORT_STYLES = ("page.css", "explorer.css")  # shared with HTML reports


def create_app(models: Models, metrics: ServerMetrics, config: ServeConfig | None = None) -> FastAPI:
    """Make the app; it closes the models when it ends."""
    config = config or ServeConfig()
    jobs = Jobs(metrics, config.jobs)
    report_styles = {name: data for name, data in read_assets("fresh.reporting.html").items() if name in _REPORT_STYLES}
    assets = Assets(report_styles | read_assets("fresh.web", "pages"))
    page = template_environment("fresh.web", "pages", assets).get_template("serve.html")

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        jobs.close()
        models.close()

    security = SecurityConfig(
        allowed_hosts(config.host, config.allow_hosts),
        upload_bytes={UPLOAD: config.jobs.max_bytes + _FORM_BYTES},
        body_timeout=config.timeout,
    )
    options: dict[str, Any] = {"description": _DESCRIPTION, "lifespan": lifespan}
    app = make_app("fresh serve", fresh.__version__, security, assets, metrics, **options)
    app.include_router(model_routes(models, config.timeout))
    app.include_router(job_routes(models, jobs))

    stopped = {"description": "A model has stopped.", "model": Health}
    responses = {503: stopped, **problem_responses(*COMMON_STATUSES)}

    @app.get("/health", summary="Check that all models work", tags=["server"], responses=responses)
    def health() -> Health:
        """Return the state of each model, with status 503 if one has stopped."""
        states = {name: served.health() for name, served in models.served.items()}
        is_ok = "stopped" not in states.values()
        body = {"status": "ok" if is_ok else "broken", "models": states}
        return JSONResponse(body, 200 if is_ok else 503)  # type: ignore[return-value]

    @app.get("/", include_in_schema=False)
    def index() -> Response:
        records = [served.describe() for served in models.served.values()]
        limits = {
            "characters": MAX_CHARACTERS,
            "rows": config.jobs.max_rows,
            "bytes": config.jobs.max_bytes,
            "kept": config.jobs.keep_time,
        }
        return HTMLResponse(page.render(models=records, limits=limits, endings=FILE_TYPES, openapi=OPENAPI))

    return app

"""What the pages of a study share: how they are filled, and how they tell what went wrong."""

import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Environment
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope

from fresh.errors import StudyError
from fresh.highlight import HTML_CONTROL_PICTURES
from fresh.study.answer import EndedError, NotGivenError, PausedError, RepeatedError
from fresh.study.queries import parts_of
from fresh.study.service import NOT_HERE, PAUSED
from fresh.study.store import Store
from fresh.study.web.rate_limit import RateLimiter
from fresh.study.web.sessions import Session
from fresh.study.web.visits import Sessions
from fresh.study.wording import cannot_complete, plural
from fresh.web.errors import ErrorRenderer, problem_response
from fresh.web.server import Assets, read_assets, template_environment

LOG = logging.getLogger(__name__)
PACKAGE = "fresh.study.web"
SHARED = ("page.css", "explorer.css", "controls.css")
AT_ONCE = 4
"""Codes that are hashed at the same time; each takes 16 MB."""
PLAIN = {
    404: "There is no page at this address. Go back to the study.",
    405: "This address is not asked in this way. Go back to the study.",
}
HEADINGS = {
    401: "Please sign in",
    403: "This cannot be done",
    404: "There is no such page",
    405: "There is no such page",
    408: "That took too long",
    409: "This text is not yours to answer",
    413: "That is too much",
    421: "Not under this name",
    422: "Something is missing or wrong",
    429: "Too many tries",
    500: "Something went wrong",
    503: "The study is paused",
}
ENDED = "Your part has ended"
AWAY = {
    "GET": "The database of the study cannot be used at the moment. Try again; if that does not help, tell whoever "
    "runs the study.",
    "POST": "What you sent was not saved: the database of the study cannot be written to at the moment. Go back to the "
    "page before and send it again; if that does not help, tell whoever runs the study.",
}
"""What is said while the database is away, or its disk is full."""
LINKS = {PAUSED: "Try again", AWAY["GET"]: "Try again", **dict.fromkeys(NOT_HERE.values(), "")}
"""What leads on from some pages; nothing does where somebody's part has ended."""
REPEATED = "This was done already"
STATUS: tuple[tuple[type[StudyError], int], ...] = (
    (EndedError, 403),
    (PausedError, 503),
    (NotGivenError, 409),
    (RepeatedError, 409),
)


def make_assets() -> Assets:
    """Gather the files of the pages: the look is that of all pages."""
    shared = read_assets("fresh.reporting.html") | read_assets("fresh.web", "pages")
    return Assets({name: shared[name] for name in SHARED} | read_assets(PACKAGE, "pages"))


def make_templates(assets: Assets) -> Environment:
    """Find the pages; what stands in them cannot turn the reading direction round."""
    templates = template_environment(PACKAGE, "pages", assets)
    templates.finalize = lambda value: value.translate(HTML_CONTROL_PICTURES) if type(value) is str else value
    templates.filters |= {"figure": _figure, "plural": plural, "parts": parts_of}
    templates.globals["cannot_complete"] = cannot_complete
    return templates


def _figure(value: float | None, digits: int = 2) -> str:
    """Write a figure, if it is known."""
    return "–" if value is None else f"{value:.{digits}f}"


@dataclass(frozen=True, slots=True)
class Site:
    """A study and its pages."""

    store: Store
    visits: Sessions
    templates: Environment
    tries: RateLimiter = field(default_factory=RateLimiter)
    admin_tries: RateLimiter = field(default_factory=RateLimiter)
    hashing: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(AT_ONCE))

    def page(self, name: str, session: Session, status: int = 200, **values: Any) -> HTMLResponse:
        """Fill a page for somebody."""
        token, about = self.visits.signer.form_token(session), self.store.about
        made = self.templates.get_template(name).render(title=about["title"], token=token, about=about, **values)
        return HTMLResponse(made, status)

    def teller(self) -> ErrorRenderer:
        """Tell what goes wrong as pages, and programs as problem details."""
        return ErrorRenderer(self.notice, PLAIN)

    def notice(self, scope: Scope, status: int, told: str, headers: Mapping[str, str] | None = None) -> Response:
        """Tell something on a page of its own."""
        request = Request(scope)
        if not wants_page(request):
            return problem_response(status, told, headers)
        admin, here = scope["path"].startswith("/admin"), None
        with suppress(SQLAlchemyError):  # a database that is away must not keep us from saying so
            here = self.visits.find(request, "annotator")
        link = (
            "Back to the admin page" if admin else LINKS.get(told, "Sign in" if here is None else "Back to the study")
        )
        response = self.page(
            "notice.html",
            here or self.visits.visitor(request),
            status,
            heading=_heading_of(status, told, admin),
            told=told,
            link=link,
            admin=admin,
            here=here is not None and not admin,
        )
        response.headers.update(headers or {})
        return response

    def refused(self, request: Request, error: Exception) -> Response:
        """Tell what the study itself refused."""
        status = next((status for kind, status in STATUS if isinstance(error, kind)), 422)
        return self.notice(request.scope, status, str(error), {"Retry-After": "600"} if status == 503 else None)

    def away(self, request: Request, error: Exception) -> Response:
        """Tell that the database cannot be used; why stands in the log alone."""
        LOG.error("The database cannot be used.", exc_info=error)
        told = AWAY["POST" if request.method == "POST" else "GET"]
        return self.notice(request.scope, 503, told, {"Retry-After": "60"})


def _heading_of(status: int, told: str, admin: bool) -> str:
    """Choose what stands above a page that tells something."""
    if told in NOT_HERE.values():
        return ENDED
    if told in AWAY.values():
        return HEADINGS[500]
    return REPEATED if admin and status == 409 else HEADINGS.get(status, HEADINGS[403])


def wants_page(request: Request) -> bool:
    """Tell a browser from a program."""
    return "text/html" in request.headers.get("accept", "")


def go(address: str) -> Response:
    """Send a browser on to a page, in the place of the one that was posted."""
    return RedirectResponse(address, 303)


def address_of(request: Request) -> str:
    """Name where a request comes from."""
    return "" if request.client is None else request.client.host

"""What the pages of a study share: templates, sign-in and error pages."""

import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from fastapi import Form
from jinja2 import Environment
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope

from fresh.errors import InactiveAnnotatorError, NotAssignedError, RepeatedRequestError, StudyError, StudyPausedError
from fresh.highlight import HTML_CONTROL_PICTURES
from fresh.study.annotators import is_admin, sign_in
from fresh.study.answers import SCALE_QUESTIONS, SCALES
from fresh.study.display import cannot_complete, split_query
from fresh.study.service import INACTIVE, PAUSED
from fresh.study.store import Store
from fresh.study.web.auth import RateLimiter, Session, Sessions
from fresh.text import plural
from fresh.web.errors import Problem, problem_response
from fresh.web.server import Assets, read_assets, template_environment

LOG = logging.getLogger(__name__)
PACKAGE = "fresh.study.web"
SHARED_STYLES = ("page.css", "explorer.css", "controls.css")
MAX_HASHES = 4  # codes that are hashed at the same time; each takes 16 MB
Field = Annotated[str, Form()]
NO_PAGE = {
    404: "There is no page at this address. Go back to the study.",
    405: "This address does not support this method. Go back to the study.",
}
HEADINGS = {
    401: "Please sign in",
    403: "Not allowed",
    404: "Page not found",
    405: "Page not found",
    408: "The request took too long",
    409: "This text is not assigned to you",
    413: "The request is too large",
    421: "Wrong address",
    422: "Something is missing or wrong",
    429: "Too many attempts",
    500: "Something went wrong",
    503: "The study is paused",
}
ALREADY_DONE = "Already done"
DATABASE_DOWN = {
    "GET": "The database of the study cannot be used right now. Try again. If that does not help, tell the person who "
    "runs the study.",
    "POST": "Your answer was not saved: the database of the study cannot be written to right now. Go back to the page "
    "before and send it again. If that does not help, tell the person who runs the study.",
}
MESSAGE_HEADINGS = {
    **dict.fromkeys(INACTIVE.values(), "Your participation has ended"),
    **dict.fromkeys(DATABASE_DOWN.values(), HEADINGS[500]),
}
# Link texts of some pages; without a text there is no link.
LINKS = {PAUSED: "Try again", DATABASE_DOWN["GET"]: "Try again", **dict.fromkeys(INACTIVE.values(), "")}
STATUS_CODES: tuple[tuple[type[StudyError], int], ...] = (
    (InactiveAnnotatorError, 403),
    (StudyPausedError, 503),
    (NotAssignedError, 409),
    (RepeatedRequestError, 409),
)
WRONG_CODE = {
    "annotator": "This code is not correct. Enter it exactly as you received it.",
    "admin": "This is not the secret of the admin page. The secret was shown, or written to a file, when the study was "
    "served for the first time.",
}
START = {"annotator": "/", "admin": "/admin"}


def make_templates() -> tuple[Environment, Assets]:
    """Load the templates, in which no text can change the text direction of the page, and their styles and scripts."""
    shared = read_assets("fresh.reporting.html") | read_assets("fresh.web", "pages")
    assets = Assets({name: shared[name] for name in SHARED_STYLES} | read_assets(PACKAGE, "pages"))
    templates = template_environment(PACKAGE, "pages", assets)
    # Applies to every value in every template, so that no page can forget it.
    templates.finalize = lambda value: value.translate(HTML_CONTROL_PICTURES) if type(value) is str else value
    templates.filters |= {"plural": plural, "parts": split_query}
    templates.filters["figure"] = lambda value, digits=2: "–" if value is None else f"{value:.{digits}f}"
    templates.globals |= {"cannot_complete": cannot_complete, "scales": SCALES, "scale_questions": SCALE_QUESTIONS}
    templates.globals["ui"] = templates.get_template("parts.html").module
    return templates, assets


@dataclass(frozen=True, slots=True)
class Site:
    """A study and its pages."""

    store: Store
    sessions: Sessions
    templates: Environment
    limiters: Mapping[str, RateLimiter] = field(default_factory=lambda: {role: RateLimiter() for role in START})
    hashing: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(MAX_HASHES))

    def page(self, request: Request, session: Session, name: str, status: int = 200, **values: Any) -> HTMLResponse:
        """Render a page for a session, and extend the session."""
        token, about = self.sessions.signer.form_token(session), self.store.about
        values |= {"about": about, "title": about["title"], "labels": self.store.labels, "token": token}
        response = HTMLResponse(self.templates.get_template(name).render(values), status)
        self.sessions.renew(request, response, session)
        return response

    def error_page(self, scope: Scope, status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
        """Report an error: to browsers as a page, to programs as problem details."""
        request = Request(scope)
        if not wants_page(request):
            return problem_response(status, message, headers)
        admin, session = scope["path"].startswith("/admin"), None
        with suppress(SQLAlchemyError):  # the page must appear even if the database is down
            session = self.sessions.find(request, "annotator")
        link = LINKS.get(message, "Sign in" if session is None else "Back to the study")
        heading = ALREADY_DONE if admin and status == 409 else HEADINGS.get(status, HEADINGS[403])
        response = self.page(
            request,
            session or self.sessions.visitor(request),
            "notice.html",
            status,
            heading=MESSAGE_HEADINGS.get(message, heading),
            message=message,
            link="Back to the admin page" if admin else link,
            admin=admin,
            signed_in=session is not None and not admin,
        )
        response.headers.update(headers or {})
        return response

    def study_error(self, request: Request, error: Exception) -> Response:
        """Report a request that the study refused."""
        status = next((status for kind, status in STATUS_CODES if isinstance(error, kind)), 422)
        return self.error_page(request.scope, status, str(error), {"Retry-After": "600"} if status == 503 else None)

    def database_error(self, request: Request, error: Exception) -> Response:
        """Report that the database is down; the reason goes to the log only."""
        LOG.error("The database cannot be used.", exc_info=error)
        message = DATABASE_DOWN["POST" if request.method == "POST" else "GET"]
        return self.error_page(request.scope, 503, message, {"Retry-After": "60"})


def wants_page(request: Request) -> bool:
    """Check whether a request comes from a browser, not from a program."""
    return "text/html" in request.headers.get("accept", "")


def redirect(address: str) -> Response:
    """Redirect after a form was sent, so that reloading does not send it again."""
    return RedirectResponse(address, 303)


@dataclass(frozen=True, slots=True)
class Login:
    """Sign-in and sign-out of annotators, or of the admin."""

    site: Site
    role: Literal["annotator", "admin"]

    def show(self, request: Request, status: int = 200, message: str = "") -> Response:
        """Show the sign-in page."""
        sessions = self.site.sessions
        visitor = sessions.visitor(request)
        message = message or sessions.ended_message(request, self.role)
        response = self.site.page(request, visitor, "sign_in.html", status, role=self.role, message=message)
        sessions.set_cookie(request, response, visitor)
        return response

    async def sign_in(self, request: Request, form: Field = "", code: Field = "") -> Response:
        """Check a code, and start a session."""
        # In threads: hashing is slow by design, and would hold up all other requests.
        sessions = self.site.sessions
        await run_in_threadpool(lambda: sessions.check_form(sessions.find(request, "visitor"), form))
        address = "" if request.client is None else request.client.host
        who = await self.site.limiters[self.role].check(address, lambda: self._find(code))
        return await run_in_threadpool(self._respond, request, who)

    def _find(self, code: str) -> int | None:
        with self.site.hashing:
            if self.role == "admin":
                return 0 if is_admin(self.site.store, code) else None
            person = sign_in(self.site.store, code)
            return None if person is None else person.id

    def _respond(self, request: Request, who: int | None) -> Response:
        if who is None:
            if not wants_page(request):
                raise Problem(403, WRONG_CODE[self.role])
            return self.show(request, 403, WRONG_CODE[self.role])
        response, sessions = redirect(START[self.role]), self.site.sessions
        sessions.set_cookie(request, response, Session(self.role, who, sessions.clock()))
        sessions.delete_cookie(response, "visitor")
        return response

    def sign_out(self, request: Request, form: Field = "") -> Response:
        """End the session, and all others of the same code or secret."""
        session = self.site.sessions.require_form(request, self.role, form)
        response = redirect(START[self.role])
        self.site.sessions.end(response, session)
        return response

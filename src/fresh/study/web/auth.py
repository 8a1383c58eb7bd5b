"""Signing in and out, for annotators with their codes and for whoever runs the study."""

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import Form
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from fresh.study.annotators import sign_in
from fresh.study.keys import is_admin
from fresh.study.web.rate_limit import RateLimiter
from fresh.study.web.site import Site, address_of, go, wants_page
from fresh.web.errors import Problem

Field = Annotated[str, Form()]
WRONG = {
    "annotator": "This code is not known here. Write it just as you were given it.",
    "admin": "This is not the secret of the admin page. It was shown, or written to a file, when the study was served "
    "for the first time.",
}
START = {"annotator": "/", "admin": "/admin"}


@dataclass(frozen=True, slots=True)
class Login:
    """Where annotators come in, or whoever runs the study."""

    site: Site
    role: Literal["annotator", "admin"]

    @property
    def tries(self) -> RateLimiter:
        """What checks codes here."""
        return self.site.tries if self.role == "annotator" else self.site.admin_tries

    def show(self, request: Request, status: int = 200, told: str = "") -> Response:
        """Show the page to sign in."""
        visits = self.site.visits
        visitor = visits.visitor(request)
        told = told or (visits.over if visits.has_ended(request, self.role) else "")
        response = self.site.page("sign_in.html", visitor, status, role=self.role, told=told)
        visits.keep(request, response, visitor)
        return response

    async def sign_in(self, request: Request, form: Field = "", code: Field = "") -> Response:
        """Let somebody in who has a code."""
        await run_in_threadpool(self.check_form, request, form)
        who = await self.tries.check(address_of(request), lambda: self.find(code))
        return await run_in_threadpool(self.respond, request, who)

    def check_form(self, request: Request, form: str) -> None:
        """Refuse a form that was not shown to this visitor."""
        visits = self.site.visits
        visits.check(visits.find(request, "visitor"), form)

    def respond(self, request: Request, who: int | None) -> Response:
        """Begin a session, or refuse a wrong code."""
        if who is None:
            if not wants_page(request):
                raise Problem(403, WRONG[self.role])
            return self.show(request, 403, WRONG[self.role])
        response, visits = go(START[self.role]), self.site.visits
        visits.keep(request, response, visits.signer.begin(self.role, visits.clock(), who))
        visits.forget(response, "visitor")
        return response

    def find(self, code: str) -> int | None:
        """Find whose code it is."""
        with self.site.hashing:
            if self.role == "admin":
                return 0 if is_admin(self.site.store, code) else None
            person = sign_in(self.site.store, code)
            return None if person is None else person.id

    def sign_out(self, request: Request, form: Field = "") -> Response:
        """Let somebody out."""
        session = self.site.visits.posted(request, self.role, form)
        response = go(START[self.role])
        self.site.visits.end(response, session)
        return response

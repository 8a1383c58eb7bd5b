"""Sessions as cookies: who sends a request, and whether a form is one that was shown to them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from fresh.study.annotators import end_sessions, session_mark
from fresh.study.keys import admin_mark, end_admin_sessions
from fresh.study.store import Store, now
from fresh.study.web.sessions import HOUR, Role, Session, Signer, same
from fresh.web.errors import Problem

RENEWED_AFTER = HOUR // 12
NOT_SIGNED_IN = "You are not signed in. Sign in first."
OVER = "Your session has ended, since nothing came for {hours:g} hours. Sign in again: you go on where you left."
UNSAVED = " What you sent just now was not saved."
LINGERS = 30 * 24 * HOUR
"""A browser keeps a session that is over for so long: else it could not be told from none."""
FOREIGN_FORM = (
    "This form is of another visit, or your browser keeps no cookies. Load the page again, and do it once more."
)


@dataclass(frozen=True, slots=True)
class Sessions:
    """Knows those who come by the cookies that their browsers keep."""

    store: Store
    signer: Signer
    https: bool = False
    """Whether cookies are sent over https only, also where a proxy does not say that it is used."""
    clock: Callable[[], int] = now

    def name(self, role: Role) -> str:
        """Name a cookie."""
        return f"{self.signer.name}_{role}"

    def mark(self, role: Role, who: int) -> str:
        """Bind a session to the code, or the secret, that it began with: it ends with that, or by signing out."""
        if role == "visitor":
            return ""
        return admin_mark(self.store) if role == "admin" else session_mark(self.store, who)

    def known(self, request: Request, role: Role) -> Session | None:
        """Find somebody's session, also one that is over."""
        token = request.cookies.get(self.name(role))
        return None if token is None else self.signer.read(token, role, partial(self.mark, role))

    def find(self, request: Request, role: Role) -> Session | None:
        """Find somebody's session, if it still lasts."""
        session = self.known(request, role)
        return None if session is None or self.signer.is_over(session, self.clock()) else session

    def has_ended(self, request: Request, role: Role) -> bool:
        """Say whether somebody was here and then away for too long."""
        session = self.known(request, role)
        return session is not None and self.signer.is_over(session, self.clock())

    def need(self, request: Request, role: Role) -> Session:
        """Find somebody's session, or refuse; whoever sent something is told that it is lost."""
        session = self.find(request, role)
        if session is None:
            told = self.over if self.has_ended(request, role) else NOT_SIGNED_IN
            raise Problem(401, told + (UNSAVED if request.method == "POST" else ""))
        return session

    @property
    def over(self) -> str:
        """Say that a session is over."""
        return OVER.format(hours=self.signer.hours)

    def visitor(self, request: Request) -> Session:
        """Find, or begin, the session of somebody who has not signed in."""
        return self.find(request, "visitor") or self.signer.begin("visitor", self.clock())

    def check(self, session: Session | None, token: str) -> None:
        """Refuse a form that was not shown in this session."""
        if session is None or not same(token, self.signer.form_token(session)):
            raise Problem(403, FOREIGN_FORM)

    def posted(self, request: Request, role: Role, token: str) -> Session:
        """Find who posted a form, and refuse it if it is not theirs."""
        session = self.need(request, role)
        self.check(session, token)
        return session

    def keep(self, request: Request, response: Response, session: Session) -> None:
        """Have a browser keep a session, also when it is over; scripts cannot read it, and no other site can use it."""
        response.set_cookie(
            self.name(session.role),
            self.signer.write(session, session.mark or self.mark(session.role, session.who)),
            max_age=int(self.signer.hours * HOUR + LINGERS) // 1000,
            httponly=True,
            samesite="strict",
            secure=self.https or request.url.scheme == "https",
        )

    def renew(self, request: Request, response: Response, session: Session) -> None:
        """Let a session last on, now that somebody is here."""
        at = self.clock()
        if at - session.at > RENEWED_AFTER:
            self.keep(request, response, self.signer.renewed(session, at))

    def end(self, response: Response, session: Session) -> None:
        """End a session, and all others of the same code or secret: a cookie that was copied opens nothing any more."""
        if session.role == "admin":
            end_admin_sessions(self.store)
        else:
            end_sessions(self.store, session.who)
        self.forget(response, session.role)

    def forget(self, response: Response, role: Role) -> None:
        """Have a browser forget a session."""
        response.delete_cookie(self.name(role), httponly=True, samesite="strict")

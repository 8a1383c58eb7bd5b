"""Signed sessions in cookies, form tokens, and a limit on wrong sign-in codes."""

import asyncio
import hashlib
import hmac
import ipaddress
import re
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from fresh.study.annotators import end_sessions, session_version
from fresh.study.store import Store, now_ms
from fresh.text import plural
from fresh.web.errors import Problem

Role = Literal["visitor", "annotator", "admin"]
HOUR = 3_600_000
RENEW_AFTER = HOUR // 12  # so that not every request sets a cookie
LINGER = 30 * 24 * HOUR  # browsers keep cookies this much longer, so that a page can say that the session has ended
TOKEN = re.compile(
    r"(?P<payload>(?P<role>[a-z]+)\.(?P<who>[0-9]{1,9})\.(?P<at>[0-9]{1,15})\.(?P<nonce>[0-9a-f]+))\.(?P<signature>[0-9a-f]{64})"
)
NOT_SIGNED_IN = "You are not signed in. Sign in first."
SESSION_ENDED = "Your session ended after {hours} without activity. Sign in again to continue where you stopped."
NOT_SAVED = " What you just sent was not saved."
FOREIGN_FORM = (
    "This form belongs to another visit, or your browser does not keep cookies. Reload the page and try again."
)
MAX_NETWORKS = 10_000  # from this many on, those without a recent wrong code are forgotten
MAX_CHECKS = 4  # codes from one slowed network that are checked, or pause after a wrong code, at the same time
TOO_MANY = (
    f"Many wrong codes came from your network, so only {MAX_CHECKS} are checked at a time. Try again in a few seconds."
)


@dataclass(frozen=True, slots=True)
class Session:
    """The session of a visitor, an annotator or the admin."""

    role: Role
    who: int  # number of an annotator; 0 for others
    at: int  # time of their last request, in milliseconds since 1970
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))
    # The version when the token was read: a session that ends meanwhile must not be renewed with a newer version.
    version: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs sessions, forms and item names; all servers of a study share the key."""

    # Not itsdangerous: its tokens are no shorter to make, and its base64 lets some changed tokens pass.
    key: bytes
    hours: float = 12.0  # how long a session lasts without a request

    def write(self, session: Session, version: str = "") -> str:
        """Write a session as a token that is valid for one `session_version`."""
        payload = f"{session.role}.{session.who}.{session.at}.{session.nonce}"
        return f"{payload}.{self.sign('session', payload, version)}"

    def read(self, token: str, role: Role, version_of: Callable[[int], str] = lambda _who: "") -> Session | None:
        """Read the token of a session; None if it has another role or a wrong signature."""
        match = TOKEN.fullmatch(token)
        if match is None or match["role"] != role:
            return None
        version = version_of(int(match["who"]))
        if not is_equal(match["signature"], self.sign("session", match["payload"], version)):
            return None
        return Session(role, int(match["who"]), int(match["at"]), match["nonce"], version)

    def has_ended(self, session: Session, at: int) -> bool:
        """Check whether a session was inactive for too long."""
        return at - session.at > self.hours * HOUR

    def form_token(self, session: Session) -> str:
        """Return the token that forms of this session contain."""
        return self.sign("form", session.role, session.nonce)

    def ticket(self, annotator: int, item: int) -> str:
        """Name an item for one annotator, without revealing its kind or condition."""
        return self.sign("item", str(annotator), str(item))[:32]

    def sign(self, *parts: str) -> str:
        """Sign some texts."""
        return hmac.new(self.key, "\0".join(parts).encode(), hashlib.sha256).hexdigest()


def is_equal(one: str, other: str) -> bool:
    """Compare two texts in constant time."""
    # As bytes, since text must be ASCII there; what clients send may even contain lone surrogates.
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class Sessions:
    """The sessions of a study, in one cookie a role."""

    # Not Starlette's SessionMiddleware: its cookies cannot be ended on the server.
    store: Store
    signer: Signer
    https: bool = False  # send cookies over https only, even if the proxy does not say that it uses https
    clock: Callable[[], int] = now_ms

    def cookie_name(self, role: Role) -> str:
        """Return the name of the cookie of a role; two studies on one host have different names."""
        return f"study_{self.signer.sign('name')[:8]}_{role}"

    def version(self, role: Role, who: int) -> str:
        """Return a string that changes when the sessions of an annotator or the admin end."""
        return "" if role == "visitor" else session_version(self.store, None if role == "admin" else who)

    def _read(self, request: Request, role: Role) -> Session | None:
        token = request.cookies.get(self.cookie_name(role))
        return None if token is None else self.signer.read(token, role, partial(self.version, role))

    def find(self, request: Request, role: Role) -> Session | None:
        """Find a session that has not ended."""
        session = self._read(request, role)
        return None if session is None or self.signer.has_ended(session, self.clock()) else session

    def ended_message(self, request: Request, role: Role) -> str:
        """Explain that a session has ended; empty if there was none, or it has not."""
        session = self._read(request, role)
        ended = session is not None and self.signer.has_ended(session, self.clock())
        return SESSION_ENDED.format(hours=plural(self.signer.hours, "hour")) if ended else ""

    def require(self, request: Request, role: Role) -> Session:
        """Find a session, or refuse the request."""
        session = self.find(request, role)
        if session is None:
            message = self.ended_message(request, role) or NOT_SIGNED_IN
            raise Problem(401, message + (NOT_SAVED if request.method == "POST" else ""))
        return session

    def visitor(self, request: Request) -> Session:
        """Find or start a session before sign-in."""
        return self.find(request, "visitor") or Session("visitor", 0, self.clock())

    def check_form(self, session: Session | None, token: str) -> None:
        """Refuse a form that is not from this session."""
        if session is None or not is_equal(token, self.signer.form_token(session)):
            raise Problem(403, FOREIGN_FORM)

    def require_form(self, request: Request, role: Role, token: str) -> Session:
        """Find the session of a form, or refuse the form."""
        session = self.require(request, role)
        self.check_form(session, token)
        return session

    def set_cookie(self, request: Request, response: Response, session: Session) -> None:
        """Store a session in a cookie that scripts cannot read and other sites cannot send."""
        response.set_cookie(
            self.cookie_name(session.role),
            self.signer.write(session, session.version or self.version(session.role, session.who)),
            max_age=int(self.signer.hours * HOUR + LINGER) // 1000,
            httponly=True,
            samesite="strict",
            secure=self.https or request.url.scheme == "https",
        )

    def renew(self, request: Request, response: Response, session: Session) -> None:
        """Extend a session."""
        at = self.clock()
        if at - session.at > RENEW_AFTER:
            self.set_cookie(request, response, replace(session, at=at))

    def end(self, response: Response, session: Session) -> None:
        """End a session and all others of the same code or secret: a copied cookie is useless afterwards."""
        end_sessions(self.store, None if session.role == "admin" else session.who)
        self.delete_cookie(response, session.role)

    def delete_cookie(self, response: Response, role: Role) -> None:
        """Delete the cookie of a role."""
        response.delete_cookie(self.cookie_name(role), httponly=True, samesite="strict")


@dataclass(slots=True)
class RateLimiter:
    """Checks codes; after many wrong codes from a network, limits how fast codes from there are checked."""

    # A slowed network gets 4 guesses a second: MAX_CHECKS at a time, each with a pause of a second. The limit is per
    # network, so that none can block another; right codes stay valid, since a school or a proxy is one network. Not
    # slowapi or limits: they would refuse right codes too. The length of codes (31^12, 8e17 secrets) makes guessing
    # infeasible; the pause is for admin secrets that people choose themselves.

    most: int = 20
    seconds: float = 600
    pause: float = 1
    clock: Callable[[], float] = time.monotonic
    # Only the event loop changes these, so that no lock is needed.
    failures: dict[str, deque[float]] = field(default_factory=dict)
    n_checks: Counter[str] = field(default_factory=Counter)  # checks in progress, by slowed network

    async def check(self, address: str, find: Callable[[], int | None]) -> int | None:
        """Find whose code it is, in a thread; `find` returns None for a wrong code."""
        network = _network_of(address)
        if not self.is_slowed(network):
            return self._record(network, await run_in_threadpool(find))
        if self.n_checks[network] >= MAX_CHECKS:
            raise Problem(429, TOO_MANY, {"Retry-After": "5"})
        self.n_checks[network] += 1
        try:
            who = self._record(network, await run_in_threadpool(find))
            if who is None:
                await asyncio.sleep(self.pause)
            return who
        finally:
            self.n_checks -= Counter([network])  # which drops the networks that are down to 0

    def is_slowed(self, network: str) -> bool:
        """Check whether many wrong codes came from a network recently."""
        times = self.failures.get(network, deque())
        return len(times) >= self.most and times[0] > self.clock() - self.seconds

    def _record(self, network: str, who: int | None) -> int | None:
        if who is None:
            at = self.clock()
            if len(self.failures) >= MAX_NETWORKS:
                recent = at - self.seconds
                self.failures = {name: times for name, times in self.failures.items() if times[-1] > recent}
            self.failures.setdefault(network, deque(maxlen=self.most)).append(at)
        return who


def _network_of(address: str) -> str:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    # In IPv6, one person has many addresses: a provider gives each a network of 64 bits.
    return str(parsed.ipv4_mapped or ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))

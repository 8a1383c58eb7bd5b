"""What stands before every page: safe headers, whose requests are taken, how large and how slow they may be."""

import asyncio
import ipaddress
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fresh.web.errors import UNEXPECTED, Problem, Teller

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with none at all, browsers would not say that a form is one of our own
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
SAFE = ("GET", "HEAD", "OPTIONS")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
MEGABYTE = 1024**2
HOST = re.compile(
    r"(?=.{1,253}$)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*(?!\d+$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
)


@dataclass(frozen=True, slots=True)
class Rules:
    """Which requests are taken."""

    hosts: frozenset[str] = frozenset()
    """Names under which the server may be reached; any if empty."""
    most_bytes: int = 2 * MEGABYTE
    """Size of a body, at most."""
    larger: Mapping[str, int] = field(default_factory=dict)
    """Another such size for addresses that end so."""
    seconds: float = 30.0
    """Time in which the whole body must have come."""

    def room(self, path: str) -> int:
        """Say how large a body may be."""
        return next((size for end, size in self.larger.items() if path.endswith(end)), self.most_bytes)


def hosts_of(bound: str, allowed: frozenset[str]) -> frozenset[str]:
    """Say under which names a server may be reached.

    On loopback only under its own, so that no page elsewhere can reach it under a name that it made to point here.

    :param bound: The address that the server listens on.
    :param allowed: Further names, such as that of a reverse proxy.
    """
    if not is_loopback(bound):
        return allowed
    return frozenset((*LOOPBACK, bound.lower())) | allowed


def wrong_host(name: str) -> str | None:
    """Say that something is no name of a server, as browsers send it."""
    with suppress(ValueError):
        ipaddress.ip_address(name)
        return None
    if HOST.fullmatch(name):
        return None
    return (
        f"`allow_hosts` takes the name of a server alone, such as texts.example.org, got {name!r:.60}. Leave out what "
        "stands before it (https://) and behind it (a port, a path); letters that are not English as xn--."
    )


def wrong_proxy(address: str) -> str | None:
    """Say that something is not the address of a proxy, or a network of them."""
    try:
        ipaddress.ip_network(address)
    except ValueError as error:
        return f"`trusted_proxies` takes an IP address or a network, such as 127.0.0.1 or 10.0.0.0/24: {error}."
    return None


def is_loopback(host: str) -> bool:
    """Say whether an address is reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _name_in(host: str) -> str:
    """Take the name out of a Host header, without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


class Guard:
    """Refuses what must not reach the pages, and puts safe headers on all that leaves them."""

    def __init__(self, app: ASGIApp, rules: Rules, teller: Teller | None = None) -> None:
        self.app = app
        self.rules = rules
        self.teller = teller or Teller()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have it answered."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            self.check(scope)
        except Problem as problem:
            refused = self.teller.tell(scope, problem)
            refused.headers["Connection"] = "close"  # what is still on its way is not read
            await refused(scope, receive, _with_headers(send))
            return
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        guarded = _with_headers(sent)
        try:
            await self.app(scope, self.limited(scope, receive), guarded)
        except Exception:  # the framework would answer from outside, without these headers
            if not begun:
                await self.teller.respond(scope, 500, UNEXPECTED, None)(scope, receive, guarded)
            raise

    def check(self, scope: Scope) -> None:
        """Refuse a request for what its head says."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self.rules.hosts and _name_in(host) not in self.rules.hosts:
            raise Problem(
                421,
                f"This server is not reached as {host!r}. Use the address that it printed, or start it with "
                "--allow-host and that name.",
            )
        origin = headers.get("origin")
        if scope["method"] not in SAFE and origin is not None and not self.is_own(origin, host):
            raise Problem(403, f"A page of {origin} may not ask this server. Ask it from its own page, or without one.")
        length, room = headers.get("content-length", "0"), self.rules.room(scope["path"])
        if length.isdecimal() and int(length) > room:
            raise _too_large(room)

    def is_own(self, origin: str, host: str) -> bool:
        """Say whether a page is one of this server."""
        try:
            place = urlsplit(origin)
        except ValueError:
            return False
        return place.netloc.lower() == host.lower() or (place.hostname or "") in self.rules.hosts - {*LOOPBACK}

    def limited(self, scope: Scope, receive: Receive) -> Receive:
        """Receive a body that is neither too large nor too slow."""
        room, loop = self.rules.room(scope["path"]), asyncio.get_running_loop()
        ends, n_bytes, whole = loop.time() + self.rules.seconds, 0, False

        async def checked() -> Message:
            nonlocal n_bytes, whole
            if whole:  # what comes now is only that the client left
                return await receive()
            try:
                async with asyncio.timeout_at(ends):
                    message = await receive()
            except TimeoutError as error:
                told = f"The request did not come whole within {self.rules.seconds:g} seconds. Send it again."
                raise Problem(408, told, {"Connection": "close"}) from error
            n_bytes += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if n_bytes > room:
                raise _too_large(room)
            return message

        return checked


def _too_large(room: int) -> Problem:
    """Say that a body is too large."""
    size = f"{room // MEGABYTE} MB" if room >= MEGABYTE else f"{room:,} bytes"
    told = f"The request is larger than {size}, the most that is taken here. Send less at a time."
    return Problem(413, told, {"Connection": "close"})


def _with_headers(send: Send) -> Send:
    """Put safe headers on what is sent; what says nothing of caches is not kept by any."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.setdefault("Cache-Control", "no-store")
            for name, value in HEADERS.items():
                headers[name] = value
        await send(message)

    return sent

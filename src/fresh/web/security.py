"""Security of every request: host and origin checks, limits on the body, and response headers."""

import asyncio
import ipaddress
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fresh.text import plural
from fresh.web.errors import INTERNAL_ERROR, ErrorRenderer, Problem

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with "no-referrer", browsers send forms of our own pages with "Origin: null"
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_MEGABYTE = 1024**2
_HOST_NAME = re.compile(
    r"(?=.{1,253}$)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*(?!\d+$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
)


@dataclass(frozen=True, slots=True)
class SecurityConfig:
    """Which requests a server accepts."""

    hosts: frozenset[str] = frozenset()  # names under which the server may be reached; any if empty
    max_body_bytes: int = 2 * _MEGABYTE
    upload_bytes: Mapping[str, int] = field(default_factory=dict)  # larger limits, by the end of the path
    body_timeout: float = 30.0  # seconds within which the whole body must arrive

    def body_limit(self, path: str) -> int:
        """Return the size limit of bodies sent to a path."""
        return next((size for end, size in self.upload_bytes.items() if path.endswith(end)), self.max_body_bytes)


def allowed_hosts(listen_address: str, allow_hosts: frozenset[str]) -> frozenset[str]:
    """List the names under which a server may be reached; empty for any.

    On loopback only its own names: otherwise a foreign page could reach it by DNS rebinding.

    :param listen_address: Address that the server listens on.
    :param allow_hosts: Additional names, such as that of a reverse proxy.
    """
    if not is_loopback(listen_address):
        return allow_hosts
    return frozenset((*_LOOPBACK, listen_address.lower())) | allow_hosts


def check_host(name: str) -> str | None:
    """Return what is wrong with the name of a host, if anything."""
    with suppress(ValueError):
        ipaddress.ip_address(name)
        return None
    if _HOST_NAME.fullmatch(name):
        return None
    return (
        f"allow_hosts must be host names, such as texts.example.org, got {name!r:.60}. Leave out the scheme "
        "(https://), the port and the path; write letters that are not ASCII as Punycode (xn--...)."
    )


def check_proxy(address: str) -> str | None:
    """Return what is wrong with the address or network of a proxy, if anything."""
    try:
        ipaddress.ip_network(address)
    except ValueError as error:
        return f"trusted_proxies must be IP addresses or networks, such as 127.0.0.1 or 10.0.0.0/24: {error}."
    return None


def is_loopback(host: str) -> bool:
    """Check whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


class SecurityMiddleware:
    """Refuses requests that break the rules, and adds security headers to every response."""

    def __init__(self, app: ASGIApp, config: SecurityConfig, renderer: ErrorRenderer | None = None) -> None:
        self.app = app
        self.config = config
        self.renderer = renderer or ErrorRenderer()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def safe_send(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started, headers = True, MutableHeaders(scope=message)
                headers.setdefault("Cache-Control", "no-store")  # unless the response says otherwise
                headers.update(HEADERS)
            await send(message)

        try:
            self._check(scope)
        except Problem as problem:
            response = self.renderer.render(scope, problem)
            response.headers["Connection"] = "close"  # the body is not read
            await response(scope, receive, safe_send)
            return
        try:
            await self.app(scope, self._limited(scope, receive), safe_send)
        except Exception:  # Starlette would respond outside this middleware, without the headers
            if not started:
                await self.renderer.respond(scope, 500, INTERNAL_ERROR, None)(scope, receive, safe_send)
            raise

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self.config.hosts and _host_name(host) not in self.config.hosts:
            way_out = "Use the address that it printed, or restart it with this host among those that it allows."
            raise Problem(421, f"This server does not answer to the host {host!r}. {way_out}")
        origin = headers.get("origin")
        # Behind a proxy the port may differ; on loopback it may not: another port is another program.
        place = (origin or "").partition("://")[2]
        is_own = place.lower() == host.lower() or _host_name(place) in self.config.hosts - {*_LOOPBACK}
        if scope["method"] not in _SAFE_METHODS and origin is not None and not is_own:
            raise Problem(403, f"Pages of {origin} may not send requests to this server. Use the server's own page.")
        # What announces no length, such as a chunked body, is counted as it arrives.
        length, limit = headers.get("content-length", "0"), self.config.body_limit(scope["path"])
        if length.isdecimal() and int(length) > limit:
            raise _too_large(limit)

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        """Limit the size of a body, and the time it takes to arrive."""
        limit, loop = self.config.body_limit(scope["path"]), asyncio.get_running_loop()
        deadline, n_bytes, complete = loop.time() + self.config.body_timeout, 0, False

        async def limited_receive() -> Message:
            nonlocal n_bytes, complete
            if complete:  # the next message says that the client left, which may take any time
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError as error:
                text = f"The request did not arrive within {plural(self.config.body_timeout, 'second')}. Send it again."
                raise Problem(408, text, {"Connection": "close"}) from error
            n_bytes += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if n_bytes > limit:
                raise _too_large(limit)
            return message

        return limited_receive


def _too_large(limit: int) -> Problem:
    size = f"{limit // _MEGABYTE} MB" if limit >= _MEGABYTE else f"{limit:,} bytes"
    return Problem(413, f"The request is larger than {size}. Send less at a time.", {"Connection": "close"})

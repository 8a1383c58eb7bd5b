"""The app that all servers build on, its static files, and the port it listens on."""

import errno
import gc
import hashlib
import socket
from collections.abc import Collection, Mapping
from importlib.resources import files
from typing import Any

import fastapi
import uvicorn
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from fresh.web.errors import ErrorRenderer, Problem, add_error_handlers
from fresh.web.metrics import MetricsMiddleware, ServerMetrics
from fresh.web.security import SecurityConfig, SecurityMiddleware, is_loopback

OPENAPI = "/v1/openapi.json"
CACHE_FOREVER = "public, max-age=31536000, immutable"
_MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_MAX_CONNECTIONS = 1000
# Addresses that stand for all of a machine, and one of those.
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
# Reserved for documentation, so that nobody has them.
_UNUSED_ADDRESS: dict[int, str] = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}


class PortError(OSError):
    """A port that cannot be listened on."""


class Assets:
    """Styles, scripts and images, under URLs with one digest of all: browsers cache them until any of them changes."""

    def __init__(self, content: Mapping[str, bytes]) -> None:
        self.content = dict(content)
        digest = hashlib.sha256()
        for name in sorted(self.content):
            digest.update(name.encode() + b"\0" + self.content[name] + b"\0")
        self.digest = digest.hexdigest()[:12]

    def url(self, name: str) -> str:
        """Return the URL of a file."""
        assert name in self.content, name
        return f"/static/{self.digest}/{name}"

    def serve(self, digest: str, name: str) -> Response:
        """Return a file from memory; no path from a client is ever opened."""
        content = self.content.get(name)
        if content is None or digest != self.digest:
            raise Problem(404, "There is no such file in this version of the pages. Reload the page.")
        media_type = _MEDIA_TYPES[name[name.rindex(".") :]]
        headers = {"Cache-Control": CACHE_FOREVER, "ETag": f'"{self.digest}"'}
        return Response(content, media_type=media_type, headers=headers)


def read_assets(package: str, folder: str = "") -> dict[str, bytes]:
    """Read the styles, scripts and images of a package."""
    directory = files(package).joinpath(folder)
    return {item.name: item.read_bytes() for item in directory.iterdir() if item.name.endswith(tuple(_MEDIA_TYPES))}


def template_environment(package: str, folder: str, assets: Assets) -> Environment:
    """Load the templates of a package; values are escaped, and undefined names are errors."""
    loader = PackageLoader(package, folder)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals["asset"] = assets.url
    return environment


class _HeadMiddleware:
    """Answers HEAD like GET, without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The server itself leaves the body out, as ASGI says.
        await self.app({**scope, "method": "GET"} if scope.get("method") == "HEAD" else scope, receive, send)


def make_app(
    title: str,
    version: str,
    security: SecurityConfig,
    assets: Assets,
    metrics: ServerMetrics,
    renderer: ErrorRenderer | None = None,
    **options: Any,
) -> fastapi.FastAPI:
    """Make an app with security, static files, metrics and error handlers.

    :param renderer: How errors are shown; as problem details by default.
    :param options: Passed to FastAPI, such as ``lifespan``.
    """
    renderer = renderer or ErrorRenderer()
    options = {"openapi_url": OPENAPI, "docs_url": None, "redoc_url": None, **options}
    app = fastapi.FastAPI(title=title, version=version, **options)
    app.add_api_route("/static/{digest}/{name}", assets.serve, include_in_schema=False, response_class=Response)
    app.add_api_route("/metrics", metrics.render, include_in_schema=False, response_class=Response)
    add_error_handlers(app, renderer)
    # The last one added runs first: metrics also count what the security middleware refuses.
    app.add_middleware(SecurityMiddleware, config=security, renderer=renderer)
    app.add_middleware(MetricsMiddleware, metrics=metrics)
    app.add_middleware(_HeadMiddleware)
    return app


def bind(host: str, port: int) -> socket.socket:
    """Listen on a port; 0 takes a free one."""
    if not 0 <= port < 2**16:
        raise PortError(f"port must be from 0 to 65535, got {port}.")
    no_address = f"{host} is not an address of this machine. Use 127.0.0.1, or 0.0.0.0 for all addresses."
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise PortError(no_address) from error
    # Without the protocol, asyncio leaves TCP_NODELAY off, and small responses wait 40 ms.
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        messages = {
            errno.EADDRINUSE: f"Port {port} of {host} is in use. Choose another `port`, or port=0 for a free one.",
            errno.EACCES: f"Port {port} of {host} needs administrator rights. Choose a `port` of 1024 or above.",
            errno.EADDRNOTAVAIL: no_address,
        }
        other = f"Port {port} of {host} cannot be used ({error.strerror}). Choose another `port`."
        raise PortError(messages.get(error.errno or 0, other)) from error
    return listener


def server_url(listener: socket.socket) -> str:
    """Return a URL that opens on this machine."""
    host, port = listener.getsockname()[:2]
    return _url(_ANY_ADDRESS.get(host, host), port)


def server_urls(listener: socket.socket, allow_hosts: Collection[str] = ()) -> list[str]:
    """List the URLs of a server, the one for this machine first.

    :param allow_hosts: Names that the server answers to besides those of loopback.
    """
    host, port = listener.getsockname()[:2]
    if allow_hosts and not is_loopback(host):
        return [_url(name, port) for name in sorted(allow_hosts)]
    others = [socket.gethostname(), *_network_address(listener.family)] if host in _ANY_ADDRESS else []
    return [server_url(listener), *(_url(name, port) for name in others)]


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _network_address(family: int) -> list[str]:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((_UNUSED_ADDRESS[family], 9))  # sends nothing: datagrams have no connection
            return [probe.getsockname()[0]]
    except OSError:
        return []


def make_server(app: fastapi.FastAPI, trusted_proxies: Collection[str] = ()) -> uvicorn.Server:
    """Make a server; run it with ``run(sockets=[bind(...)])`` and end it with ``should_exit = True``.

    :param trusted_proxies: Proxies whose X-Forwarded-For and X-Forwarded-Proto are believed.
    """
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        http="h11",
        ws="none",
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=sorted(trusted_proxies),  # by default uvicorn believes every client on loopback
        timeout_keep_alive=15,
        timeout_graceful_shutdown=5,
        limit_concurrency=_MAX_CONNECTIONS,
    )
    return uvicorn.Server(config)


def serve(app: fastapi.FastAPI, listener: socket.socket, trusted_proxies: Collection[str] = ()) -> None:
    """Serve until the process is told to end."""
    # The garbage collector would go through the loaded models again and again, 0.25 s each time.
    gc.collect()
    gc.freeze()
    make_server(app, trusted_proxies).run(sockets=[listener])

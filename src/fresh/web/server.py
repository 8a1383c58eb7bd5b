"""What every server of pages shares: an app that guards itself, and the port it listens on."""

import errno
import gc
import socket
from collections.abc import Collection
from typing import Any

import fastapi
import uvicorn
from starlette.responses import Response

from fresh.web.assets import Assets
from fresh.web.errors import Teller, tell_problems
from fresh.web.metrics import Counted, ServerMetrics
from fresh.web.security import Guard, Rules, is_loopback
from fresh.web.slow_clients import AnswersHead, Punctual

OPENAPI = "/v1/openapi.json"
MOST_CONNECTIONS = 1000
ALL = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
"""What stands for all addresses of a machine, and one of them that can be opened there."""
ELSEWHERE: dict[int, str] = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses that are nobody's, of which the system still says from where they would be asked."""


class PortError(OSError):
    """An address that cannot be listened on."""


def make_app(
    title: str,
    version: str,
    rules: Rules,
    assets: Assets,
    measures: ServerMetrics,
    teller: Teller | None = None,
    **more: Any,
) -> fastapi.FastAPI:
    """Make an app with files and figures that tells what goes wrong, and a guard before it.

    :param teller: How it does; as problem details, if nothing is said.
    :param more: Passed to FastAPI, such as ``lifespan``.
    """
    teller, given = teller or Teller(), {"openapi_url": OPENAPI, **more}
    app = fastapi.FastAPI(title=title, version=version, docs_url=None, redoc_url=None, **given)
    app.add_api_route("/static/{digest}/{name}", assets.serve, include_in_schema=False, response_class=Response)
    app.add_api_route("/metrics", measures.exposed, include_in_schema=False, response_class=Response)
    tell_problems(app, teller)
    app.add_middleware(Guard, rules=rules, teller=teller)
    app.add_middleware(Counted, measures=measures)
    app.add_middleware(AnswersHead)
    return app


def bind(host: str, port: int) -> socket.socket:
    """Take a port; 0 takes one that is free."""
    if not 0 <= port < 2**16:
        raise PortError(f"A port is a number from 0 to 65535, got {port}.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise PortError(f"{host} is no address of this machine. Use 127.0.0.1, or 0.0.0.0 for all of them.") from error
    taken = socket.socket(family, kind, protocol)  # without its protocol, small answers wait 40 ms for company
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind(address)
        taken.listen(128)
    except OSError as error:
        taken.close()
        raise PortError(_unbound(host, port, error)) from error
    return taken


def _unbound(host: str, port: int, error: OSError) -> str:
    """Say why a port could not be taken."""
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} of {host} is in use. Choose another with `port`, or let one be found with port=0."
    if error.errno == errno.EACCES:
        return f"Port {port} of {host} is for administrators only. Choose one from 1024 on with `port`."
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine. Use 127.0.0.1, or 0.0.0.0 for all of them."
    return f"Port {port} of {host} cannot be used ({error.strerror}). Choose another with `port`."


def address_of(taken: socket.socket) -> str:
    """Write an address at which a page is reached from this machine."""
    host, port = taken.getsockname()[:2]
    return _written(ALL.get(host, host), port)


def addresses_of(taken: socket.socket, allowed: Collection[str] = ()) -> list[str]:
    """Write all addresses at which a page is reached, that for this machine first.

    :param allowed: The names that the guard knows beside those of loopback.
    """
    host, port = taken.getsockname()[:2]
    if allowed and not is_loopback(host):
        return [_written(name, port) for name in sorted(allowed)]
    others = [socket.gethostname(), *_own_address(taken.family)] if host in ALL else []
    return [address_of(taken), *(_written(name, port) for name in others)]


def _written(host: str, port: int) -> str:
    """Write the address of a page."""
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _own_address(family: int) -> list[str]:
    """Find the address of this machine in its network, if it is in one; nothing is sent."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((ELSEWHERE[family], 9))
            return [probe.getsockname()[0]]
    except OSError:
        return []


def _serving(app: fastapi.FastAPI, trusted_proxies: Collection[str] = ()) -> uvicorn.Server:
    """Make a server; run it with ``run(sockets=[bind(...)])``, and end it with ``should_exit = True``.

    :param trusted_proxies: Addresses and networks of proxies that say where a request comes from, and by which scheme.
    """
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        http=Punctual,
        ws="none",
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=sorted(trusted_proxies),  # by default uvicorn believes all that comes from loopback
        timeout_keep_alive=15,
        timeout_graceful_shutdown=5,
        limit_concurrency=MOST_CONNECTIONS,
    )
    return uvicorn.Server(config)


def serve(app: fastapi.FastAPI, taken: socket.socket, trusted_proxies: Collection[str] = ()) -> None:
    """Serve on a port, in a process of its own, until that is told to end.

    What was loaded so far stays to the end: looked through for garbage again and again, as Python would, it held up all
    requests for a quarter of a second each time.
    """
    gc.collect()
    gc.freeze()
    _serving(app, trusted_proxies).run(sockets=[taken])

"""An app on a free port, for browsers."""

import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive

from fresh.web.server import bind, make_server, server_url


@contextmanager
def running(app: FastAPI, trusted_proxies: Collection[str] = ()) -> Iterator[str]:
    with bind("127.0.0.1", 0) as taken:
        server = make_server(app, trusted_proxies)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield server_url(taken)
        finally:
            server.should_exit = True
            thread.join()


async def call_app(app: ASGIApp, path: str, receive: Receive) -> list[Message]:
    """Post JSON to an app without a server, and return what it sends."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "headers": headers}
    rest = {"query_string": b"", "http_version": "1.1", "scheme": "http", "root_path": "", "state": {}}
    await app({**scope, **rest, "client": None, "server": None}, receive, send)
    return sent

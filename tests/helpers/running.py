"""An app on a free port, for browsers."""

import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from fastapi import FastAPI

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

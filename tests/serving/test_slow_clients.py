"""Heads of requests that come late, and answers of which only the head is asked for."""

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from fresh.web import slow_clients as heads
from fresh.web.assets import Assets
from fresh.web.metrics import ServerMetrics
from fresh.web.security import Rules
from fresh.web.server import make_app
from running import running

HEAD = b"GET /page HTTP/1.1\r\nHost: localhost\r\n"
AGES = 30.0


@pytest.fixture
def app() -> FastAPI:
    made = make_app("a test", "1", Rules(), Assets({"page.js": b"start();"}), ServerMetrics())

    @made.get("/page")
    def page() -> str:
        return "a page"

    @made.post("/page")
    def post(body: dict[str, str]) -> str:
        return "posted"

    return made


@pytest.fixture
def address(app: FastAPI) -> Iterator[str]:
    with running(app) as address:
        yield address


def connected(address: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", urlsplit(address).port or 0), AGES)


def test_the_head_of_a_page_can_be_asked_for(app: FastAPI) -> None:
    client = TestClient(app)
    whole, head = client.get("/page"), client.head("/page")
    assert (head.status_code, head.content, whole.text) == (200, b"", '"a page"')
    assert head.headers == whole.headers  # its length too
    assert client.head("/nowhere").status_code == 404
    assert client.head("/metrics").status_code == 200


def test_over_a_connection_a_head_has_no_body(address: str) -> None:
    with connected(address) as client:
        client.sendall(HEAD.replace(b"GET", b"HEAD") + b"\r\n" + HEAD + b"Connection: close\r\n\r\n")
        received = b"".join(iter(lambda: client.recv(4096), b""))
    assert received.count(b"HTTP/1.1 200 OK") == 2
    assert received.count(b"content-length: 8") == 2
    assert received.count(b'"a page"') == 1


@pytest.mark.parametrize("sent", [b"", HEAD])
def test_a_head_that_does_not_come_is_not_waited_for(
    address: str, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "SECONDS", 0.2)
    with connected(address) as client:
        client.sendall(sent)
        assert client.recv(100) == b""  # else this would wait until the test gives up


def test_a_head_that_trickles_in_is_not_waited_for(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "SECONDS", 0.3)
    with connected(address) as client:
        client.settimeout(0.05)
        for letter in HEAD * 10:
            with suppress(OSError):  # it was closed
                client.sendall(bytes([letter]))
            with suppress(TimeoutError, ConnectionResetError):
                assert client.recv(100) == b""
                return
    raise AssertionError("It is still waited for.")


def test_the_second_request_of_a_connection_must_come_whole_too(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "SECONDS", 1.0)
    with connected(address) as client:
        client.sendall(HEAD + b"\r\n")
        received = b""
        while not received.endswith(b'"a page"'):
            received += client.recv(4096)
        time.sleep(1.5)  # between requests a connection may be silent
        client.sendall(HEAD)
        assert client.recv(100) == b""


def test_a_body_may_take_longer_than_a_head(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "SECONDS", 1.0)
    with connected(address) as client:
        head = HEAD.replace(b"GET", b"POST") + b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n"
        client.sendall(head)
        time.sleep(1.5)
        client.sendall(b"{}")
        assert client.recv(100).startswith(b"HTTP/1.1 200 OK")

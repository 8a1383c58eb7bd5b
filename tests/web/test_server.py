"""Ports that servers listen on, and the URLs that they print."""

import socket
from unittest.mock import Mock

import pytest

from fresh.web.server import _ANY_ADDRESS, PortError, _network_address, _url, bind, server_url, server_urls


def test_a_port_in_use_is_reported() -> None:
    with bind("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert server_url(listener) == f"http://127.0.0.1:{port}/"
        assert listener.proto == socket.IPPROTO_TCP  # else small responses wait 40 ms
        with pytest.raises(PortError, match=rf"Port {port} of 127\.0\.0\.1 is in use.*port=0"):
            bind("127.0.0.1", port)


def test_invalid_addresses_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PortError, match=r"port must be from 0 to 65535, got 70000"):
        bind("127.0.0.1", 70000)
    monkeypatch.setattr(socket, "getaddrinfo", Mock(side_effect=socket.gaierror))
    with pytest.raises(PortError, match=r"no\.such\.host is not an address of this machine.*127\.0\.0\.1"):
        bind("no.such.host", 80)


def test_urls_of_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "desk")
    monkeypatch.setattr("fresh.web.server._network_address", lambda _family: ["192.168.0.7"])
    with bind("0.0.0.0", 0) as listener:  # noqa: S104
        port = listener.getsockname()[1]
        here = f"http://127.0.0.1:{port}/"
        assert server_url(listener) == here
        assert server_urls(listener) == [here, f"http://desk:{port}/", f"http://192.168.0.7:{port}/"]
        assert server_urls(listener, {"b.example", "a.example"}) == [
            f"http://a.example:{port}/",  # it answers to no other names
            f"http://b.example:{port}/",
        ]
    with bind("127.0.0.1", 0) as listener:
        assert server_urls(listener, {"a.example"}) == [server_url(listener)]
    assert _url(_ANY_ADDRESS["::"], 80) == "http://[::1]:80/"


def test_there_is_at_most_one_network_address(monkeypatch: pytest.MonkeyPatch) -> None:
    for address in _network_address(socket.AF_INET):
        socket.inet_pton(socket.AF_INET, address)
    monkeypatch.setattr(socket, "socket", Mock(side_effect=OSError("Network is unreachable")))
    assert _network_address(socket.AF_INET) == []

"""What stands before every page: headers, hosts, origins, sizes, times, files, ports."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI, Request
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from starlette.types import Message

from fresh.serving.config import ServeConfig
from fresh.study.web.app import StudyServeConfig
from fresh.web.errors import Problem
from fresh.web.metrics import ServerMetrics
from fresh.web.security import HEADERS, SecurityConfig, SecurityMiddleware, _host_name, allowed_hosts, is_loopback
from fresh.web.server import CACHE_FOREVER, Assets, make_app, template_environment
from running import call_app, running
from served import problem

ASSETS = Assets({"page.css": b"body {}", "page.js": b"start();"})
RULES = SecurityConfig(
    allowed_hosts("127.0.0.1", frozenset({"proxy.example"})),
    max_body_bytes=100,
    upload_bytes={"/large": 1000},
    body_timeout=5,
)


def app_with(rules: SecurityConfig) -> FastAPI:
    app = make_app("a test", "1", rules, ASSETS, ServerMetrics())

    @app.post("/small")
    @app.post("/large")
    async def count(body: dict[str, str]) -> int:
        return len(body)

    @app.get("/broken")
    def broken() -> None:
        raise RuntimeError("a secret")

    return app


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(app_with(RULES), base_url="http://127.0.0.1:8000", raise_server_exceptions=False) as client:
        yield client


@pytest.mark.parametrize("address", ["/metrics", "/nowhere", "/broken", "/small"])
def test_every_response_has_security_headers(client: TestClient, address: str) -> None:
    found = client.get(address).headers
    assert {name: found[name] for name in HEADERS} == HEADERS
    assert found["cache-control"] == "no-store"
    for unsafe in ("unsafe-inline", "unsafe-eval", "*"):
        assert unsafe not in found["content-security-policy"]


def test_internal_errors_are_not_revealed(client: TestClient) -> None:
    status, message = problem(client.get("/broken"))
    assert (status, "secret" in message) == (500, False)
    assert problem(client.get("/a")) == (404, "Not found. See /v1/openapi.json.")
    assert problem(client.get("/small")) == (405, "Method not allowed. See /v1/openapi.json.")


def test_head_is_answered_like_get_without_the_body(client: TestClient) -> None:
    whole, head = client.get(ASSETS.url("page.js")), client.head(ASSETS.url("page.js"))
    assert (head.status_code, head.content, whole.text) == (200, b"", "start();")
    assert head.headers == whole.headers  # the length too
    assert client.head("/nowhere").status_code == 404
    assert client.head("/metrics").status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[", "localhost@evil.example:8000"])
def test_other_host_names_are_refused_on_loopback(client: TestClient, host: str) -> None:
    status, message = problem(client.get("/metrics", headers={"host": host}))
    assert (status, repr(host) in message) == (421, True)
    for own in ("127.0.0.1:8000", "localhost", "LOCALHOST:99", "[::1]:8000", "proxy.example"):
        assert client.get("/metrics", headers={"host": own}).status_code == 200


@pytest.mark.parametrize(
    ("trusted", "believed"),
    [((), False), (("10.0.0.0/8", "::1"), False), (("127.0.0.1",), True), (("10.1.0.0/16", "127.0.0.0/8"), True)],
)
def test_only_trusted_proxies_set_the_client_address(
    trusted: tuple[str, ...], believed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")  # uvicorn would take it, unless it is told otherwise
    app = FastAPI()

    @app.get("/")
    def seen(request: Request) -> list[str]:
        return [request.client.host if request.client else "", request.url.scheme]

    forwarded = {"X-Forwarded-For": "198.51.100.9, 203.0.113.7", "X-Forwarded-Proto": "https"}
    with running(app, trusted) as address:
        found = httpx.get(address, headers=forwarded).json()
    assert found == (["203.0.113.7", "https"] if believed else ["127.0.0.1", "http"])


def test_foreign_origins_may_not_post(client: TestClient) -> None:
    headers = {"host": "127.0.0.1:8000"}
    for origin in ("http://evil.example", "null", "http://localhost:8001", "http://[", "http://127.0.0.1:80000"):
        status, message = problem(client.post("/small", json={}, headers=headers | {"origin": origin}))
        assert (status, origin in message) == (403, True)
    for origin in ("http://127.0.0.1:8000", "https://proxy.example"):
        assert client.post("/small", json={}, headers=headers | {"origin": origin}).status_code == 200


def test_body_size_is_limited(client: TestClient) -> None:
    body = {"a": "x" * 200}
    refusal = problem(client.post("/small", json=body))
    assert (refusal[0], "larger than 100 bytes" in refusal[1]) == (413, True)
    assert client.post("/large", json=body).status_code == 200


@pytest.mark.parametrize(
    ("pause", "timeout", "status", "message"),
    [(0.01, 1, 413, b"larger than 100 bytes"), (60, 0.05, 408, b"did not arrive within 0.05 seconds")],
    ids=["counted as it arrives", "late"],
)
def test_a_body_must_arrive_in_time(pause: float, timeout: float, status: int, message: bytes) -> None:
    """Also one of unknown length, whose size is limited too."""

    async def part() -> Message:
        await asyncio.sleep(pause)
        return {"type": "http.request", "body": b"x" * 60, "more_body": True}

    sent = asyncio.run(call_app(app_with(replace(RULES, body_timeout=timeout)), "/small", part))
    assert sent[0]["status"] == status
    assert message in sent[1]["body"]


@given(st.text(), st.sampled_from(["127.0.0.1", "localhost", "::1"]))
def test_only_loopback_names_pass_on_loopback(host: str, bound: str) -> None:
    rules = SecurityConfig(allowed_hosts(bound, frozenset()))
    headers = [(b"host", host.encode("latin-1", "replace"))]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": headers}
    known = _host_name(host.encode("latin-1", "replace").decode("latin-1")) in ("127.0.0.1", "localhost", "::1")
    with nullcontext() if known else pytest.raises(Problem, match=r"^421: .*host"):
        SecurityMiddleware(app_with(rules), rules)._check(scope)


def test_beyond_loopback_any_name_passes_unless_some_are_listed() -> None:
    assert allowed_hosts("0.0.0.0", frozenset()) == frozenset()  # noqa: S104
    assert allowed_hosts("10.0.0.5", frozenset({"a.example"})) == {"a.example"}
    assert is_loopback("127.8.8.8")
    assert not is_loopback("a.example")


def test_assets_are_cached_under_urls_with_their_digest(client: TestClient) -> None:
    answer = client.get(ASSETS.url("page.js"))
    assert (answer.text, answer.headers["cache-control"]) == ("start();", CACHE_FOREVER)
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    other = Assets({"page.css": b"body { }", "page.js": b"start();"})
    assert other.url("page.js") != ASSETS.url("page.js")
    for address in (other.url("page.js"), f"/static/{ASSETS.digest}/..%2f..%2fguard.py"):
        assert client.get(address).status_code == 404
    assert "Reload the page" in problem(client.get(other.url("page.js")))[1]


def test_templates_escape_values() -> None:
    templates = template_environment("fresh.web", "pages", ASSETS)
    assert templates.from_string("{{ it }}").render(it="<b>&'") == "&lt;b&gt;&amp;&#39;"


def test_pages_contain_no_inline_code_and_no_foreign_urls() -> None:
    source = Path(__file__).parents[2] / "src/fresh"
    for path in (*(source / "web/pages").iterdir(), *(source / "study/web/pages").iterdir()):
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        for unsafe in ("innerHTML", "http://", "https://", "style=", "<style", "<script>", "| safe"):
            assert unsafe not in text, path


def test_clients_cannot_add_time_series(client: TestClient) -> None:
    before = client.get("/metrics").text.count("\n")
    for number in range(5):
        assert client.request(f"METHOD{number}", "/metrics").status_code == 405
        assert client.get(f"/nowhere/{number}").status_code == 404
    shown = client.get("/metrics").text
    assert "METHOD" not in shown
    assert "nowhere" not in shown
    assert shown.count("\n") - before < 60


@pytest.mark.parametrize(
    "name",
    ["", "https://a.org", "a.org:8000", "a.org/", "*", "*.a.org", "a b", "8000", "b\u00fccher.org", "a..org", "-a"],
)
@pytest.mark.parametrize("config", [ServeConfig, StudyServeConfig])
def test_invalid_host_names_are_refused(name: str, config: type[ServeConfig] | type[StudyServeConfig]) -> None:
    with pytest.raises(ValueError, match=r"allow_hosts must be host names.*got " + re.escape(repr(name))):
        config(allow_hosts=frozenset((name,)))
    names = frozenset(("a.org", "localhost", "192.168.0.7", "::1", "xn--bcher-kva.example", "my_server", "3.org"))
    assert config(allow_hosts=names).allow_hosts == names

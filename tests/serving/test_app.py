"""`fresh serve` from its start to its end: names, folders, ports, the schema that describes it."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.testclient import TestClient

from fresh.serving.app import create_app
from fresh.serving.models import Models
from served import TEXT, client_of, loaded, problem, serve_process

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def test_a_deleted_model_folder_is_reported(place: str, tmp_path: Path) -> None:
    shutil.copytree(place, tmp_path / "gone")
    with client_of(*loaded(str(tmp_path / "gone"))) as client:
        assert client.get("/health").json() == {"status": "ok", "models": {"gone": "ready"}}
        shutil.rmtree(tmp_path / "gone")
        state = {"status": "ok", "models": {"gone": "ready, from memory: its folder is gone"}}
        assert client.get("/health").json() == state
        assert client.post("/v1/models/gone/explain", json={"text": TEXT}).status_code == 200
        status, message = problem(client.post("/v1/models/gone/certificate", json={"text": TEXT}))
        assert (status, "folder of model 'gone' is gone" in message) == (503, True)


def test_model_names_are_escaped_on_the_page(place: str) -> None:
    models, metrics = loaded(place)
    hostile = Models({'<b>"': replace(models.get("one-length"), name='<b>"')})  # no folder can have this name
    with client_of(hostile, metrics) as client:
        page = client.get("/").text
        assert '<option value="&lt;b&gt;&#34;"' in page
        assert "<b>" not in page
        models.close()
        response = client.get("/health")
    assert (response.status_code, response.json()["models"]) == (503, {'<b>"': "stopped"})


def test_the_schema_has_no_external_references(client: TestClient) -> None:
    described = client.get("/v1/openapi.json").json()
    assert set(described["paths"]) == {
        "/v1/models",
        *(f"/v1/models/{{name}}/{what}" for what in ("explain", "curve", "certificate", "jobs")),
        "/v1/jobs/{id}",
        "/v1/jobs/{id}/results",
        "/health",
    }
    assert "http" not in json.dumps(described).lower()
    for address in ("/docs", "/redoc"):
        assert client.get(address).status_code == 404


def test_errors_are_described_as_problem_details(client: TestClient) -> None:
    described = client.get("/v1/openapi.json").json()["paths"]
    statuses: dict[str, set[int]] = {}
    for address, ways in described.items():
        for way, operation in ways.items():
            wrong = {int(status): answer for status, answer in operation["responses"].items() if status >= "400"}
            statuses[f"{way} {address}"] = set(wrong)
            kinds = {
                tuple(answer["content"]) for status, answer in wrong.items() if (status, address) != (503, "/health")
            }
            assert kinds == {("application/problem+json",)}
    always, changing = {421, 500}, {403, 413, 421, 500}
    assert statuses["get /v1/jobs/{id}"] == {404, 422, *always}
    assert statuses["delete /v1/jobs/{id}"] == {404, 422, *changing}
    assert statuses["get /v1/jobs/{id}/results"] == {404, 409, 422, *always}
    for name in ("jobs", "explain"):
        assert statuses[f"post /v1/models/{{name}}/{name}"] == {400, 404, 408, 415, 422, 503, *changing}
    assert statuses["get /health"] == {503, *always}


@pytest.mark.parametrize(("n", "total"), [(15, 100), pytest.param(200, 1000, marks=pytest.mark.slow)])
def test_responses_conform_to_the_schema(places: dict[str, str], n: int, total: int) -> None:
    """Send requests that the description allows, so many to each address at most."""
    schema = schemathesis.openapi.from_asgi(
        "/v1/openapi.json", create_app(*loaded(*places.values())), headers={"Host": "127.0.0.1"}
    )
    kinds = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    answered: Counter[int] = Counter()
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)

        @settings(max_examples=n, deadline=None, database=None, suppress_health_check=kinds, derandomize=True)
        @given(case=found.ok().as_strategy())
        def ask(case: schemathesis.Case[Any]) -> None:
            if "name" in (case.path_parameters or {}):
                case.path_parameters["name"] = "any-length"
            answered[case.call_and_validate(checks=CHECKS, headers={"Host": "127.0.0.1"}).status_code] += 1

        ask()
    assert answered.keys() >= {200, 404, 415, 422}
    assert (answered.total() >= total, max(answered) < 500) == (True, True)


def test_the_command_serves_until_it_is_interrupted(places: dict[str, str]) -> None:
    with serve_process(places["one-length"], places["any-length"]) as (address, _, line):
        assert line.startswith("Serving one-length, any-length at http://127.0.0.1:")
        assert httpx.get(f"{address}health").json()["status"] == "ok"

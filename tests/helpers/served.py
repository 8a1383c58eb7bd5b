"""Servers for tests: tiny models behind the real app, in this process or on a port."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import small
from fresh.attribution.support_model import SupportModel
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK
from fresh.serving.app import create_app
from fresh.serving.batcher import Answer
from fresh.serving.config import BatchLimits, ServeConfig
from fresh.serving.models import Models, load_models
from fresh.web.metrics import ServerMetrics
from running import running

TEXT = "the old film was good and the story of two men was great"
JOBS = "/v1/models/one-length/jobs"
READ = "[...document.querySelectorAll('#document mark .word')].map(word => word.textContent)"


def save_models(support: SupportModel, predictor: Predictor, place: Path) -> dict[str, str]:
    """Save a model with a single ratio and one with a range of ratios."""
    one = small.rationalizer(support, predictor, TopK(0.2))
    models = {"one-length": one, "any-length": replace(one, ratios=(0.1, 0.6))}
    return {name: saved(model, place / name) for name, model in models.items()}


def save_pair_model(pair_support: SupportModel, place: Path) -> str:
    """Save a model that reads queries, with an untrained predictor."""
    predictor = Predictor(pair_support.classifier)
    return saved(replace(small.rationalizer(pair_support, predictor, TopK(0.3)), needs_query=True), place)


def saved(model: Rationalizer, folder: Path) -> str:
    model.save_pretrained(folder)
    return str(folder)


def loaded(*places: str, limits: BatchLimits | None = None) -> tuple[Models, ServerMetrics]:
    metrics = ServerMetrics()
    return load_models(places, "cpu", metrics, limits), metrics


def client_of(models: Models, metrics: ServerMetrics, config: ServeConfig | None = None) -> TestClient:
    """Make a client in this process, which closes the models."""
    return TestClient(create_app(models, metrics, config), base_url="http://127.0.0.1")


@contextmanager
def on_a_port(*places: str, config: ServeConfig | None = None) -> Iterator[str]:
    with listening(*loaded(*places), config) as url:
        yield url


@contextmanager
def listening(models: Models, metrics: ServerMetrics, config: ServeConfig | None = None) -> Iterator[str]:
    with running(create_app(models, metrics, config)) as url:
        yield url


@contextmanager
def serve_process(*models: str) -> Iterator[tuple[str, "subprocess.Popen[str]", str]]:
    """Serve models in another process; yield its address, the process, and its first line."""
    command = [sys.executable, "-m", "fresh", "serve", *models, "--port", "0", "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        try:
            yield line.split(" at ")[1].split()[0], server, line
        finally:
            server.send_signal(signal.SIGINT)
            said = server.communicate(timeout=20)[1]
    assert "Traceback" not in said
    assert said.splitlines()[-1:] == ["Interrupted."]
    assert server.returncode == 130


def problem(response: Any) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert (body.keys(), body["status"]) == ({"type", "title", "status", "detail"}, response.status_code)
    return response.status_code, body["detail"]


def assert_same(one: Sequence[Answer], other: Sequence[Answer]) -> None:
    """Check that labels and masks are equal, and probabilities nearly so."""
    for these, those in zip(one, other, strict=True):
        for left, right in zip(these, those, strict=True):
            assert left.mask == right.mask
            assert left.prediction.label == right.prediction.label
            close = pytest.approx(right.prediction.probabilities, abs=1e-5)
            assert left.prediction.probabilities == close


def kept_of(record: dict[str, Any]) -> list[bool]:
    """Return which words of a record with scores were read."""
    kept, at = [], 0
    for word in record["words"]:
        kept.append(any(span["start"] <= at < span["end"] for span in record["rationale"]))
        at += len(word) + 1
    return kept


def csv_table(n_rows: int) -> str:
    return "id,text\n" + "".join(f"r-{number},{TEXT} {number}\n" for number in range(n_rows))


def upload(client: TestClient, content: bytes | str, name: str = "reviews.csv", **form: Any) -> Any:
    body = content.encode() if isinstance(content, str) else content
    return client.post(form.pop("to", JOBS), files={"file": (name, body)}, data=form)


def finished(client: TestClient, job: str) -> dict[str, Any]:
    """Wait until a job is done or has failed."""
    for _ in range(500):
        record: dict[str, Any] = client.get(f"/v1/jobs/{job}").json()
        if record["state"] in ("done", "failed"):
            return record
        time.sleep(0.02)
    raise AssertionError(record)

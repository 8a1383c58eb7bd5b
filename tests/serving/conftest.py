"""Saved models, clients of them, and a page of them in a browser."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Page
from starlette.testclient import TestClient

import small
from fresh.attribution.support_model import SupportModel
from fresh.data.config import DataConfig
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK
from fresh.serving.config import JobLimits, ServeConfig
from fresh.serving.jobs import Job, Jobs
from served import client_of, loaded, on_a_port, save_models, save_pair_model


@pytest.fixture(scope="session")
def places(
    support: SupportModel, predictor: Predictor, pair_support: SupportModel, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Folders of a model of one length, one of a range, and one with queries."""
    place = tmp_path_factory.mktemp("models")
    return save_models(support, predictor, place) | {"pair": save_pair_model(pair_support, place / "pair")}


@pytest.fixture(scope="session")
def place(places: dict[str, str]) -> str:
    """Folder of the model of one length."""
    return places["one-length"]


@pytest.fixture(scope="session")
def model(support: SupportModel, predictor: Predictor) -> Rationalizer:
    """The model of a range of lengths."""
    return replace(small.rationalizer(support, predictor, TopK(0.2)), ratios=(0.1, 0.6))


@pytest.fixture(scope="module")
def client(places: dict[str, str]) -> Iterator[TestClient]:
    """A client of all models."""
    with client_of(*loaded(*places.values())) as client:
        yield client


@pytest.fixture
def job_client(places: dict[str, str]) -> Iterator[TestClient]:
    """A client of a server with tight limits."""
    limits = JobLimits(max_bytes=100_000, max_rows=50, max_jobs=3)
    with client_of(*loaded(places["one-length"], places["any-length"]), ServeConfig(jobs=limits)) as client:
        yield client


@pytest.fixture
def job(place: str) -> Iterator[tuple[Jobs, Job]]:
    """A job that nobody works on yet."""
    models, metrics = loaded(place)
    jobs = Jobs(metrics, JobLimits())
    yield jobs, jobs.create("a.csv", models.get("one-length"), DataConfig(), None)
    jobs.close()
    models.close()


@pytest.fixture(scope="session")
def url(places: dict[str, str]) -> Iterator[str]:
    """A server of all models on a port."""
    with on_a_port(*places.values()) as url:
        yield url


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    """A page that must neither complain nor send requests to any other server."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=url.rstrip("/"))
    shown = context.new_page()
    wrong: list[str] = []
    requested: list[str] = []
    shown.on("console", lambda message: wrong.append(message.text))
    shown.on("pageerror", lambda error: wrong.append(str(error)))
    shown.on("dialog", lambda dialog: wrong.append(dialog.message))
    shown.on("request", lambda request: requested.append(request.url))
    yield shown
    refused = tuple(f"Failed to load resource: the server responded with a status of {status}" for status in (404, 422))
    assert [line for line in wrong if not line.startswith(refused)] == []
    assert [one for one in requested if not one.startswith((url, "data:,", f"blob:{url}"))] == []
    context.close()

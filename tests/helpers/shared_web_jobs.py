"""What tests of web jobs share with others."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from fresh.attribution.support_model import SupportModel
from fresh.data.splits import DataConfig
from fresh.predictor import Predictor
from fresh.serving.app import ServeConfig, create_app
from fresh.serving.jobs import Job, JobLimits, Jobs
from served import TEXT, loaded, save_models

JOBS = "/v1/models/one-length/jobs"


LIMITS = JobLimits(most_bytes=100_000, most_rows=50, most_jobs=3)


@pytest.fixture(scope="module")
def places(support: SupportModel, predictor: Predictor, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return save_models(support, predictor, tmp_path_factory.mktemp("models"))


@pytest.fixture
def client(places: dict[str, str]) -> Iterator[TestClient]:
    app = create_app(*loaded(*places.values()), ServeConfig(jobs=LIMITS))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        yield client


def upload(client: TestClient, content: bytes | str, name: str = "reviews.csv", **form: Any) -> Any:
    body = content.encode() if isinstance(content, str) else content
    return client.post(form.pop("to", JOBS), files={"file": (name, body)}, data=form)


def finished(client: TestClient, job: str) -> dict[str, Any]:
    """Wait until a job is done, or has failed."""
    for _ in range(500):
        about: dict[str, Any] = client.get(f"/v1/jobs/{job}").json()
        if about["state"] in ("done", "failed"):
            return about
        time.sleep(0.02)
    raise AssertionError(about)


def told(response: Any) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/problem+json"
    return response.status_code, response.json()["detail"]


def table(n_rows: int) -> str:
    return "id,text\n" + "".join(f"r-{number},{TEXT} {number}\n" for number in range(n_rows))


@pytest.fixture
def job(places: dict[str, str]) -> Iterator[tuple[Jobs, Job]]:
    """A job that nobody works on yet."""
    models, measures = loaded(places["one-length"])
    jobs = Jobs(measures, JobLimits())
    yield jobs, jobs.make("a.csv", models.find("one-length"), DataConfig(), None)
    jobs.close()
    models.close()

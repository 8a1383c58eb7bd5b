"""Files whose rows or forms are not as they should be: found before any work is done, and told with the way out."""

import threading
from typing import Any

import pytest
from starlette.testclient import TestClient

from fresh.data.splits import DataConfig
from fresh.nn.tokenizer import WordTokenizer
from fresh.serving.jobs import JobLimits, Jobs, _before
from served import TEXT, loaded
from shared_web_jobs import client, finished, job, places, table, told, upload  # noqa: F401

__all__ = ["client", "places"]

LONG = "film " * 15_000
TOO_LONG = "text 'reviews-3' has 15000 words, or 15000 pieces, but only 4094 can be read."
OTHER_MODELS = (
    "Split it, or train a model that reads it in windows (long=chunk), only its beginning (long=truncate) or more at "
    "once (a larger max_pieces)"
)


def test_a_row_that_is_too_long_is_found_before_any_work(client: TestClient) -> None:
    said = f"reviews.csv, line 4: {TOO_LONG} {OTHER_MODELS}, or leave such rows out with skip_bad."
    assert told(upload(client, f"text\n{TEXT}\n{TEXT}\n{LONG}\n")) == (422, said)
    assert "fresh_jobs 0.0" in client.get("/metrics").text


def test_rows_that_cannot_be_used_are_left_out_where_asked_for(client: TestClient) -> None:
    about = upload(client, f"text\n{TEXT}\n \n{LONG}\n", skip_bad=True).json()
    said = f"Left out 2 of 3 rows: reviews.csv, line 3: the text has no words. reviews.csv, line 4: {TOO_LONG}"
    assert (about["rows"], about["left_out"]) == (1, said)  # known from the start
    about = finished(client, about["id"])
    assert (about["state"], about["done"], about["left_out"]) == ("done", 1, said)


def test_a_row_with_too_many_characters_is_told_with_its_line(client: TestClient) -> None:
    said = "reviews.csv, line 3: the text has 100,001 characters; at most 100,000 are taken. "
    endless = f"text\n{TEXT}\n{'a' * 100_001}\n"
    assert told(upload(client, endless)) == (422, f"{said}Split it, or leave such rows out with skip_bad.")


class Boundless(WordTokenizer):
    """Finds no text too long."""

    def __init__(self) -> None:
        pass

    def measure(self, texts: Any) -> Any:
        return None, {}


@pytest.mark.parametrize("skip_bad", [True, False])
def test_a_text_that_turns_out_too_long_is_left_out_or_ends_the_job(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, skip_bad: bool
) -> None:
    monkeypatch.setattr("fresh.serving.jobs.reader_of", lambda _model: Boundless())
    about = upload(client, f"text\n{TEXT}\n{TEXT}\n{LONG}\n", skip_bad=skip_bad).json()
    about = finished(client, about["id"])
    said = f"T{TOO_LONG[1:]} {OTHER_MODELS}."
    if skip_bad:
        assert (about["state"], about["left_out"]) == ("done", f"Left out 1 of 3 rows: {said}")
    else:
        ended = f"{said} (2 texts before it are explained and can be downloaded.)"
        assert (about["state"], about["problem"]) == ("failed", ended)


def test_texts_before_are_counted() -> None:
    assert _before(1) == "1 text before it is"
    assert _before(1200) == "1,200 texts before it are"


def test_a_field_that_is_not_one_is_refused(client: TestClient) -> None:
    said = "skip is not a field of this form. Did you mean skip_bad?"
    assert told(upload(client, table(1), skip="true")) == (422, said)
    said = (
        "zz is not a field of this form. There are: file, text, query, id, ratio, skip_bad. "
        "ratios is not a field of this form. Did you mean ratio?"
    )
    assert told(upload(client, table(1), zz="1", ratios="0.2")) == (422, said)
    assert "fresh_jobs 0.0" in client.get("/metrics").text


def test_a_column_that_is_given_empty_is_not_read(client: TestClient) -> None:
    answer = upload(client, f"id,text,query\nx,{TEXT},why\n", query="", id="")
    assert answer.status_code == 202
    job = answer.json()["id"]
    finished(client, job)
    assert client.get(f"/v1/jobs/{job}/results").json()["id"] == "reviews-1"
    said = "text must name a column, got ''."
    assert told(upload(client, table(1), text="")) == (422, said)


def test_a_ratio_is_used(client: TestClient) -> None:
    shares = []
    for ratio in (0.1, 0.6):
        job = upload(client, table(1), ratio=ratio, to="/v1/models/any-length/jobs").json()["id"]
        assert finished(client, job)["ratio"] == ratio
        shares.append(client.get(f"/v1/jobs/{job}/results").json()["ratio"])
    assert shares == [pytest.approx(2 / 14), pytest.approx(9 / 14)]


def test_a_job_that_is_worked_on_is_stopped(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, free, ended = threading.Event(), threading.Event(), threading.Event()
    work, ask = Jobs.work, Jobs.ask

    def slow(jobs: Jobs, job: Any, document: Any) -> Any:
        begun.set()
        assert free.wait(10)
        return ask(jobs, job, document)

    def watched(jobs: Jobs, job: Any) -> None:
        work(jobs, job)
        ended.set()

    monkeypatch.setattr(Jobs, "ask", slow)
    monkeypatch.setattr(Jobs, "work", watched)
    job = upload(client, table(40)).json()["id"]
    assert begun.wait(10)
    assert client.get(f"/v1/jobs/{job}").json()["state"] == "running"
    assert client.delete(f"/v1/jobs/{job}").status_code == 204
    free.set()
    assert ended.wait(10)
    assert client.get(f"/v1/jobs/{job}").status_code == 404
    assert 'fresh_batch_texts_sum{model="one-length"}' not in client.get("/metrics").text  # nothing was read for it


def test_when_the_next_file_goes_by_itself(places: dict[str, str]) -> None:
    models, measures = loaded(places["one-length"])
    jobs = Jobs(measures, JobLimits(seconds=100.0), lambda: 1000.0)
    first, second = (jobs.make("a.csv", models.find("one-length"), DataConfig(), None) for _ in range(2))
    assert jobs.next_place() == 100  # none is done, so none goes before that
    second.ended = 930.5
    assert jobs.next_place() == 31
    first.ended = 900.0
    assert jobs.next_place() == 1
    jobs.close()
    models.close()

"""Uploaded files, explained in the background."""

import csv
import io
import json
import re
import stat
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from fresh.data.config import DataConfig
from fresh.document import Document
from fresh.errors import DataError
from fresh.rationalizer import Rationalizer
from fresh.reporting.console import to_record
from fresh.reporting.tables import escape_formula
from fresh.serving.config import JobLimits, ServeConfig
from fresh.serving.jobs import Job, Jobs, _open_results, _read_lines, _to_csv
from fresh.web.errors import Problem
from served import JOBS, TEXT, client_of, csv_table, finished, loaded, problem, serve_process, upload

LONG = "film " * 15_000


def test_a_table_is_explained_like_single_texts(job_client: TestClient, place: str) -> None:
    response = upload(job_client, csv_table(40))
    assert (response.status_code, response.json()["file"], response.json()["rows"]) == (202, "reviews.csv", 40)
    job = response.json()["id"]
    record = finished(job_client, job)
    assert (record["state"], record["done"], record["problem"], record["left_out"]) == ("done", 40, "", "")
    lines = job_client.get(f"/v1/jobs/{job}/results").text.splitlines()
    model = Rationalizer.from_pretrained(place, device="cpu")
    for number, line in enumerate(lines):
        found = json.loads(line)
        expected = to_record(model.explain(Document.from_text(f"{TEXT} {number}", id=f"r-{number}")))
        assert found["probabilities"] == pytest.approx(expected.pop("probabilities"), abs=1e-5)
        names = ("id", "label", "rationale", "ratio")
        assert {name: found[name] for name in names} == {name: expected[name] for name in names}
    cells = list(csv.DictReader(io.StringIO(job_client.get(f"/v1/jobs/{job}/results?format=csv").text)))
    assert [row["id"] for row in cells] == [f"r-{number}" for number in range(40)]
    assert cells[0]["read"] == " … ".join(span["text"] for span in json.loads(lines[0])["rationale"])


def test_columns_are_named_or_disabled(job_client: TestClient) -> None:
    lines = "".join(json.dumps({"review": TEXT, "name": f"n-{number}"}) + "\n" for number in range(3))
    job = upload(job_client, lines, "in.jsonl", text="review", id="name").json()["id"]
    assert finished(job_client, job)["done"] == 3
    ids = [json.loads(line)["id"] for line in job_client.get(f"/v1/jobs/{job}/results").text.splitlines()]
    assert ids == ["n-0", "n-1", "n-2"]
    response = upload(job_client, f"id,text,query\nx,{TEXT},why\n", query="", id="")
    assert response.status_code == 202
    job = response.json()["id"]
    finished(job_client, job)
    assert job_client.get(f"/v1/jobs/{job}/results").json()["id"] == "reviews-1"
    assert problem(upload(job_client, csv_table(1), text=""))[0] == 422


def test_a_ratio_is_used(job_client: TestClient) -> None:
    shares = []
    for ratio in (0.1, 0.6):
        job = upload(job_client, csv_table(1), ratio=ratio, to="/v1/models/any-length/jobs").json()["id"]
        assert finished(job_client, job)["ratio"] == ratio
        shares.append(job_client.get(f"/v1/jobs/{job}/results").json()["ratio"])
    assert shares == [pytest.approx(2 / 14), pytest.approx(9 / 14)]


REFUSED: dict[str, tuple[bytes | str, str, int, str]] = {
    "binary": (b"\x89PNG\r\n\x1a\n\x00\xff", "reviews.csv", 422, r"line 1: the byte 0x89 is not UTF-8"),
    "columns": ("review,stars\ngood,5\n", "reviews.csv", 422, r"no column 'text'.*review, stars.*`text`"),
    "empty": ("", "reviews.csv", 422, r"reviews\.csv holds no rows"),
    "no words": ("text\n \n", "reviews.csv", 422, r"line 2: the text has no words.*skip_bad"),
    "query": ("text,query\ngood film,why\n", "reviews.csv", 422, r"line 2: the row has a query.*without queries"),
    "rows": (csv_table(51), "reviews.csv", 422, r"more than 50 rows"),
    "bad rows": ("x\n" * 51, "in.jsonl", 422, r"more than 50 rows"),
    "long": (f"text\n{TEXT}\n{TEXT}\n{LONG}\n", "a.csv", 422, r"line 4: text 'a-3' has 15,000 words.*skip_bad"),
    "characters": (
        f"text\n{TEXT}\n{'a' * 100_001}\n",
        "a.csv",
        422,
        r"line 3: .*100,001 characters.*100,000.*skip_bad",
    ),
    "type": ("text\n", "../../etc/passwd", 415, r"'passwd' is not supported.*\.csv, \.tsv, \.jsonl, \.json"),
    "archive": (b"\x1f\x8b", "reviews.csv.gz", 415, r"'reviews\.csv\.gz' is not supported"),
    "bytes": ("text\n" + "film " * 50_000, "reviews.csv", 413, r"larger than 165,536 bytes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_files_are_refused_before_any_work(job_client: TestClient, case: str) -> None:
    content, name, status, message = REFUSED[case]
    skip_bad = case == "bad rows"
    found, detail = problem(upload(job_client, content, name, **({"skip_bad": True} if skip_bad else {})))
    assert found == status
    assert re.search(message, detail), detail
    assert "fresh_jobs 0.0" in job_client.get("/metrics").text


def test_rows_that_are_too_large_are_refused(client: TestClient) -> None:
    content = 'text\n"' + "a\n" * 1_500_000 + '"\n'
    assert "a.csv, line 2: the row is larger than 2 MB" in problem(upload(client, content, "a.csv"))[1]


def test_a_form_is_checked_before_the_file(job_client: TestClient) -> None:
    def refused(**form: Any) -> str:
        status, detail = problem(upload(job_client, csv_table(1), **form))
        assert status == (404 if "lengt/" in form.get("to", "") else 422)
        return detail

    assert re.search(r"ratio.*0\.1.*0\.6.*0\.9", refused(ratio=0.9, to="/v1/models/any-length/jobs"))
    assert "Did you mean one-length?" in refused(to="/v1/models/one-lengt/jobs")
    assert re.search(r"text and id both name the column 'id'", refused(text="id"))
    assert refused(skip="true") == "skip is not a field of this form. Did you mean skip_bad?"
    assert re.search(r"zz is not a field.*file, text, query.*ratios.*mean ratio", refused(zz="1", ratios="0.2"))
    text = job_client.post(JOBS, files={"file": (None, "text")})
    assert problem(text) == (422, "file must be a file, not text.")


def test_invalid_rows_are_left_out_on_request(job_client: TestClient) -> None:
    record = upload(job_client, f"text\n{TEXT}\n \n{LONG}\n", skip_bad=True).json()
    left_out = (
        r"Left out 2 of 3 rows: reviews\.csv, line 3: the text has no words\. .*line 4: text 'reviews-3' has 15,000"
    )
    assert record["rows"] == 1
    assert re.match(left_out, record["left_out"])  # known from the start
    record = finished(job_client, record["id"])
    assert (record["state"], record["done"]) == ("done", 1)
    assert re.match(left_out, record["left_out"])


@pytest.mark.parametrize("skip_bad", [True, False])
def test_texts_found_too_long_later_are_left_out_or_end_the_job(
    job_client: TestClient, monkeypatch: pytest.MonkeyPatch, skip_bad: bool
) -> None:
    boundless = SimpleNamespace(measure=lambda _texts: (None, {}))  # finds no text too long
    monkeypatch.setattr("fresh.serving.jobs.document_tokenizer", lambda _model: boundless)
    record = upload(job_client, f"text\n{TEXT}\n{TEXT}\n{LONG}\n", skip_bad=skip_bad).json()
    record = finished(job_client, record["id"])
    assert record["state"] == ("done" if skip_bad else "failed")
    told, match = record["problem"], r"Text 'reviews-3' has 15,000 words.* \(2 texts are explained"
    if skip_bad:
        told, match = record["left_out"], r"Left out 1 of 3 rows: Text 'reviews-3' has 15,000 words"
    assert re.match(match, told)


def test_unexpected_errors_end_the_job_without_details(job_client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def explain(*_given: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(Jobs, "_explain", explain)
    record = finished(job_client, upload(job_client, csv_table(2)).json()["id"])
    assert record["state"] == "failed"
    assert record["problem"].startswith("Internal server error.")


def test_the_number_of_files_is_limited(job_client: TestClient) -> None:
    ids = [upload(job_client, csv_table(1)).json()["id"] for _ in range(3)]
    refused = upload(job_client, csv_table(1))
    status, detail = problem(refused)
    assert (status, "holds 3 files" in detail) == (503, True)
    assert 3590 < int(refused.headers["retry-after"]) <= 3600  # when the first of them expires
    assert job_client.delete(f"/v1/jobs/{ids[0]}").status_code == 204
    status, detail = problem(job_client.get(f"/v1/jobs/{ids[0]}"))
    assert (status, "kept for 60 minutes" in detail) == (404, True)
    assert upload(job_client, csv_table(1)).status_code == 202


@pytest.mark.parametrize("name", ["../../evil.csv", "/etc/evil.csv", "..\\..\\evil.csv", "a/\0/../evil.csv"])
def test_file_names_cannot_choose_paths(job: tuple[Jobs, Job], name: str) -> None:
    jobs, made = job
    named = jobs.create(name, made.served, DataConfig(), None)
    assert (named.record.file, named.source) == ("evil.csv", Path(jobs.folder.name) / named.record.id / "upload.csv")
    assert re.fullmatch(r"[\w-]{22}", named.record.id)
    assert stat.S_IMODE(Path(jobs.folder.name).stat().st_mode) == 0o700


def test_a_running_job_stops_when_it_is_deleted(job_client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, free, ended = threading.Event(), threading.Event(), threading.Event()
    work, submit = Jobs.work, Jobs._submit

    def slow(jobs: Jobs, job: Any, document: Any) -> Any:
        begun.set()
        assert free.wait(10)
        return submit(jobs, job, document)

    def watched(jobs: Jobs, job: Any) -> None:
        work(jobs, job)
        ended.set()

    monkeypatch.setattr(Jobs, "_submit", slow)
    monkeypatch.setattr(Jobs, "work", watched)
    job = upload(job_client, csv_table(40)).json()["id"]
    assert begun.wait(10)
    assert job_client.get(f"/v1/jobs/{job}").json()["state"] == "running"
    assert problem(job_client.get(f"/v1/jobs/{job}/results"))[0] == 409
    assert job_client.delete(f"/v1/jobs/{job}").status_code == 204
    free.set()
    assert ended.wait(10)
    assert job_client.get(f"/v1/jobs/{job}").status_code == 404
    assert 'fresh_batch_texts_sum{model="one-length"}' not in job_client.get("/metrics").text  # nothing was computed


def test_a_job_deleted_while_it_starts_leaves_nothing(job: tuple[Jobs, Job]) -> None:
    jobs, made = job
    jobs.delete(made)
    made.folder.mkdir()  # as if its results were opened while it was being deleted
    made.source.write_text(csv_table(1), encoding="utf-8")
    jobs.work(made)
    assert not made.folder.exists()


def test_results_are_opened_before_the_response_starts(job: tuple[Jobs, Job]) -> None:
    """Missing ones are reported, and a download continues after the job is deleted."""
    jobs, made = job
    for cause, message in (("", "They were deleted."), ("No space left.", "No space left.")):
        made.record.problem = cause
        with pytest.raises(Problem, match=f"404: There are no results. {message}"):
            _open_results(made)
    made.folder.mkdir()
    made.results.write_text("1\n2\n", encoding="utf-8")
    lines = _read_lines(_open_results(made))
    jobs.delete(made)
    assert list(lines) == ["1\n", "2\n"]


def test_results_expire(place: str) -> None:
    with client_of(*loaded(place), ServeConfig(jobs=JobLimits(keep_seconds=0.01))) as client:
        job = upload(client, csv_table(1)).json()["id"]
        for _ in range(500):
            if client.get(f"/v1/jobs/{job}").status_code == 404:
                return
            time.sleep(0.02)
        raise AssertionError("The job is still there.")


def test_a_full_server_says_when_the_next_results_expire(job: tuple[Jobs, Job]) -> None:
    jobs, first = job
    jobs.clock, jobs.limits = lambda: 1000.0, JobLimits(keep_seconds=100.0, max_jobs=1)
    for ended, seconds in ((0.0, "100"), (930.5, "31"), (900.0, "1")):  # at first, it has not ended
        first.ended = ended
        with pytest.raises(Problem, match="The server holds 1 file, its limit") as refused:
            jobs.create("a.csv", first.served, DataConfig(), None)
        assert refused.value.headers == {"Retry-After": seconds}


@pytest.mark.parametrize("column", ["text", "query"])
def test_texts_that_are_too_long_are_not_split_or_kept_in_memory(job: tuple[Jobs, Job], column: str) -> None:
    jobs, made = job
    made.folder.mkdir()
    cells = {"text": "a film", column: "a " * 200_000}
    made.source.write_text("text,query\n" + f"{cells['text']},{cells.get('query', '')}\n", encoding="utf-8")
    tracemalloc.start()
    with pytest.raises(DataError, match=f"line 2: the {column} has 400,000 characters.*100,000.*skip_bad"):
        jobs._check_rows(made)
    left, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert left < 200_000
    assert peak < 10_000_000


@given(st.text())
def test_no_cell_starts_like_a_formula(text: str) -> None:
    assert not escape_formula(text).startswith(("=", "+", "-", "@", "\t", "\r"))
    assert escape_formula(text) in (text, f"'{text}")


def test_csv_results_have_no_formulas() -> None:
    record = {"id": "=1+1", "label": "pos", "probability": 0.75, "ratio": 0.5}
    lines = [json.dumps({**record, "rationale": [{"text": "a, b"}, {"text": "c"}]})]
    assert "".join(_to_csv(lines)) == 'id,label,probability,ratio,read\r\n\'=1+1,pos,0.75,0.5,"a, b … c"\r\n'


MEGABYTE = 1024**2
LARGE = 8 * MEGABYTE
HOSTILE = {
    "one-cell.csv": b"text\n" + b"a " * (LARGE // 2),
    "many-lines-in-a-cell.csv": b'text\n"' + b"a\n" * (LARGE // 2) + b'"\n',
    "long-texts.csv": b"text\n" + (b"a " * MEGABYTE + b"\n") * 4,
    "columns.csv": b",".join(b"%d" % number for number in range(1_000_000)) + b"\n",
    "one-line.jsonl": b'{"text": "' + b"a " * (LARGE // 2) + b'"}',
    "broken-lines.jsonl": b"x\n" * (LARGE // 2),
    "no-objects.json": b"[" + b"0," * (LARGE // 2) + b"0]",
    "one-object.json": b'{"text": "' + b"a " * (LARGE // 2) + b'"}',
}


def peak_of(process: int) -> int:
    """Read the most memory that a process ever had, in bytes."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1])


@pytest.mark.slow
def test_refused_uploads_take_neither_time_nor_memory(place: str) -> None:
    with serve_process(place) as (address, server, _):

        def send(name: str) -> float:
            begin = time.perf_counter()
            answer = httpx.post(
                f"{address.rstrip('/')}{JOBS}",
                files={"file": (name, HOSTILE.get(name, b"text\n \n"))},
                data={"skip_bad": "true"},
                timeout=300,
            )
            assert answer.status_code in (422, 503), answer.text
            return time.perf_counter() - begin

        send("small.csv")
        before = peak_of(server.pid)
        for name in HOSTILE:
            Path(f"/proc/{server.pid}/clear_refs").write_text("5", encoding="utf-8")  # the peak begins anew
            alone = [send(name) for _ in range(8)]
            grown = peak_of(server.pid) - before
            sys.stdout.write(f"{name}: {max(alone):.2f} s, {grown / MEGABYTE:.0f} MB more\n")
            assert max(alone) < 5
        Path(f"/proc/{server.pid}/clear_refs").write_text("5", encoding="utf-8")
        with ThreadPoolExecutor(64) as pool:
            list(pool.map(send, [*HOSTILE] * 8))
        grown = peak_of(server.pid) - before
        sys.stdout.write(f"64 at once: {grown / MEGABYTE:.0f} MB more\n")
    assert grown < 200 * MEGABYTE

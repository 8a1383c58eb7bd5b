"""Files that are explained in the background."""

import csv
import io
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from fresh.data.splits import DataConfig
from fresh.document import Document
from fresh.errors import DataError
from fresh.rationalizer import Rationalizer
from fresh.reporting.console import to_record
from fresh.reporting.tables import escape_formula
from fresh.serving.app import ServeConfig, create_app
from fresh.serving.job_routes import _lines_of, _opened
from fresh.serving.jobs import Job, JobLimits, Jobs
from fresh.serving.results import as_csv
from fresh.web.errors import Problem
from served import TEXT, loaded
from shared_web_jobs import JOBS, client, finished, job, places, table, told, upload  # noqa: F401


def test_a_table_is_explained_as_the_command_does(client: TestClient, places: dict[str, str]) -> None:
    answer = upload(client, table(40))
    assert (answer.status_code, answer.json()["file"], answer.json()["rows"]) == (202, "reviews.csv", 40)
    job = answer.json()["id"]
    about = finished(client, job)
    assert (about["state"], about["done"], about["problem"], about["left_out"]) == ("done", 40, "", "")
    lines = client.get(f"/v1/jobs/{job}/results").text.splitlines()
    model = Rationalizer.from_pretrained(places["one-length"], device="cpu")
    for number, line in enumerate(lines):
        record = json.loads(line)
        expected = to_record(model.explain(Document.from_text(f"{TEXT} {number}", id=f"r-{number}")))
        assert record["probabilities"] == pytest.approx(expected.pop("probabilities"), abs=1e-5)
        assert {name: record[name] for name in ("id", "label", "rationale", "ratio")} == {
            name: expected[name] for name in ("id", "label", "rationale", "ratio")
        }
    cells = list(csv.DictReader(io.StringIO(client.get(f"/v1/jobs/{job}/results?format=csv").text)))
    assert [row["id"] for row in cells] == [f"r-{number}" for number in range(40)]
    assert cells[0]["read"] == " … ".join(span["text"] for span in json.loads(lines[0])["rationale"])


def test_json_lines_and_other_columns_are_read(client: TestClient) -> None:
    lines = "".join(json.dumps({"review": TEXT, "name": f"n-{number}"}) + "\n" for number in range(3))
    job = upload(client, lines, "in.jsonl", text="review", id="name").json()["id"]
    assert finished(client, job)["done"] == 3
    ids = [json.loads(line)["id"] for line in client.get(f"/v1/jobs/{job}/results").text.splitlines()]
    assert ids == ["n-0", "n-1", "n-2"]


@pytest.mark.parametrize(
    ("content", "name", "status", "said"),
    [
        (
            b"\x89PNG\r\n\x1a\n\x00\xff",
            "reviews.csv",
            422,
            "reviews.csv, line 1: the byte 0x89 is not UTF-8. Save the file in the encoding UTF-8.",
        ),
        (
            "review,stars\ngood,5\n",
            "reviews.csv",
            422,
            "reviews.csv has no column 'text' for the text. It has: review, stars. Name the right one with text.",
        ),
        ("", "reviews.csv", 422, "reviews.csv holds no rows. Give one row for each document."),
        (
            "text\n \n",
            "reviews.csv",
            422,
            "reviews.csv, line 2: the text has no words. Mend the row, or leave such rows out with skip_bad.",
        ),
        (
            "text,query\ngood film,why\n",
            "reviews.csv",
            422,
            "reviews.csv, line 2: the row has a query, but model 'one-length' was trained without queries. "
            "Name no column with queries.",
        ),
        (
            table(51),
            "reviews.csv",
            422,
            "reviews.csv has more than 50 rows, the most that are taken. Upload it in parts.",
        ),
        (
            "text\n",
            "../../etc/passwd",
            415,
            "'passwd' is of a type that is not taken. Upload one of: .csv, .tsv, .jsonl, .json.",
        ),
        (
            b"\x1f\x8b",
            "reviews.csv.gz",
            415,
            "'reviews.csv.gz' is of a type that is not taken. Upload one of: .csv, .tsv, .jsonl, .json.",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_words(
    client: TestClient, content: bytes | str, name: str, status: int, said: str
) -> None:
    assert told(upload(client, content, name)) == (status, said)


def test_a_file_that_is_too_large_is_refused(client: TestClient) -> None:
    said = "The request is larger than 165,536 bytes, the most that is taken here. Send less at a time."
    assert told(upload(client, "text\n" + "film " * 50_000)) == (413, said)


def test_a_ratio_and_a_model_are_checked_before_the_file(client: TestClient) -> None:
    status, said = told(upload(client, table(1), ratio=0.9, to="/v1/models/any-length/jobs"))
    assert (status, said) == (422, "ratio must be from 0.1 to 0.6, for which this model was trained, got 0.9.")
    assert told(upload(client, table(1), to="/v1/models/one-lengt/jobs"))[0] == 404
    same = told(upload(client, table(1), text="id"))
    assert same == (422, "text and id both name the column 'id'. Give each its own.")


def test_a_job_that_nobody_thought_could_fail_says_so(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def explain(*_given: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(Jobs, "explain", explain)
    about = finished(client, upload(client, table(2)).json()["id"])
    assert (about["state"], about["problem"]) == ("failed", "Something went wrong in the server. Its log says what.")


def test_only_so_many_files_are_kept_until_one_is_deleted(client: TestClient) -> None:
    ids = [upload(client, table(1)).json()["id"] for _ in range(3)]
    refused = upload(client, table(1))
    assert told(refused) == (503, "3 files are kept already, and no more can be. Delete one, or come back later.")
    assert 3590 < int(refused.headers["retry-after"]) <= 3600  # when the first of them goes by itself
    assert client.delete(f"/v1/jobs/{ids[0]}").status_code == 204
    gone = "There is no such job. Results are kept for 60 minutes; upload the file again."
    assert told(client.get(f"/v1/jobs/{ids[0]}")) == (404, gone)
    assert upload(client, table(1)).status_code == 202


def test_refused_files_leave_nothing_behind(client: TestClient, tmp_path: Path) -> None:
    for _ in range(4):
        assert upload(client, "").status_code == 422
    assert "fresh_jobs 0.0" in client.get("/metrics").text


@pytest.mark.parametrize("name", ["../../evil.csv", "/etc/evil.csv", "..\\..\\evil.csv", "a/\0/../evil.csv"])
def test_no_path_comes_from_the_name_of_a_file(job: tuple[Jobs, Job], name: str) -> None:
    jobs, made = job
    named = jobs.make(name, made.served, DataConfig(), None)
    assert (named.name, named.source) == ("evil.csv", Path(jobs.place.name) / named.id / "upload.csv")
    assert re.fullmatch(r"[\w-]{22}", named.id)
    assert stat.S_IMODE(Path(jobs.place.name).stat().st_mode) == 0o700


def test_a_job_that_is_deleted_while_it_is_worked_on_leaves_nothing(job: tuple[Jobs, Job]) -> None:
    jobs, made = job
    jobs.remove(made)
    made.folder.mkdir()  # as if its results were opened while all was being deleted
    made.source.write_text(table(1), encoding="utf-8")
    jobs.work(made)
    assert not made.folder.exists()


def test_results_that_are_not_there_are_told_before_the_answer_begins(job: tuple[Jobs, Job]) -> None:
    _, made = job
    for problem, message in (("", "They were deleted."), ("No space left.", "No space left.")):
        made.problem = problem
        with pytest.raises(Problem) as caught:
            _opened(made)
        assert (caught.value.status_code, caught.value.detail) == (404, f"There are no results. {message}")


def test_who_reads_results_keeps_them_though_they_are_deleted(job: tuple[Jobs, Job]) -> None:
    jobs, made = job
    made.folder.mkdir()
    made.results.write_text("1\n2\n", encoding="utf-8")
    lines = _lines_of(_opened(made))
    jobs.remove(made)
    assert list(lines) == ["1\n", "2\n"]


def test_results_are_kept_for_a_while_only(places: dict[str, str]) -> None:
    app = create_app(*loaded(places["one-length"]), ServeConfig(jobs=JobLimits(seconds=0.01)))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        job = upload(client, table(1)).json()["id"]
        for _ in range(500):
            if client.get(f"/v1/jobs/{job}").status_code == 404:
                return
            time.sleep(0.02)
        raise AssertionError("The job is still there.")


def test_text_in_the_place_of_a_file_is_told(client: TestClient) -> None:
    answer = client.post(JOBS, files={"file": (None, "text")})
    assert told(answer) == (422, "file must be a file, not text.")


@pytest.mark.parametrize("column", ["text", "query"])
def test_a_text_that_is_too_long_is_not_split_and_not_kept(job: tuple[Jobs, Job], column: str) -> None:
    jobs, made = job
    made.folder.mkdir()
    cells = {"text": "a film", column: "a " * 200_000}
    made.source.write_text("text,query\n" + f"{cells['text']},{cells.get('query', '')}\n", encoding="utf-8")
    tracemalloc.start()
    with pytest.raises(DataError) as caught:
        jobs.check(made)
    left, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert str(caught.value) == (
        f"a.csv, line 2: the {column} has 400,000 characters; at most 100,000 are taken. "
        "Split it, or leave such rows out with skip_bad."
    )
    assert left < 200_000
    assert peak < 10_000_000


def test_rows_that_cannot_be_used_count(client: TestClient) -> None:
    said = "in.jsonl has more than 50 rows, the most that are taken. Upload it in parts."
    assert told(upload(client, "x\n" * 51, "in.jsonl", skip_bad=True)) == (422, said)


def test_a_row_that_is_too_large_is_refused(places: dict[str, str]) -> None:
    app = create_app(*loaded(places["one-length"]))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        said = "a.csv, line 2: the row is larger than 2 MB, the limit that max_row_mb sets. Split its text into"
        assert told(upload(client, 'text\n"' + "a\n" * 1_500_000 + '"\n', "a.csv"))[1].startswith(said)


@given(st.text())
def test_no_cell_begins_as_a_formula(text: str) -> None:
    assert not escape_formula(text).startswith(("=", "+", "-", "@", "\t", "\r"))
    assert escape_formula(text) in (text, f"'{text}")


def test_a_table_of_results_by_hand() -> None:
    record = {"id": "=1+1", "label": "pos", "probability": 0.75, "ratio": 0.5}
    lines = [json.dumps({**record, "rationale": [{"text": "a, b"}, {"text": "c"}]})]
    assert "".join(as_csv(lines)) == 'id,label,probability,ratio,read\r\n\'=1+1,pos,0.75,0.5,"a, b … c"\r\n'


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
def test_refused_uploads_take_neither_time_nor_memory(places: dict[str, str]) -> None:
    command = [sys.executable, "-m", "fresh", "serve", places["one-length"], "--port", "0", "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as server:
        assert server.stdout is not None
        address = server.stdout.readline().split(" at ")[1].split()[0]

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
        server.send_signal(signal.SIGINT)
    assert grown < 200 * MEGABYTE

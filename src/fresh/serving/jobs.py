"""Uploaded files, explained in the background: routes, work, and results that expire."""

import csv
import json
import logging
import math
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Annotated, Any, Literal, TextIO

from fastapi import APIRouter, Depends, File, Form, Request, UploadFile
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from fresh._io import open_lines
from fresh.attribution.support_model import text_of
from fresh.config import from_mapping, suggest
from fresh.data import BadRows, DataConfig
from fresh.data.examples import Split, parse_document, parse_rows
from fresh.data.readers import Row, read_rows
from fresh.document import Document
from fresh.errors import ConfigError, DataError, RowError
from fresh.evaluation.warnings import document_tokenizer
from fresh.rationalizer import ExplainSpec
from fresh.reporting.console import to_record
from fresh.reporting.tables import escape_formula
from fresh.serving.batcher import ClosedError, OverloadedError
from fresh.serving.config import MAX_CHARACTERS, JobLimits
from fresh.serving.models import Models, ServedModel
from fresh.serving.routes import JSON_LINES
from fresh.serving.schemas import JobRecord
from fresh.text import plural
from fresh.web.errors import COMMON_STATUSES, WRITE_STATUSES, Problem, problem_responses
from fresh.web.metrics import ServerMetrics

FILE_TYPES = (".csv", ".tsv", ".jsonl", ".json")  # no archives, which could unpack to any size
UPLOAD = "/jobs"  # end of the path that files are uploaded to
_FORM_FIELDS = ("file", "text", "query", "id", "ratio", "skip_bad")
_AT_ONCE = 16  # texts of a file in the queue of a model at the same time
_MAX_ROW_MB = 2  # enough for MAX_CHARACTERS in any encoding
_OR_SKIP = "or leave such rows out with skip_bad."
LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Job:
    """An uploaded file and its progress."""

    record: JobRecord
    served: ServedModel
    config: DataConfig
    folder: Path
    max_rows: int
    bad: BadRows = field(default_factory=BadRows)  # rows that were left out
    ended: float = 0.0  # when it ended, by a monotonic clock
    stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def source(self) -> Path:
        """The upload."""
        # Only the file type comes from the client, so that no path can.
        return self.folder / f"upload{next(end for end in FILE_TYPES if self.record.file.lower().endswith(end))}"

    @property
    def results(self) -> Path:
        """The explanations, as JSON lines."""
        return self.folder / "results.jsonl"

    def documents(self, bad: BadRows) -> Iterator[Document]:
        """Read the texts of the file, and count the rows that are left out."""
        rows = self._limit_rows(read_rows(self.source, self.record.file, self.config))
        return parse_rows(rows, self.config, ("text",), self._document_in, bad)

    def _limit_rows(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            if row.number > self.max_rows:
                raise DataError(f"{self.record.file} has more than {self.max_rows:,} rows. Upload it in parts.")
            yield row

    def _document_in(self, row: Row, config: DataConfig, split: Split) -> Document:
        # The length is checked before the text is split, which takes time.
        for name, cell in (("text", row.values.get(config.text)), ("query", row.values.get(config.query))):
            if isinstance(cell, str) and len(cell) > MAX_CHARACTERS:
                problem = f"the {name} has {len(cell):,} characters; the limit is {MAX_CHARACTERS:,}."
                raise RowError(row.place, problem, f"Split it, {_OR_SKIP}")
        document = parse_document(row, config, split)
        try:
            self.served.model.check_query(document)
        except ValueError as error:
            has, trained = ("no", "with") if self.served.model.needs_query else ("a", "without")
            problem = f"the row has {has} query, but model {self.served.name!r} was trained {trained} queries."
            fix = "Give one in the column query." if self.served.model.needs_query else "Name no column with queries."
            raise RowError(row.place, problem, fix) from error
        for too_long in document_tokenizer(self.served.model).measure([text_of(document)])[1].values():
            problem, _, fix = str(too_long).rpartition(". ")
            raise RowError(row.place, f"{problem[:1].lower()}{problem[1:]}.", f"{fix.removesuffix('.')}, {_OR_SKIP}")
        return document


class Jobs:
    """All jobs of a server; two run at a time."""

    def __init__(self, metrics: ServerMetrics, limits: JobLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.metrics = metrics
        self.limits = limits
        self.clock = clock
        self.jobs: dict[str, Job] = {}
        self.folder = tempfile.TemporaryDirectory(prefix="fresh-serve-")
        self._lock = threading.RLock()
        self._pool = ThreadPoolExecutor(2, "jobs")
        # Uploads are checked one at a time: the memory of many would add up.
        self._checking = threading.Lock()

    def create(self, name: str, served: ServedModel, config: DataConfig, ratio: float | None) -> Job:
        """Reserve a place for an upload."""
        shown_name = Path(name.replace("\\", "/")).name[-100:] or "upload"
        if not shown_name.lower().endswith(FILE_TYPES):
            raise Problem(415, f"The type of {shown_name!r} is not supported. Upload one of: {', '.join(FILE_TYPES)}.")
        if ratio is not None:
            served.check_ratio(ratio)
        with self._lock:
            self._expire()
            if len(self.jobs) >= self.limits.max_jobs:
                n_files = plural(len(self.jobs), "file")
                message = f"The server holds {n_files}, its limit. Delete one, or try again later."
                ended = min(job.ended or self.clock() for job in self.jobs.values())
                seconds = max(1, math.ceil(ended + self.limits.keep_seconds - self.clock()))
                raise Problem(503, message, {"Retry-After": str(seconds)})
            id = secrets.token_urlsafe(16)
            folder = Path(self.folder.name) / id
            record = JobRecord(id=id, file=shown_name, model=served.name, ratio=ratio)
            job = self.jobs[id] = Job(record, served, config, folder, self.limits.max_rows)
            self.metrics.jobs.set(len(self.jobs))
        return job

    def start(self, job: Job, content: IO[bytes]) -> Job:
        """Store an upload, check all its rows, and start to explain them."""
        job.folder.mkdir()
        try:
            with self._checking:
                with job.source.open("wb") as file:
                    shutil.copyfileobj(content, file)
                self._check_rows(job)
        except BaseException:
            self.delete(job)
            raise
        self._pool.submit(self.work, job)
        return job

    def get(self, id: str) -> Job:
        """Return the job with an id."""
        with self._lock:
            self._expire()
            job = self.jobs.get(id)
        if job is None:
            message = f"There is no such job. Results are kept for {self.limits.keep_time}; upload the file again."
            raise Problem(404, message)
        return job

    def delete(self, job: Job) -> None:
        """Stop a job and delete its files."""
        with self._lock:
            job.stopped.set()
            self.jobs.pop(job.record.id, None)
            self.metrics.jobs.set(len(self.jobs))
            shutil.rmtree(job.folder, ignore_errors=True)

    def close(self) -> None:
        """Stop all jobs and delete all files."""
        for job in list(self.jobs.values()):
            self.delete(job)
        self._pool.shutdown(cancel_futures=True)
        self.folder.cleanup()

    def work(self, job: Job) -> None:
        """Explain all texts of a file; what is written are whole lines."""
        record = job.record
        record.state = "running"
        try:
            with open_lines(job.results) as output:
                self._explain(job, output)
            record.state = "done"
        except (ValueError, OSError, ClosedError) as error:
            texts = "1 text is" if record.done == 1 else f"{record.done:,} texts are"
            rest = f" ({texts} explained and can be downloaded.)" if record.done else ""
            record.state, record.problem = "failed", f"{error}{rest}"
        except Exception:
            LOG.exception("A file could not be explained")
            record.state, record.problem = "failed", "Internal server error. See the log of the server."
        finally:
            job.ended = self.clock()
            if job.stopped.is_set():  # delete also what was written while the job was being deleted
                shutil.rmtree(job.folder, ignore_errors=True)

    def _check_rows(self, job: Job) -> None:
        message = ""
        try:
            for _ in job.documents(job.bad):
                job.record.rows += 1
        except DataError as error:
            message = str(error)
        job.record.left_out = job.bad.summary() if job.bad.count else ""
        if message:  # a new error: the traceback of the first would keep all rows in memory until it is collected
            raise DataError(message)

    def _explain(self, job: Job, output: IO[str]) -> None:
        documents = job.documents(BadRows())
        while group := list(islice(documents, _AT_ONCE)):
            for future in [self._submit(job, document) for document in group]:
                try:
                    [[explanation]] = future.result()
                except ValueError as error:
                    if not job.config.skip_bad:
                        raise
                    job.bad.add(str(error))
                    job.record.left_out = job.bad.summary()
                else:
                    output.write(json.dumps(to_record(explanation), ensure_ascii=False) + "\n")
                    job.record.done += 1
            output.flush()

    def _submit(self, job: Job, document: Document) -> "Future[list[Any]]":
        while not job.stopped.is_set():
            try:
                return job.served.batcher.submit([ExplainSpec(document, job.record.ratio)], low_priority=True)
            except OverloadedError:
                job.stopped.wait(0.1)
        raise ClosedError("The job was deleted.")

    def _expire(self) -> None:
        for job in list(self.jobs.values()):
            if job.ended and self.clock() - job.ended > self.limits.keep_seconds:
                self.delete(job)


async def _column_names(
    request: Request,
    text: Annotated[str, Form(description="Column with the text.")] = "text",
    query: Annotated[str, Form(description="Column with the query; empty for none.")] = "query",
    id: Annotated[str, Form(description="Column with the id; empty to number the rows.")] = "id",
) -> dict[str, str]:
    form = await request.form()
    unknown = [suggest(name, "a field of this form", _FORM_FIELDS) for name in form if name not in _FORM_FIELDS]
    if unknown:
        raise Problem(422, " ".join(unknown))
    columns = {"text": text, "query": query, "id": id}
    return {name: "" if form.get(name) == "" else column for name, column in columns.items()}  # not the default


def job_routes(models: Models, jobs: Jobs) -> APIRouter:
    """Make the routes of jobs."""
    router = APIRouter(prefix="/v1", tags=["jobs"])
    refusals = problem_responses(400, 404, 408, 415, 422, 503, *WRITE_STATUSES)

    @router.post(f"/models/{{name}}{UPLOAD}", summary="Explain a file", status_code=202, responses=refusals)
    async def upload(
        name: str,
        file: Annotated[UploadFile, File(description=f"A file of one of the types {', '.join(FILE_TYPES)}.")],
        columns: Annotated[dict[str, str], Depends(_column_names)],
        ratio: Annotated[float | None, Form(description="Share of the words to read.")] = None,
        skip_bad: Annotated[bool, Form(description="Leave out rows that cannot be used.")] = False,
    ) -> JobRecord:
        """Upload a table with one text a row; it is explained in the background."""
        served = models.get(name)
        try:
            config = from_mapping(DataConfig, {**columns, "skip_bad": skip_bad, "max_row_mb": _MAX_ROW_MB})
            job = jobs.create(file.filename or "", served, config, ratio)
            await run_in_threadpool(jobs.start, job, file.file)
        except (ConfigError, DataError) as error:
            raise Problem(422, str(error)) from error
        return job.record

    problems = problem_responses(404, 422, *COMMON_STATUSES)

    @router.get("/jobs/{id}", summary="Return the progress of a job", responses=problems)
    def progress(id: str) -> JobRecord:
        """Return how many texts are explained, and what went wrong, if anything."""
        return jobs.get(id).record

    problems = problem_responses(404, 422, *WRITE_STATUSES)

    @router.delete("/jobs/{id}", summary="Delete a job and its results", status_code=204, responses=problems)
    def delete(id: str) -> None:
        """Stop a job, and delete the upload and the results."""
        jobs.delete(jobs.get(id))

    content = {"description": "The results.", "content": {JSON_LINES: {}, "text/csv": {}}}
    responses = {200: content, **problem_responses(404, 409, 422, *COMMON_STATUSES)}

    @router.get("/jobs/{id}/results", summary="Download results", responses=responses, response_class=Response)
    def results(id: str, format: Literal["jsonl", "csv"] = "jsonl") -> Response:
        """Return what `fresh explain` writes, as JSON lines, or labels and rationales as CSV."""
        job = jobs.get(id)
        record = job.record
        if record.state not in ("done", "failed"):
            raise Problem(409, f"{record.done:,} of {plural(record.rows, 'text')} explained. Wait for the job to end.")
        lines = _read_lines(_open_results(job))
        body, kind = (lines, JSON_LINES) if format == "jsonl" else (_to_csv(lines), "text/csv; charset=utf-8")
        headers = {"Content-Disposition": f'attachment; filename="explained.{format}"'}
        return StreamingResponse(body, media_type=kind, headers=headers)

    return router


def _open_results(job: Job) -> TextIO:
    # Opened before the response starts: a download continues even if the job is deleted meanwhile.
    try:
        return job.results.open(encoding="utf-8")
    except OSError as error:
        raise Problem(404, f"There are no results. {job.record.problem or 'They were deleted.'}") from error


def _read_lines(file: TextIO) -> Iterator[str]:
    with file:
        yield from file


class _Echo:
    """A file that returns what is written to it."""

    def write(self, text: str) -> str:
        return text


def _to_csv(lines: Iterable[str]) -> Iterator[str]:
    """Turn JSON lines into CSV rows in which no cell begins as a formula of a spreadsheet."""
    write_row = csv.writer(_Echo()).writerow  # it returns what the file's write() returns
    yield write_row(("id", "label", "probability", "ratio", "read"))
    for line in lines:
        record = json.loads(line)
        words = " … ".join(span["text"] for span in record["rationale"])
        cells = (record["id"], record["label"], record["probability"], record["ratio"], words)
        yield write_row([escape_formula(cell) if isinstance(cell, str) else cell for cell in cells])

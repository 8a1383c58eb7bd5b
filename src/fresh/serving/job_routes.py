"""Routes to files that are explained in the background."""

from collections.abc import Iterator
from typing import Annotated, Literal, TextIO

from fastapi import APIRouter, Depends, File, Form, Request, UploadFile
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from fresh.config import from_mapping, suggest
from fresh.data.splits import DataConfig
from fresh.errors import ConfigError, DataError
from fresh.serving.jobs import ENDINGS, MOST_ROW_MB, Job, Jobs, State
from fresh.serving.models import Models
from fresh.serving.results import as_csv
from fresh.serving.routes import JSON_LINES, Documented
from fresh.web.errors import ALWAYS, CHANGING, Problem, problems

UPLOAD = "/jobs"
"""How the address ends to which files are uploaded."""
CSV = "text/csv; charset=utf-8"
FIELDS = ("file", "text", "query", "id", "ratio", "skip_bad")


class JobRecord(BaseModel):
    """How far a file has come."""

    id: str
    file: str
    model: str
    ratio: float | None = Field(description="Share of the words to read, if it was given.")
    state: State
    rows: int = Field(description="Texts that are explained in all.")
    done: int = Field(description="Texts that are explained by now.")
    problem: str = Field(description="Why it failed; empty if it did not.")
    left_out: str = Field(description="Which rows were left out, and why; empty if none.")


async def _columns_in(
    request: Request,
    text: Annotated[str, Form(description="Column with the text.")] = "text",
    query: Annotated[str, Form(description="Column with the query; given empty, none is read.")] = "query",
    id: Annotated[str, Form(description="Column with a name for each row; given empty, names are made.")] = "id",
) -> dict[str, str]:
    """Take the names of columns from a form, and refuse what is no field of it."""
    form = await request.form()
    strange = [suggest(name, "a field of this form", FIELDS) for name in form if name not in FIELDS]
    if strange:
        raise Problem(422, " ".join(strange))
    columns = {"text": text, "query": query, "id": id}
    return {name: "" if form.get(name) == "" else given for name, given in columns.items()}  # not the default


def job_routes(models: Models, jobs: Jobs) -> APIRouter:
    """Make the routes."""
    router = APIRouter(prefix="/v1", tags=["jobs"])

    @router.post(
        f"/models/{{name}}{UPLOAD}",
        summary="Explain a file",
        status_code=202,
        responses=problems(400, 404, 408, 415, 422, 503, *CHANGING),
    )
    async def upload(
        name: str,
        file: Annotated[UploadFile, File(description=f"A file that ends in one of: {', '.join(ENDINGS)}.")],
        columns: Annotated[dict[str, str], Depends(_columns_in)],
        ratio: Annotated[float | None, Form(description="Share of the words to read.")] = None,
        skip_bad: Annotated[bool, Form(description="Leave out rows that cannot be used.")] = False,
    ) -> JobRecord:
        """Upload a table with one text a row; it is explained in the background, as with `fresh explain --input`."""
        served = models.find(name)
        try:
            config = from_mapping(DataConfig, {**columns, "skip_bad": skip_bad, "max_row_mb": MOST_ROW_MB})
            job = jobs.make(file.filename or "", served, config, ratio)
            await run_in_threadpool(jobs.add, job, file.file)
        except (ConfigError, DataError) as error:
            raise Problem(422, str(error)) from error
        return JobRecord(**job.about())

    @router.get("/jobs/{id}", summary="How far a file has come", responses=problems(404, 422, *ALWAYS))
    def progress(id: str) -> JobRecord:
        """Tell how many texts are explained, and what went wrong if anything did."""
        return JobRecord(**jobs.find(id).about())

    @router.delete(
        "/jobs/{id}",
        summary="Delete a file and its results",
        status_code=204,
        responses=problems(404, 422, *CHANGING),
    )
    def delete(id: str) -> None:
        """Stop it, and delete what was uploaded and what was written."""
        jobs.remove(jobs.find(id))

    contents: Documented = {200: {"description": "The results.", "content": {JSON_LINES: {}, "text/csv": {}}}}

    @router.get(
        "/jobs/{id}/results",
        summary="Download results",
        responses={**contents, **problems(404, 409, 422, *ALWAYS)},
        response_class=Response,
    )
    def results(id: str, format: Literal["jsonl", "csv"] = "jsonl") -> Response:
        """Give what `fresh explain` writes, as JSON lines, or the answers and the words read, as CSV."""
        job = jobs.find(id)
        if job.state not in ("done", "failed"):
            raise Problem(409, f"{job.n_done:,} of {job.n_rows:,} texts are explained. Wait until all are.")
        lines = _lines_of(_opened(job))
        body, kind = (lines, JSON_LINES) if format == "jsonl" else (as_csv(lines), CSV)
        headers = {"Content-Disposition": f'attachment; filename="explained.{format}"'}
        return StreamingResponse(body, media_type=kind, headers=headers)

    return router


def _opened(job: Job) -> TextIO:
    """Open the results, before anything is answered: who reads them keeps them, even if they are deleted meanwhile."""
    try:
        return job.results.open(encoding="utf-8")
    except OSError as error:
        why = job.problem or "They were deleted."
        raise Problem(404, f"There are no results. {why}") from error


def _lines_of(file: TextIO) -> Iterator[str]:
    """Read the results line by line."""
    with file:
        yield from file

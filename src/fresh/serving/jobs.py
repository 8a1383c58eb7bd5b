"""Files that are explained in the background: kept for a while, in places of our own."""

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
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

from fresh._io import open_lines
from fresh.attribution.support_model import text_of
from fresh.data.examples import Splitter, document_in, usable
from fresh.data.readers import Row, read_rows
from fresh.data.splits import BadRows, DataConfig
from fresh.document import Document
from fresh.errors import DataError, RowError
from fresh.evaluation.length_check import reader_of
from fresh.reporting.console import to_record
from fresh.serving.batcher import ClosedError, OverloadedError
from fresh.serving.models import Served
from fresh.serving.question import Question
from fresh.serving.schemas import MOST_CHARACTERS, check_ratio
from fresh.web.errors import Problem
from fresh.web.metrics import ServerMetrics

ENDINGS = (".csv", ".tsv", ".jsonl", ".json")
"""Of files that can be uploaded: none that is packed, so that little cannot become much."""
AT_ONCE = 16
"""Texts of a file that wait to be read at the same time; others have their turn in between."""
MOST_ROW_MB = 2
"""Size of a row of a file, in megabytes: room for a text of MOST_CHARACTERS, however it is written."""
OR_LEAVE_OUT = "or leave such rows out with skip_bad."

State = Literal["waiting", "running", "done", "failed"]
LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobLimits:
    """How much is kept, and for how long."""

    most_bytes: int = 20 * 1024**2
    """Size of a file."""
    most_rows: int = 10_000
    """Rows of a file."""
    most_jobs: int = 20
    """Files that are kept with their results."""
    seconds: float = 3600.0
    """How long results are kept after they are done."""

    @property
    def kept(self) -> str:
        """That time in words."""
        return f"{self.seconds / 60:g} minutes"


@dataclass(slots=True)
class Job:
    """A file, and how far it has come."""

    id: str
    name: str
    """What the client calls the file."""
    served: Served
    config: DataConfig
    ratio: float | None
    folder: Path
    most_rows: int
    """Rows that the file may have."""
    n_rows: int = 0
    n_done: int = 0
    state: State = "waiting"
    problem: str = ""
    bad: BadRows = field(default_factory=BadRows)
    """Which rows were left out, and why."""
    ended: float = 0.0
    """When it was done, by the clock that only goes on."""
    stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def source(self) -> Path:
        """Where the upload lies; of the client's name for it only the end is used."""
        return self.folder / f"upload{next(end for end in ENDINGS if self.name.lower().endswith(end))}"

    @property
    def results(self) -> Path:
        """Where the results are written."""
        return self.folder / "results.jsonl"

    def documents(self, bad: BadRows) -> Iterator[Document]:
        """Read the texts of the file."""
        make = partial(self.document_in, splitter=Splitter())
        rows = self.at_most(read_rows(self.source, self.name, self.config.limits))
        return usable(rows, self.config, ("text",), make, bad)

    def at_most(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Refuse a file that has too many rows, those that cannot be used included."""
        for row in rows:
            if row.number > self.most_rows:
                raise DataError(
                    f"{self.name} has more than {self.most_rows:,} rows, the most that are taken. Upload it in parts."
                )
            yield row

    def document_in(self, row: Row, config: DataConfig, splitter: Splitter) -> Document:
        """Make a document of a row, as the model can read it; a text that is too long is not even split."""
        for name, cell in (("text", row.values.get(config.text)), ("query", row.values.get(config.query))):
            if isinstance(cell, str) and len(cell) > MOST_CHARACTERS:
                problem = f"the {name} has {len(cell):,} characters; at most {MOST_CHARACTERS:,} are taken."
                raise RowError(row.place, problem, f"Split it, {OR_LEAVE_OUT}")
        document = document_in(row, config, splitter)
        try:
            self.served.model.check_query(document)
        except ValueError as error:
            asks = self.served.model.needs_query
            problem = f"the row has {'no' if asks else 'a'} query, but model {self.served.name!r} was trained with"
            way_out = "Give one in the column query." if asks else "Name no column with queries."
            raise RowError(row.place, f"{problem}{'' if asks else 'out'} queries.", way_out) from error
        for too_long in reader_of(self.served.model).measure([text_of(document)])[1].values():
            problem, _, way_out = str(too_long).rpartition(". ")
            told = f"{problem[:1].lower()}{problem[1:]}."
            raise RowError(row.place, told, f"{way_out.removesuffix('.')}, {OR_LEAVE_OUT}")
        return document

    def about(self) -> dict[str, Any]:
        """Say how far it has come."""
        return {
            "id": self.id,
            "file": self.name,
            "model": self.served.name,
            "ratio": self.ratio,
            "state": self.state,
            "rows": self.n_rows,
            "done": self.n_done,
            "problem": self.problem,
            "left_out": self.bad.summary() if self.bad.count else "",
        }


class Jobs:
    """All jobs of a server; two are worked on at a time."""

    def __init__(self, measures: ServerMetrics, limits: JobLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.measures = measures
        self.limits = limits
        self.clock = clock
        self.jobs: dict[str, Job] = {}
        self.lock = threading.Lock()
        self.place = tempfile.TemporaryDirectory(prefix="fresh-serve-")
        self.pool = ThreadPoolExecutor(2, "jobs")
        self.checking = threading.Lock()
        """Held while an upload is read: the memory of many at once would add up."""

    def add(self, job: Job, content: IO[bytes]) -> Job:
        """Keep an upload, read all its rows once to find what is wrong, and begin."""
        job.folder.mkdir()
        try:
            with self.checking:
                with job.source.open("wb") as file:
                    shutil.copyfileobj(content, file)
                self.check(job)
        except BaseException:
            self.remove(job)
            raise
        self.pool.submit(self.work, job)
        return job

    def make(self, name: str, served: Served, config: DataConfig, ratio: float | None) -> Job:
        """Make a place for a job, if there is one left."""
        shown = Path(name.replace("\\", "/")).name[-100:] or "upload"
        if not shown.lower().endswith(ENDINGS):
            raise Problem(415, f"{shown!r} is of a type that is not taken. Upload one of: {', '.join(ENDINGS)}.")
        if ratio is not None:
            check_ratio(served, ratio)
        with self.lock:
            self.expire()
            if len(self.jobs) >= self.limits.most_jobs:
                told = f"{len(self.jobs)} files are kept already, and no more can be. Delete one, or come back later."
                raise Problem(503, told, {"Retry-After": str(self.next_place())})
            id = secrets.token_urlsafe(16)
            folder = Path(self.place.name) / id
            job = self.jobs[id] = Job(id, shown, served, config, ratio, folder, self.limits.most_rows)
            self.measures.jobs.set(len(self.jobs))
        return job

    def check(self, job: Job) -> None:
        """Read all rows, and refuse a file that cannot be used or has too many."""
        wrong = ""
        try:
            for _ in job.documents(job.bad):
                job.n_rows += 1
        except DataError as error:
            wrong = str(error)
        if wrong:  # raised anew: the traceback of the first error would keep all that was read until it is collected
            raise DataError(wrong)

    def work(self, job: Job) -> None:
        """Explain all texts of a file; each line that is written is whole."""
        job.state = "running"
        try:
            with open_lines(job.results) as output:
                self.explain(job, output)
            job.state = "done"
        except (ValueError, OSError, ClosedError) as error:
            told = f" ({_before(job.n_done)} explained and can be downloaded.)" if job.n_done else ""
            job.state, job.problem = "failed", f"{error}{told}"
        except Exception:
            LOG.exception("A file could not be explained")
            job.state, job.problem = "failed", "Something went wrong in the server. Its log says what."
        finally:
            job.ended = self.clock()
            if job.stopped.is_set():  # what was written while it was being deleted goes too
                shutil.rmtree(job.folder, ignore_errors=True)

    def explain(self, job: Job, output: IO[str]) -> None:
        """Write the answers; a text that turns out to be none the model can read is left out if rows may be."""
        documents = job.documents(BadRows())
        while group := list(islice(documents, AT_ONCE)):
            for future in [self.ask(job, document) for document in group]:
                try:
                    [[explanation]] = future.result()
                except ValueError as error:
                    if not job.config.skip_bad:
                        raise
                    job.bad.add(str(error))
                else:
                    output.write(json.dumps(to_record(explanation), ensure_ascii=False) + "\n")
                    job.n_done += 1
            output.flush()

    def ask(self, job: Job, document: Document) -> "Future[list[Any]]":
        """Have a text wait for its turn, as soon as there is room."""
        while not job.stopped.is_set():
            try:
                return job.served.batcher.ask([Question(document, job.ratio)], later=True)
            except OverloadedError:
                job.stopped.wait(0.1)
        raise ClosedError("The job was deleted.")

    def find(self, id: str) -> Job:
        """Find a job by its id."""
        with self.lock:
            self.expire()
            job = self.jobs.get(id)
        if job is None:
            told = f"There is no such job. Results are kept for {self.limits.kept}; upload the file again."
            raise Problem(404, told)
        return job

    def expire(self) -> None:
        """Forget what was done long ago."""
        for job in list(self.jobs.values()):
            if job.ended and self.clock() - job.ended > self.limits.seconds:
                self.forget(job)

    def next_place(self) -> int:
        """Say in how many seconds a file will go by itself; none of those that are not done goes before its time."""
        ended = [job.ended or self.clock() for job in self.jobs.values()]
        return max(1, math.ceil(min(ended) + self.limits.seconds - self.clock()))

    def remove(self, job: Job) -> None:
        """Stop a job and delete all that belongs to it."""
        with self.lock:
            self.forget(job)

    def forget(self, job: Job) -> None:
        """Delete what belongs to a job."""
        job.stopped.set()
        self.jobs.pop(job.id, None)
        self.measures.jobs.set(len(self.jobs))
        shutil.rmtree(job.folder, ignore_errors=True)

    def close(self) -> None:
        """Stop all jobs and delete everything."""
        for job in list(self.jobs.values()):
            self.remove(job)
        self.pool.shutdown(cancel_futures=True)
        self.place.cleanup()


def _before(n_done: int) -> str:
    """Count the texts before one at which a file was given up."""
    return "1 text before it is" if n_done == 1 else f"{n_done:,} texts before it are"

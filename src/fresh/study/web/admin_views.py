"""The admin pages: progress, annotators to look at, pause, codes, results, files."""

import io
import tempfile
import threading
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from fresh.config import suggest
from fresh.errors import RepeatedRequestError, StudyError
from fresh.study import annotators
from fresh.study.export import FORMATS, export_study
from fresh.study.overview import compute_results, get_condition_status, get_overview, read_responses
from fresh.study.results import Results
from fresh.study.store import Store
from fresh.study.web.auth import is_equal
from fresh.study.web.site import Field, Login, Site, redirect
from fresh.web.errors import Problem

ROLE: Final = "admin"
MAX_CODES = 100
FILES = {
    "csv": ("CSV", "answers.csv"),
    "jsonl": ("JSON lines", "answers.jsonl"),
    "mturk": ("Mechanical Turk", "mturk-batch.csv"),
    "prolific": ("Prolific", "prolific-participants.csv"),
    "potato": ("Potato", "potato-items.jsonl"),
    "label_studio": ("Label Studio", "label-studio-tasks.json"),
}
"""Titles and file names of the exports; several files in one archive are named after the first."""
MEDIA_TYPES = {".csv": "text/csv; charset=utf-8", ".zip": "application/zip"}


@dataclass(frozen=True, slots=True)
class _Action:
    """A change to an annotator, which a page asks to confirm."""

    heading: str
    explanation: str
    button: str
    apply: Callable[[Store, int], int] | None = None  # makes the change, and returns a number of texts or answers
    state: str = ""  # the state that it leads to
    done: str = ""
    more: str = ""  # said in addition if the number is not 0


ACTIONS = {
    "exclude": _Action(
        "Exclude annotator {number}?",
        "Their answers stop counting, their texts go to others, and their code stops working. The answers are kept: if "
        "you readmit the annotator, they count again as far as places are left.",
        "Exclude",
        annotators.exclude,
        "excluded",
        "is excluded: none of their answers count.",
        " Texts that go to others: {number:,}.",
    ),
    "readmit": _Action(
        "Readmit annotator {number}?",
        "They can continue with their code. Their answers count again, unless others were given the texts meanwhile.",
        "Readmit",
        annotators.readmit,
        "active",
        "takes part again, and their answers count.",
        " Answers that do not count, since others were given the texts: {number:,}.",
    ),
    "renew": _Action(
        "New code for annotator {number}?",
        "Their current code stops working, and they are signed out. The new code is shown once.",
        "Make a new code",
    ),
}


@dataclass(frozen=True, slots=True)
class AdminViews:
    """The requests of the admin."""

    site: Site
    results_cache: dict[int, Results] = field(default_factory=dict)  # the latest, by a hash of their answers
    results_lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def login(self) -> Login:
        """Return their sign-in."""
        return Login(self.site, ROLE)

    def start(self, request: Request, did: str = "", annotator: str = "", number: str = "") -> Response:
        """Show the progress of the study, and what was just done."""
        if self.site.sessions.find(request, ROLE) is None:
            return self.login.show(request)
        overview, conditions = get_overview(self.site.store), get_condition_status(self.site.store)
        exports, done = {format: FILES[format][0] for format in FORMATS}, self._describe(did, annotator, number)
        return self._page(request, "admin.html", overview=overview, conditions=conditions, exports=exports, done=done)

    def _describe(self, did: str, annotator: str, number: str) -> str:
        """Describe what was done, as an address says, unless the state of the annotator contradicts it."""
        person = annotators.get_annotator(self.site.store, int(annotator)) if _is_number(annotator) else None
        action = ACTIONS.get(did)
        if person is None or action is None or person.state != action.state or not _is_number(number):
            return ""
        more = action.more.format(number=int(number)) if int(number) else ""
        return f"Annotator {person.id} {action.done}{more}"

    def _page(self, request: Request, name: str, **values: Any) -> Response:
        session = self.site.sessions.require(request, ROLE)
        response = self.site.page(name, session, **values)
        self.site.sessions.renew(request, response, session)
        return response

    def pause(self, request: Request, form: Field = "", paused: Field = "") -> Response:
        """Pause or resume the study."""
        self.site.sessions.require_form(request, ROLE, form)
        if paused not in ("yes", "no"):
            raise Problem(422, f"paused must be yes or no, got {paused!r}.")
        annotators.set_paused(self.site.store, paused == "yes")
        return redirect("/admin")

    def confirm(self, request: Request, annotator: str, action: str) -> Response:
        """Ask to confirm a change to an annotator."""
        session, number = self.site.sessions.require(request, ROLE), self._parse_annotator(annotator)
        question, person = _get_action(action), get_overview(self.site.store).annotators
        values = {"person": next(one for one in person if one.id == number), "action": action, "question": question}
        return self._page(request, "confirm.html", mark=self._renewal_token(session.nonce, number), **values)

    def _renewal_token(self, nonce: str, annotator: int) -> str:
        """Make what a form must contain to replace the annotator's current code, and not a later one."""
        version = annotators.code_version(self.site.store, annotator)
        return self.site.sessions.signer.sign("renew", nonce, str(annotator), version)

    def change(
        self, request: Request, form: Field = "", annotator: Field = "", action: Field = "", mark: Field = ""
    ) -> Response:
        """Make a change to an annotator."""
        session, number = self.site.sessions.require_form(request, ROLE, form), self._parse_annotator(annotator)
        apply = _get_action(action).apply
        if apply is None:
            return self._renew(request, session.nonce, number, mark)
        n_changed = apply(self.site.store, number)
        return redirect(f"/admin?did={action}&annotator={number}&number={n_changed}#main")

    def _renew(self, request: Request, nonce: str, annotator: int, mark: str) -> Response:
        """Show a new code once; sending the form again does not make another."""
        version = annotators.code_version(self.site.store, annotator)
        if not is_equal(mark, self._renewal_token(nonce, annotator)):
            raise RepeatedRequestError(annotators.CODE_RENEWED.format(annotator=annotator))
        code = annotators.renew_code(self.site.store, annotator, version)
        return self._page(request, "codes.html", codes=[code], renewed=True)

    def _parse_annotator(self, annotator: str) -> int:
        if not _is_number(annotator) or annotators.get_annotator(self.site.store, int(annotator)) is None:
            raise StudyError(f"There is no annotator {annotator} in this study.")
        return int(annotator)

    def codes(self, request: Request, form: Field = "", number: Field = "", after: Field = "") -> Response:
        """Add annotators, and show their codes once; sending the form again does not make others."""
        self.site.sessions.require_form(request, ROLE, form)
        if not (_is_number(number) and 1 <= int(number) <= MAX_CODES):
            raise Problem(422, f"The number of new codes must be from 1 to {MAX_CODES}, got {number!r}.")
        codes = annotators.add_annotators(self.site.store, int(number), int(after) if _is_number(after) else -1)
        return self._page(request, "codes.html", codes=codes, renewed=False)

    def results(self, request: Request) -> Response:
        """Show the tables so far."""
        self.site.sessions.require(request, ROLE)
        # Computed once for the same answers, and by one thread at a time: bootstraps take seconds.
        with self.results_lock:
            results = self.results_cache.get(answers := hash(tuple(read_responses(self.site.store))))
            if results is None:
                results = compute_results(self.site.store)
                self.results_cache.clear()
                self.results_cache[answers] = results
        return self._page(request, "results.html", tables=results.tables(), note=results.notes[0])

    def export(self, request: Request, format: str) -> Response:
        """Send answers, or items for another tool, as a file."""
        self.site.sessions.require(request, ROLE)
        if format not in FORMATS:
            raise Problem(404, suggest(format, "an export format", FORMATS))
        file = Path(FILES[format][1])
        with tempfile.TemporaryDirectory() as folder:
            paths = export_study(self.site.store, format, Path(folder) / file)
            content, ending = _pack(paths)
        headers = {"Content-Disposition": f'attachment; filename="{file.stem}{ending}"'}
        return Response(content, media_type=MEDIA_TYPES.get(ending, "application/json"), headers=headers)


def _get_action(name: str) -> _Action:
    if name not in ACTIONS:
        raise Problem(422, suggest(name, "an action", ACTIONS))
    return ACTIONS[name]


def _pack(files: list[Path]) -> tuple[bytes, str]:
    """Read a file, or several as an archive, and return the contents with its ending."""
    if len(files) == 1:
        return files[0].read_bytes(), files[0].suffix
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.write(path, path.name)
    return content.getvalue(), ".zip"


def _is_number(text: str) -> bool:
    """Check for a whole number that the database can hold."""
    return text.isascii() and text.isdigit() and len(text) < 10

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
from fresh.study.schema import AnnotatorRow
from fresh.study.store import Store
from fresh.study.web.auth import is_equal
from fresh.study.web.site import Field, Login, Site, redirect
from fresh.web.errors import Problem

ROLE: Final = "admin"
MAX_CODES = 100
MEDIA_TYPES = {".csv": "text/csv; charset=utf-8", ".zip": "application/zip"}


@dataclass(frozen=True, slots=True)
class _Action:
    """A change to an annotator, which a page asks to confirm."""

    heading: str
    explanation: str
    button: str
    apply: Callable[[Store, int], int] | None = None  # makes the change, and returns a number of texts or answers
    state: str = ""  # the state afterwards
    done: str = ""  # shown afterwards
    more: str = ""  # shown in addition if the number is not 0


ACTIONS = {
    "exclude": _Action(
        "Exclude annotator {number}?",
        "Their answers stop counting, their texts go to others, and their code stops working. The answers are kept: if "
        "you readmit the annotator, they count again, except where others took the places.",
        "Exclude",
        annotators.exclude,
        "excluded",
        "is excluded: none of their answers count.",
        " Texts that go to others: {number:,}.",
    ),
    "readmit": _Action(
        "Readmit annotator {number}?",
        "They can continue with their code. Their answers count again, except where others got the texts meanwhile.",
        "Readmit",
        annotators.readmit,
        "active",
        "takes part again, and their answers count.",
        " Answers that do not count, since others got the texts meanwhile: {number:,}.",
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

    def start(self, request: Request, did: str = "", annotator: str = "", number: str = "") -> Response:
        """Show the progress of the study, and what was just done."""
        if self.site.sessions.find(request, ROLE) is None:
            return Login(self.site, ROLE).show(request)
        store = self.site.store
        values = {"overview": get_overview(store), "conditions": get_condition_status(store), "exports": FORMATS}
        # What was done, as the URL says, unless the state of the annotator contradicts it.
        person = annotators.get_annotator(store, annotators.parse_number(annotator))
        action, n_changed, done = ACTIONS.get(did), annotators.parse_number(number), ""
        if person is not None and action is not None and person.state == action.state and n_changed is not None:
            done = f"Annotator {person.id} {action.done}{action.more.format(number=n_changed) if n_changed else ''}"
        return self._page(request, "admin.html", done=done, **values)

    def _page(self, request: Request, name: str, **values: Any) -> Response:
        return self.site.page(request, self.site.sessions.require(request, ROLE), name, **values)

    def pause(self, request: Request, form: Field = "", paused: Field = "") -> Response:
        """Pause or resume the study."""
        self.site.sessions.require_form(request, ROLE, form)
        if paused not in ("yes", "no"):
            raise Problem(422, f"paused must be yes or no, got {paused!r}.")
        annotators.set_paused(self.site.store, paused == "yes")
        return redirect("/admin")

    def confirm(self, request: Request, annotator: str, action: str) -> Response:
        """Ask to confirm a change to an annotator."""
        session, row = self.site.sessions.require(request, ROLE), self._get_annotator(annotator)
        person = next(one for one in get_overview(self.site.store).annotators if one.id == row.id)
        values = {"person": person, "action": action, "question": _get_action(action)}
        return self._page(request, "confirm.html", mark=self._renewal_token(session.nonce, row), **values)

    def _get_annotator(self, annotator: str) -> AnnotatorRow:
        row = annotators.get_annotator(self.site.store, annotators.parse_number(annotator))
        if row is None:
            raise StudyError(f"There is no annotator {annotator} in this study.")
        return row

    def _renewal_token(self, nonce: str, row: AnnotatorRow) -> str:
        # With the hash of the current code, so that a form sent again does not replace a later code.
        return self.site.sessions.signer.sign("renew", nonce, str(row.id), row.code)

    def change(
        self, request: Request, form: Field = "", annotator: Field = "", action: Field = "", mark: Field = ""
    ) -> Response:
        """Change an annotator; a new code is shown once, and sending the form again does not make another."""
        session, row = self.site.sessions.require_form(request, ROLE, form), self._get_annotator(annotator)
        apply = _get_action(action).apply
        if apply is not None:
            return redirect(f"/admin?did={action}&annotator={row.id}&number={apply(self.site.store, row.id)}#main")
        if not is_equal(mark, self._renewal_token(session.nonce, row)):
            raise RepeatedRequestError(annotators.CODE_RENEWED.format(annotator=row.id))
        code = annotators.renew_code(self.site.store, row.id, replaces=row.code)
        return self._page(request, "codes.html", codes=[code], renewed=True)

    def codes(self, request: Request, form: Field = "", number: Field = "", after: Field = "") -> Response:
        """Add annotators, and show their codes once; sending the form again does not make others."""
        self.site.sessions.require_form(request, ROLE, form)
        n, highest = annotators.parse_number(number), annotators.parse_number(after)
        if n is None or not 1 <= n <= MAX_CODES:
            raise Problem(422, f"The number of new codes must be from 1 to {MAX_CODES}, got {number!r}.")
        codes = annotators.add_annotators(self.site.store, n, -1 if highest is None else highest)
        return self._page(request, "codes.html", codes=codes, renewed=False)

    def results(self, request: Request) -> Response:
        """Show the tables so far."""
        self.site.sessions.require(request, ROLE)
        # Computed once for the same answers, by one thread at a time: bootstraps take seconds.
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
        file = Path(FORMATS[format].file)
        with tempfile.TemporaryDirectory() as folder:
            paths = export_study(self.site.store, format, Path(folder) / file)
            content, ending = paths[0].read_bytes(), paths[0].suffix
            if len(paths) > 1:
                packed, ending = io.BytesIO(), ".zip"
                with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
                    for path in paths:
                        archive.write(path, path.name)
                content = packed.getvalue()
        headers = {"Content-Disposition": f'attachment; filename="{file.stem}{ending}"'}
        return Response(content, media_type=MEDIA_TYPES.get(ending, "application/json"), headers=headers)


def _get_action(name: str) -> _Action:
    if name not in ACTIONS:
        raise Problem(422, suggest(name, "an action", ACTIONS))
    return ACTIONS[name]

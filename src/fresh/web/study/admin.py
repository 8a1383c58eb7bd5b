"""The pages of whoever runs a study: how far it is, whom to look at, pause, codes, results, files."""

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

from fresh.config import unknown
from fresh.study.answer import StudyError
from fresh.study.desk import readmit
from fresh.study.exporting import FORMS, export_study
from fresh.study.people import add_annotators, exclude, leave, look_up, pause, renew_code
from fresh.study.records import counted, overview, results_of
from fresh.study.results import Results
from fresh.study.standing import standings
from fresh.web.problems import Problem
from fresh.web.study.signing import Door, Field
from fresh.web.study.site import Site, go

ROLE: Final = "admin"
MOST_CODES = 100
FILES = {
    "csv": "answers.csv",
    "jsonl": "answers.jsonl",
    "mturk": "mturk-batch.csv",
    "prolific": "prolific-participants.csv",
    "potato": "potato-items.jsonl",
    "label_studio": "label-studio-tasks.json",
}
"""What files are called; several in one archive by the first of them."""
NAMES = {
    "csv": "CSV",
    "jsonl": "JSON lines",
    "mturk": "Mechanical Turk",
    "prolific": "Prolific",
    "potato": "Potato",
    "label_studio": "Label Studio",
}
KINDS = {".csv": "text/csv; charset=utf-8", ".zip": "application/zip"}


@dataclass(frozen=True, slots=True)
class Admin:
    """What whoever runs a study can ask for."""

    site: Site
    computed: dict[int, Results] = field(default_factory=dict)
    """The newest results, by a hash of the answers that they are made from."""
    computing: threading.Lock = field(default_factory=threading.Lock)

    @property
    def door(self) -> Door:
        """Where they come in."""
        return Door(self.site, ROLE)

    def start(self, request: Request) -> Response:
        """Show how the study stands."""
        if self.site.visits.find(request, ROLE) is None:
            return self.door.show(request)
        found, forms = overview(self.site.store), {form: NAMES.get(form, form) for form in FORMS}
        return self.shown(request, "admin.html", found=found, standings=standings(self.site.store), forms=forms)

    def shown(self, request: Request, name: str, **values: Any) -> Response:
        """Show a page to whoever runs the study."""
        session = self.site.visits.need(request, ROLE)
        response = self.site.page(name, session, **values)
        self.site.visits.renew(request, response, session)
        return response

    def pause(self, request: Request, form: Field = "", paused: Field = "") -> Response:
        """Stop giving out texts, or go on."""
        self.site.visits.posted(request, ROLE, form)
        if paused not in ("yes", "no"):
            raise Problem(422, f"paused must be yes or no, got {paused!r}.")
        pause(self.site.store, paused == "yes")
        return go("/admin")

    def person(self, request: Request, form: Field = "", annotator: Field = "", action: Field = "") -> Response:
        """Do something about one annotator."""
        self.site.visits.posted(request, ROLE, form)
        number = self.number(annotator)
        if action == "renew":
            return self.shown(request, "codes.html", codes=[renew_code(self.site.store, number)], renewed=True)
        if action not in ACTIONS:
            raise Problem(422, unknown(action, "something that can be done here", (*ACTIONS, "renew")))
        ACTIONS[action](self.site.store, number)
        return go("/admin#people")

    def number(self, annotator: str) -> int:
        """Read the number of an annotator."""
        known = annotator.isascii() and annotator.isdigit() and len(annotator) < 10
        if not known or look_up(self.site.store, int(annotator)) is None:
            raise StudyError(f"There is no annotator {annotator} in this study.")
        return int(annotator)

    def codes(self, request: Request, form: Field = "", number: Field = "") -> Response:
        """Let more people take part, and show their codes this once."""
        self.site.visits.posted(request, ROLE, form)
        if not (number.isascii() and number.isdigit() and len(number) < 10 and 1 <= int(number) <= MOST_CODES):
            raise Problem(422, f"The number of new codes must be from 1 to {MOST_CODES}, got {number!r}.")
        return self.shown(request, "codes.html", codes=add_annotators(self.site.store, int(number)), renewed=False)

    def results(self, request: Request) -> Response:
        """Show the tables so far; computed once for the same answers, and by one thread at a time."""
        self.site.visits.need(request, ROLE)
        with self.computing:
            found = self.computed.get(answers := hash(tuple(counted(self.site.store))))
            if found is None:
                found = results_of(self.site.store)
                self.computed.clear()
                self.computed[answers] = found
        sheets = {"Tables": found.table(), "Agreement": found.agreement_table()}
        if found.differences:
            sheets["Differences between conditions"] = found.pairs_table()
        return self.shown(request, "results.html", sheets=sheets, remark=found.remarks[0])

    def export(self, request: Request, form: str) -> Response:
        """Give answers, or items for other tools, as a file."""
        self.site.visits.need(request, ROLE)
        if form not in FORMS:
            raise Problem(404, unknown(form, "a form that a study can be exported to", FORMS))
        with tempfile.TemporaryDirectory() as folder:
            made = export_study(self.site.store, form, Path(folder) / FILES[form])
            content, ending = packed(made)
        headers = {"Content-Disposition": f'attachment; filename="{Path(FILES[form]).stem}{ending}"'}
        return Response(content, media_type=KINDS.get(ending, "application/json"), headers=headers)


def packed(files: list[Path]) -> tuple[bytes, str]:
    """Read one file, or several into one, and say how it ends."""
    if len(files) == 1:
        return files[0].read_bytes(), files[0].suffix
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.write(path, path.name)
    return whole.getvalue(), ".zip"


ACTIONS: dict[str, Callable[[Any, int], object]] = {"exclude": exclude, "leave": leave, "readmit": readmit}

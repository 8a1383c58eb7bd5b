"""The pages of whoever runs a study: how far it is, whom to look at, pause, codes, results, files."""

import io
import tempfile
import threading
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from fresh.config import suggest
from fresh.errors import StudyError
from fresh.study.annotators import RENEWED, add_annotators, code_mark, look_up, newest, pause, renew_code
from fresh.study.answer import RepeatedError
from fresh.study.export import FORMS, export_study
from fresh.study.overview import counted, overview, results_of
from fresh.study.results import Results
from fresh.study.standing import standings
from fresh.study.web.actions import ACTIONS, ASKED, check_action
from fresh.study.web.auth import Field, Login
from fresh.study.web.sessions import same
from fresh.study.web.site import Site, go
from fresh.web.errors import Problem

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
    def door(self) -> Login:
        """Where they come in."""
        return Login(self.site, ROLE)

    def start(self, request: Request, did: str = "", annotator: str = "", number: str = "") -> Response:
        """Show how the study stands, and what was done just now."""
        if self.site.visits.find(request, ROLE) is None:
            return self.door.show(request)
        return self.shown(
            request,
            "admin.html",
            found=overview(self.site.store),
            standings=standings(self.site.store),
            forms={form: NAMES.get(form, form) for form in FORMS},
            newest=newest(self.site.store),
            done=self.done(did, annotator, number),
        )

    def done(self, did: str, annotator: str, number: str) -> str:
        """Say what was done about somebody, if that is how they stand."""
        person = look_up(self.site.store, int(annotator)) if _is_count(annotator) else None
        action = ACTIONS.get(did)
        if person is None or action is None or person.state != action.leads_to or not _is_count(number):
            return ""
        more = action.more.format(number=int(number)) if int(number) else ""
        return f"Annotator {person.id} {action.done}{more}"

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

    def ask(self, request: Request, annotator: str, action: str) -> Response:
        """Ask whether something shall really be done about somebody."""
        session, number = self.site.visits.need(request, ROLE), self.number(annotator)
        check_action(action)
        people = overview(self.site.store).people
        person = next(person for person in people if person.id == number)
        mark = self.mark(session.nonce, number)
        return self.shown(request, "ask.html", person=person, action=action, asked=ASKED[action], mark=mark)

    def mark(self, nonce: str, annotator: int) -> str:
        """Make what a form must hold to replace the code that somebody has, and not a later one."""
        return self.site.visits.signer.sign("renew", nonce, str(annotator), code_mark(self.site.store, annotator))

    def person(
        self, request: Request, form: Field = "", annotator: Field = "", action: Field = "", mark: Field = ""
    ) -> Response:
        """Do something about one annotator, who was asked about."""
        session, number = self.site.visits.posted(request, ROLE, form), self.number(annotator)
        check_action(action)
        if action == "renew":
            return self.renew(request, session.nonce, number, mark)
        n_told = ACTIONS[action].do(self.site.store, number)
        return go(f"/admin?did={action}&annotator={number}&number={n_told}#main")

    def renew(self, request: Request, nonce: str, annotator: int, mark: str) -> Response:
        """Give somebody another code, and show it this once; a form that is sent again gives no other."""
        before = code_mark(self.site.store, annotator)
        if not same(mark, self.mark(nonce, annotator)):
            raise RepeatedError(RENEWED.format(annotator=annotator))
        code = renew_code(self.site.store, annotator, before)
        return self.shown(request, "codes.html", codes=[code], renewed=True)

    def number(self, annotator: str) -> int:
        """Read the number of an annotator."""
        if not _is_count(annotator) or look_up(self.site.store, int(annotator)) is None:
            raise StudyError(f"There is no annotator {annotator} in this study.")
        return int(annotator)

    def codes(self, request: Request, form: Field = "", number: Field = "", after: Field = "") -> Response:
        """Let more people take part, and show their codes this once; a form that is sent again makes no others."""
        self.site.visits.posted(request, ROLE, form)
        if not (_is_count(number) and 1 <= int(number) <= MOST_CODES):
            raise Problem(422, f"The number of new codes must be from 1 to {MOST_CODES}, got {number!r}.")
        made = add_annotators(self.site.store, int(number), int(after) if _is_count(after) else -1)
        return self.shown(request, "codes.html", codes=made, renewed=False)

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
            raise Problem(404, suggest(form, "a form that a study can be exported to", FORMS))
        with tempfile.TemporaryDirectory() as folder:
            made = export_study(self.site.store, form, Path(folder) / FILES[form])
            content, ending = _packed(made)
        headers = {"Content-Disposition": f'attachment; filename="{Path(FILES[form]).stem}{ending}"'}
        return Response(content, media_type=KINDS.get(ending, "application/json"), headers=headers)


def _packed(files: list[Path]) -> tuple[bytes, str]:
    """Read one file, or several into one, and say how it ends."""
    if len(files) == 1:
        return files[0].read_bytes(), files[0].suffix
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.write(path, path.name)
    return whole.getvalue(), ".zip"


def _is_count(text: str) -> bool:
    """Tell a whole number that is not too large for the database from other texts."""
    return text.isascii() and text.isdigit() and len(text) < 10

"""The pages of those who answer: consent, instructions, practice, one text a page, thanks."""

from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from fresh.study.annotators import consent, leave, look_up, release_stale
from fresh.study.answer import CONFIDENCE, READABILITY, Answer, EndedError, NotGivenError
from fresh.study.given import examples_of, feedback, items_of
from fresh.study.service import NOT_HERE, Saved, Task, may_get_more, next_task, progress, save
from fresh.study.web.auth import Field, Login
from fresh.study.web.sessions import Session
from fresh.study.web.site import Site, go, wants_page
from fresh.web.errors import Problem

ROLE: Final = "annotator"
AGAIN = "You had answered that text already: your first answer stands."
NOT_YOURS = "This text was not given to you. Go on with the one that is shown."
MISSING = {
    "label": "Choose a label.",
    "confidence": "Say how confident you are.",
    "readability": "Say how easy the words are to read.",
}


@dataclass(frozen=True, slots=True)
class Annotating:
    """What annotators can ask for."""

    site: Site

    @property
    def door(self) -> Login:
        """Where they come in."""
        return Login(self.site, ROLE)

    def start(self, request: Request) -> Response:
        """Show whatever comes next for somebody."""
        session = self.site.visits.find(request, ROLE)
        if session is None:
            return self.door.show(request)
        person = look_up(self.site.store, session.who)
        if person is None:
            return self.door.show(request)
        if person.state != "active":
            raise EndedError(NOT_HERE[person.state])
        if not person.consented:
            return self.shown(request, session, "consent.html")
        done = progress(self.site.store, session.who)
        if done.n_practised or done.n_answered:
            return go("/item")
        return self.shown(request, session, "instructions.html", examples=examples_of(self.site.store), done=done)

    def shown(self, request: Request, session: Session, name: str, status: int = 200, **values: Any) -> Response:
        """Show a page to somebody who is signed in."""
        scales = {"confidence": CONFIDENCE, "readability": READABILITY}
        response = self.site.page(name, session, status, labels=self.site.store.labels, scales=scales, **values)
        self.site.visits.renew(request, response, session)
        return response

    def consent(self, request: Request, form: Field = "") -> Response:
        """Take note that somebody agrees."""
        session = self.site.visits.posted(request, ROLE, form)
        consent(self.site.store, session.who)
        return go("/")

    def item(self, request: Request, again: str = "") -> Response:
        """Show the text that somebody is to answer, or thank them."""
        session = self.site.visits.need(request, ROLE)
        person = look_up(self.site.store, session.who)
        if person is None or not person.consented:
            return go("/")
        task = self.next_task(session.who)
        if task is None:
            page = "later.html" if may_get_more(self.site.store, session.who) else "thanks.html"
            return self.shown(request, session, page, done=progress(self.site.store, session.who))
        return self.item_page(request, session, task, told=(AGAIN,) if again else ())

    def next_task(self, annotator: int) -> Task | None:
        """Give somebody a text; one that others let lie, if nothing else is left."""
        task = next_task(self.site.store, annotator)
        if task is None and release_stale(self.site.store):
            task = next_task(self.site.store, annotator)
        return task

    def item_page(
        self,
        request: Request,
        session: Session,
        task: Task,
        told: tuple[str, ...] = (),
        given: dict[str, str] | None = None,
    ) -> Response:
        """Show a text; nothing on the page tells its kind, unless it is for practice."""
        return self.shown(
            request,
            session,
            "item.html",
            422 if given else 200,
            ticket=self.site.visits.signer.ticket(session.who, task.item),
            rationale=task.rationale,
            practice=task.kind == "practice",
            done=progress(self.site.store, session.who),
            told=told,
            given=given or {},
        )

    def find(self, annotator: int, ticket: str) -> int:
        """Find the item that a ticket names."""
        sign = self.site.visits.signer.ticket
        found = next((item for item in items_of(self.site.store, annotator) if sign(annotator, item) == ticket), None)
        if found is None:
            raise NotGivenError(NOT_YOURS)
        return found

    def answer(
        self,
        request: Request,
        form: Field = "",
        ticket: Field = "",
        label: Field = "",
        confidence: Field = "",
        readability: Field = "",
        milliseconds: Field = "",
    ) -> Response:
        """Save an answer, and go on."""
        session = self.site.visits.posted(request, ROLE, form)
        item = self.find(session.who, ticket)
        given = {"label": label, "confidence": confidence, "readability": readability}
        try:
            answer = _read_answer(given, milliseconds)
        except ValueError as error:
            return self.refuse(request, session, item, str(error), given)
        saved = self.save(session.who, item, answer)
        if saved.label is not None:
            return go(f"/practice/{ticket}")
        return go("/item?again=1" if saved.repeated else "/item")

    def save(self, annotator: int, item: int, answer: Answer) -> Saved:
        """Save an answer, or say why not without the number of the item, which would tell its condition."""
        try:
            return save(self.site.store, annotator, item, answer)
        except NotGivenError as error:
            raise NotGivenError(str(error).replace(f"Item {item}", "This text")) from error

    def refuse(self, request: Request, session: Session, item: int, told: str, given: dict[str, str]) -> Response:
        """Show a text again whose answer cannot be saved, with what was chosen."""
        task = next_task(self.site.store, session.who) if wants_page(request) else None
        if task is None or task.item != item:
            raise Problem(422, told.replace("\n", " "))
        return self.item_page(request, session, task, tuple(told.splitlines()), given)

    def practice(self, request: Request, ticket: str) -> Response:
        """Tell the right label of a text that was for practice."""
        session = self.site.visits.need(request, ROLE)
        solved = feedback(self.site.store, session.who, self.find(session.who, ticket))
        return self.shown(request, session, "feedback.html", solved=solved, done=progress(self.site.store, session.who))

    def ask_to_leave(self, request: Request) -> Response:
        """Ask whether somebody really wants to leave; whoever has not agreed has nothing to leave."""
        session = self.site.visits.need(request, ROLE)
        person = look_up(self.site.store, session.who)
        here = person is None or person.consented
        return self.shown(request, session, "leave.html" if here else "declined.html")

    def leave(self, request: Request, form: Field = "") -> Response:
        """Let somebody leave the study for good."""
        session = self.site.visits.posted(request, ROLE, form)
        leave(self.site.store, session.who)
        response = go("/left")
        self.site.visits.end(response, session)
        return response

    def left(self, request: Request) -> Response:
        """Thank whoever has left; whoever is still here goes on."""
        if self.site.visits.find(request, ROLE) is not None:
            return go("/")
        return self.site.page("left.html", self.site.visits.visitor(request))


def _read_answer(given: dict[str, str], milliseconds: str) -> Answer:
    """Read what a form holds, or say all that is missing or wrong; without scripts there is no time."""
    missing = [told for name, told in MISSING.items() if not given[name]]
    if missing:
        raise ValueError("\n".join(missing))
    return Answer(
        given["label"], _whole(given["confidence"]), _whole(given["readability"]), _whole(milliseconds or "0")
    )


def _whole(text: str) -> Any:
    """Read a whole number; what is none is left for the answer itself to refuse."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else text

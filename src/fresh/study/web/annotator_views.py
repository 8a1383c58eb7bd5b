"""The pages of annotators: consent, instructions, practice, one text a page, thanks."""

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from fresh.errors import InactiveAnnotatorError, NotAssignedError
from fresh.study import service
from fresh.study.annotators import get_annotator, leave, record_consent, release_expired
from fresh.study.answers import Answer, parse_whole
from fresh.study.web.auth import Session
from fresh.study.web.site import Field, Login, Site, redirect, wants_page
from fresh.web.errors import Problem

ROLE: Final = "annotator"
ANSWERED = "You have already answered that text: your first answer stands."
NOT_YOURS = "This text is not assigned to you. Continue with the one that is shown."
MISSING = {
    "label": "Choose a label.",
    "confidence": "Choose how confident you are.",
    "readability": "Choose how easy the words are to read and understand.",
}


@dataclass(frozen=True, slots=True)
class AnnotatorViews:
    """The requests of annotators."""

    site: Site

    def start(self, request: Request) -> Response:
        """Show what comes next."""
        session = self.site.sessions.find(request, ROLE)
        person = None if session is None else get_annotator(self.site.store, session.who)
        if session is None or person is None:
            return Login(self.site, ROLE).show(request)
        if person.state != "active":
            raise InactiveAnnotatorError(service.INACTIVE[person.state])
        if not person.consented:
            return self.site.page(request, session, "consent.html")
        progress = service.get_progress(self.site.store, session.who)
        if progress.n_practiced or progress.n_answered:
            return redirect("/item")
        examples = service.list_examples(self.site.store)
        return self.site.page(request, session, "instructions.html", examples=examples, progress=progress)

    def consent(self, request: Request, form: Field = "") -> Response:
        """Record consent."""
        session = self.site.sessions.require_form(request, ROLE, form)
        record_consent(self.site.store, session.who)
        return redirect("/")

    def item(self, request: Request, again: str = "") -> Response:
        """Show the next text, or say that there is none."""
        session = self.site.sessions.require(request, ROLE)
        person = get_annotator(self.site.store, session.who)
        if person is None or not person.consented:
            return redirect("/")
        task = service.next_item(self.site.store, session.who)
        if task is None and release_expired(self.site.store):
            task = service.next_item(self.site.store, session.who)
        if task is None:
            page = "later.html" if service.may_get_more(self.site.store, session.who) else "thanks.html"
            return self.site.page(request, session, page, progress=service.get_progress(self.site.store, session.who))
        return self._item_page(request, session, task, messages=(ANSWERED,) if again else ())

    def _item_page(
        self,
        request: Request,
        session: Session,
        task: service.Task,
        messages: tuple[str, ...] = (),
        chosen: dict[str, str] | None = None,
    ) -> Response:
        # Nothing on the page may reveal the kind of the item, other than practice.
        return self.site.page(
            request,
            session,
            "item.html",
            422 if chosen else 200,
            ticket=self.site.sessions.signer.ticket(session.who, task.item),
            rationale=task.rationale,
            practice=task.kind == "practice",
            progress=service.get_progress(self.site.store, session.who),
            messages=messages,
            chosen=chosen or {},
        )

    def _find_item(self, annotator: int, ticket: str) -> int:
        name = self.site.sessions.signer.ticket
        items = service.list_items(self.site.store, annotator)
        item = next((item for item in items if name(annotator, item) == ticket), None)
        if item is None:
            raise NotAssignedError(NOT_YOURS)
        return item

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
        """Save an answer, and go to the next text."""
        session = self.site.sessions.require_form(request, ROLE, form)
        item = self._find_item(session.who, ticket)
        chosen = {"label": label, "confidence": confidence, "readability": readability}
        try:
            if missing := [message for name, message in MISSING.items() if not chosen[name]]:
                raise ValueError("\n".join(missing))
            time = parse_whole(milliseconds or "0")  # without scripts, the page sends none
            answer = Answer(label, parse_whole(confidence), parse_whole(readability), time)
        except ValueError as error:
            task = service.next_item(self.site.store, session.who) if wants_page(request) else None
            if task is None or task.item != item:
                raise Problem(422, str(error).replace("\n", " ")) from error
            return self._item_page(request, session, task, tuple(str(error).splitlines()), chosen)
        try:
            saved = service.save_answer(self.site.store, session.who, item, answer)
        except NotAssignedError as error:  # the number of an item would reveal its condition
            raise NotAssignedError(str(error).replace(f"Item {item}", "This text")) from error
        if saved.label is not None:
            return redirect(f"/practice/{ticket}")
        return redirect("/item?again=1" if saved.repeated else "/item")

    def practice(self, request: Request, ticket: str) -> Response:
        """Show the label of a practice text."""
        session = self.site.sessions.require(request, ROLE)
        solved = service.get_feedback(self.site.store, session.who, self._find_item(session.who, ticket))
        progress = service.get_progress(self.site.store, session.who)
        return self.site.page(request, session, "feedback.html", solved=solved, progress=progress)

    def confirm_leave(self, request: Request) -> Response:
        """Ask to confirm leaving, or confirm that somebody who did not agree does not take part."""
        session = self.site.sessions.require(request, ROLE)
        person = get_annotator(self.site.store, session.who)
        consented = person is None or person.consented
        return self.site.page(request, session, "leave.html" if consented else "declined.html")

    def leave(self, request: Request, form: Field = "") -> Response:
        """Remove an annotator from the study permanently."""
        session = self.site.sessions.require_form(request, ROLE, form)
        leave(self.site.store, session.who)
        response = redirect("/left")
        self.site.sessions.end(response, session)
        return response

    def left(self, request: Request) -> Response:
        """Thank an annotator who has left."""
        if self.site.sessions.find(request, ROLE) is not None:
            return redirect("/")
        return self.site.page(request, self.site.sessions.visitor(request), "left.html")

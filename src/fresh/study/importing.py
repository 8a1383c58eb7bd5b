"""Import answers from other tools, and the status of participants from Prolific: a whole file, or nothing."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from fresh.config import suggest
from fresh.data.readers import Row, read_rows
from fresh.errors import StudyError
from fresh.study import annotators
from fresh.study.answers import QUESTIONS, Answer, parse_whole
from fresh.study.display import format_query
from fresh.study.export import database_name, escape_mturk, list_questions, list_tickets, study_name
from fresh.study.raw_answers import KINDS, MAX_TIMESTAMP, READERS, RawAnswer, annotator_name, read_raw_answers, unguard
from fresh.study.schema import AnnotatorRow, AnswerRow, AssignmentRow, DocumentRow, ItemRow, PracticeAnswerRow
from fresh.study.service import answer_columns
from fresh.study.store import Store, now_ms
from fresh.text import plural

MAX_NAME = 200
OTHER_STUDY = "The file belongs to another study: import it into the study that it was exported from."
GONE = ("RETURNED", "TIMED-OUT", "SCREENED OUT")
STATUSES = ("RESERVED", "ACTIVE", "AWAITING REVIEW", "APPROVED", *GONE, "REJECTED")
"""The statuses of submissions on Prolific."""
NEW, EXISTING = "new", "existing"


@dataclass(slots=True)
class ImportSummary:
    """The result of an import."""

    n_new: int = 0
    n_existing: int = 0
    skipped: list[str] = field(default_factory=list)  # incomplete answers and those without a place, with the reason
    n_uncounted: int = 0  # new answers that do not count, since they did not count in the file
    excluded: list[str] = field(default_factory=list)  # new annotators, none of whose answers counted in the file

    @property
    def notes(self) -> list[str]:
        """Explain which imported answers do not count."""
        if not self.n_uncounted:
            return []
        do = "does" if self.n_uncounted == 1 else "do"
        notes = [f"{plural(self.n_uncounted, 'new answer')} {do} not count, as in the file."]
        if self.excluded:
            notes.append(f"Excluded, since none of their answers count there: {', '.join(self.excluded)}.")
        return notes


@dataclass(frozen=True, slots=True)
class _ImportedAnswer:
    """An answer to an item of the study, or only the fact that somebody has seen the item."""

    raw: RawAnswer
    annotator: str
    item: int
    answer: Answer | None
    number: int | None  # the annotator's number, if the file is this study's own export

    @property
    def item_name(self) -> str:
        return str(self.raw.item).strip()  # as the file names it


class _Interpreter:
    """Finds the items and answers of a study that the answers of a file stand for."""

    def __init__(self, store: Store, format: str) -> None:
        self.database = database_name(store)
        self.tickets = {ticket: number for number, ticket in list_tickets(store).items()}
        rows = store.read(select(AnnotatorRow.id, AnnotatorRow.outside))
        self.annotators = {number: outside or annotator_name(number) for number, outside in rows}
        # For each question, the answer that a text in the file stands for.
        self.meanings: dict[str, dict[str, str]] = {}
        for name, (_, answers) in list_questions(store).items():
            shown = {text.strip(): value for value, text in answers.items()}
            values = {value: value for value in answers}
            # Potato saves the text of a choice, other tools its value; one label may be shown as another is named.
            self.meanings[name] = {**values, **shown} if format == "potato" else {**shown, **values}
        # For each kind and item, the values that each field of a file may have, in all versions of the exports.
        self.items: dict[str, dict[int, dict[str, tuple[str, ...]]]] = {kind: {} for kind in KINDS}
        study, query = study_name(store), select(ItemRow, DocumentRow.name).where(ItemRow.kind.in_(KINDS))
        for item, document in store.read(query.outerjoin(DocumentRow, DocumentRow.id == ItemRow.document)):
            condition = None if item.condition is None else store.conditions[item.condition]
            own = {"study": study, "document": document, "condition": condition, "gold": item.label}
            fields = {name: () if value is None else (value,) for name, value in own.items()}
            queries = (format_query(item.query, store.about["corpus"]), " ".join(item.query))
            self.items[item.kind][item.id] = fields | {"text": (" ".join(item.words),), "query": queries}

    def interpret(self, raw: RawAnswer) -> _ImportedAnswer:
        """Find what a raw answer stands for, or report all its problems."""
        has_answer = not raw.void and (raw.complete or not raw.unanswered)
        missing = raw.unanswered if has_answer else []
        missing += [name for name in ("annotator", "item") if getattr(raw, name) in (None, "")]
        if missing:
            raise StudyError(f"there must be exactly one {', one '.join(missing)}.")
        annotator, number, answer = str(raw.annotator).strip(), None, None
        item = self.tickets.get(str(raw.item).strip(), parse_whole(raw.item))
        problems = [*self._item_problems(raw, item), *_name_problems(annotator)]
        if raw.database == self.database and raw.number not in (None, ""):
            number = parse_whole(raw.number)
            if type(number) is int and number in self.annotators:
                annotator = self.annotators[number]
            else:
                problems.append(f"there is no annotator {raw.number!s:.60} in this study.")
        if has_answer:
            values = {name: self.meanings[name].get(str(text).strip(), text) for name, text in raw.answers.items()}
            label, labels = str(values["label"]), set(self.meanings["label"].values())
            if label not in labels:
                problems.append(suggest(f"{label:.60}", "a label of this study", sorted(labels)))
            try:
                confidence, readability = parse_whole(values["confidence"]), parse_whole(values["readability"])
                answer = Answer(label, confidence, readability, raw.milliseconds)
            except ValueError as error:
                problems += str(error).splitlines()
        if problems:
            raise StudyError("\n".join(problems))
        return _ImportedAnswer(raw, annotator, item, answer, number)

    def _item_problems(self, raw: RawAnswer, item: Any) -> Iterator[str]:
        if type(item) is not int:
            yield f"the item is not in this study. {OTHER_STUDY}"
        elif item not in self.items[raw.kind]:
            yield f"there is no item {item} in this study."
        else:
            fields = self.items[raw.kind][item]
            about = {name: value for name, value in raw.about.items() if value not in (None, "")}
            different = [name for name, value in about.items() if not any(is_same(value, own) for own in fields[name])]
            if different:
                yield f"the item has a different {' and '.join(different)} in this study. {OTHER_STUDY}"


def import_study(store: Store, format: str, path: Path) -> ImportSummary:
    """Import a file, or the output folder of Potato, into a study."""
    if format == "prolific":
        return _import_prolific(store, path)
    if format not in READERS:
        raise StudyError(suggest(format, "an import format", (*READERS, "prolific")))
    interpreter, answers, problems = _Interpreter(store, format), list[_ImportedAnswer](), list[tuple[str, str]]()
    for raw in read_raw_answers(path, format, problems):
        try:
            answers.append(interpreter.interpret(raw))
        except ValueError as error:
            problems.append((raw.place, str(error)))
    if problems:
        raise StudyError(group_problems(problems))
    summary = ImportSummary()
    with store.write_session() as session:
        annotators.lock_study(session)  # so that two imports do not add one annotator twice
        before = set(session.scalars(select(AnnotatorRow.outside)))
        # If somebody has seen a document twice, the first time counts; rows without a time come last.
        for one in sorted(answers, key=lambda one: MAX_TIMESTAMP if one.raw.at is None else one.raw.at):
            person = _find_owner(session, one) or annotators.get_or_add_annotator(session, one.annotator)
            person.consented = person.consented or now_ms()  # people who answered have agreed in the other tool
            save = _save_real if one.raw.kind == "real" else _save_practice
            outcome = save(session, person, one)
            if outcome == NEW:
                summary.n_new += 1
                summary.n_uncounted += one.raw.kind == "real" and not one.raw.counted
            elif outcome == EXISTING:
                summary.n_existing += 1
            else:
                summary.skipped.append(f"{one.raw.place}: {outcome}")
        real = [one for one in answers if one.raw.kind == "real"]
        names = {one.annotator for one in real} - {one.annotator for one in real if one.raw.counted} - before
        uncounted = select(AnnotatorRow).where(AnnotatorRow.outside.in_(sorted(names))).order_by(AnnotatorRow.id)
        for person in session.scalars(uncounted):
            person.state = "excluded"
            summary.excluded.append(str(person.outside))
    return summary


def is_same(written: Any, own: str) -> bool:
    """Compare a text in a file with the exported one: as it was, as HTML, or as a spreadsheet saved it."""
    plain = unguard(str(written))
    variants = {" ".join(text.split()) for text in (str(written), plain, unescape(plain))}
    return not variants.isdisjoint(" ".join(text.split()) for text in (own, escape_mturk(own)))


def _name_problems(name: str) -> Iterator[str]:
    if "\0" in name:
        yield f"an annotator's name must not contain a NUL character, got {name!r:.60}."
    if len(name) > MAX_NAME:
        yield f"an annotator's name must have at most {MAX_NAME} characters, got {len(name):,}."


def group_problems(problems: Iterable[tuple[str, str]]) -> str:
    """Write each problem of a file once, with its first place and the number of further rows that have it.

    :param problems: Pairs of a place and its problems, one on each line, perhaps after the place.
    """
    places: dict[str, list[str]] = {}
    for place, lines in problems:
        for line in lines.splitlines():
            places.setdefault(line.removeprefix(f"{place}: "), []).append(place)
    more = {line: f" and {plural(len(rows) - 1, 'more row')}" if len(rows) > 1 else "" for line, rows in places.items()}
    return "\n".join(f"{rows[0]}{more[line]}: {line}" for line, rows in places.items())


def _find_owner(session: Session, one: _ImportedAnswer) -> AnnotatorRow | None:
    if one.number is not None:
        return annotators.lock_annotator(session, one.number)
    if one.raw.at is None or one.answer is None:
        return None
    # Exports of earlier versions do not name the database: recognize an answer by its item and its time.
    if one.raw.kind == "real":
        theirs = select(AssignmentRow.annotator).join(AnswerRow, AnswerRow.assignment == AssignmentRow.id)
        theirs = theirs.where(AssignmentRow.item == one.item, AnswerRow.at == one.raw.at)
    else:
        practice = (PracticeAnswerRow.item == one.item, PracticeAnswerRow.at == one.raw.at)
        theirs = select(PracticeAnswerRow.annotator).where(*practice)
    rows = session.scalars(select(AnnotatorRow).where(AnnotatorRow.id.in_(theirs)))
    return next((row for row in rows if one.annotator == (row.outside or annotator_name(row.id))), None)


def _save_real(session: Session, person: AnnotatorRow, one: _ImportedAnswer) -> str:
    """Save an answer; return NEW, EXISTING, or the reason why it is skipped.

    In any case, the annotator has seen the document, and that is recorded.
    """
    document = session.get_one(ItemRow, one.item).document
    assert document is not None
    theirs = (AssignmentRow.annotator == person.id, AssignmentRow.document == document)
    held = session.scalar(select(AssignmentRow).where(*theirs))
    if held is None:
        at = now_ms() if one.raw.at is None else one.raw.at
        held = AssignmentRow(annotator=person.id, item=one.item, document=document, state="seen", at=at)
        session.add(held)
        session.flush()
    existing = session.scalar(select(AnswerRow).where(AnswerRow.assignment == held.id))
    other_condition = held.item != one.item
    if other_condition and held.state == "released" and existing is None:
        held.state = "seen"  # so that it is not assigned to them again
    if one.answer is None:
        if one.raw.void:
            return f"the answer of {one.annotator} was {one.raw.void} in the other tool."
        return f"{one.annotator} has not answered {' and '.join(one.raw.unanswered)}."
    if other_condition:
        return f"{one.annotator} has seen the document of item {one.item_name} in another condition."
    if existing is not None:
        return _compare(existing, one, held.state == "answered")
    if not one.raw.counted:
        annotators.release_assignment(session, held.id)
        held.state = "released"
    elif person.state == "excluded":
        return f"{one.annotator} is excluded."
    elif held.state != "open" and not annotators.take_place(session, one.item):
        return f"item {one.item_name} has all the answers that it needs."
    else:
        held.state = "answered"
    session.add(AnswerRow(assignment=held.id, **answer_columns(one.answer, one.raw.at)))
    session.flush()  # so that a repetition later in the file is found
    return NEW


def _save_practice(session: Session, person: AnnotatorRow, one: _ImportedAnswer) -> str:
    theirs = (PracticeAnswerRow.annotator == person.id, PracticeAnswerRow.item == one.item)
    existing = session.scalar(select(PracticeAnswerRow).where(*theirs))
    if existing is not None:
        return _compare(existing, one)
    assert one.answer is not None  # only our own exports contain practice, and they are complete
    session.add(PracticeAnswerRow(annotator=person.id, item=one.item, **answer_columns(one.answer, one.raw.at)))
    session.flush()
    return NEW


def _compare(existing: AnswerRow | PracticeAnswerRow, one: _ImportedAnswer, is_counted: bool = False) -> str:
    if one.answer is not None and any(getattr(existing, name) != getattr(one.answer, name) for name in QUESTIONS):
        return f"{one.annotator} has already answered item {one.item_name} differently. The first answer stands."
    if is_counted and not one.raw.counted:
        return f"the answer of {one.annotator} to item {one.item_name} counts here, but not in the file."
    return EXISTING


def _import_prolific(store: Store, path: Path) -> ImportSummary:
    submissions: dict[str, set[str]] = {}
    problems: list[tuple[str, str]] = []
    for row in read_rows(path):
        try:
            name, status = _parse_submission(row)
            submissions.setdefault(name, set()).add(status)
        except ValueError as error:
            problems.append((row.place, str(error)))
    if problems:
        raise StudyError(group_problems(problems))
    with store.write_session() as session:
        annotators.lock_study(session)
        new = submissions.keys() - set(session.scalars(select(AnnotatorRow.outside)))
        for participant, statuses in submissions.items():
            person = annotators.get_or_add_annotator(session, participant)
            if "REJECTED" in statuses:
                annotators.end_participation(session, person, "excluded")
            elif statuses <= set(GONE):
                annotators.end_participation(session, person, "left")
    return ImportSummary(n_new=len(new), n_existing=len(submissions) - len(new))


def _parse_submission(row: Row) -> tuple[str, str]:
    if row.error:
        raise row.error
    # Older exports write lower case and underscores.
    values = {key.strip().lower().replace("_", " "): str(value).strip() for key, value in row.values.items()}
    name, status = values.get("participant id"), values.get("status")
    if not name or not status:
        raise StudyError("an export of Prolific has the columns 'Participant id' and 'Status'.")
    for problem in _name_problems(name):
        raise StudyError(problem)
    status = status.upper().replace("_", " ").replace("TIMED OUT", "TIMED-OUT")
    if status not in STATUSES:
        raise StudyError(suggest(f"{status:.60}", "a status of Prolific", STATUSES))
    return name, status

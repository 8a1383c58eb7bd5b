"""What is in the database, read out: answers, how far the study is, and whom to look at."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Select, select

from fresh.study.answer import typical_seconds
from fresh.study.assignment import checks_due, more_people
from fresh.study.ratings import Response
from fresh.study.results import Results, make_results
from fresh.study.schema import AnnotatorRow, AnswerRow, AsideRow, AssignmentRow, DocumentRow, ItemRow, StudyRow
from fresh.study.store import Store

GIVEN = ("label", "confidence", "readability", "milliseconds", "at")
COLUMNS = ("kind", "annotator", "outside", "item", "document", "condition", "gold", *GIVEN, "counted")
"""What is told of an answer; counted: whether it is part of the results."""
FASTEST = 1.0
"""Seconds: nobody reads most texts, and answers three questions, in less."""
NAMES = ("annotator", "item", "document", "text", "condition", "gold", *GIVEN[:-1])


@dataclass(frozen=True, slots=True)
class _Person:
    """How somebody is doing."""

    id: int
    outside: str | None
    state: str
    begun: bool
    n_answered: int
    n_checks: int
    """Attention checks they have had."""
    n_failed: int
    """Of these, how many they answered otherwise than asked."""
    seconds: float | None
    """Median time of their answers; nothing where none was measured."""
    finished: bool = False
    """Whether they take part and have begun, and nothing is left for them or may yet come."""

    @property
    def standing(self) -> str:
        """How they stand, in a word or two."""
        if self.state == "active" and not (self.begun or self.n_answered):
            return "not begun"
        return "finished" if self.finished else self.state

    @property
    def flagged(self) -> bool:
        """Whether somebody should have a look: they failed more than one check, or their only one, or are too fast."""
        failed = self.n_failed > 1 or 0 < self.n_failed == self.n_checks
        fast = self.seconds is not None and self.seconds < FASTEST
        return self.state != "excluded" and (failed or fast)


@dataclass(frozen=True, slots=True)
class _Overview:
    """How far the study is."""

    n_answered: int
    n_planned: int
    paused: bool
    people: tuple[_Person, ...]
    n_more: int = 0
    """People who must come in addition before it can be completed, at least."""

    @property
    def begun(self) -> list[_Person]:
        """Those who have begun, here or elsewhere."""
        return [person for person in self.people if person.begun or person.n_answered]


def counted(store: Store) -> list[Response]:
    """List the answers that count, in the order of documents, conditions and people."""
    columns = (AssignmentRow.annotator, ItemRow.id, DocumentRow.id, DocumentRow.text, ItemRow.condition)
    query = (
        select(*columns, DocumentRow.label, *(getattr(AnswerRow, name) for name in GIVEN[:-1]))
        .join(AssignmentRow, AssignmentRow.id == AnswerRow.assignment)
        .join(ItemRow, ItemRow.id == AssignmentRow.item)
        .join(DocumentRow, DocumentRow.id == ItemRow.document)
        .where(AssignmentRow.state == "answered")
        .order_by(ItemRow.id, AssignmentRow.annotator)
    )
    with store.reading() as session:
        rows: Sequence[Sequence[Any]] = session.execute(query).all()
    return [Response(**dict(zip(NAMES, row, strict=True)) | {"condition": store.conditions[row[4]]}) for row in rows]


def results_of(store: Store) -> Results:
    """Compute the tables of a study, finished or not."""
    shape = store.shape
    return make_results(
        counted(store),
        store.conditions,
        sorted(store.labels),
        shape.per_item,
        shape.planned,
        store.about["title"],
        store.about["seed"],
    )


def records(store: Store) -> list[dict[str, Any]]:
    """List all answers, also those that do not count."""
    about = (AnnotatorRow.id, AnnotatorRow.outside, ItemRow.id, DocumentRow.name, ItemRow.condition, ItemRow.label)
    real = (
        select(ItemRow.kind, *about, *(getattr(AnswerRow, name) for name in GIVEN), AssignmentRow.state)
        .join(AssignmentRow, AssignmentRow.id == AnswerRow.assignment)
        .join(ItemRow, ItemRow.id == AssignmentRow.item)
        .join(AnnotatorRow, AnnotatorRow.id == AssignmentRow.annotator)
        .join(DocumentRow, DocumentRow.id == ItemRow.document)
        .order_by(AnswerRow.id)
    )
    aside = (
        select(ItemRow.kind, *about, *(getattr(AsideRow, name) for name in GIVEN), ItemRow.kind)
        .join(ItemRow, ItemRow.id == AsideRow.item)
        .join(AnnotatorRow, AnnotatorRow.id == AsideRow.annotator)
        .outerjoin(DocumentRow, DocumentRow.id == ItemRow.document)
        .order_by(AsideRow.id)
    )
    return [_record_of(row, store) for query in (real, aside) for row in _read_all(store, query)]


def _read_all(store: Store, query: Select[*tuple[Any, ...]]) -> Sequence[Any]:
    """Read all rows."""
    with store.reading() as session:
        return session.execute(query).all()


def _record_of(row: Sequence[Any], store: Store) -> dict[str, Any]:
    """Name the columns of an answer."""
    condition = None if row[5] is None else store.conditions[row[5]]
    return dict(zip(COLUMNS, (*row[:5], condition, *row[6:-1], row[-1] == "answered"), strict=True))


def overview(store: Store) -> _Overview:
    """Say how far the study is, and how everybody is doing."""
    from_store = records(store)
    asked = (ItemRow.id, ItemRow.label, ItemRow.asked_confidence, ItemRow.asked_readability)
    checks = {row[0]: tuple(row[1:]) for row in _read_all(store, select(*asked).where(ItemRow.kind == "check"))}
    with store.reading() as session:
        people = session.scalars(select(AnnotatorRow).order_by(AnnotatorRow.id)).all()
        paused = bool(session.scalar(select(StudyRow.paused)))
    by_person: dict[int, list[dict[str, Any]]] = {row.id: [] for row in people}
    for record in from_store:
        by_person[record["annotator"]].append(record)
    n_answered = sum(record["counted"] for record in from_store)
    found = [_person_of(row, by_person[row.id], checks) for row in people]
    places = _places_of(store)
    arrivals = {row.id: row.arrival for row in people}
    done = (replace(one, finished=_is_finished(one, arrivals[one.id], places, store)) for one in found)
    readers = [places.closed_to(one.id) for one in found if one.state == "active"]
    n_more = more_people(places.missing, readers, store.shape.share)
    return _Overview(n_answered, store.shape.planned, paused, tuple(done), n_more)


@dataclass(frozen=True, slots=True)
class _Places:
    """What is left to be answered, and who has seen what."""

    missing: Counter[int]
    """Places at each document that nobody has."""
    free: set[int]
    """Items with such places."""
    held: dict[int, tuple[int, int]]
    """Item that somebody has before them, and its document, by annotator."""
    seen: dict[int, set[int]]
    """Documents that somebody has seen, by annotator."""
    lost: dict[int, dict[int, int]]
    """Items that somebody gave back without an answer, with their documents, by annotator."""
    n_answered: Counter[int]
    """Answers that count, by annotator."""

    def closed_to(self, annotator: int) -> set[int]:
        """List the documents that somebody cannot be given now: all they have seen, but what they get again."""
        again = {document for item, document in self.lost.get(annotator, {}).items() if item in self.free}
        return self.seen.get(annotator, set()) - again


def _places_of(store: Store) -> _Places:
    """Read which places are taken."""
    left = select(ItemRow.id, ItemRow.document, ItemRow.wanted - ItemRow.taken).where(ItemRow.kind == "real")
    about = (AssignmentRow.annotator, AssignmentRow.item, AssignmentRow.document, AssignmentRow.state, AnswerRow.id)
    given = select(*about).outerjoin(AnswerRow, AnswerRow.assignment == AssignmentRow.id)
    places = _Places(Counter(), set(), {}, {}, {}, Counter())
    for item, document, n in _read_all(store, left):
        places.missing[document] += n
        places.free.update([item] if n else [])
    for annotator, item, document, state, answer in _read_all(store, given):
        places.seen.setdefault(annotator, set()).add(document)
        places.n_answered[annotator] += state == "answered"
        if state == "open":
            places.held[annotator] = (item, document)
        elif state == "released" and answer is None:
            places.lost.setdefault(annotator, {})[item] = document
    return places


def _is_finished(person: _Person, arrival: int | None, places: _Places, store: Store) -> bool:
    """Say whether somebody who takes part has done all that there is for them; what others hold may yet come."""
    if person.state != "active" or not (person.begun or person.n_answered) or person.id in places.held:
        return False
    n_checks, n_answered = store.about["n_checks"], places.n_answered[person.id]
    due = 0 if arrival is None else checks_due(store.shape, n_checks, arrival, n_answered)
    seen, lost = places.seen.get(person.id, set()), places.lost.get(person.id, {})
    may_come = {document for document, n in places.missing.items() if n} | {one for _, one in places.held.values()}
    may_return = lost.keys() & (places.free | {item for item, _ in places.held.values()})
    done = not may_return and (len(seen) >= store.shape.share or may_come <= seen)
    return person.n_checks >= due and done


def _person_of(row: AnnotatorRow, given: Sequence[dict[str, Any]], checks: dict[int, tuple[Any, ...]]) -> _Person:
    """Sum up somebody's answers."""
    real = [record for record in given if record["kind"] == "real"]
    had = [record for record in given if record["kind"] == "check"]
    failed = [one for one in had if (one["label"], one["confidence"], one["readability"]) != checks[one["item"]]]
    seconds = typical_seconds(record["milliseconds"] for record in real)
    begun = row.arrival is not None
    return _Person(row.id, row.outside, row.state, begun, len(real), len(had), len(failed), seconds)

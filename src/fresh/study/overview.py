"""The state of a study: its answers, the progress of conditions and annotators, and whom to review."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from fresh.study.answers import QUESTIONS, Response, group_by_item, median_seconds
from fresh.study.assignment import count_due_checks, count_missing_annotators
from fresh.study.results import Agreement, Results, make_results, measure_agreement
from fresh.study.schema import AnnotatorRow, AnswerRow, AssignmentRow, DocumentRow, ItemRow, PracticeAnswerRow, StudyRow
from fresh.study.store import Store

ANSWER_COLUMNS = (*QUESTIONS, "milliseconds", "at")
COLUMNS = ("kind", "annotator", "outside", "item", "document", "condition", "gold", *ANSWER_COLUMNS, "counted")
"""Fields of an answer in exports; `counted` says whether it is part of the results."""
MIN_SECONDS = 1.0  # too short to read most texts and answer three questions


@dataclass(frozen=True, slots=True)
class AnnotatorStatus:
    """The progress of one annotator."""

    id: int
    outside: str | None  # their name on a crowd platform
    state: str
    started: bool
    n_answered: int
    n_checks: int  # attention checks that were answered
    n_failed: int  # attention checks that were failed
    seconds: float | None  # median time of their answers; None if no time was measured
    finished: bool = False  # they have started, are active, and nothing is left for them now or later

    @property
    def status(self) -> str:
        """Describe their state in one or two words."""
        if self.state == "active" and not (self.started or self.n_answered):
            return "not started"
        return "finished" if self.finished else self.state

    @property
    def flagged(self) -> bool:
        """Whether to review their answers: they failed two checks or their only one, or were too fast."""
        failed = self.n_failed > 1 or 0 < self.n_failed == self.n_checks
        fast = self.seconds is not None and self.seconds < MIN_SECONDS
        return self.state != "excluded" and (failed or fast)


@dataclass(frozen=True, slots=True)
class Overview:
    """The progress of a study."""

    n_answered: int
    n_planned: int
    paused: bool
    annotators: tuple[AnnotatorStatus, ...]
    n_more: int  # additional annotators that the study needs before it can be completed, at least

    @property
    def started(self) -> list[AnnotatorStatus]:
        """Return the annotators who have started, here or in another tool."""
        return [person for person in self.annotators if person.started or person.n_answered]


@dataclass(frozen=True, slots=True)
class ConditionStatus:
    """The progress of one condition."""

    condition: str
    n_answered: int
    n_planned: int
    seconds: float | None  # median time of an answer; None if no time was measured
    agreement: Agreement | None


def read_responses(store: Store) -> list[Response]:
    """Read the answers that count, ordered by document, condition and annotator."""
    documents = {name: ids for name, *ids in store.read(select(DocumentRow.name, DocumentRow.id, DocumentRow.text))}
    names = ("condition", "gold", "label", "confidence", "readability", "milliseconds")
    counted = sorted((one["item"], one["annotator"], one) for one in read_answers(store) if one["counted"])
    return [
        Response(annotator, item, *documents[one["document"]], *(one[name] for name in names))
        for item, annotator, one in counted
    ]


def compute_results(store: Store) -> Results:
    """Compute the tables of a study, finished or not."""
    design, about = store.design, store.about
    sizes = (design.per_item, design.n_planned)
    return make_results(
        read_responses(store), store.conditions, sorted(store.labels), *sizes, about["title"], about["seed"]
    )


def get_condition_status(store: Store) -> list[ConditionStatus]:
    """Return the progress of each condition."""
    responses, labels = read_responses(store), sorted(store.labels)
    n_planned = store.design.n_documents * store.design.per_item
    status: list[ConditionStatus] = []
    for name in store.conditions:
        own = [response for response in responses if response.condition == name]
        seconds = median_seconds(response.milliseconds for response in own)
        groups = list(group_by_item(own).values())
        agreement = measure_agreement(groups, labels, store.design.per_item) if own else None
        status.append(ConditionStatus(name, len(own), n_planned, seconds, agreement))
    return status


def read_answers(store: Store) -> list[dict[str, Any]]:
    """Read all answers, including those that do not count, as records for export."""
    about = (AnnotatorRow.id, AnnotatorRow.outside, ItemRow.id, DocumentRow.name, ItemRow.condition, ItemRow.label)
    real = (
        select(ItemRow.kind, *about, *(getattr(AnswerRow, name) for name in ANSWER_COLUMNS), AssignmentRow.state)
        .join(AssignmentRow, AssignmentRow.id == AnswerRow.assignment)
        .join(ItemRow, ItemRow.id == AssignmentRow.item)
        .join(AnnotatorRow, AnnotatorRow.id == AssignmentRow.annotator)
        .join(DocumentRow, DocumentRow.id == ItemRow.document)
        .order_by(AnswerRow.id)
    )
    practice = (
        select(ItemRow.kind, *about, *(getattr(PracticeAnswerRow, name) for name in ANSWER_COLUMNS), ItemRow.kind)
        .join(ItemRow, ItemRow.id == PracticeAnswerRow.item)
        .join(AnnotatorRow, AnnotatorRow.id == PracticeAnswerRow.annotator)
        .outerjoin(DocumentRow, DocumentRow.id == ItemRow.document)
        .order_by(PracticeAnswerRow.id)
    )
    names: dict[int | None, str | None] = {None: None, **dict(enumerate(store.conditions))}
    rows = (*store.read(real), *store.read(practice))
    records = [dict(zip(COLUMNS, (*values, state == "answered"), strict=True)) for *values, state in rows]
    return [record | {"condition": names[record["condition"]]} for record in records]


def get_overview(store: Store) -> Overview:
    """Return the progress of a study and of all its annotators."""
    answers = read_answers(store)
    expected = (ItemRow.id, ItemRow.label, ItemRow.asked_confidence, ItemRow.asked_readability)
    checks = {item: asked for item, *asked in store.read(select(*expected).where(ItemRow.kind == "check"))}
    with store.read_session() as session:
        rows = session.scalars(select(AnnotatorRow).order_by(AnnotatorRow.id)).all()
        paused = bool(session.scalar(select(StudyRow.paused)))
    by_person: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for answer in answers:
        by_person[answer["annotator"]].append(answer)
    # One pass in memory, in place of queries for each annotator.
    places, design, n_checks = _Places(store), store.design, store.about["n_checks"]
    available = places.free.keys() | set(places.held.values())  # what others hold may still come back
    people: list[AnnotatorStatus] = []
    readers: list[set[int]] = []  # for each active annotator, the documents that are closed to them
    for row in rows:
        real = [one for one in by_person[row.id] if one["kind"] == "real"]
        had = [one for one in by_person[row.id] if one["kind"] == "check"]
        n_failed = sum([one[name] for name in QUESTIONS] != checks[one["item"]] for one in had)
        seconds = median_seconds(one["milliseconds"] for one in real)
        seen, given_back = places.seen[row.id], places.given_back[row.id]
        started, finished = row.arrival is not None, False
        if row.state == "active" and (started or real) and row.id not in places.held:
            n_counted = sum(one["counted"] for one in real)
            n_due = 0 if row.arrival is None else count_due_checks(design, n_checks, row.arrival, n_counted)
            unread = {places.documents[item] for item in available} - seen
            is_full = len(seen) >= design.max_items
            finished = len(had) >= n_due and (is_full or not unread) and not given_back & available
        about = (row.id, row.outside, row.state, started)
        people.append(AnnotatorStatus(*about, len(real), len(had), n_failed, seconds, finished))
        if row.state == "active":  # what they gave back they will get again
            readers.append(seen - {places.documents[item] for item in given_back & places.free.keys()})
    missing: Counter[int] = Counter()
    for item, n_free in places.free.items():
        missing[places.documents[item]] += n_free
    n_more = count_missing_annotators(missing, readers, design.max_items)
    return Overview(sum(one["counted"] for one in answers), design.n_planned, paused, tuple(people), n_more)


class _Places:
    """Which places are free, and which items and documents annotators have had."""

    def __init__(self, store: Store) -> None:
        items = select(ItemRow.id, ItemRow.document, ItemRow.wanted - ItemRow.taken).where(ItemRow.kind == "real")
        about = (AssignmentRow.annotator, AssignmentRow.item, AssignmentRow.document, AssignmentRow.state, AnswerRow.id)
        assignments = select(*about).outerjoin(AnswerRow, AnswerRow.assignment == AssignmentRow.id)
        rows = store.read(items)
        self.documents = {item: document for item, document, _ in rows}
        self.free = {item: n_free for item, _, n_free in rows if n_free}
        self.held: dict[int, int] = {}  # the item that an annotator holds
        self.seen: dict[int, set[int]] = defaultdict(set)  # the documents that an annotator has seen
        self.given_back: dict[int, set[int]] = defaultdict(set)  # the items that they gave back without an answer
        for annotator, item, document, state, answer in store.read(assignments):
            self.seen[annotator].add(document)
            if state == "open":
                self.held[annotator] = item
            elif state == "released" and answer is None:
                self.given_back[annotator].add(item)

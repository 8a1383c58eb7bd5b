"""Studies small enough to compute by hand, and people who answer them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import func, select

from fresh.config import from_mapping
from fresh.data.fingerprints import TrainingFingerprints
from fresh.document import Document, Example, Mask
from fresh.study.annotators import get_or_add_annotator, lock_study, record_consent
from fresh.study.answers import Answer
from fresh.study.config import Condition, Study, StudyConfig
from fresh.study.items import Item, Plan, make_plan
from fresh.study.schema import AssignmentRow, ItemRow, StudyRow
from fresh.study.service import Task, next_item, save_answer
from fresh.study.store import Store

MakeStore = Callable[..., Store]
YES = Answer("pos", 3, 4, 1500)
HOURS = 3_600_000


@dataclass(frozen=True)
class First:
    n_kept: int = 2

    def extract(self, documents: Sequence[Document]) -> list[Mask]:
        return [Mask(np.arange(len(document.words)) < self.n_kept) for document in documents]


@dataclass(frozen=True)
class FakeModel:
    """Everything that a study needs of a model."""

    extractor: First = First()
    labels: tuple[str, ...] = ("neg", "pos")
    needs_query: bool = False
    fingerprints: TrainingFingerprints | None = None


def load(folder: str) -> Any:
    """Load a fake model; its name says how many words it selects."""
    return FakeModel(First(int(Path(folder).name.removeprefix("model-"))))


def corpus(n: int = 20, n_words: int = 8, query: str = "", marked: bool = True, n_asked: int = 1) -> list[Example]:
    """Make documents with words of their own, half of them positive."""
    made: list[Example] = []
    for number in range(n):
        words = [f"Word{number // n_asked}.{place}" for place in range(n_words)]
        human = Mask.from_spans([(1, 4)], n_words) if marked else None
        document = Document.from_words(words, query.split(), f"doc-{number}")
        made.append(Example(document, ("neg", "pos")[number % 2], human))
    return made


WAYS = {
    "human": {"kind": "human"},
    "random": {"kind": "random_non_contiguous", "like": "fresh"},
    "run": {"kind": "random_contiguous", "like": "fresh"},
    "fresh": {"model": "model-3"},
    "full": {"kind": "full_text"},
}


def study(ways: Mapping[str, Any] | None = None, labels: Mapping[str, str] | None = None, **settings: Any) -> Study:
    config = from_mapping(StudyConfig, {"corpus": "file.csv", "sample": 6, "practice": 2, "checks": 1, **settings})
    tables = WAYS if ways is None else ways
    conditions = tuple(from_mapping(Condition, {**table, "name": name}) for name, table in tables.items())
    return Study(config, conditions, labels or {})


def two_ways() -> dict[str, Any]:
    """Two conditions that need no model."""
    return {"human": {"kind": "human"}, "full": {"kind": "full_text"}}


def plan(ways: Mapping[str, Any] | None = None, n: int = 20, **settings: Any) -> Plan:
    return make_plan(study(ways, **settings), corpus(n), load)


def text_of(item: Item) -> str:
    return " ".join(item.rationale.words)


def as_earlier(store: Store) -> Store:
    """Turn a study into one of an earlier version, in which everybody reads the documents in the same order."""
    with store.write_session() as session:
        row = session.scalars(select(StudyRow)).one()
        row.about = {name: value for name, value in row.about.items() if name != "own_orders"}
        about = row.about
    return Store(store.engine, about)


def enroll(store: Store, name: str) -> int:
    """Find or add an annotator by the name on a crowd platform."""
    with store.write_session() as session:
        lock_study(session)
        return get_or_add_annotator(session, name).id


def join(store: Store, *names: str) -> list[int]:
    """Enroll people and record their consent."""
    people = [enroll(store, name) for name in names]
    for person in people:
        record_consent(store, person)
    return people


def get_item(store: Store, person: int) -> Task:
    task = next_item(store, person)
    assert task is not None
    return task


def work(store: Store, person: int, most: int = 1000, answer: Answer = YES) -> int:
    """Answer real items, and the practice and checks before them; return how many."""
    for done in range(most):
        while (task := next_item(store, person)) is not None and task.kind != "real":
            save_answer(store, person, task.item, answer)
        if task is None:
            return done
        save_answer(store, person, task.item, answer)
    return most


def check_places(store: Store) -> None:
    """See that no place was given twice, and that all is counted right."""
    live = select(AssignmentRow.item, func.count()).where(AssignmentRow.state != "released")
    with store.read_session() as session:
        taken = dict(session.execute(live.group_by(AssignmentRow.item)).tuples().all())
        for item in session.scalars(select(ItemRow).where(ItemRow.kind == "real")):
            assert item.taken == taken.get(item.id, 0) <= item.wanted

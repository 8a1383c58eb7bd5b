"""A study whose items were exported to other tools, and what these tools return."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from fresh.errors import StudyError
from fresh.study.answers import Answer
from fresh.study.importing import ImportSummary, import_study
from fresh.study.items import make_plan
from fresh.study.overview import get_overview, read_responses
from fresh.study.schema import ItemRow
from fresh.study.store import Store, create_study
from studies import corpus, load, study, two_ways

SHOWN = {"neg": "Bad & dull", "pos": "Good"}
FLAT = {"label": "pos", "confidence": "3", "readability": "4"}


def make_asking(folder: Path, shown: dict[str, str] = SHOWN) -> Store:
    """Make a study of four documents in two conditions, each read by two people."""
    made = study(two_ways(), shown, sample=4, practice=1, checks=1, per_item=2)
    return create_study(folder, make_plan(made, corpus(query="is it good ?"), load))


def numbers(store: Store, kind: str = "real") -> list[int]:
    """List the numbers of the items of a kind; real ones document by document, as in older files."""
    with store.read_session() as session:
        return list(session.scalars(select(ItemRow.id).where(ItemRow.kind == kind).order_by(ItemRow.id)))


def items(store: Store) -> list[int]:
    """List the first item of each document, then the second."""
    return numbers(store)[::2] + numbers(store)[1::2]


def text_of(store: Store, item: int) -> str:
    with store.read_session() as session:
        return " ".join(session.get_one(ItemRow, item).words)


def answers(store: Store) -> list[tuple[int, Answer]]:
    """List all answers that count."""
    found = read_responses(store)
    return [(one.item, Answer(one.label, one.confidence, one.readability, one.milliseconds)) for one in found]


def refusal(store: Store, form: str, path: Path) -> list[str]:
    """Import what must be refused; nothing of it may stay."""
    with pytest.raises(StudyError) as caught:
        import_study(store, form, path)
    assert read_responses(store) == []
    assert get_overview(store).annotators == ()
    return str(caught.value).splitlines()


def outcome(done: ImportSummary) -> tuple[int, int, list[str]]:
    return done.n_new, done.n_existing, done.skipped


def write(path: Path, value: Any) -> Path:
    """Write text as it is, and anything else as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    return write(path, "".join(json.dumps(one) + "\n" for one in rows))


def annotation(number: int, label: str = "pos", by: Any = 7, **others: Any) -> dict[str, Any]:
    """An annotation of Label Studio, with choices and a rating."""
    values = {"label": {"choices": [label]}, "confidence": {"choices": ["3"]}, "readability": {"rating": 4}}
    results = [{"id": "Dx", "from_name": name, "to_name": "text", "value": value} for name, value in values.items()]
    times = {"created_at": f"2026-03-09T22:{number % 60:02}:08.728353Z", "lead_time": 4.288}
    return {"id": number, "result": results, "was_cancelled": False, "completed_by": by, **times, **others}


def task(item: Any, *annotations: dict[str, Any]) -> dict[str, Any]:
    return {"id": 100, "data": {"item": item, "query": "is it good ?"}, "annotations": list(annotations), "drafts": []}

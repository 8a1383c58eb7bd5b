"""Studies on both databases, and apps that serve them."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from elsewhere import make_asking
from fresh.document import Document
from fresh.study.annotators import add_annotators
from fresh.study.items import make_plan
from fresh.study.store import Store, create_study
from fresh.study.web.app import create_app
from studies import MakeStore, corpus, load, plan, study, two_ways
from visitors import Person, finish_practice, visitor


@pytest.fixture
def make_store(tmp_path: Path) -> Iterator[MakeStore]:
    """Makes studies in folders, from settings."""
    made: list[Store] = []

    def make(name: str = "s", **settings: Any) -> Store:
        made.append(create_study(tmp_path / name, plan(settings.pop("ways", two_ways()), **settings)))
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def store(make_store: MakeStore) -> Store:
    """Six documents in two conditions, two annotators each, with practice and a check."""
    return make_store(sample=6, practice=1, checks=1, per_item=2, title="Films")


@pytest.fixture
def stored(database: str) -> Iterator[Store]:
    """The same on SQLite, then on PostgreSQL."""
    labels = {"pos": "Good", "neg": "Bad"}
    settings: dict[str, Any] = {"sample": 6, "practice": 1, "checks": 1, "per_item": 2}
    with closing(create_study(database, plan(two_ways(), labels=labels, **settings))) as made:
        yield made


@pytest.fixture
def eight(database: str) -> Iterator[Store]:
    """Eight answers, which two people can give, without practice and checks."""
    with closing(create_study(database, plan(two_ways(), sample=4, practice=0, checks=0, per_item=1))) as made:
        yield made


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[Store]:
    """A study of documents with a query, whose labels are shown otherwise than they are named."""
    with closing(make_asking(tmp_path / "asking")) as made:
        yield made


@pytest.fixture
def hidden(tmp_path: Path) -> Iterator[Store]:
    """A study of texts with a character that turns the direction of what follows."""
    document = Document.from_words(("a\u202eb", "c"))
    examples = [replace(one, document=replace(document, id=one.document.id), human=None) for one in corpus()]
    made = make_plan(study({"full": {"kind": "full_text"}}, practice=0, checks=0), examples, load)
    with closing(create_study(tmp_path / "hidden", made)) as store:
        yield store


@pytest.fixture
def app(store: Store) -> FastAPI:
    return create_app(store)


@pytest.fixture
def person(app: FastAPI, store: Store) -> Person:
    """Somebody with a text before them that counts."""
    return finish_practice(visitor(app).enter(add_annotators(store, 1)[0]))

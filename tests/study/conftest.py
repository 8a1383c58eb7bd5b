"""Studies on both databases, and apps that serve them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from fresh.study.annotators import add_annotators
from fresh.study.store import Store, create_study
from fresh.study.web.app import create_app
from studies import MakeStore, plan, two_ways
from visitors import Person, strip_practice, visitor


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
    made = create_study(database, plan(two_ways(), sample=6, practice=1, checks=1, per_item=2))
    yield made
    made.close()


@pytest.fixture
def app(store: Store) -> FastAPI:
    return create_app(store)


@pytest.fixture
def person(app: FastAPI, store: Store) -> Person:
    """Somebody with a text before them that counts."""
    return strip_practice(visitor(app).enter(add_annotators(store, 1)[0]))

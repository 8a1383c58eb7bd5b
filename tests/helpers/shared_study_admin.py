"""What tests of study admin share with others."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from fresh.study.annotators import add_annotators
from fresh.study.store import Store, create_study
from fresh.study.web.app import create_app
from studies import plan, two_ways
from visitors import Person, strip_practice, visitor


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = create_study(tmp_path / "s", plan(two_ways(), sample=4, practice=1, checks=1, per_item=2))
    yield made
    made.close()


@pytest.fixture
def app(store: Store) -> FastAPI:
    return create_app(store)


def answered(app: FastAPI, store: Store, n: int = 2) -> list[Person]:
    """Let some people answer everything with one label."""
    crowd = [strip_practice(visitor(app).enter(code)) for code in add_annotators(store, n)]
    for person in crowd:
        while person.text:
            person.give("pos", 3, 4, milliseconds=2500)
    return crowd

"""Whatever is sent to the pages of a study, the answer is a page or a problem detail, and nothing breaks."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.core.result import Ok

from fresh.study.annotators import add_annotators, make_admin_secret
from fresh.study.overview import read_answers
from fresh.study.store import Store, create_study
from fresh.study.web.app import create_app
from fresh.web.security import HEADERS
from studies import plan, two_ways
from visitors import ANSWER, BROWSER, Person, finish_practice, site_of, visitor

PATHS = ("/sign-in", "/consent", "/answer", "/admin/sign-in", "/admin/pause", "/admin/person", "/admin/codes")
FIELDS = (*ANSWER, "form", "ticket", "milliseconds", "code", "number", "action", "paused", "annotator", "after", "mark")
ODD = st.one_of(
    st.text(max_size=40),
    st.integers(-(10**25), 10**25).map(str),
    st.sampled_from(["pos", "1", "0", "4", "5", "yes", "exclude", "\x00", "\u202e", "1e3", "٣", "NaN", "%00", "../.."]),
)
ENDING = ("/sign-out", "/leave", "/admin/sign-out", "/admin/pause")
"""After these, when the form is their own, nothing more would be answered."""
QUIETLY = settings(
    max_examples=30,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    settings = plan(two_ways(), sample=6, practice=1, checks=1, per_item=2)
    with closing(create_study(tmp_path_factory.mktemp("fuzz"), settings)) as made:
        yield made


@pytest.fixture(scope="module")
def app(store: Store) -> FastAPI:
    app = create_app(store)
    for limiter in site_of(app).limiters.values():
        limiter.most = 10**6  # they are not what is tested here
    return app


@pytest.fixture(scope="module")
def person(app: FastAPI, store: Store) -> Person:
    """Somebody who answers and runs the study, with one browser."""
    person = visitor(app)
    person.get("/admin").post("/admin/sign-in", code=make_admin_secret(store))
    return finish_practice(person.enter(add_annotators(store, 1)[0]))


def check(person: Person) -> None:
    """See that an answer is one of ours."""
    assert person.status < 500 or person.status == 503  # paused
    assert {name: person.answer.headers[name] for name in HEADERS} == HEADERS
    kind = person.answer.headers["content-type"]
    assert kind.startswith(("text/html", "application/problem+json", "text/css", "application/json", "text/plain"))


@QUIETLY
@given(path=st.sampled_from(PATHS), fields=st.dictionaries(st.sampled_from(FIELDS), ODD), own=st.booleans())
def test_any_form_gets_a_valid_response(
    person: Person, store: Store, path: str, fields: dict[str, str], own: bool
) -> None:
    role = "/admin" if path.startswith("/admin") else "/item"
    person.get(role)
    given = {**fields, **({"form": person.field("form")} if own else {})}
    person.answer = person.client.post(path, data=given, headers=BROWSER)
    check(person)
    assert all(one["label"] in store.labels for one in read_answers(store))


@QUIETLY
@given(did=ODD, annotator=ODD, number=ODD)
def test_any_admin_query_gets_a_valid_response(person: Person, did: str, annotator: str, number: str) -> None:
    given = {"did": did, "annotator": annotator, "number": number}
    for path, query in (("/admin", given), (f"/admin/person/{quote(annotator, safe='')}/{quote(did, safe='')}", {})):
        person.answer = person.client.get(path, params=query, headers=BROWSER)
        check(person)


@QUIETLY
@given(path=st.text(max_size=30), cookie=st.text(max_size=60))
def test_any_path_gets_a_valid_response(app: FastAPI, path: str, cookie: str) -> None:
    person = visitor(app)
    sent = {**BROWSER, "Cookie": f"study_admin={cookie}".encode()}
    for prefix in ("/", "/practice/", "/admin/export/", "/admin/person/1/", "/admin?did=", "/static/"):
        person.answer = person.client.get(prefix + quote(path, safe=""), headers=sent)
        check(person)


@QUIETLY
@given(
    body=st.binary(max_size=200),
    kind=st.sampled_from(
        ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json", "x/y"]
    ),
)
def test_any_body_gets_a_valid_response(person: Person, body: bytes, kind: str) -> None:
    person.answer = person.client.post("/answer", content=body, headers={**BROWSER, "Content-Type": kind})
    check(person)


@pytest.mark.slow
def test_650_requests_generated_from_the_schema(app: FastAPI, person: Person) -> None:
    schema = schemathesis.openapi.from_dict(app.openapi())
    schema.app = app
    cookies = dict(person.client.cookies)
    answered: Counter[int] = Counter()
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()

        @settings(QUIETLY, max_examples=60)
        @given(case=operation.as_strategy(), own=st.booleans())
        def ask(case: schemathesis.Case[Any], own: bool) -> None:
            if own and isinstance(case.body, dict) and case.path not in ENDING:
                person.get("/admin" if case.path.startswith("/admin") else "/item")
                case.body |= {name: person.field(name) for name in ("form", "ticket")}
            answer = case.call(headers={**BROWSER, "Host": "127.0.0.1"}, cookies=cookies)
            assert answer.status_code < 500
            answered[answer.status_code] += 1

        ask()
    assert answered.total() >= 650
    assert answered.keys() >= {200, 403, 404, 409, 422}

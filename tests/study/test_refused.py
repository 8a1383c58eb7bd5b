"""Bad input at the pages of a study: each has a clear page, and a problem detail for programs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from sqlalchemy import update
from sqlalchemy.exc import IntegrityError
from starlette.requests import Request
from starlette.responses import Response

from fresh.study.annotators import add_annotators, exclude, leave, release_expired
from fresh.study.overview import read_answers
from fresh.study.schema import AssignmentRow, ItemRow
from fresh.study.store import Store, create_study
from fresh.study.web.app import StudyServeConfig, create_app
from fresh.study.web.auth import HOUR, MAX_CHECKS, Sessions, Signer
from fresh.study.web.site import Site
from studies import plan, two_ways
from visitors import BROWSER, Person, strip_practice, visitor

FOREIGN = "This form is of another visit, or your browser keeps no cookies. Load the page again, and do it once more."
NOT_YOURS = "This text was not given to you. Go on with the one that is shown."


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = create_study(tmp_path / "s", plan(two_ways(), sample=6, practice=1, checks=1, per_item=2))
    yield made
    made.close()


@pytest.fixture
def app(store: Store) -> FastAPI:
    return create_app(store)


@pytest.fixture
def person(app: FastAPI, store: Store) -> Person:
    """Somebody with a text before them that counts."""
    return strip_practice(visitor(app).enter(add_annotators(store, 1)[0]))


def n_real(store: Store) -> int:
    return [one["kind"] for one in read_answers(store)].count("real")


def refusals(person: Person, path: str, **fields: Any) -> tuple[int, list[str], str]:
    """Post as a browser and as a program: the status, what the page says, what the detail says."""
    form = person.field("form")
    person.post(path, **{"form": form, **fields})
    program = person.client.post(path, data={"form": form, **fields})
    assert program.headers["content-type"] == "application/problem+json"
    assert program.status_code == person.status == program.json()["status"]
    return person.status, person.told, program.json()["detail"]


def test_an_answer_posted_twice_counts_once(person: Person, store: Store) -> None:
    ticket = person.field("ticket")
    person.give("neg", 1, 1)
    person.post("/answer", ticket=ticket, label="pos", confidence=4, readability=4)
    assert person.told == ["You had answered that text already: your first answer stands."]
    assert person.status == 200
    [kept] = [one for one in read_answers(store) if one["kind"] == "real"]
    assert (kept["label"], kept["confidence"]) == ("neg", 1)


def test_an_answer_for_an_item_that_was_not_given_is_refused(person: Person, app: FastAPI, store: Store) -> None:
    other = strip_practice(visitor(app).enter(add_annotators(store, 1)[0]))
    answer = {"label": "pos", "confidence": 1, "readability": 1}
    for ticket in (other.field("ticket"), "", "0" * 32, "7"):
        person.get("/item")
        assert refusals(person, "/answer", ticket=ticket, **answer) == (409, [NOT_YOURS], NOT_YOURS)
        assert "<h1>This text is not yours to answer</h1>" in person.page
    assert n_real(store) == 0


def test_a_check_cannot_be_answered_before_its_turn(person: Person, app: FastAPI, store: Store) -> None:
    signer: Signer = Signer(visits_of(app).signer.key)
    ticket = signer.ticket(1, 2)  # items 1 and 2 are the practice item and the check
    status, told, _ = refusals(person, "/answer", ticket=ticket, label="pos", confidence=1, readability=1)
    assert (status, told) == (409, [NOT_YOURS])


def test_an_answer_that_comes_too_late_is_told(person: Person, store: Store) -> None:
    with store.write_session() as session:
        session.execute(update(AssignmentRow).values(at=0))
    assert release_expired(store) == 1
    with store.write_session() as session:
        session.execute(update(ItemRow).values(taken=ItemRow.wanted))  # others have all places
    answer = {"ticket": person.field("ticket"), "label": "pos", "confidence": 1, "readability": 1}
    said = "This text was given to somebody else, since no answer came. Go on with the next."
    assert refusals(person, "/answer", **answer) == (409, [said], said)


def site_of(app: FastAPI) -> Site:
    """Find what the pages of an app share."""
    [start] = [route for route in app.routes if getattr(route, "path", "") == "/"]
    site: Site = start.endpoint.__self__.site  # type: ignore[attr-defined]
    return site


def visits_of(app: FastAPI) -> Sessions:
    """Find what knows the sessions of an app."""
    return site_of(app).visits


def go_by(app: FastAPI, hours: float) -> None:
    """Let time go by at the server."""
    visits = visits_of(app)
    at = visits.clock() + int(hours * HOUR)
    object.__setattr__(visits, "clock", lambda: at)


def go_by_for(person: Person, hours: float) -> None:
    """Let time go by at somebody's browser, which forgets what it was to keep for less."""
    for cookie in person.client.cookies.jar:
        cookie.expires -= hours * 3600
    person.client.cookies.jar.clear_expired_cookies()


def test_an_expired_session_is_told_and_goes_on_after_signing_in(app: FastAPI, store: Store) -> None:
    [code] = add_annotators(store, 1)
    person = strip_practice(visitor(app).enter(code))
    text, ticket = person.text, person.field("ticket")
    go_by(app, 12.1)
    go_by_for(person, 12.1)
    said = "Your session has ended, since nothing came for 12 hours. Sign in again: you go on where you left."
    found = refusals(person, "/answer", ticket=ticket, label="pos", confidence=1, readability=1)
    lost = f"{said} What you sent just now was not saved."
    assert found == (401, [lost], lost)
    assert "<h1>Please sign in</h1>" in person.page
    assert person.get().told == [said]
    person.post("/sign-in", code=code)
    assert person.text == text
    assert n_real(store) == 0


def test_a_session_is_renewed_while_somebody_is_there(person: Person, app: FastAPI) -> None:
    for hours, status in ((11.9, 200), (11.9, 200), (12.1, 401)):
        go_by(app, hours)
        assert person.get("/item").status == status


def test_a_request_that_was_under_way_while_somebody_signed_out_renews_nothing(person: Person, app: FastAPI) -> None:
    visits = visits_of(app)
    cookie = "; ".join(f"{name}={value}" for name, value in person.client.cookies.items())
    request = Request({"type": "http", "headers": [(b"cookie", cookie.encode())], "scheme": "http", "path": "/"})
    session = visits.need(request, "annotator")
    go_by(app, 1)
    renewed = Response()
    visits.renew(request, renewed, session)
    assert visits.signer.read(token_in(renewed), "annotator", lambda who: visits.mark("annotator", who)) is not None
    visits.end(Response(), session)
    visits.renew(request, renewed := Response(), session)
    assert visits.signer.read(token_in(renewed), "annotator", lambda who: visits.mark("annotator", who)) is None


def token_in(response: Response) -> str:
    """Take a session out of the cookie that a response sets."""
    return response.headers["set-cookie"].partition(";")[0].partition("=")[2]


def test_a_session_of_another_study_or_made_up_is_none(person: Person, app: FastAPI) -> None:
    visits = visits_of(app)
    other = Signer(b"another study")
    for token in (other.write(other.begin("annotator", visits.clock(), 1)), "annotator.1.1.1.1", "", "\u00e4"):
        stranger = visitor(app)
        header = {"Cookie": f"{visits.name('annotator')}={token}".encode()}
        stranger.answer = stranger.client.get("/item", headers={**BROWSER, **header})
        assert (stranger.status, stranger.told) == (401, ["You are not signed in. Sign in first."])


def test_a_wrong_code_is_told(app: FastAPI, store: Store) -> None:
    add_annotators(store, 1)
    said = "This code is not known here. Write it just as you were given it."
    for code in ("1-aaaa-bbbb-cccc", "", "'; DROP TABLE annotators; --", "x" * 5000):
        person = visitor(app).get()
        assert refusals(person, "/sign-in", code=code) == (403, [said], said)
        assert "<h1>Sign in</h1>" in person.page
    assert "x" * 5000 not in person.page


def test_many_wrong_codes_do_not_lock_out_right_ones_from_the_same_address(app: FastAPI, store: Store) -> None:
    [code] = add_annotators(store, 1)
    person = visitor(app).get()
    for _ in range(21):
        person.post("/sign-in", code="1-aaaa-bbbb-cccc")
        assert person.status == 403
    assert "I agree" in person.post("/sign-in", code=code).page


def test_who_comes_while_too_many_codes_are_checked_is_told_to_come_again(app: FastAPI, store: Store) -> None:
    person, tries = visitor(app).get(), site_of(app).tries
    tries.most = 1
    person.post("/sign-in", code="1-aaaa-bbbb-cccc").get()
    tries.under_way["testclient"] = MAX_CHECKS
    said = "Many wrong codes came from your network, so only 4 at a time are checked. Try again in a few seconds."
    assert refusals(person, "/sign-in", code="1-aaaa-bbbb-cccc") == (429, [said], said)
    assert person.answer.headers["retry-after"] == "5"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"label": ""}, ["Choose a label."]),
        (
            {"label": "", "confidence": "", "readability": ""},
            ["Choose a label.", "Say how confident you are.", "Say how easy the words are to read."],
        ),
        (
            {"confidence": 5},
            ["confidence must be a whole number from 1 (not confident) to 4 (very confident), got 5."],
        ),
        (
            {"confidence": "two", "readability": 0},
            [
                "confidence must be a whole number from 1 (not confident) to 4 (very confident), got 'two'.",
                "readability must be a whole number from 1 (very difficult) to 5 (very easy), got 0.",
            ],
        ),
        (
            {"milliseconds": -3},
            ["milliseconds must be a whole number from 0 to 604,800,000 (a week), got '-3'."],
        ),
    ],
)
def test_what_is_missing_or_out_of_range_is_told_beside_the_text(
    person: Person, store: Store, given: dict[str, Any], told: list[str]
) -> None:
    text = person.text
    answer = {"label": "pos", "confidence": 2, "readability": 3, "ticket": person.field("ticket"), **given}
    assert refusals(person, "/answer", **answer) == (422, told, " ".join(told))
    assert person.text == text
    kept = {name: value for name, value in answer.items() if value and name not in given and name != "ticket"}
    for name, value in kept.items():
        assert f'name="{name}" value="{value}" required checked' in person.page
    assert n_real(store) == 0


def test_an_unknown_label_is_refused(person: Person) -> None:
    said = "poss is not a label of this study. Did you mean pos?"
    answer = {"ticket": person.field("ticket"), "label": "poss", "confidence": 1, "readability": 1}
    assert refusals(person, "/answer", **answer) == (422, [said], said)


def test_a_body_that_is_too_large_is_refused(person: Person) -> None:
    said = "The request is larger than 16,384 bytes, the most that is taken here. Send less at a time."
    assert refusals(person, "/answer", label="x" * 20_000) == (413, [said], said)
    assert "<h1>That is too much</h1>" in person.page


def test_an_unknown_page_is_told(app: FastAPI, person: Person) -> None:
    for path in ("/nowhere", "/admin/nowhere", "/v1/openapi.json", "/docs", "/item/7"):
        person.get(path)
        assert (person.status, person.told) == (404, ["There is no page at this address. Go back to the study."])
        assert person.client.get(path).json()["detail"] == "There is no page at this address. Go back to the study."
    person.get("/answer")
    assert (person.status, person.told) == (405, ["This address is not asked in this way. Go back to the study."])
    assert visitor(app).get("/nowhere").page.count('href="/">Sign in</a>') == 1


@pytest.mark.parametrize("path", ["/sign-in", "/sign-out", "/consent", "/answer", "/leave"])
def test_no_form_of_others_is_taken(person: Person, app: FastAPI, store: Store, path: str) -> None:
    other = strip_practice(visitor(app).enter(add_annotators(store, 1)[0]))
    for token in ("", "0" * 64, other.field("form"), "\u00e4"):
        assert refusals(person.get("/item"), path, form=token) == (403, [FOREIGN], FOREIGN)
    assert person.get("/item").text
    foreign = person.client.post(path, data={"form": person.field("form")}, headers={"Origin": "http://evil.example"})
    assert foreign.status_code == 403


def test_an_open_page_cannot_act_for_somebody_else_who_signed_in(app: FastAPI, store: Store) -> None:
    first, second = add_annotators(store, 2)
    person = strip_practice(visitor(app).enter(first))
    form, ticket = person.field("form"), person.field("ticket")
    person.post("/sign-out").enter(second)
    person.post("/answer", form=form, ticket=ticket, label="pos", confidence=1, readability=1)
    assert (person.status, person.told) == (403, [FOREIGN])
    assert n_real(store) == 0


def test_who_is_excluded_or_gone_reads_it(person: Person, store: Store) -> None:
    answer = {"ticket": person.field("ticket"), "label": "pos", "confidence": 1, "readability": 1}
    leave(store, 1)
    said = "You have left this study. To take part again, ask whoever runs it to readmit you."
    assert refusals(person, "/answer", **answer) == (403, [said], said)
    exclude(store, 1)
    for path in ("/", "/item"):
        assert person.get(path).told == ["Your part in this study has ended."]
        assert "<h1>Your part has ended</h1>" in person.page


def test_feedback_is_for_practice_only(person: Person) -> None:
    said = "There is feedback for practice only, and after your answer. Go on with the next text."
    assert person.get(f"/practice/{person.field('ticket')}").told == [said]
    assert person.status == 409
    assert person.get("/practice/nothing").told == [NOT_YOURS]


def test_another_name_for_this_machine_is_refused(app: FastAPI) -> None:
    person = visitor(app)
    person.answer = person.client.get("/", headers={**BROWSER, "Host": "evil.example"})
    assert person.status == 421
    assert person.told[0].startswith("This server is not reached as 'evil.example'.")


def test_sessions_that_end_at_once_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^session_hours must be at least 0\.01, got 0\.$"):
        StudyServeConfig(session_hours=0)


def test_what_went_wrong_inside_is_a_page_too(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_given: Any) -> None:
        raise IntegrityError("", {}, Exception("a secret"))

    monkeypatch.setattr(Store, "read_session", fail)
    assert person.get("/item").told == [
        "Something went wrong that should not have. What it was stands in the log of the server."
    ]
    assert person.status == 500

"""The pages of annotators, asked over HTTP as a browser does without scripts, and as a program does."""

import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from sqlalchemy import select, update

from fresh.study.annotators import add_annotators, exclude, leave, readmit, release_expired
from fresh.study.items import make_plan
from fresh.study.overview import get_overview, read_answers
from fresh.study.schema import AssignmentRow, ItemRow
from fresh.study.store import Store, create_study, open_study
from fresh.study.web.annotator_views import MISSING, NOT_YOURS
from fresh.study.web.app import create_app
from fresh.study.web.auth import FOREIGN_FORM, MAX_CHECKS
from pages import HOSTILE
from studies import MakeStore, corpus, load, study, two_ways
from visitors import ANSWER, Person, advance_clock, finish_practice, site_of, visitor

Enter = Callable[..., Person]


@pytest.fixture
def enter(app: FastAPI, store: Store) -> Enter:
    """Lets somebody new sign in and agree."""
    return lambda code=None: visitor(app).enter(code or add_annotators(store, 1)[0])


def real(store: Store) -> list[dict[str, Any]]:
    return [one for one in read_answers(store) if one["kind"] == "real"]


def refusals(person: Person, path: str, **fields: Any) -> tuple[int, list[str], str]:
    """Post as a browser and as a program: the status, what the page says, what the detail says."""
    form = person.field("form")
    person.post(path, **{"form": form, **fields})
    program = person.client.post(path, data={"form": form, **fields})
    assert program.headers["content-type"] == "application/problem+json"
    assert program.status_code == person.status == program.json()["status"]
    return person.status, person.alerts, program.json()["detail"]


def test_an_annotator_goes_from_sign_in_to_the_end(make_store: MakeStore) -> None:
    store = make_store(sample=6, practice=2, checks=1, per_item=2, title="Films")
    [code] = add_annotators(store, 1)
    person = visitor(create_app(store)).get()
    assert "<h1>Sign in</h1>" in person.page
    person.post("/sign-in", code=code.upper())
    assert "Taking part is voluntary" in person.page
    assert "Taking part is voluntary" in person.get("/item").page  # nobody gets past it
    person.post("/consent")
    assert "<h1>What to do</h1>" in person.page
    assert person.page.count("The right label: ") == 2
    person.get("/item")
    said: set[tuple[bool, bool]] = set()
    for number in (1, 2):
        assert f"Practice {number} of 2" in person.page
        positive = int(re.findall(r"word(\d+)", person.text)[0]) % 2 == 1
        person.send(readability=5, milliseconds=7)
        assert 'You chose <b dir="auto">pos</b>.' in person.page
        said.add((positive, "The expected label is" not in person.page))
        assert person.get(person.answer.url.path).status == 200  # as often as they like
        person.get("/item")
    assert said <= {(True, True), (False, False)}
    seen: list[str] = []
    for number in range(1, 8):  # six texts and a check
        assert f"<title>{number} of 7 - Films</title>" in person.page
        seen.append(person.text)
        person.give("neg", 2, 3)
    assert len(set(seen)) == 7
    assert sum("this is a check" in text for text in seen) == 1
    assert "That was the last text. Thank you for your help!" in person.page
    assert "You have answered 7 texts." in person.page
    names = ("kind", "label", "confidence", "readability", "milliseconds")
    assert [tuple(one[name] for name in names) for one in read_answers(store)] == [
        *[("real", "neg", 2, 3, 1200)] * 6,
        *[("practice", "pos", 1, 5, 7)] * 2,
        ("check", "neg", 2, 3, 1200),
    ]


def test_pages_do_not_reveal_attention_checks(person: Person, store: Store) -> None:
    pages: dict[bool, list[str]] = {True: [], False: []}
    while person.text:
        bare = person.page.replace(person.text, "TEXT").replace(person.field("ticket"), "TICKET")
        pages["this is a check" in person.text].append(re.sub(r"\d of 7|value=\"\d\"", "N", bare))
        for word in (*store.conditions, "doc-", "condition", "kind", "attention check"):
            assert word not in bare.lower().replace("to check that you are reading", "")
        person.give()
    assert len(pages[True]) == 1
    assert set(pages[True]) == set(pages[False])  # letter by letter


def test_annotators_continue_after_signing_in_again(enter: Enter, store: Store) -> None:
    [code] = add_annotators(store, 1)
    person = finish_practice(enter(code)).give()
    text, first = person.text, person.field("ticket")
    person.post("/sign-out")
    assert "<h1>Sign in</h1>" in person.page
    assert person.get("/item").alerts == ["You are not signed in. Sign in first."]
    again, person = enter(code), enter(code)  # with two other browsers
    assert (again.text, again.field("ticket")) == (text, first)
    assert "2 of 7" in again.page
    again.give()
    person.send(label="neg")  # the page that was still open
    assert person.alerts == ["You have already answered that text: your first answer stands."]
    assert person.text == again.text != text
    assert [one["label"] for one in real(store)] == ["pos"] * 2


@pytest.mark.parametrize("way", ["/sign-out", "/leave"])
def test_signing_out_ends_all_sessions_of_a_code(stored: Store, database: str, way: str) -> None:
    """On all servers, and for a cookie that somebody copied; others are not concerned."""
    with closing(open_study(database)) as same_study:
        app, (code, other) = create_app(stored), add_annotators(stored, 2)
        person, somebody = (finish_practice(visitor(app).enter(one)) for one in (code, other))
        thief = visitor(create_app(same_study))
        thief.client.cookies.update(person.client.cookies)
        assert thief.get("/item").text == person.text
        person.post(way)
        assert (thief.get("/item").status, thief.alerts) == (401, ["You are not signed in. Sign in first."])
        readmit(stored, 1)
        assert thief.give().status == 401
        assert person.enter(code).get("/item").text
        assert thief.get("/item").status == 401
        assert somebody.give().status == 200
        assert len(read_answers(stored)) == 3  # practice of both, and what somebody else answered


def test_annotators_who_leave_cannot_continue(enter: Enter, store: Store) -> None:
    [code] = add_annotators(store, 1)
    person = finish_practice(enter(code)).give()
    assert "your code stops working" in person.get("/leave").page
    assert "<h1>What to do</h1>" not in person.get("/left").page  # they have not left yet
    sent = person.client.post("/leave", data={"form": person.field("form")}, follow_redirects=False)
    assert (sent.status_code, sent.headers["location"]) == (303, "/left")  # which can be loaded again
    assert "<h1>You have left the study</h1>" in person.get("/left").page
    assert person.get("/item").status == 401
    person.enter(code)
    assert person.status == 403
    assert person.alerts[0].startswith("You have left this study. To take part again, ask")
    assert "Sign out" in person.page
    assert [one["counted"] for one in real(store)] == [True]


def test_annotators_who_decline_are_told_that_nothing_was_stored(app: FastAPI, store: Store) -> None:
    [code] = add_annotators(store, 1)
    person = visitor(app).get().post("/sign-in", code=code)
    assert '<a class="quiet button" href="/leave">I do not agree</a>' in person.page
    person.get("/leave")
    assert "<h1>You are not taking part</h1>" in person.page
    assert "nothing was stored: no answers, no times, and not that you were here" in person.page
    assert "sign in again with your code. It remains valid" in person.page
    [found] = get_overview(store).annotators
    assert (found.status, found.started) == ("not started", False)
    person.post("/sign-out")
    assert "I agree" in person.get().post("/sign-in", code=code).page


def test_codes_are_accepted_in_any_notation_and_wrong_ones_refused(app: FastAPI, store: Store) -> None:
    [code] = add_annotators(store, 1)
    number, *parts = code.split("-")
    bare = "".join(parts)
    for written in (
        f"  {number} - {' '.join(parts)} ",
        f"{number}{bare}".upper(),
        f"{number}\u2013{bare}",
        f"{number}. {bare[:6]}_{bare[6:]}",
        "".join(chr(ord(sign) + 0xFEE0) for sign in code),  # full-width letters
    ):
        assert "I agree" in visitor(app).get().post("/sign-in", code=written).page, written
    said = "This code is not correct. Enter it exactly as you received it."
    wrong = (bare, code[:-1], f"{number}-{number}-{bare}", f"{code}a", "1-aaaa-bbbb-cccc", "")
    for written in (*wrong, "'; DROP TABLE annotators; --", "x" * 5000):
        person = visitor(app).get()
        assert refusals(person, "/sign-in", code=written) == (403, [said], said)
        assert "<h1>Sign in</h1>" in person.page
    assert "x" * 5000 not in person.page


def test_expired_items_go_to_people_who_have_nothing_left(enter: Enter, store: Store) -> None:
    sleeper, *others = [finish_practice(enter()) for _ in range(4)]
    for person in others:
        person.give_all()
    sleeper.give().give()
    finish_practice(enter()).give_all()
    assert sleeper.text
    with store.write_session() as session:
        session.execute(update(AssignmentRow).where(AssignmentRow.state == "open").values(at=0))
    before = len([one for one in read_answers(store) if one["counted"]])
    finish_practice(enter()).give_all()
    assert len([one for one in read_answers(store) if one["counted"]]) > before
    assert release_expired(store) == 0


def test_hostile_texts_are_escaped(make_store: MakeStore) -> None:
    hostile = HOSTILE.replace("\ud800", "").replace("\x00", "")
    texts = dict.fromkeys(("consent", "instructions", "question", "thanks"), hostile)
    title = " ".join(hostile.replace("\u202e", "").split())  # what else is in it is refused in a title
    store = make_store(sample=2, practice=1, checks=0, title=title, texts=texts)
    person = visitor(create_app(store)).get()
    [code] = add_annotators(store, 1)
    for page in (person.page, person.enter(code).page, person.get("/item").page, person.give().page):
        assert "<script>alert" not in page
        assert "<img" not in page
        assert "\u202e" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_characters_that_change_the_text_direction_are_replaced(hidden: Store) -> None:
    person = visitor(create_app(hidden)).enter(add_annotators(hidden, 1)[0])
    assert person.get("/item").text == "a\ufffdb c"


QUESTION = '<span class="muted">Question:</span> what was on the desk ?'
PENCIL = '<span class="muted">Answer:</span> a pencil'


@pytest.mark.parametrize(
    ("name", "query", "parts"),
    [
        ("file.csv", "Is it good ?", ["is it good ?"]),
        ("multirc", "What was on the desk ? || A pencil", [QUESTION, PENCIL]),
    ],
)
def test_queries_are_shown_in_named_parts(tmp_path: Path, name: str, query: str, parts: list[str]) -> None:
    """Also above checks, which would stand out otherwise; models read the query as it is."""
    folder = "x" if name == "multirc" else ""
    settings = study(two_ways(), corpus=name, data_dir=folder, sample=4, practice=1, checks=1)
    with closing(create_study(tmp_path / "s", make_plan(settings, corpus(query=query), load))) as store:
        person = visitor(create_app(store)).enter(add_annotators(store, 1)[0])
        pages, texts = [person.get("/").page, finish_practice(person).page], []
        while person.text:
            pages.append(person.page)
            texts.append(person.text)
            person.give()
        with store.read_session() as session:
            kept = session.scalars(select(ItemRow.query)).all()
    assert all(f'<p class="query" dir="auto">{part}</p>' in page for part in parts for page in pages)
    assert not any("||" in page for page in pages)
    assert sum("this is a check" in text for text in texts) == 1
    assert kept == [query.lower().split()] * (4 * 2 + 1 + 1 + 2)  # texts in two conditions, practice, check, examples


def test_annotators_who_must_wait_are_told(make_store: MakeStore) -> None:
    store = make_store(sample=1, practice=0, checks=0, per_item=1)
    app = create_app(store)
    first, second, third = (visitor(app).enter(code).get("/item") for code in add_annotators(store, 3))
    assert first.text != second.text
    assert "<h1>No text for you right now</h1>" in third.page
    assert "if somebody stops, there will be" in third.page
    given_back = second.text
    second.get("/leave").post("/leave")
    assert third.get("/item").text == given_back
    first.give()
    assert "<h1>Done</h1>" in first.page


# Bad input: each has a clear page, and a problem detail for programs.


def test_an_answer_to_an_item_that_was_not_assigned_is_refused(person: Person, enter: Enter, store: Store) -> None:
    other = finish_practice(enter())
    early = site_of(person.client.app).sessions.signer.ticket(1, 2)  # items 1 and 2 are the practice item and the check
    for ticket in (other.field("ticket"), early, "", "0" * 32, "7"):
        person.get("/item")
        assert refusals(person, "/answer", **ANSWER, ticket=ticket) == (409, [NOT_YOURS], NOT_YOURS)
        assert "<h1>This text is not assigned to you</h1>" in person.page
    assert real(store) == []


def test_an_answer_that_comes_too_late_is_refused(person: Person, store: Store) -> None:
    with store.write_session() as session:
        session.execute(update(AssignmentRow).values(at=0))
    assert release_expired(store) == 1
    with store.write_session() as session:
        session.execute(update(ItemRow).values(taken=ItemRow.wanted))  # others have all places
    status, [told], detail = refusals(person, "/answer", **ANSWER, ticket=person.field("ticket"))
    assert (status, told) == (409, detail)
    assert told.startswith("This text was assigned to somebody else")  # without its number


def test_an_expired_session_is_explained_and_continues_after_sign_in(app: FastAPI, store: Store) -> None:
    [code] = add_annotators(store, 1)
    person = finish_practice(visitor(app).enter(code))
    text, ticket = person.text, person.field("ticket")
    advance_clock(app, 12.1)
    for cookie in person.client.cookies.jar:  # the browser forgets what it was to keep for less
        cookie.expires -= 12.1 * 3600
    person.client.cookies.jar.clear_expired_cookies()
    said = "Your session ended after 12 hours without activity. Sign in again to continue where you stopped."
    found = refusals(person, "/answer", **ANSWER, ticket=ticket)
    lost = f"{said} What you just sent was not saved."
    assert found == (401, [lost], lost)
    assert "<h1>Please sign in</h1>" in person.page
    assert person.get().alerts == [said]
    person.post("/sign-in", code=code)
    assert person.text == text
    assert real(store) == []
    for hours, status in ((11.9, 200), (11.9, 200), (12.1, 401)):
        advance_clock(app, hours)
        assert person.get("/item").status == status


def test_wrong_codes_do_not_lock_out_right_ones_from_the_same_address(app: FastAPI, store: Store) -> None:
    [code] = add_annotators(store, 1)
    person, limiter = visitor(app).get(), site_of(app).limiters["annotator"]
    limiter.most = 3
    for _ in range(4):
        assert person.post("/sign-in", code="1-aaaa-bbbb-cccc").status == 403
    limiter.n_checks["testclient"] = MAX_CHECKS  # others from there wait
    said = "Many wrong codes came from your network, so only 4 are checked at a time. Try again in a few seconds."
    assert refusals(person.get(), "/sign-in", code=code) == (429, [said], said)
    assert person.answer.headers["retry-after"] == "5"
    limiter.n_checks.clear()
    assert "I agree" in person.get().post("/sign-in", code=code).page


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"label": ""}, MISSING["label"]),
        (dict.fromkeys(MISSING, ""), "\n".join(MISSING.values())),
        (
            {"confidence": "two", "readability": 0},
            "confidence must be a whole number from 1 (not confident) to 4 (very confident), got 'two'.\n"
            "readability must be a whole number from 1 (very difficult) to 5 (very easy), got 0.",
        ),
        ({"milliseconds": -3}, "milliseconds must be a whole number from 0 to 604,800,000 (a week), got '-3'."),
    ],
)
def test_missing_and_invalid_answers_are_explained_beside_the_text(
    person: Person, store: Store, given: dict[str, Any], told: str
) -> None:
    text = person.text
    answer = {"label": "pos", "confidence": 2, "readability": 3, "ticket": person.field("ticket"), **given}
    assert refusals(person, "/answer", **answer) == (422, told.splitlines(), told.replace("\n", " "))
    assert person.text == text
    for name, value in answer.items():
        if value and name not in given and name != "ticket":
            assert f'name="{name}" value="{value}" required checked' in person.page
    assert real(store) == []


def test_unknown_labels_and_large_forms_are_refused(person: Person) -> None:
    said = "poss is not a label of this study. Did you mean pos?"
    answer = {**ANSWER, "ticket": person.field("ticket"), "label": "poss"}
    assert refusals(person, "/answer", **answer) == (422, [said], said)
    status, [told], detail = refusals(person.get("/item"), "/answer", label="x" * 20_000)
    assert (status, told) == (413, detail)
    assert "16,384 bytes" in told
    assert "<h1>The request is too large</h1>" in person.page


def test_unknown_pages_are_reported(app: FastAPI, person: Person) -> None:
    for path in ("/nowhere", "/admin/nowhere", "/v1/openapi.json", "/docs", "/item/7"):
        person.get(path)
        assert (person.status, person.alerts) == (404, ["There is no page at this address. Go back to the study."])
        assert person.client.get(path).json()["detail"] == "There is no page at this address. Go back to the study."
    assert (person.get("/answer").status, "does not support this method" in person.alerts[0]) == (405, True)
    assert visitor(app).get("/nowhere").page.count('href="/">Sign in</a>') == 1


@pytest.mark.parametrize("path", ["/sign-in", "/sign-out", "/consent", "/answer", "/leave"])
def test_forms_from_other_sessions_are_refused(person: Person, enter: Enter, path: str) -> None:
    other = finish_practice(enter())
    for token in ("", "0" * 64, other.field("form"), "\u00e4"):
        assert refusals(person.get("/item"), path, form=token) == (403, [FOREIGN_FORM], FOREIGN_FORM)
    assert person.get("/item").text
    foreign = person.client.post(path, data={"form": person.field("form")}, headers={"Origin": "http://evil.example"})
    assert foreign.status_code == 403


def test_people_who_left_or_were_excluded_are_told(person: Person, store: Store) -> None:
    leave(store, 1)
    status, [told], detail = refusals(person, "/answer", **ANSWER, ticket=person.field("ticket"))
    assert (status, told) == (403, detail)
    assert told.startswith("You have left this study.")
    exclude(store, 1)
    for path in ("/", "/item"):
        assert person.get(path).alerts == ["Your participation in this study has ended."]
        assert "<h1>Your participation has ended</h1>" in person.page


def test_feedback_is_limited_to_practice(person: Person) -> None:
    assert "feedback on practice texts" in person.get(f"/practice/{person.field('ticket')}").alerts[0]
    assert person.status == 409
    assert person.get("/practice/nothing").alerts == [NOT_YOURS]

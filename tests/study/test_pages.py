"""The pages of those who answer, asked over HTTP as a browser does without scripts."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.exc import OperationalError
from starlette.testclient import TestClient

from fresh.study.annotators import add_annotators, readmit, release_expired, set_paused
from fresh.study.items import make_plan
from fresh.study.overview import get_overview, read_answers
from fresh.study.schema import AssignmentRow
from fresh.study.store import Store, create_study, open_study
from fresh.study.web.app import StudyServeConfig, create_app
from pages import HOSTILE
from studies import corpus, load, plan, study, two_ways
from visitors import Person, strip_practice, visitor

Enter = Callable[..., Person]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = create_study(tmp_path / "s", plan(two_ways(), sample=6, practice=2, checks=1, per_item=2, title="Films"))
    yield made
    made.close()


@pytest.fixture
def enter(store: Store) -> Enter:
    """Lets somebody new sign in and agree."""
    app = create_app(store)

    def entered(code: str | None = None) -> Person:
        return visitor(app).enter(code or add_annotators(store, 1)[0])

    return entered


def test_somebody_goes_from_the_door_to_the_thanks(store: Store) -> None:
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
    assert "Practice 1 of 2" in person.page
    person.post("/answer", ticket=person.field("ticket"), label="pos", confidence=1, readability=5, milliseconds=7)
    assert 'You chose <b dir="auto">pos</b>.' in person.page
    person.get("/item").give()
    seen: list[str] = []
    for number in range(1, 8):  # six texts and a check
        assert f"<title>{number} of 7 - Films</title>" in person.page
        seen.append(person.text)
        person.give("neg", 2, 3)
    assert len(set(seen)) == 7
    assert sum("this is a check" in text for text in seen) == 1
    assert "That was all. Thank you for your help!" in person.page
    assert "7 texts answered." in person.page
    kept = read_answers(store)
    assert [
        (one["kind"], one["label"], one["confidence"], one["readability"], one["milliseconds"]) for one in kept
    ] == [
        *[("real", "neg", 2, 3, 1200)] * 6,
        ("practice", "pos", 1, 5, 7),
        ("practice", "pos", 3, 4, 1200),
        ("check", "neg", 2, 3, 1200),
    ]


def test_feedback_tells_the_right_label(enter: Enter) -> None:
    person = enter()
    said: set[tuple[bool, bool]] = set()
    for _ in range(2):
        person.get("/item")
        number = int(re.findall(r"word(\d+)", person.text)[0])
        person.post("/answer", ticket=person.field("ticket"), label="pos", confidence=1, readability=1)
        said.add((number % 2 == 1, "The right label is" not in person.page))
        assert person.get(person.answer.url.path).status == 200  # as often as one likes
    assert said <= {(True, True), (False, False)}


def test_nothing_on_a_page_tells_what_is_asked_for_what(enter: Enter, store: Store) -> None:
    person = strip_practice(enter())
    pages: dict[bool, list[str]] = {True: [], False: []}
    while person.text:
        bare = person.page.replace(person.text, "TEXT").replace(person.field("ticket"), "TICKET")
        pages["this is a check" in person.text].append(re.sub(r"\d of 7|value=\"\d\"", "N", bare))
        for with_callback in (*store.conditions, "doc-", "condition", "kind", "check"):
            assert with_callback not in bare.lower()
        person.give()
    assert len(pages[True]) == 1
    assert set(pages[True]) == set(pages[False])  # letter by letter


def test_whoever_comes_back_goes_on_where_they_left(enter: Enter, store: Store) -> None:
    [code] = add_annotators(store, 1)
    person = strip_practice(enter(code)).give()
    text, first = person.text, person.field("ticket")
    person.post("/sign-out")
    assert "<h1>Sign in</h1>" in person.page
    assert person.get("/item").told == ["You are not signed in. Sign in first."]
    again = enter(code)  # with another browser
    assert (again.text, again.field("ticket")) == (text, first)
    assert "2 of 7" in again.page


@pytest.mark.parametrize("way", ["/sign-out", "/leave"])
def test_signing_out_ends_all_sessions_of_a_code(database: str, way: str) -> None:
    """On all servers, and for a cookie that somebody copied; others are not concerned."""
    with (
        closing(create_study(database, plan(two_ways(), sample=6, practice=1))) as store,
        closing(open_study(database)) as same_study,
    ):
        app, (code, other) = create_app(store), add_annotators(store, 2)
        person, somebody = (strip_practice(visitor(app).enter(one)) for one in (code, other))
        thief = visitor(create_app(same_study))
        thief.client.cookies.update(person.client.cookies)
        assert thief.get("/item").text == person.text
        person.post(way)
        assert (thief.get("/item").status, thief.told) == (401, ["You are not signed in. Sign in first."])
        readmit(store, 1)
        assert thief.give().status == 401
        assert person.enter(code).get("/item").text
        assert thief.get("/item").status == 401
        assert somebody.give().status == 200
        assert len(read_answers(store)) == 3  # practice of both, and what somebody else answered


def test_whoever_leaves_gives_their_text_to_others(enter: Enter, store: Store) -> None:
    [code] = add_annotators(store, 1)
    person = strip_practice(enter(code)).give()
    person.get("/leave")
    assert "your code opens nothing any more" in person.page
    person.post("/leave")
    assert "<h1>You have left the study</h1>" in person.page
    assert person.answer.url.path == "/left"  # which can be loaded again
    assert person.get("/item").status == 401
    person.enter(code)
    assert (person.status, person.told) == (
        403,
        ["You have left this study. To take part again, ask whoever runs it to readmit you."],
    )
    assert "Sign out" in person.page
    assert [one["counted"] for one in read_answers(store) if one["kind"] == "real"] == [True]


def test_whoever_does_not_agree_is_told_that_nothing_was_stored(store: Store) -> None:
    [code] = add_annotators(store, 1)
    person = visitor(create_app(store)).get().post("/sign-in", code=code)
    assert '<a class="quiet button" href="/leave">I do not agree</a>' in person.page
    person.get("/leave")
    assert "<h1>You do not take part</h1>" in person.page
    assert "nothing was stored: no answer, no time, and not that you were here" in person.page
    assert "sign in again with your code: it stays yours" in person.page
    [found] = get_overview(store).annotators
    assert (found.status, found.started) == ("not begun", False)
    person.post("/sign-out")
    assert "I agree" in person.get().post("/sign-in", code=code).page


def test_codes_are_taken_as_they_are_meant(store: Store) -> None:
    app, [code] = create_app(store), add_annotators(store, 1)
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
    for wrong in (bare, code[:-1], f"{number}-{number}-{bare}", f"{code}a"):
        assert visitor(app).get().post("/sign-in", code=wrong).status == 403


def test_what_lies_too_long_is_given_to_whoever_has_nothing_left(enter: Enter, store: Store) -> None:
    crowd = [strip_practice(enter()) for _ in range(4)]
    sleeper, *others = crowd
    for person in others:
        while person.text:
            person.give()
    sleeper.give().give()
    last = strip_practice(enter())
    while last.text:
        last.give()
    assert sleeper.text
    with store.write_session() as session:
        session.execute(update(AssignmentRow).where(AssignmentRow.state == "open").values(at=0))
    before = len([one for one in read_answers(store) if one["counted"]])
    fresh = strip_practice(enter())
    while fresh.text:
        fresh.give()
    assert len([one for one in read_answers(store) if one["counted"]]) > before
    assert release_expired(store) == 0


def test_a_restart_keeps_sessions_and_two_servers_share_them(store: Store, tmp_path: Path) -> None:
    [code] = add_annotators(store, 1)
    other = open_study(tmp_path / "s")
    first, second = create_app(store), create_app(other)
    person = strip_practice(visitor(first).enter(code))
    text = person.text
    moved = visitor(second)
    moved.client.cookies = person.client.cookies
    assert moved.get("/item").text == text
    ticket = moved.field("ticket")
    moved.give()
    assert moved.text != text
    person.post("/answer", ticket=ticket, label="neg", confidence=1, readability=1)  # the page that was still open
    assert person.told == ["You had answered that text already: your first answer stands."]
    assert person.text == moved.text
    other.close()


def test_a_whole_room_signs_in_from_one_address(store: Store) -> None:
    app = create_app(store)
    for code in add_annotators(store, 25):
        assert visitor(app).enter(code).status == 200


def test_cookies_are_for_the_server_alone(store: Store) -> None:
    [code] = add_annotators(store, 1)
    for config, base_url, secure in (
        (StudyServeConfig(), "http://127.0.0.1", False),
        (StudyServeConfig(), "https://127.0.0.1", True),
        (StudyServeConfig(https=True), "http://127.0.0.1", True),
    ):
        cookies: list[str] = []
        answer = visitor(create_app(store, config), base_url).get().answer
        cookies += answer.headers.get_list("set-cookie")
        if not config.https:
            person = visitor(create_app(store, config), base_url).get()
            sent = person.client.post(
                "/sign-in", data={"form": person.field("form"), "code": code}, follow_redirects=False
            )
            cookies += sent.headers.get_list("set-cookie")
            assert len(cookies) == 3
        for cookie in cookies:
            assert re.match(r"study_[0-9a-f]{8}_(visitor|annotator)=", cookie)
            assert "; HttpOnly" in cookie
            assert "; SameSite=strict" in cookie
            assert "; Path=/" in cookie
            assert ("; Secure" in cookie) == secure or "Max-Age=0" in cookie


def test_a_paused_study_says_so_and_still_takes_answers(enter: Enter, store: Store) -> None:
    person = strip_practice(enter())
    set_paused(store)
    ticket = person.field("ticket")
    person.post("/answer", ticket=ticket, label="pos", confidence=1, readability=1)
    assert (person.status, person.told) == (503, ["The study is paused. Come back later; your answers are saved."])
    assert person.answer.headers["retry-after"] == "600"
    assert "Try again" in person.page
    assert [one["kind"] for one in read_answers(store)].count("real") == 1
    set_paused(store, False)
    assert person.get("/item").status == 200


def test_hostile_texts_are_shown_and_do_nothing(tmp_path: Path) -> None:
    hostile = HOSTILE.replace("\ud800", "").replace("\x00", "")
    texts = dict.fromkeys(("consent", "instructions", "question", "thanks"), hostile)
    title = " ".join(hostile.replace("\u202e", "").split())  # what else is in it is refused in a title
    made = plan(two_ways(), sample=2, practice=1, checks=0, title=title, texts=texts)
    store = create_study(tmp_path / "hostile", made)
    person = visitor(create_app(store)).get()
    [code] = add_annotators(store, 1)
    pages = (person.page, person.enter(code).page, person.get("/item").page, person.give().page)
    for page in pages:
        assert "<script>alert" not in page
        assert "<img" not in page
        assert "\u202e" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    store.close()


def test_queries_stand_above_their_texts(tmp_path: Path) -> None:
    made = make_plan(study(two_ways(), sample=2, practice=0, checks=0), corpus(query="Is it good ?"), load)
    store = create_study(tmp_path / "asked", made)
    person = visitor(create_app(store)).enter(add_annotators(store, 1)[0]).get("/item")
    assert '<p class="query" dir="auto">is it good ?</p>' in person.page
    store.close()


def test_health_and_figures_are_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with TestClient(create_app(store), base_url="http://127.0.0.1") as client:
        assert client.get("/health").json() == {"status": "ok", "database": "ready"}
        assert 'route="/health"' in client.get("/metrics").text

        def away(*_given: Any) -> None:
            raise OperationalError("", {}, Exception("away"))

        monkeypatch.setattr(Store, "write_session", away)
        answer = client.get("/health")
    assert (answer.status_code, answer.json()) == (503, {"status": "broken", "database": "cannot be written to"})


def test_who_has_to_wait_for_others_is_told_so(tmp_path: Path) -> None:
    store = create_study(tmp_path / "few", plan(two_ways(), sample=1, practice=0, checks=0, per_item=1))
    app = create_app(store)
    first, second, third = (visitor(app).enter(code).get("/item") for code in add_annotators(store, 3))
    assert first.text != second.text
    assert "<h1>Nothing for you at the moment</h1>" in third.page
    assert "if somebody stops, there will be" in third.page
    given_back = second.text
    second.get("/leave").post("/leave")
    assert third.get("/item").text == given_back
    first.give()
    assert "<h1>Done</h1>" in first.page
    store.close()

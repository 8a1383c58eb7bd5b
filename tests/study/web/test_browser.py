"""A study in a real browser: people who answer at the same time, by keyboard, on a phone, without scripts."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from fresh.study.annotators import add_annotators, make_admin_secret
from fresh.study.answers import CONFIDENCE, READABILITY
from fresh.study.overview import compute_results, get_overview, read_answers
from fresh.study.store import Store, create_study
from fresh.study.web.app import create_app
from running import running
from studies import plan, two_ways
from visitors import finish

Open = Callable[..., Page]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Six documents, all of them in the sample: 0 to 5, the even ones negative."""
    full = {"full": {"kind": "full_text"}}
    return create_study(tmp_path / "s", plan(full, n=6, sample=6, practice=0, checks=1, per_item=3, title="Films"))


@pytest.fixture
def practised(tmp_path: Path) -> Store:
    return create_study(tmp_path / "p", plan(two_ways(), sample=6, practice=2, checks=1, per_item=2, title="Films"))


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Opens pages, each in a browser of its own, that must neither complain nor ask any server but their own."""
    wrong: list[str] = []
    asked: list[str] = []
    contexts: list[BrowserContext] = []

    def opened(address: str, width: int = 1280, scripts: bool = True) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, java_script_enabled=scripts)
        contexts.append(context)
        page = context.new_page()
        # Notes (info) are no complaints: Chromium writes one if a test focuses a field before `autofocus` does.
        page.on("console", lambda message: wrong.extend([message.text] * (message.type != "info")))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        return page

    yield opened
    assert wrong == []
    assert [url for url in asked if not url.startswith(("http://127.0.0.1:", "data:,"))] == []
    for context in contexts:
        context.close()


def sign_in(page: Page, code: str) -> None:
    page.get_by_label("Your code").fill(code)
    page.get_by_role("button", name="Sign in").click()


def begin(page: Page, code: str) -> None:
    sign_in(page, code)
    page.get_by_role("button", name="I agree").click()
    page.get_by_role("link", name="Start").click()


def answer_of(person: int, text: str) -> tuple[str, int, int]:
    """What somebody makes of a text; the tables below are worked out by hand from this."""
    asked = re.search(r"please choose (\w+) , ([\w ]+) and ([\w ]+) \.$", text)
    if asked:
        return asked[1], CONFIDENCE.index(asked[2]) + 1, READABILITY.index(asked[3]) + 1
    number = int(text.removeprefix("word").partition(".")[0])
    right = ("neg", "pos")[number % 2]
    label = "pos" if person == 2 or (person == 1 and number % 4 == 0) else right
    return label, 1 + person + number % 2, 2 if person == 2 and number < 3 else 5


def choose(page: Page, person: int) -> None:
    """Answer the text on a page by keyboard, but do not send it yet."""
    expect(page.locator(".keys-help")).to_be_visible()
    label, confidence, readability = answer_of(person, page.locator(".shown").inner_text())
    for key in (1 + ("neg", "pos").index(label), confidence, readability):
        page.keyboard.press(str(key))
    expect(page.get_by_role("button", name="Continue")).to_be_focused()


def test_three_annotators_complete_a_study_and_one_returns(store: Store, open_page: Open) -> None:
    codes = add_annotators(store, 3)
    with running(create_app(store)) as address:
        pages = [open_page(address) for _ in codes]
        for page, code in zip(pages, codes, strict=True):
            begin(page, code)
        for turn in range(7):  # six texts and a check
            here = [person for person in range(3) if person != 1 or turn < 3]
            for person in here:
                choose(pages[person], person)
            for person in here:
                pages[person].keyboard.press("Enter")  # all of them on their way at the same time
            for person in here:
                number = f"{turn + 2} of 7" if turn < 6 else "You have answered 7 texts. You can close this page."
                expect(pages[person].get_by_text(number, exact=True)).to_be_visible()
            if turn == 2:
                pages[1].get_by_role("button", name="Sign out").click()
                expect(pages[1].get_by_role("heading", name="Sign in")).to_be_visible()
        back = open_page(address)
        sign_in(back, codes[1])
        expect(back.get_by_text("4 of 7")).to_be_visible()
        for _ in range(4):
            before = back.locator(".shown").inner_text()
            choose(back, 1)
            back.keyboard.press("Enter")
            expect(back.get_by_text(before, exact=True)).to_have_count(0)
        expect(back.get_by_text("That was the last text. Thank you for your help!")).to_be_visible()
        check_by_hand(store)


def check_by_hand(store: Store) -> None:
    """Compare with what follows from the answers on paper.

    Odd documents: all three say pos, rightly. Document 2: neg, neg, pos; documents 0 and 4: neg, pos, pos; all three
    are neg. So 4 of 6 majorities are right, and the three answers to an odd document are equal.
    """
    results = compute_results(store)
    [row] = results.rows
    assert (row.n_items, row.n_answers, row.n_ties, results.n_annotators) == (6, 18, 0, 3)
    assert row.accuracy.value == pytest.approx(4 / 6)
    assert row.confidence.mean.value == pytest.approx(2.5)  # item means: 2 for even documents, 3 for odd ones
    assert row.readability.mean.value == pytest.approx(4.5)  # 4 for the first three, 5 for the others
    assert row.agreement.raw == pytest.approx((3 * 1 + 3 * 2 / 3) / 6)
    assert [(one.n_answered, one.n_failed) for one in get_overview(store).annotators] == [(6, 0)] * 3
    assert all(0 < one["milliseconds"] < 60_000 for one in read_answers(store))


def test_an_item_is_answered_by_keyboard_alone(practised: Store, open_page: Open) -> None:
    [code], sizes = add_annotators(practised, 1), list[int]()
    with running(create_app(practised)) as address:
        page = open_page("about:blank")
        page.on("response", lambda response: sizes.append(len(response.body()) if response.status == 200 else 0))
        page.goto(address)
        press = page.keyboard.press
        expect(page.get_by_label("Your code")).to_be_focused()
        page.keyboard.type(code)
        press("Enter")
        expect(page.get_by_role("heading", name="Before you begin")).to_be_visible()
        for _ in range(3):  # skip link, sign out, agree
            press("Tab")
        press("Enter")
        expect(page.get_by_role("heading", name="What to do")).to_be_in_viewport()
        for _ in range(5):  # skip link, sign out, two examples that scroll, begin
            press("Tab")
        expect(page.get_by_role("link", name="Start with practice")).to_be_focused()
        press("Enter")
        expect(page.locator(".keys-help")).to_be_visible()
        assert 15_000 < sum(sizes) < 200_000  # from sign-in to the first text
        expect(page.locator("fieldset.now legend")).to_have_text("Which label fits this text?")
        press("2")
        expect(page.locator("fieldset.now legend")).to_have_text("How confident are you?")
        press("Enter")  # sends nothing that is incomplete
        expect(page.get_by_text("Practice 1 of 2")).to_be_visible()
        assert page.evaluate("document.querySelector('form#answer').checkValidity()") is False
        assert read_answers(practised) == []
        press("9")  # there is no ninth
        press("1")
        press("Backspace")
        expect(page.locator("fieldset.now legend")).to_have_text("How confident are you?")
        press("ArrowRight")
        press("Tab")
        press("4")
        press("Enter")
        expect(page.get_by_text("You chose pos.")).to_be_visible()
        press("Enter")  # the way on has the focus
        expect(page.get_by_text("Practice 2 of 2")).to_be_visible()
    [kept] = read_answers(practised)
    assert (kept["label"], kept["confidence"], kept["readability"]) == ("pos", 2, 4)


def test_only_active_time_counts(store: Store, open_page: Open) -> None:
    with running(create_app(store)) as address:
        page = open_page(address)
        sign_in(page, add_annotators(store, 1)[0])
        page.get_by_role("button", name="I agree").click()
        page.clock.install()
        page.get_by_role("link", name="Start").click()
        expect(page.locator(".keys-help")).to_be_visible()
        page.clock.run_for(30_000)
        page.reload()  # what was counted stays
        expect(page.locator(".keys-help")).to_be_visible()
        page.mouse.move(200, 200)
        page.clock.run_for(600_000)  # away after two minutes
        page.mouse.move(300, 300)
        page.clock.run_for(10_000)
        choose(page, 0)
        page.keyboard.press("Enter")
        expect(page.get_by_text("2 of 7")).to_be_visible()
    [kept] = read_answers(store)
    assert 155_000 < kept["milliseconds"] < 170_000


def test_the_pages_work_without_scripts(practised: Store, open_page: Open) -> None:
    with running(create_app(practised)) as address:
        page = open_page(address, scripts=False)
        begin(page, add_annotators(practised, 1)[0])
        expect(page.locator(".keys-help")).to_be_hidden()
        for label in ("neg", "Very confident", "Very easy"):
            page.get_by_role("radio", name=label, exact=True).check()
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_text("You chose neg.")).to_be_visible()
    [kept] = read_answers(practised)
    assert (kept["label"], kept["confidence"], kept["readability"], kept["milliseconds"]) == ("neg", 4, 5, 0)


def test_wide_tables_show_a_shadow_on_phones(practised: Store, open_page: Open) -> None:
    """By a shadow at the edge behind which there is more; names stand to the left, also above a column."""
    app, secret = create_app(practised), make_admin_secret(practised)
    finish(app, practised)
    with running(app) as address:
        page = open_page(f"{address}admin", width=390)
        page.get_by_label("Secret").fill(secret or "")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name="All results so far").click()
        table = page.get_by_role("group", name="Differences between conditions")
        assert table.evaluate("one => one.scrollWidth > one.clientWidth")
        style = "getComputedStyle(one)"
        look = table.evaluate(f"one => {style}.backgroundImage + {style}.backgroundAttachment")
        assert look.count("linear-gradient") == 4
        assert look.endswith("local, local, scroll, scroll")
        sides = "one => [...one.querySelectorAll('thead th')].map(head => getComputedStyle(head).textAlign)"
        assert table.evaluate(sides)[1:] == ["left", *["right"] * 5]

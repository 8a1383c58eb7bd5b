"""What the page of `fresh serve` shows was answered, whatever goes wrong on the way."""

import json
from typing import Any

from playwright.sync_api import Page, Route, expect

from served import TEXT
from shared_web_browser import READ, address, explain, model, page, places

__all__ = ["address", "model", "page", "places"]

ROUTE = "**/v1/models/*/explain"
SHOWN = "the film was good and"
"""So short that the word which decides is all that is read."""


def refuse(page: Page) -> None:
    """Have the server refuse what comes next."""
    page.route(ROUTE, lambda route: route.fulfill(status=422, json={"detail": "Not now."}))


def hold_back(page: Page) -> list[Route]:
    """Have the next request wait, and gather it."""
    waiting: list[Route] = []

    def gather(route: Route) -> None:
        waiting.append(route)

    page.route(ROUTE, gather, times=1)
    return waiting


def edit(page: Page, number: int, word: str) -> None:
    page.locator(f"#document .word[data-number='{number}']").click()
    page.locator("#document input").fill(word)
    page.keyboard.press("Enter")


def copied(page: Page, button: str) -> str:
    page.get_by_role("button", name=button).click()
    expect(page.locator("#done")).to_contain_text("copied")
    return str(page.evaluate("navigator.clipboard.readText()"))


def test_an_edit_that_is_refused_is_taken_back(page: Page, address: str) -> None:
    explain(page, address, SHOWN)
    expect(page.locator("#answer")).to_contain_text("%")
    before = page.locator("#result").inner_text()
    refuse(page)
    for hold in (True, False):
        page.get_by_label("Hold the choice while I edit").set_checked(hold, force=True)
        edit(page, 3, "awful")
        expect(page.get_by_role("alert")).to_have_text("Not now.")
        for _ in range(2):  # which has all drawn anew
            page.get_by_text("Only what the predictor read").click()
        assert page.locator("#result").inner_text() == before
        expect(page.get_by_label("Text", exact=True)).to_have_value(SHOWN)
        expect(page.locator("#result")).not_to_have_class("old")
    page.unroute(ROUTE)
    assert json.loads(copied(page, "Copy JSON"))["rationale"][0]["text"] == "good"


def test_a_slider_that_is_refused_goes_back(page: Page, address: str) -> None:
    explain(page, address, TEXT, "any-length")
    edit(page, 0, "some")
    expect(page.locator("#change")).to_be_visible()
    before, at = page.evaluate(READ), page.locator("#length").input_value()
    refuse(page)
    page.locator("#length").press("End")
    expect(page.get_by_role("alert")).to_have_text("Not now.")
    assert page.evaluate(READ) == before
    expect(page.locator("#length")).to_have_value(at)


def test_two_quick_edits_are_told_together(page: Page, address: str) -> None:
    """The first is a word that was read; of the second alone the page would say that it changed the answer unread."""
    explain(page, address, SHOWN)
    expect(page.locator("#document mark").first).to_contain_text("good")
    waiting = hold_back(page)
    edit(page, 3, "awful")
    expect(page.locator("#status")).to_have_text("Reading …")
    edit(page, 0, "some")
    expect(page.locator("#change")).to_contain_text(
        "“the” became “some”, “good” became “awful”. The predictor read some of these words: pos"
    )
    expect(page.locator("#document")).to_have_text("some film was awful and")
    assert len(waiting) == 1


def test_an_answer_that_comes_while_another_word_is_edited_does_not_end_that(page: Page, address: str) -> None:
    explain(page, address, SHOWN)
    expect(page.locator("#answer")).to_contain_text("%")
    waiting = hold_back(page)
    edit(page, 3, "awful")
    expect(page.locator("#status")).to_have_text("Reading …")
    page.locator("#document .word[data-number='0']").click()
    page.locator("#document input").fill("so")
    waiting[0].continue_()
    expect(page.locator("#answer")).to_contain_text("neg")
    expect(page.locator("#document input")).to_have_value("so")
    page.keyboard.press("Escape")
    expect(page.locator("#document")).to_have_text("the film was awful and")


def test_the_json_of_an_edited_text_has_places_in_that_text(page: Page, address: str) -> None:
    text = "A \U0001f600 film,\n  good"
    explain(page, address, text)
    expect(page.locator("#answer")).to_contain_text("%")
    before: dict[str, Any] = json.loads(copied(page, "Copy JSON"))
    edit(page, 0, "Some longer")
    expect(page.locator("#change")).to_be_visible()
    after: dict[str, Any] = json.loads(copied(page, "Copy JSON"))
    assert after.keys() == before.keys()
    assert "words" not in after
    edited = text.replace("A", "Some longer", 1)
    assert [edited[one["start"] : one["end"]] for one in after["rationale"]] == [
        one["text"] for one in after["rationale"]
    ]
    assert [one["text"] for one in after["rationale"]] == [one["text"] for one in before["rationale"]]


def test_a_link_holds_the_choice_after_edits(page: Page, address: str) -> None:
    explain(page, address, TEXT, "any-length")
    expect(page.locator("#answer")).to_contain_text("%")
    page.locator("#length").press("End")
    edit(page, 2, "stable and improved")
    expect(page.locator("#change")).to_be_visible()
    shown = page.evaluate(READ), page.locator("#answer").inner_text(), page.locator("#document").inner_text()
    link = copied(page, "Copy link")
    page.goto("about:blank")
    page.goto(link)
    expect(page.locator("#document")).to_contain_text("stable and improved")
    assert (page.evaluate(READ), page.locator("#answer").inner_text(), page.locator("#document").inner_text()) == shown


def test_a_link_of_nonsense_does_no_harm(page: Page, address: str) -> None:
    for edits in ("x", "{}", "[1]", "null", '[[0,""],[-1,"a"],["0","b"],[99,"c"],[0,5]]'):
        page.goto("about:blank")
        page.goto(f"{address}#model=one-length&text=a+good+film&edits={edits}")
        expect(page.locator("#document")).to_have_text("a good film")
        expect(page.locator("#undo")).to_be_hidden()


def test_a_link_to_a_model_that_is_not_served_is_told(page: Page, address: str) -> None:
    page.goto(f"{address}#model=gone&text=a+good+film")
    told = "The link asks for the model “gone”, which is not served here. Choose another one, and press Explain."
    expect(page.get_by_role("alert")).to_have_text(told)
    expect(page.locator("#result")).to_be_hidden()
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(page.locator("#answer")).to_contain_text("%")
    assert page.url == address


def test_a_text_that_is_too_long_is_refused_and_not_cut(page: Page, address: str) -> None:
    page.goto(address)
    page.get_by_label("Text", exact=True).fill("good " * 24_000)
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("at most 100,000")


def test_an_answer_of_another_model_cannot_be_used(page: Page, address: str) -> None:
    explain(page, address, SHOWN)
    expect(page.locator("#answer")).to_contain_text("%")
    page.get_by_role("tab", name="A file").click()
    page.get_by_label("Model", exact=True).select_option("any-length")
    page.get_by_role("tab", name="One text").click()
    expect(page.locator("#result")).to_have_attribute("inert", "")
    page.get_by_label("Model", exact=True).select_option("one-length")
    expect(page.locator("#result")).not_to_have_attribute("inert", "")


def test_a_model_with_a_query_says_that_it_reads_it(page: Page, address: str) -> None:
    page.goto(address)
    says = page.locator("header .says")
    expect(page.locator("#and-query")).to_be_hidden()
    page.get_by_label("Model", exact=True).select_option("pair")
    expect(says).to_contain_text("the answer is made from these and the query alone")

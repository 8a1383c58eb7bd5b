"""How the page looks: light and dark, on a phone, on paper, and without scripts."""

from typing import Any

from playwright.sync_api import Browser, Page, expect


def background(page: Page) -> Any:
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_light_and_dark_follow_the_system_and_the_button(page: Page, movies_url: str) -> None:
    page.goto(movies_url)
    assert background(page) == "rgb(255, 255, 255)"
    page.emulate_media(color_scheme="dark")
    assert background(page) == "rgb(20, 23, 27)"
    page.get_by_role("button", name="Change to light").click()
    assert background(page) == "rgb(255, 255, 255)"
    page.keyboard.press("t")
    assert background(page) == "rgb(20, 23, 27)"
    # A mark is told by more than color.
    style = "mark => [getComputedStyle(mark).borderBottomStyle, getComputedStyle(mark).textDecorationStyle]"
    assert page.eval_on_selector("#text mark", style) == ["solid", "solid"]
    assert page.eval_on_selector("#text u", style) == ["none", "dashed"]


def test_paper_shows_all_that_is_folded_and_nothing_to_press(page: Page, movies_url: str) -> None:
    page.emulate_media(media="print", color_scheme="dark")
    page.goto(movies_url)
    assert background(page) == "rgb(255, 255, 255)"
    for hidden in (".links", ".filters", "#list", "#theme", ".keys", ".switch"):
        expect(page.locator(hidden)).to_be_hidden()
    expect(page.locator("#text")).to_be_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_without_scripts_everything_but_the_documents_is_there(browser: Browser, movies_url: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(movies_url)
    expect(page.get_by_role("table", name="How well each way of reading did")).to_be_visible()
    expect(page.locator("svg.picture").first).to_be_visible()
    expect(page.get_by_text("The documents need JavaScript")).to_be_visible()
    expect(page.locator("#explorer")).to_be_hidden()
    expect(page.get_by_role("button")).to_have_count(0)
    context.close()

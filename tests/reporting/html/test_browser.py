"""The page in a real browser: the explorer used as a person would, and how it looks on a screen and on paper."""

import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from fresh.highlight import HTML_CONTROL_PICTURES
from fresh.reporting.html import View
from pages import HOSTILE, hostile_view, shown_document, small_view, write_page

MILLISECONDS_A_STEP = """() => {
  const begin = performance.now();
  for (let n = 0; n < 20; n++) {
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "j", bubbles: true }));
    document.body.getBoundingClientRect();
  }
  return (performance.now() - begin) / 20;
}"""
FOUND = "[...CSS.highlights.get('found')].map(range => range.toString())"
MARKS = "marks => marks.map(mark => mark.textContent)"


def rows(page: Page) -> Any:
    """Name the documents in the list, in order."""
    return page.eval_on_selector_all("#list .name", MARKS)


def name(movies: View, place: int) -> str:
    return movies.documents[place][0].document.id


def opened(page: Page) -> str:
    return page.locator("#detail-id").inner_text()


# Filters and search


def test_filters_leave_what_fits_in_order(page: Page, movies_url: str, movies: View) -> None:
    page.goto(movies_url)
    expect(page.get_by_role("status")).to_have_text("199 documents")
    page.get_by_label("Answer").select_option("wrong")
    wrong = [one.document.id for one, item in movies.documents if one.label != item.prediction.label]
    expect(page.get_by_role("status")).to_have_text(f"{len(wrong)} of 199 documents")
    assert rows(page) == wrong
    assert opened(page) == wrong[0]
    page.get_by_label("Gold").select_option("POS")
    expect(page.locator("#list li")).to_have_count(
        sum(one.label == "POS" for one, _ in movies.documents if one.document.id in wrong)
    )
    page.get_by_role("button", name="Clear filters").click()
    page.get_by_label("Predicted").select_option("NEG")
    page.get_by_label("Words, at least").fill("500")
    page.get_by_label("Words, at most").fill("700")
    items = [item for _, item in movies.documents]
    fitting = [item.document.id for item in items if item.prediction.label == "NEG" and 500 <= len(item.mask) <= 700]
    expect(page.get_by_role("status")).to_have_text(f"{len(fitting)} of 199 documents")
    assert rows(page) == fitting
    page.get_by_role("button", name="Clear filters").click()
    page.get_by_label("Order").select_option("unsure")
    least = min(items, key=lambda item: round(item.prediction.probability, 4))
    expect(page.locator("#list .name").first).to_have_text(least.document.id)
    page.get_by_label("Order").select_option("longest first")
    longest = max(items, key=lambda item: len(item.mask))
    expect(page.locator("#list .name").first).to_have_text(longest.document.id)
    expect(page.get_by_role("status")).to_have_text("199 documents")


def test_search_finds_words_across_lines_and_marks(page: Page, tmp_path: Path) -> None:
    documents = (
        shown_document("İt is a LOVELY\n\u00a0film (really).", "3", id="a"),
        shown_document("A film.", "1", id="b"),
    )
    address = write_page(small_view(documents=documents), tmp_path)
    for sought in ("lovely film", "  a\tlovely  Film (", "film (really)."):
        page.goto(address)
        page.get_by_label("Search").fill(sought)
        expect(page.get_by_role("status")).to_have_text("1 of 2 documents")
        assert opened(page) == "a"
        [found] = page.evaluate(FOUND)
        assert found.lower().split() == sought.lower().split()
    page.get_by_label("Search").fill("film.*")  # signs are signs
    expect(page.get_by_text("No document matches. Remove a filter, or shorten the search.")).to_be_visible()
    expect(page.locator("#detail")).to_be_hidden()
    page.keyboard.press("Escape")
    expect(page.locator("#detail")).to_be_visible()
    expect(page.get_by_role("status")).to_have_text("2 documents")


def test_search_finds_words_and_ids(page: Page, movies_url: str, movies: View) -> None:
    page.goto(movies_url)
    page.get_by_label("Search").fill("  Special\tEffects ")
    documents = [one.document for one, _ in movies.documents]
    found = [one.id for one in documents if "special effects" in " ".join(one.text.lower().split())]
    expect(page.get_by_role("status")).to_have_text(f"{len(found)} of 199 documents")
    assert rows(page) == found
    assert "special effects" in (page.locator("#list .snippet").first.text_content() or "")
    assert {" ".join(one.lower().split()) for one in page.evaluate(FOUND)} == {"special effects"}
    page.get_by_label("Search").fill(name(movies, 7))
    expect(page.locator("#list li")).to_have_count(1)
    assert opened(page) == name(movies, 7)


# One document


def test_marks_and_underlines_stand_exactly_where_they_should(page: Page, movies_url: str, movies: View) -> None:
    page.goto(movies_url)
    for example, item in movies.documents[:3]:
        document, text = item.document, item.document.text
        assert opened(page) == document.id
        assert page.eval_on_selector_all("#text mark", MARKS) == [text[start:end] for start, end in item.spans]
        runs = () if example.human is None else example.human.spans
        people = [(document.spans[start][0], document.spans[end - 1][1]) for start, end in runs]
        underlined: list[str] = page.eval_on_selector_all("#text u", MARKS)
        assert "".join(underlined) == "".join(text[start:end] for start, end in people)
        assert page.locator("#text").text_content() == text
        page.get_by_role("button", name="Next document").click()


def test_the_switch_leaves_only_what_was_read(page: Page, movies_url: str, movies: View) -> None:
    page.goto(movies_url)
    _, item = movies.documents[0]
    page.get_by_text("Only what the predictor read").click()
    assert page.locator("#text").text_content() == " ".join(item.rationale.words)
    page.keyboard.press("j")
    assert page.locator("#text mark").count() == 0  # the switch stays where it is
    page.get_by_role("switch").uncheck(force=True)
    expect(page.locator("#text mark").first).to_be_visible()


def test_answers_are_told_with_gold_probabilities_and_share(page: Page, tmp_path: Path) -> None:
    one = shown_document("A lovely film, he said.", "1 2", gold="neg", query="Is it good?")
    page.goto(write_page(small_view(documents=(one,)), tmp_path))
    expect(page.locator("#answer")).to_have_text("predicted posgold neg✗ wrong2 of 7 words read (29 %)")
    expect(page.locator("#bars")).to_have_text("pos75 %neg25 %")
    expect(page.locator("#query")).to_have_text("Asked: Is it good ?")
    expect(page.locator("#human-legend")).to_be_hidden()
    expect(page.get_by_role("button", name="Next document")).to_be_disabled()
    page.goto(write_page(small_view(documents=(shown_document("A film.", "", id=""),)), tmp_path))
    assert opened(page) == "document 1"
    expect(page.locator("#answer")).to_have_text("predicted posgold pos✓ right0 of 3 words read (0 %)")
    page.keyboard.press("o")
    expect(page.locator("#text")).to_have_text("No word was read.")


def test_hostile_text_is_shown_and_does_nothing(page: Page, tmp_path: Path) -> None:
    page.goto(write_page(hostile_view(), tmp_path))
    assert page.locator("#text").text_content() == f"x {HOSTILE}".translate(HTML_CONTROL_PICTURES)
    assert page.locator("#detail-id").text_content() == HOSTILE.translate(HTML_CONTROL_PICTURES)
    assert page.locator("img, #text script").count() == 0
    page.get_by_label("Search").fill("onerror")
    expect(page.locator("#list li")).to_have_count(1)


# Keys and links


def test_keys_move_through_documents(page: Page, movies_url: str, movies: View) -> None:
    page.goto(movies_url)
    for key, place in (("j", 1), ("ArrowRight", 2), ("k", 1), ("ArrowLeft", 0), ("k", 0), ("j", 1)):
        page.keyboard.press(key)
        assert opened(page) == name(movies, place)
    page.get_by_role("listbox").focus()
    for key, place in (("ArrowDown", 2), ("ArrowUp", 1), ("End", 198), ("Home", 0)):
        page.keyboard.press(key)
        assert opened(page) == name(movies, place)
        assert page.get_by_role("listbox").get_attribute("aria-activedescendant") == f"row-{place}"
        expect(page.locator("#list [aria-selected=true]")).to_have_count(1)
        expect(page.locator(f"#row-{place}")).to_be_in_viewport()


def test_keys_search_switch_and_can_be_turned_off(page: Page, movies_url: str, movies: View) -> None:
    page.goto(movies_url)
    page.keyboard.press("/")
    expect(page.get_by_label("Search")).to_be_focused()
    page.keyboard.type("jo")  # in a field, letters are letters
    expect(page.get_by_label("Search")).to_have_value("jo")
    expect(page.get_by_role("switch")).not_to_be_checked()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.get_by_role("listbox")).to_be_focused()
    page.keyboard.press("o")
    expect(page.get_by_role("switch")).to_be_checked()
    page.get_by_label("Keys:").uncheck()
    page.keyboard.press("j")
    assert opened(page) == name(movies, 0)


def test_the_first_tab_leads_past_the_links(page: Page, movies_url: str) -> None:
    page.goto(movies_url)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the results")).to_be_focused()
    expect(page.get_by_role("link", name="Skip to the results")).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_the_address_names_the_document(page: Page, movies_url: str, movies: View) -> None:
    page.goto(f"{movies_url}#document-{name(movies, 42)}")
    assert opened(page) == name(movies, 42)
    expect(page.locator("#detail-id")).to_be_in_viewport()
    page.keyboard.press("j")
    assert page.url == f"{movies_url}#document-{name(movies, 43)}"
    page.get_by_label("Search").fill(name(movies, 0))
    expect(page.locator("#list li")).to_have_count(1)
    page.evaluate(f"location.hash = 'document-{name(movies, 5)}'")
    expect(page.locator("#detail-id")).to_have_text(name(movies, 5))
    expect(page.get_by_role("status")).to_have_text("199 documents")  # the filter that hid it gave way
    page.evaluate("location.hash = 'document-%E0%A4%A'")
    assert opened(page) == name(movies, 5)


def test_any_name_can_be_linked_to(page: Page, tmp_path: Path) -> None:
    names = ("a b", "50 %/#?&\"'", "😀é")
    documents = tuple(shown_document("a film", "1", id=name) for name in names)
    page.goto(write_page(small_view(documents=documents), tmp_path))
    page.keyboard.press("j")
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    assert opened(page) == names[1]


@pytest.mark.parametrize("times", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_thousands_of_long_documents_do_not_lag(page: Page, tmp_path: Path, movies: View, times: int) -> None:
    page.goto(write_page(small_view(documents=movies.documents * times), tmp_path))
    taken = page.evaluate(MILLISECONDS_A_STEP)
    assert opened(page) == name(movies, 20)
    assert taken < 50
    begin = time.perf_counter()
    page.get_by_label("Search").fill("special effects")
    expect(page.get_by_role("status")).to_contain_text(f"of {199 * times:,} documents")
    assert time.perf_counter() - begin < 4


# Light and dark, on paper, and without scripts


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

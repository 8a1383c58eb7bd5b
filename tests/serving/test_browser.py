"""The page of `fresh serve`, used in a real browser as a person would."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from certified import read
from fresh.rationalizer import Rationalizer
from pages import HOSTILE
from served import TEXT
from shared_web_browser import READ, address, explain, model, page, places  # noqa: F401

MARKS = "marks => marks.map(mark => mark.textContent)"


def test_a_newcomer_explains_a_text(page: Page, address: str, model: Rationalizer) -> None:
    explain(page, address, TEXT)
    found = model.explain(TEXT)
    prediction = found.prediction
    expect(page.locator("#answer")).to_have_text(f"{prediction.label} {100 * prediction.probability:.1f} %")
    n_read = len(found.rationale.words)
    share = f"from {n_read} of {len(found.mask)} words ({100 * found.ratio:.1f} %), by one-length"
    expect(page.locator("#share")).to_have_text(share)
    assert page.eval_on_selector_all("#document mark", MARKS) == [TEXT[start:end] for start, end in found.spans]
    assert page.locator("#document").text_content() == TEXT
    page.get_by_text("Only what the predictor read").click()
    assert page.locator("#document").text_content() == " ".join(found.rationale.words)


def test_what_is_wrong_is_told(page: Page, address: str) -> None:
    explain(page, address, " ")
    expect(page.get_by_role("alert")).to_have_text("The text has no words. Give a text with at least one.")
    expect(page.locator("#result")).to_be_hidden()
    page.get_by_label("Text", exact=True).fill("a film")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#result")).to_be_visible()
    expect(page.locator("#problem")).to_be_hidden()


def test_the_slider_prunes_and_expands_live(page: Page, address: str, model: Rationalizer) -> None:
    explain(page, address, TEXT, "any-length")
    curve = model.curve(TEXT)
    slider = page.get_by_label("Length of the rationale")
    expect(page.locator("#curve circle")).to_have_count(len(curve))
    for key, point in (("End", curve.points[-1]), ("Home", curve.points[0]), ("ArrowRight", curve.points[1])):
        slider.press(key)
        assert tuple(page.evaluate(READ)) == point.rationale.words
        prediction = point.prediction
        expect(page.locator("#answer")).to_have_text(f"{prediction.label} {100 * prediction.probability:.1f} %")
    minimal = len(curve.minimal.rationale.words)
    words = f"{minimal} word{'s' if minimal != 1 else ''}"
    expect(page.locator("#curve-says")).to_contain_text(f"From {words} on the answer stays")


@pytest.mark.parametrize("name", ["one-length", "any-length"])
def test_editing_a_dropped_word_changes_nothing_and_the_page_says_so(page: Page, address: str, name: str) -> None:
    explain(page, address, TEXT, name)
    answer = page.locator("#answer")
    expect(answer).to_contain_text("%")
    before = answer.inner_text()
    dropped = page.locator("#document > .word").first  # no mark around it
    word, number = dropped.inner_text(), dropped.get_attribute("data-number")
    dropped.click()
    page.locator("#document input").fill("awful")
    page.keyboard.press("Enter")
    expect(page.locator("#change")).to_have_text(
        f"“{word}” became “awful”. The predictor did not read this word, so it was given the same as before: "
        f"nothing changed, it is still {before}."
    )
    assert answer.inner_text() == before
    expect(page.locator(f"#document .word[data-number='{number}']")).to_be_focused()
    page.get_by_role("button", name="Undo edits").click()
    expect(page.locator("#document")).to_have_text(TEXT)
    expect(page.locator("#change")).to_be_hidden()


def test_editing_a_word_that_was_read_shows_the_change_by_keyboard_alone(page: Page, address: str) -> None:
    explain(page, address, "the film was good and", "one-length")
    expect(page.locator("#document mark").first).to_contain_text("good")
    before = page.locator("#answer").inner_text()
    page.locator("#document .word[tabindex='0']").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.keyboard.type("awful")
    page.keyboard.press("Enter")
    expect(page.locator("#change")).to_contain_text(
        f"“good” became “awful”. The predictor read this word: {before} became neg"
    )
    expect(page.locator("#answer")).to_contain_text("neg")


def test_without_holding_words_are_chosen_anew(page: Page, address: str, model: Rationalizer) -> None:
    explain(page, address, "the film was good and it plays", "one-length")
    page.get_by_text("Hold the choice while I edit").click()
    page.locator("#document .word").first.click()
    page.locator("#document input").fill("awful")
    page.keyboard.press("Enter")
    expect(page.locator("#change")).to_contain_text("and the words were chosen again")
    assert tuple(page.evaluate(READ)) == model.explain("awful film was good and it plays").rationale.words


def test_a_link_and_the_json_are_copied_and_the_link_leads_back(page: Page, address: str) -> None:
    explain(page, address, TEXT, "any-length")
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("#done")).to_have_text("Link copied; the text stands in it.")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{address}#model=any-length&text=the+old+film")
    answer = page.locator("#answer").inner_text()
    page.get_by_role("button", name="Copy JSON").click()
    expect(page.locator("#done")).to_have_text("JSON copied.")
    record = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert answer.startswith(record["label"])
    page.goto("about:blank")
    page.goto(link)
    expect(page.locator("#answer")).to_have_text(answer)


def test_a_certificate_is_downloaded(page: Page, address: str) -> None:
    explain(page, address, TEXT)
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download certificate").click()
    assert waiting.value.suggested_filename == "certificate.jsonl"
    [certificate], faults = read(Path(waiting.value.path()).read_bytes())
    assert (list(certificate.rationale.words), faults) == (page.evaluate(READ), [])


def test_a_model_that_asks_has_a_field_for_the_query(page: Page, address: str) -> None:
    explain(page, address, "a good film", "pair")
    expect(page.get_by_role("alert")).to_have_text(
        "Model 'pair' was trained with queries: give one as query beside the text."
    )
    page.get_by_label("Query", exact=True).fill("praise")
    page.keyboard.press("Enter")
    expect(page.locator("#asked")).to_have_text("Asked: praise")
    page.get_by_label("Model", exact=True).select_option("one-length")
    expect(page.get_by_label("Query", exact=True)).to_be_hidden()


def test_hostile_text_is_shown_and_does_nothing(page: Page, address: str) -> None:
    hostile = HOSTILE.replace("\ud800", "").replace("\x00", "")
    explain(page, address, f"good {hostile}")
    expect(page.locator("#document")).to_contain_text("<script>alert(1)</script>")
    assert "\u202e" not in (page.locator("#document").text_content() or "")
    assert page.locator("img, #document script").count() == 0


def test_the_page_is_light(page: Page, address: str) -> None:
    sizes: list[int] = []
    page.on("response", lambda response: sizes.append(len(response.body())))
    explain(page, address, TEXT, "any-length")
    expect(page.locator("#curve circle").first).to_be_visible()
    assert 20_000 < sum(sizes) < 200_000


def test_it_fits_a_phone(page: Page, address: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    explain(page, address, f"{TEXT} " * 5, "any-length")
    expect(page.locator("#curve circle").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390

"""The page of `fresh serve` where something is changed, dropped, passed on, or goes wrong."""

from playwright.sync_api import Page, expect

from fresh.rationalizer import Rationalizer
from served import TEXT
from shared_web_browser import READ, address, explain, model, page, places

__all__ = ["address", "model", "page", "places"]

DROP = """([name, bytes]) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], name));
  const event = new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true });
  document.getElementById("text").dispatchEvent(event);
}"""


def test_a_file_that_is_dropped_is_read_whole_or_not_at_all(page: Page, address: str) -> None:
    page.goto(address)
    page.evaluate(DROP, ["film.txt", list(TEXT.encode())])
    expect(page.locator("#document")).to_be_visible()
    assert page.locator("#text").input_value() == TEXT
    not_text = " is not text in UTF-8. Save it as that, or paste the text."
    for name, content in (("latin.txt", "schöner Film".encode("latin-1")), ("bytes.bin", bytes(range(128)))):
        page.evaluate(DROP, [name, list(content)])
        expect(page.locator("#problem")).to_have_text(f"{name}{not_text}")
        assert page.locator("#text").input_value() == TEXT
    page.evaluate(DROP, ["long.txt", [97] * 100_001])
    expect(page.locator("#problem")).to_have_text(
        "long.txt has 100,001 characters; 100,000 can be read at once. Take a part of it."
    )


def test_words_chosen_anew_keep_the_length_and_can_be_undone(page: Page, address: str) -> None:
    explain(page, address, TEXT, "any-length")
    expect(page.locator("#share")).to_contain_text("by any-length")
    slider = page.get_by_label("Length of the rationale")
    slider.press("End")
    n_read = len(page.evaluate(READ))
    page.get_by_text("Hold the choice while I edit").click()
    page.locator("#document .word").first.click()
    page.locator("#document input").fill("awful")
    page.keyboard.press("Enter")
    expect(page.locator("#change")).to_contain_text("and the words were chosen again")
    assert len(page.evaluate(READ)) == n_read
    assert slider.input_value() == slider.get_attribute("max")
    page.get_by_role("button", name="Undo edits").click()
    expect(page.locator("#document")).to_have_text(TEXT)
    expect(page.get_by_role("button", name="Undo edits")).to_be_hidden()
    assert page.locator("#text").input_value() == TEXT


def test_an_edit_is_not_blamed_for_what_choosing_anew_did(page: Page, address: str, model: Rationalizer) -> None:
    """Words that were edited while the choice was held are chosen from only when it is let go."""
    explain(page, address, "the film was good and")
    expect(page.locator("#answer")).to_contain_text("pos")
    for number in range(3):  # none of them is read
        page.locator(f"#document .word[data-number='{number}']").click()
        page.locator("#document input").fill("awful")
        page.keyboard.press("Enter")
        expect(page.locator("#document .word.changed")).to_have_count(number + 1)
    expect(page.locator("#answer")).to_contain_text("pos")
    held = page.locator("#answer").inner_text()
    page.get_by_text("Hold the choice while I edit").click()
    page.locator("#document .word[data-number='4']").click()
    page.locator("#document input").fill("but")
    page.keyboard.press("Enter")
    before, after = (model.explain(f"awful awful awful good {word}") for word in ("and", "but"))
    assert before.rationale == after.rationale  # so "but" changes nothing
    assert before.prediction.label == "neg"
    anew = f"{after.prediction.label} {100 * after.prediction.probability:.1f} %"
    expect(page.locator("#change")).to_have_text(
        f"After choosing the words again: {held} became {anew}. "
        f"“and” became “but”, and the words were chosen again: nothing changed, it is still {anew}."
    )
    expect(page.locator("#answer")).to_have_text(anew)


def test_the_page_says_what_holds(page: Page, address: str) -> None:
    page.goto(address)
    says = page.locator("header .says")
    expect(says).to_contain_text("Given the words shown, nothing else can change the answer.", use_inner_text=True)
    expect(says).to_contain_text("Other words can change which words are chosen.")
    page.get_by_label("Model", exact=True).select_option("pair")
    expect(says).to_contain_text(
        "Given the words shown and the query, nothing else can change the answer.", use_inner_text=True
    )


def test_a_link_holds_the_length(page: Page, address: str) -> None:
    explain(page, address, TEXT, "any-length")
    expect(page.locator("#share")).to_contain_text("by any-length")
    slider = page.get_by_label("Length of the rationale")
    slider.press("End")
    shown = page.evaluate(READ)
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("#done")).to_have_text("Link copied; the text stands in it.")
    link = page.evaluate("navigator.clipboard.readText()")
    page.goto("about:blank")
    page.goto(link)
    expect(page.locator("#share")).to_contain_text("by any-length")
    assert page.evaluate(READ) == shown


def test_an_answer_of_what_was_asked_before_is_dimmed(page: Page, address: str) -> None:
    explain(page, address, TEXT)
    expect(page.locator("#share")).to_contain_text("by one-length")
    expect(page.locator("#result")).not_to_have_class("old")
    page.get_by_label("Text", exact=True).fill(" ")
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(page.get_by_role("alert")).to_have_text("The text has no words. Give a text with at least one.")
    expect(page.locator("#result")).to_have_class("old")
    page.get_by_label("Text", exact=True).fill(TEXT)
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(page.locator("#problem")).to_be_hidden()
    expect(page.locator("#result")).not_to_have_class("old")


def test_light_or_dark_is_remembered(page: Page, address: str) -> None:
    page.goto(address)
    page.get_by_role("button", name="Change to dark").click()
    page.reload()
    expect(page.get_by_role("button", name="Change to light")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"


def test_the_page_says_what_a_model_may_answer(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator("#answers")).to_have_text("Possible answers: neg, pos")
    page.evaluate("""document.querySelector("#model option").dataset.labels = JSON.stringify([..."abcdefgh"])""")
    page.get_by_label("Model", exact=True).select_option("pair")
    page.get_by_label("Model", exact=True).select_option("one-length")
    expect(page.locator("#answers")).to_have_text("Possible answers: a, b, c, d, e, f, and 2 more")


def test_switches_and_tabs_are_told_apart_where_colours_are_forced(page: Page, address: str) -> None:
    page.emulate_media(forced_colors="active")
    explain(page, address, TEXT)
    colour = "(id) => getComputedStyle(document.querySelector(`#${id} + .knob`)).backgroundColor"
    assert page.evaluate(colour, "hold") != page.evaluate(colour, "only")
    line = "(id) => getComputedStyle(document.getElementById(id)).borderBottomStyle"
    assert [page.evaluate(line, name) for name in ("tab-text", "tab-batch")] == ["solid", "none"]

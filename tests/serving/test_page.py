"""The page of `fresh serve` for one text, used in a real browser as a person would."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from certified import read
from fresh.rationalizer import Rationalizer
from pages import HOSTILE
from served import READ, TEXT

ONLY_READ = "Show only the words that were read"
KEEP_SELECTED = "Keep the selected words while I edit"


def explain(page: Page, url: str, text: str, model: str = "one-length", wait: bool = True) -> None:
    page.goto(url)
    page.get_by_label("Model", exact=True).select_option(model)
    ask(page, text)
    if wait:
        expect(page.locator("#share")).to_contain_text(f"by {model}")


def ask(page: Page, text: str) -> None:
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_role("button", name="Explain", exact=True).click()


def edit(page: Page, number: int, word: str) -> None:
    page.locator(f"#document .word[data-number='{number}']").click()
    page.locator("#document input").fill(word)
    page.keyboard.press("Enter")


MARKS = "marks => marks.map(mark => mark.textContent)"


def test_a_text_is_explained(page: Page, url: str, model: Rationalizer) -> None:
    explain(page, url, TEXT)
    found = model.explain(TEXT)
    prediction = found.prediction
    expect(page.locator("#answer")).to_have_text(f"{prediction.label} {100 * prediction.probability:.1f} %")
    n_read = len(found.rationale.words)
    share = f"from {n_read} of {len(found.mask)} words ({100 * found.ratio:.1f} %), by one-length"
    expect(page.locator("#share")).to_have_text(share)
    assert page.eval_on_selector_all("#document mark", MARKS) == [TEXT[start:end] for start, end in found.spans]
    assert page.locator("#document").text_content() == TEXT
    page.get_by_text(ONLY_READ).click()
    assert page.locator("#document").text_content() == " ".join(found.rationale.words)


def test_errors_are_shown_and_dim_the_previous_answer(page: Page, url: str) -> None:
    explain(page, url, " ", wait=False)
    expect(page.get_by_role("alert")).to_contain_text("The text has no words")
    expect(page.locator("#result")).to_be_hidden()
    page.get_by_label("Text", exact=True).fill("a film")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#result")).to_be_visible()
    expect(page.locator("#problem")).to_be_hidden()
    expect(page.locator("#result")).not_to_have_class("old")
    for text, problem in ((" ", "The text has no words"), ("good " * 24_000, "limit is 100,000")):
        ask(page, text)
        expect(page.get_by_role("alert")).to_contain_text(problem)
        expect(page.locator("#result")).to_have_class("old")
    ask(page, TEXT)
    expect(page.locator("#problem")).to_be_hidden()
    expect(page.locator("#result")).not_to_have_class("old")


def test_the_slider_changes_the_length(page: Page, url: str, model: Rationalizer) -> None:
    explain(page, url, TEXT, "any-length")
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
    expect(page.locator("#curve-says")).to_contain_text(f"From {words} on, the answer stays")


@pytest.mark.parametrize("name", ["one-length", "any-length"])
def test_editing_an_unread_word_changes_nothing(page: Page, url: str, name: str) -> None:
    explain(page, url, TEXT, name)
    answer = page.locator("#answer")
    before = answer.inner_text()
    dropped = page.locator("#document > .word").first  # no mark around it
    word, number = dropped.inner_text(), dropped.get_attribute("data-number")
    edit(page, int(number or 0), "awful")
    expect(page.locator("#change")).to_have_text(
        f"“{word}” was changed to “awful”. The predictor did not read this word, so its input is the same: "
        f"the answer is still {before}."
    )
    assert answer.inner_text() == before
    expect(page.locator(f"#document .word[data-number='{number}']")).to_be_focused()
    page.get_by_role("button", name="Undo edits").click()
    expect(page.locator("#document")).to_have_text(TEXT)
    expect(page.locator("#change")).to_be_hidden()


def test_editing_a_read_word_by_keyboard_shows_the_change(page: Page, url: str) -> None:
    explain(page, url, "the film was good and", "one-length")
    expect(page.locator("#document mark").first).to_contain_text("good")
    before = page.locator("#answer").inner_text()
    page.locator("#document .word[tabindex='0']").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.keyboard.type("awful")
    page.keyboard.press("Enter")
    expect(page.locator("#change")).to_contain_text(
        f"“good” was changed to “awful”. The predictor read this word: the answer changed from {before} to neg"
    )
    expect(page.locator("#answer")).to_contain_text("neg")


def test_words_are_selected_again_if_they_are_not_kept(page: Page, url: str, model: Rationalizer) -> None:
    explain(page, url, "the film was good and it plays", "one-length")
    page.get_by_text(KEEP_SELECTED).click()
    edit(page, 0, "awful")
    expect(page.locator("#change")).to_contain_text("and the words were selected again")
    assert tuple(page.evaluate(READ)) == model.explain("awful film was good and it plays").rationale.words


def test_a_certificate_is_downloaded(page: Page, url: str) -> None:
    explain(page, url, TEXT)
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download certificate").click()
    assert waiting.value.suggested_filename == "certificate.jsonl"
    [certificate], faults = read(Path(waiting.value.path()).read_bytes())
    assert (list(certificate.rationale.words), faults) == (page.evaluate(READ), [])


def test_a_model_with_queries_has_a_field_and_says_that_it_reads_them(page: Page, url: str) -> None:
    page.goto(url)
    says = page.locator("header .says")
    expect(says).to_contain_text("Given the words shown, nothing else can change the answer.", use_inner_text=True)
    expect(says).to_contain_text("Other words can change which words are selected.")
    expect(page.locator("#and-query")).to_be_hidden()
    explain(page, url, "a good film", "pair", wait=False)
    expect(page.get_by_role("alert")).to_contain_text("'pair' was trained with queries")
    expect(says).to_contain_text("the answer from these and the query alone")
    given = "Given the words shown and the query, nothing else can change the answer."
    expect(says).to_contain_text(given, use_inner_text=True)
    page.get_by_label("Query", exact=True).fill("praise")
    page.keyboard.press("Enter")
    expect(page.locator("#asked")).to_have_text("Query: praise")
    page.get_by_label("Model", exact=True).select_option("one-length")
    expect(page.get_by_label("Query", exact=True)).to_be_hidden()


def test_hostile_text_is_shown_as_text(page: Page, url: str) -> None:
    hostile = HOSTILE.replace("\ud800", "").replace("\x00", "")
    explain(page, url, f"good {hostile}")
    expect(page.locator("#document")).to_contain_text("<script>alert(1)</script>")
    assert "\u202e" not in (page.locator("#document").text_content() or "")
    assert page.locator("img, #document script").count() == 0


def test_the_page_is_light_and_fits_a_phone(page: Page, url: str) -> None:
    sizes: list[int] = []
    page.on("response", lambda response: sizes.append(len(response.body())))
    page.set_viewport_size({"width": 390, "height": 844})
    explain(page, url, f"{TEXT} " * 5, "any-length")
    expect(page.locator("#curve circle").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert 20_000 < sum(sizes) < 200_000


DROP = """([name, bytes]) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], name));
  const event = new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true });
  document.getElementById("text").dispatchEvent(event);
}"""


def test_dropped_files_are_read_completely_or_refused(page: Page, url: str) -> None:
    page.goto(url)
    page.evaluate(DROP, ["film.txt", list(TEXT.encode())])
    expect(page.locator("#document")).to_be_visible()
    assert page.locator("#text").input_value() == TEXT
    for name, content in (("latin.txt", "schöner Film".encode("latin-1")), ("bytes.bin", bytes(range(128)))):
        page.evaluate(DROP, [name, list(content)])
        expect(page.locator("#problem")).to_contain_text(f"{name} is not UTF-8 text")
        assert page.locator("#text").input_value() == TEXT
    page.evaluate(DROP, ["long.txt", [97] * 100_001])
    expect(page.locator("#problem")).to_contain_text("100,001 characters; the limit is 100,000")


def test_selecting_again_keeps_the_length_and_can_be_undone(page: Page, url: str) -> None:
    explain(page, url, TEXT, "any-length")
    slider = page.get_by_label("Length of the rationale")
    slider.press("End")
    n_read = len(page.evaluate(READ))
    page.get_by_text(KEEP_SELECTED).click()
    edit(page, 0, "awful")
    expect(page.locator("#change")).to_contain_text("and the words were selected again")
    assert len(page.evaluate(READ)) == n_read
    assert slider.input_value() == slider.get_attribute("max")
    page.get_by_role("button", name="Undo edits").click()
    expect(page.locator("#document")).to_have_text(TEXT)
    expect(page.get_by_role("button", name="Undo edits")).to_be_hidden()
    assert page.locator("#text").input_value() == TEXT


def test_effects_of_selecting_again_are_not_attributed_to_an_edit(page: Page, url: str, model: Rationalizer) -> None:
    """Words that were edited while the choice was held are chosen from only when it is let go."""
    explain(page, url, "the film was good and")
    expect(page.locator("#answer")).to_contain_text("pos")
    for number in range(3):  # none of them is read
        edit(page, number, "awful")
        expect(page.locator("#document .word.changed")).to_have_count(number + 1)
    expect(page.locator("#answer")).to_contain_text("pos")
    held = page.locator("#answer").inner_text()
    page.get_by_text(KEEP_SELECTED).click()
    edit(page, 4, "but")
    before, after = (model.explain(f"awful awful awful good {word}") for word in ("and", "but"))
    assert before.rationale == after.rationale  # so "but" changes nothing
    assert before.prediction.label == "neg"
    anew = f"{after.prediction.label} {100 * after.prediction.probability:.1f} %"
    expect(page.locator("#change")).to_have_text(
        f"After selecting the words again, the answer changed from {held} to {anew}. "
        f"“and” was changed to “but”, and the words were selected again: the answer is still {anew}."
    )
    expect(page.locator("#answer")).to_have_text(anew)


def test_the_theme_is_remembered_and_labels_are_listed(page: Page, url: str) -> None:
    page.goto(url)
    page.get_by_role("button", name="Switch to dark mode").click()
    page.reload()
    expect(page.get_by_role("button", name="Switch to light mode")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
    expect(page.locator("#answers")).to_have_text("Labels: neg, pos")
    page.evaluate("""document.querySelector("#model option").dataset.labels = JSON.stringify([..."abcdefgh"])""")
    page.get_by_label("Model", exact=True).select_option("pair")
    page.get_by_label("Model", exact=True).select_option("one-length")
    expect(page.locator("#answers")).to_have_text("Labels: a, b, c, d, e, f, and 2 more")


def test_switches_and_tabs_are_visible_in_forced_colors(page: Page, url: str) -> None:
    page.emulate_media(forced_colors="active")
    explain(page, url, TEXT)
    colour = "(id) => getComputedStyle(document.querySelector(`#${id} + .knob`)).backgroundColor"
    assert page.evaluate(colour, "hold") != page.evaluate(colour, "only")
    line = "(id) => getComputedStyle(document.getElementById(id)).borderBottomStyle"
    assert [page.evaluate(line, name) for name in ("tab-text", "tab-batch")] == ["solid", "none"]


# Errors and races

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


def copied(page: Page, button: str) -> str:
    page.get_by_role("button", name=button).click()
    expect(page.locator("#done")).to_contain_text("copied")
    return str(page.evaluate("navigator.clipboard.readText()"))


def test_a_refused_edit_is_undone(page: Page, url: str) -> None:
    explain(page, url, SHOWN)
    before = page.locator("#result").inner_text()
    refuse(page)
    for hold in (True, False):
        page.get_by_label(KEEP_SELECTED).set_checked(hold, force=True)
        edit(page, 3, "awful")
        expect(page.get_by_role("alert")).to_have_text("Not now.")
        for _ in range(2):  # which has all drawn anew
            page.get_by_text(ONLY_READ).click()
        assert page.locator("#result").inner_text() == before
        expect(page.get_by_label("Text", exact=True)).to_have_value(SHOWN)
        expect(page.locator("#result")).not_to_have_class("old")
    page.unroute(ROUTE)
    assert json.loads(copied(page, "Copy JSON"))["rationale"][0]["text"] == "good"


def test_a_refused_length_is_undone(page: Page, url: str) -> None:
    explain(page, url, TEXT, "any-length")
    edit(page, 0, "some")
    expect(page.locator("#change")).to_be_visible()
    before, at = page.evaluate(READ), page.locator("#length").input_value()
    refuse(page)
    page.locator("#length").press("End")
    expect(page.get_by_role("alert")).to_have_text("Not now.")
    assert page.evaluate(READ) == before
    expect(page.locator("#length")).to_have_value(at)


def test_two_quick_edits_are_described_together(page: Page, url: str) -> None:
    """The first is a word that was read; of the second alone the page would say that it changed the answer unread."""
    explain(page, url, SHOWN)
    expect(page.locator("#document mark").first).to_contain_text("good")
    waiting = hold_back(page)
    edit(page, 3, "awful")
    expect(page.locator("#status")).to_have_text("Explaining …")
    edit(page, 0, "some")
    expect(page.locator("#change")).to_contain_text(
        "“the” was changed to “some”, “good” was changed to “awful”. The predictor read some of these words: "
        "the answer changed from pos"
    )
    expect(page.locator("#document")).to_have_text("some film was awful and")
    assert len(waiting) == 1


def test_an_answer_does_not_interrupt_another_edit(page: Page, url: str) -> None:
    explain(page, url, SHOWN)
    waiting = hold_back(page)
    edit(page, 3, "awful")
    expect(page.locator("#status")).to_have_text("Explaining …")
    page.locator("#document .word[data-number='0']").click()
    page.locator("#document input").fill("so")
    waiting[0].continue_()
    expect(page.locator("#answer")).to_contain_text("neg")
    expect(page.locator("#document input")).to_have_value("so")
    page.keyboard.press("Escape")
    expect(page.locator("#document")).to_have_text("the film was awful and")


def test_json_of_an_edited_text_has_its_offsets(page: Page, url: str) -> None:
    text = "A \U0001f600 film,\n  good"
    explain(page, url, text)
    before: dict[str, Any] = json.loads(copied(page, "Copy JSON"))
    edit(page, 0, "Some longer")
    expect(page.locator("#change")).to_be_visible()
    after: dict[str, Any] = json.loads(copied(page, "Copy JSON"))
    assert after.keys() == before.keys()
    assert "words" not in after
    edited = text.replace("A", "Some longer", 1)
    texts = [one["text"].replace("A", "Some longer") for one in before["rationale"]]  # if that word was read
    assert [one["text"] for one in after["rationale"]] == texts
    assert [edited[one["start"] : one["end"]] for one in after["rationale"]] == texts


def test_a_link_holds_the_text_its_edits_and_the_selection(page: Page, url: str) -> None:
    explain(page, url, TEXT, "any-length")
    page.locator("#length").press("End")
    edit(page, 2, "stable and improved")
    expect(page.locator("#change")).to_be_visible()
    shown = page.evaluate(READ), page.locator("#answer").inner_text(), page.locator("#document").inner_text()
    assert shown[1].startswith(json.loads(copied(page, "Copy JSON"))["label"])
    link = copied(page, "Copy link")
    assert link.startswith(f"{url}#model=any-length&text=the+old+film")
    expect(page.locator("#done")).to_have_text("Link copied. It contains the text.")
    page.goto("about:blank")
    page.goto(link)
    expect(page.locator("#document")).to_contain_text("stable and improved")
    assert (page.evaluate(READ), page.locator("#answer").inner_text(), page.locator("#document").inner_text()) == shown


def test_invalid_links_are_ignored_or_reported(page: Page, url: str) -> None:
    for edits in ("x", "{}", "[1]", "null", '[[0,""],[-1,"a"],["0","b"],[99,"c"],[0,5]]'):
        page.goto("about:blank")
        page.goto(f"{url}#model=one-length&text=a+good+film&edits={edits}")
        expect(page.locator("#document")).to_have_text("a good film")
        expect(page.locator("#undo")).to_be_hidden()
    page.goto("about:blank")
    page.goto(f"{url}#model=gone&text=a+good+film")
    expect(page.get_by_role("alert")).to_contain_text("model “gone”")
    expect(page.locator("#result")).to_be_hidden()
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(page.locator("#answer")).to_contain_text("%")
    assert page.url == url


def test_answers_of_another_model_are_inert(page: Page, url: str) -> None:
    explain(page, url, SHOWN)
    page.get_by_role("tab", name="File").click()
    page.get_by_label("Model", exact=True).select_option("any-length")
    page.get_by_role("tab", name="Single text").click()
    expect(page.locator("#result")).to_have_attribute("inert", "")
    page.get_by_label("Model", exact=True).select_option("one-length")
    expect(page.locator("#result")).not_to_have_attribute("inert", "")

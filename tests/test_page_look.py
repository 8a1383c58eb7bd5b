"""How the page looks: light and dark, on a phone, on paper, and without scripts."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from fresh.page import View, render
from pages import hostile_view, movies_page

WIDER_THAN_THE_SCREEN = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
# The contrast of every text with what lies behind it: [contrast, text] for all below 4.5, after WCAG 2.
FAINT = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const over = (colours) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const faint = [];
  let seen = 0;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest("script, style, noscript, option, :disabled")) continue;
    if (!parent.checkVisibility()) continue;
    const behind = [];
    for (let e = parent; e; e = e.parentElement) behind.unshift(getComputedStyle(e).backgroundColor);
    const style = getComputedStyle(parent);
    const ink = parent.closest("svg") && parent.tagName === "text" ? style.fill : style.color;
    const [a, b] = [light(over(behind)), light(over([...behind, ink]))].sort();
    seen += 1;
    if ((b + 0.05) / (a + 0.05) < 4.5) faint.push([(b + 0.05) / (a + 0.05), node.data.slice(0, 30)]);
  }
  return { faint, seen };
}"""


@pytest.fixture(scope="module")
def movies() -> View:
    return movies_page()


@pytest.fixture(scope="module")
def address(movies: View, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("movies") / "report.html"
    path.write_text(render(movies), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    shown = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
    yield shown
    shown.close()


def background(page: Page) -> str:
    found: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return found


def test_light_and_dark_follow_the_system_and_the_button(page: Page, address: str) -> None:
    page.goto(address)
    assert background(page) == "rgb(255, 255, 255)"
    page.emulate_media(color_scheme="dark")
    assert background(page) == "rgb(20, 23, 27)"
    page.get_by_role("button", name="Change to light").click()
    assert background(page) == "rgb(255, 255, 255)"
    page.keyboard.press("t")
    assert background(page) == "rgb(20, 23, 27)"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_what_is_behind_it(page: Page, address: str, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(address)
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    found = page.evaluate(FAINT)
    assert found["faint"] == []
    assert found["seen"] > 200


def test_a_mark_is_told_by_more_than_colour(page: Page, address: str) -> None:
    page.goto(address)
    style = "mark => [getComputedStyle(mark).borderBottomStyle, getComputedStyle(mark).textDecorationStyle]"
    assert page.eval_on_selector("#text mark", style) == ["solid", "solid"]
    assert page.eval_on_selector("#text u", style) == ["none", "dashed"]


@pytest.mark.parametrize("width", [320, 375, 740, 900])
def test_a_small_screen_never_scrolls_sideways(page: Page, address: str, tmp_path: Path, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 812})
    page.goto(address)
    assert page.evaluate(WIDER_THAN_THE_SCREEN) == 0
    expect(page.locator("#text")).to_be_visible()
    hostile = tmp_path / "hostile.html"
    hostile.write_text(render(hostile_view()), encoding="utf-8")
    page.goto(hostile.as_uri())
    assert page.evaluate(WIDER_THAN_THE_SCREEN) == 0


def test_paper_shows_all_that_is_folded_and_nothing_to_press(page: Page, address: str) -> None:
    page.emulate_media(media="print", color_scheme="dark")
    page.goto(address)
    assert background(page) == "rgb(255, 255, 255)"
    for hidden in (".links", ".filters", "#list", "#theme", ".keys", ".switch"):
        expect(page.locator(hidden)).to_be_hidden()
    expect(page.locator("#text")).to_be_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0


def test_a_page_prints(page: Page, address: str) -> None:
    page.goto(address)
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_without_scripts_everything_but_the_documents_is_there(browser: Browser, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    expect(page.get_by_role("table", name="How well each way of reading did")).to_be_visible()
    expect(page.locator("svg.picture").first).to_be_visible()
    expect(page.get_by_text("Without scripts the documents cannot be shown")).to_be_visible()
    expect(page.locator("#explorer")).to_be_hidden()
    expect(page.get_by_role("button")).to_have_count(0)
    context.close()

"""Every page in light and dark: each text stands out from what is behind it, and nothing scrolls sideways."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from fresh.attribution.support_model import SupportModel
from fresh.predictor import Predictor
from fresh.study.annotators import add_annotators, make_admin_secret, set_paused
from fresh.study.store import create_study
from fresh.study.web.app import create_app
from pages import hostile_view, write_page
from running import running
from served import TEXT, on_a_port, save_models
from studies import plan, two_ways

pytestmark = pytest.mark.parametrize("page", ["light", "dark"], indirect=True)
OPEN_ALL = "document.querySelectorAll('details').forEach(one => { one.open = true; })"
WIDER_THAN_THE_SCREEN = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
LEVEL_AA = (4.5, 3.0)
"""Least contrast of a text, and of a control, after WCAG 2."""
MEASURE = """([least, leastControl]) => {
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
  const contrast = (one, other) => {
    const [dark, bright] = [light(over(one)), light(over(other))].sort((a, b) => a - b);
    return (bright + 0.05) / (dark + 0.05);
  };
  const layers = (element) => {
    const behind = [];
    for (let e = element; e; e = e.parentElement) behind.unshift(getComputedStyle(e).backgroundColor);
    return behind;
  };
  const faint = [];
  let seen = 0;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest("script, style, noscript, option, :disabled")) continue;
    if (!parent.checkVisibility()) continue;
    const style = getComputedStyle(parent);
    const ink = parent.closest("svg") && parent.tagName === "text" ? style.fill : style.color;
    const behind = layers(parent);
    const found = contrast(behind, [...behind, ink]);
    seen += 1;
    if (found < least) faint.push([found, node.data.slice(0, 30)]);
  }
  const controls = document.querySelectorAll(
    'input:not([type="radio"], [type="checkbox"], [type="range"], [type="file"]), ' +
      "select, textarea, .quiet, .main, .choices label",
  );
  for (const control of controls) {
    if (!control.checkVisibility() || control.matches(":disabled")) continue;
    const behind = layers(control.parentElement);
    const style = getComputedStyle(control);
    const edge = contrast(behind, [...behind, style.borderTopColor]);
    const inside = contrast(behind, [...behind, style.backgroundColor]);
    if (Math.max(edge, inside) < leastControl) faint.push([Math.max(edge, inside), control.outerHTML.slice(0, 60)]);
  }
  return { faint, seen, controls: controls.length };
}"""


def faint(page: Page) -> tuple[list[Any], int]:
    """List what has too little contrast, and count the texts that were measured."""
    page.wait_for_load_state()  # what was pressed just before may lead elsewhere
    found = page.evaluate(MEASURE, LEVEL_AA)
    return found["faint"], found["seen"]


def look(page: Page, least: int = 4, address: str = "") -> None:
    """Measure a page, or the one that is shown, wide, on a tablet and on two phones."""
    if address:
        page.goto(address)
    page.evaluate(OPEN_ALL)
    found, n_seen = faint(page)
    assert found == [], page.url
    assert n_seen >= least, page.url
    for width in (900, 740, 390, 320):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate(WIDER_THAN_THE_SCREEN) == 0, (page.url, width)
    page.set_viewport_size({"width": 1280, "height": 900})


def test_what_is_faint_is_found(page: Page) -> None:
    body = "<body style='background: #fff'>{}</body>".format
    page.set_content(body("<p style='color: #999'>faint</p><p style='color: #fff; background: #000'>plain</p>"))
    [(found, text)], n_seen = faint(page)
    assert (round(found, 2), text, n_seen) == (2.85, "faint", 2)
    page.set_content(body("<button class='quiet' style='border: 1px solid #ccc; background: #fff'>press</button>"))
    assert "quiet" in faint(page)[0][0][1]


def test_the_report(page: Page, movies_url: str, tmp_path: Path) -> None:
    look(page, 150, movies_url)
    look(page, 40, write_page(hostile_view(), tmp_path))
    page.set_viewport_size({"width": 320, "height": 844})
    expect(page.locator("#text")).to_be_visible()


def test_the_page_of_models(page: Page, support: SupportModel, predictor: Predictor, tmp_path: Path) -> None:
    with on_a_port(*save_models(support, predictor, tmp_path).values()) as address:
        page.goto(address)
        page.get_by_role("button", name="Explain", exact=True).click()
        expect(page.get_by_role("alert")).to_be_visible()
        look(page)
        page.get_by_label("Model", exact=True).select_option("any-length")
        page.get_by_label("Text", exact=True).fill(TEXT)
        page.get_by_role("button", name="Explain", exact=True).click()
        expect(page.locator("#curve circle").first).to_be_visible()
        look(page, 30)
        page.get_by_role("tab", name="File").click()
        look(page)


def test_the_pages_of_those_who_answer(page: Page, tmp_path: Path) -> None:
    words = "\n\n".join(["a-very-long-word-that-nobody-reads" * 5, "and another paragraph"])
    made = plan(two_ways(), sample=4, practice=1, checks=1, title="Films", texts={"instructions": words})
    store = create_study(tmp_path / "s", made)
    [code] = add_annotators(store, 1)
    with running(create_app(store)) as address:
        look(page, address=address)
        for wrong in ("1-wrong", code):
            page.get_by_label("Your code").fill(wrong)
            page.get_by_role("button", name="Sign in").click()
            look(page)
        page.get_by_role("button", name="I agree").click()
        look(page, 15)
        page.get_by_role("link", name="Start").click()
        expect(page.get_by_role("button", name="Continue")).to_be_visible()  # or the page before would be changed
        page.evaluate("document.querySelectorAll('input').forEach(one => { one.required = false; })")
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("alert")).to_be_visible()
        look(page, 20)
        for key in "111":
            page.keyboard.press(key)
        look(page, 20)
        page.keyboard.press("Enter")
        expect(page.get_by_text("Practice does not count.")).to_be_visible()
        look(page)
        look(page, address=f"{address}nowhere")
        set_paused(store, True)
        look(page, address=f"{address}item")
        set_paused(store, False)
        page.goto(f"{address}item")
        for number in range(1, 6):
            expect(page.get_by_text(f"{number} of 5")).to_be_visible()
            expect(page.locator(".keys-help")).to_be_visible()
            for key in ("1", "1", "1", "Enter"):
                page.keyboard.press(key)
        expect(page.get_by_text("Thank you for your help")).to_be_visible()
        look(page)
        look(page, address=f"{address}leave")
        page.get_by_role("button", name="Leave permanently").click()
        look(page, 3)


def test_the_pages_of_whoever_runs_a_study(page: Page, tmp_path: Path) -> None:
    from visitors import finish

    long = {"a name of a condition that goes on and on" * 2: {"kind": "full_text"}, **two_ways()}
    store = create_study(tmp_path / "s", plan(long, sample=4, practice=1, checks=1, per_item=2))
    secret = make_admin_secret(store)
    app = create_app(store)
    finish(app, store, 3)
    with running(app) as address:
        look(page, address=f"{address}admin")
        page.get_by_label("Secret").fill(str(secret))
        page.get_by_role("button", name="Sign in").click()
        look(page, 60)
        page.get_by_role("button", name="Pause the study").click()
        expect(page.get_by_text("nobody gets a new text")).to_be_visible()
        look(page, 60)
        page.get_by_role("button", name="Make codes").click()
        look(page)
        look(page, 60, f"{address}admin/results")

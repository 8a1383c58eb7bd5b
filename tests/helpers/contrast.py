"""Contrast after WCAG 2, measured in a browser for every text and every control."""

from typing import Any

from playwright.sync_api import Page

TEXT, CONTROL = 4.5, 3.0
"""What level AA asks for."""
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
    found = page.evaluate(MEASURE, [TEXT, CONTROL])
    return found["faint"], found["seen"]

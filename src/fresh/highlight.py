"""A document as HTML, with the words that were read highlighted; safe for any text, on light and dark pages."""

from html import escape

from fresh.rationale import Prediction, Rationale
from fresh.text import Spans

_PICTURES = {point: 0x2400 + point for point in range(0x20) if chr(point) not in "\n\t"} | {0x7F: 0x2421}
_C1_CONTROLS, _BIDI_CONTROLS = range(0x80, 0xA0), (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_SURROGATES = range(0xD800, 0xE000)
# No text may control a terminal, or be shown in another order than it was read.
CONTROL_PICTURES = _PICTURES | dict.fromkeys((*_C1_CONTROLS, *_BIDI_CONTROLS, *_SURROGATES), 0xFFFD)
"""For `str.translate`: controls become visible pictures; controls of the reading direction and surrogates become �."""
HTML_CONTROL_PICTURES = {point: sign for point, sign in CONTROL_PICTURES.items() if chr(point) != "\r"}
"""The same for HTML, where a carriage return is harmless."""

# Half-transparent and from the Okabe-Ito palette: readable on white and on black, and by the color-blind.
READ = "background:rgba(230,159,0,.28);color:inherit;border-bottom:2px solid #d55e00;padding:0 .1em"
BOX = "white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:isolate;max-height:28em;overflow-y:auto;line-height:1.7"
N_BARS = 6
"""Probabilities that a notebook shows; the other labels are counted."""


def _highlight(text: str, kept: Spans) -> str:
    """Highlight the spans that were read; no character is added or lost."""
    shown, parts, position = text.translate(HTML_CONTROL_PICTURES), [], 0
    for start, end in kept:
        parts += [escape(shown[position:start]), f'<mark style="{READ}">{escape(shown[start:end])}</mark>']
        position = end
    return "".join((*parts, escape(shown[position:])))


def explanation_html(text: str, spans: Spans, rationale: Rationale, prediction: Prediction, ratio: float) -> str:
    """Show an explanation in a notebook: label, probabilities, the share that was read, and the highlighted text."""
    n_read, shares = len(rationale.words), sorted(prediction.probabilities.items(), key=lambda pair: -pair[1])
    bars = "".join(
        f'<div>{_isolate(label)}</div><div style="background:rgba(128,128,128,.25);height:.7em;align-self:center">'
        f'<div style="background:#0072b2;height:100%;width:{share:.1%}"></div></div><div>{share:.2f}</div>'
        for label, share in shares[:N_BARS]
    )
    grid = "display:grid;grid-template-columns:fit-content(14em) minmax(4em,16em) 3em;gap:.1em .7em;margin:.4em 0"
    n_more = len(shares) - N_BARS
    lines = [
        f"<div><strong>{_isolate(prediction.label)}</strong> (probability {prediction.probability:.2f}): "
        f"{'1 word was' if n_read == 1 else f'{n_read:,} words were'} read, {ratio:.0%} of the text.</div>",
        f'<div style="{grid}">{bars}</div>',
        f"<div>and {n_more:,} more {'label' if n_more == 1 else 'labels'}</div>" if n_more > 0 else "",
        f"<div>Query: {_isolate(' '.join(rationale.query))}</div>" if rationale.query else "",
        f'<div dir="auto" style="{BOX};margin:.5em 0">{_highlight(text, spans)}</div>',
        '<details><summary style="cursor:pointer">Only the words that were read</summary>'
        f'<div dir="auto" style="{BOX}">{_isolate(" ".join(rationale.words))}</div></details>',
    ]
    return f'<div style="max-width:48em">{"".join(lines)}</div>'


def _isolate(text: str) -> str:
    """Escape a text, show its control characters, and keep its reading direction from the text around it."""
    return f"<bdi>{escape(text.translate(HTML_CONTROL_PICTURES))}</bdi>"

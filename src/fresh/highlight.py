"""A document as HTML, with what was read in it marked; safe for any text, in light and in dark."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from html import escape

from fresh.rationale import Prediction, Rationale
from fresh.text import Spans

PICTURES = {point: 0x2400 + point for point in range(0x20) if chr(point) not in "\n\t"} | {0x7F: 0x2421}
STEERING = (*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000))
CONTROL_PICTURES = PICTURES | dict.fromkeys(STEERING, 0xFFFD)
"""One sign for one: controls as their pictures; what turns the reading direction round, or is half a character, as �.

So no text can steer a terminal, and none can be shown in another order than it was read.
"""
HTML_CONTROL_PICTURES = {point: sign for point, sign in CONTROL_PICTURES.items() if chr(point) != "\r"}
"""The same for HTML, where the end of a Windows line does no harm."""

# Half-transparent and from the Okabe-Ito palette: readable on white and on black, and told apart without colours.
READ = "background:rgba(230,159,0,.28);color:inherit;border-bottom:2px solid #d55e00;padding:0 .1em"
HUMAN = "text-decoration:underline dashed #0072b2 2px;text-underline-offset:.35em"
BOX = "white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:isolate;max-height:28em;overflow-y:auto;line-height:1.7"
N_BARS = 6


def _highlight(text: str, kept: Spans, human: Spans = ()) -> str:
    """Mark what was read in a text, and underline what people marked; no character is added or lost.

    :param kept: Characters from and to, in order; one mark each, so neighbouring words should be one span.
    :param human: The same for what people marked.
    """
    shown, ends = text.translate(HTML_CONTROL_PICTURES), [end for _, end in human]
    parts: list[str] = []
    for start, end, read in _stretches(kept, 0, len(text)):
        near = human[bisect_right(ends, start) :]
        inner = "".join(
            f'<u style="{HUMAN}">{escape(shown[first:after])}</u>' if marked else escape(shown[first:after])
            for first, after, marked in _stretches(near, start, end)
        )
        parts.append(f'<mark style="{READ}">{inner}</mark>' if read else inner)
    return "".join(parts)


def _stretches(spans: Sequence[tuple[int, int]], start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """Cut a stretch of text where spans begin and end: all its parts in order, and whether a span covers them."""
    at = start
    for first, after in spans:
        if first >= end:
            break
        if at < first:
            yield at, first, False
        yield max(at, first), min(after, end), True
        at = min(after, end)
    if at < end:
        yield at, end, False


def explanation_html(text: str, spans: Spans, rationale: Rationale, prediction: Prediction, ratio: float) -> str:
    """Show an answer in a notebook: the label, how sure, the share read, and the text with what was read.

    :param spans: Where the rationale stands in the text, in characters.
    :param ratio: Share of the words that was read.
    """
    n_read = len(rationale.words)
    words = "1 word was" if n_read == 1 else f"{n_read:,} words were"
    lines = [
        f"<div><strong>{isolate(prediction.label)}</strong> (probability {prediction.probability:.2f}): "
        f"{words} read, {ratio:.0%} of the text.</div>",
        _bars(prediction),
        f"<div>Asked: {isolate(' '.join(rationale.query))}</div>" if rationale.query else "",
        f'<div dir="auto" style="{BOX};margin:.5em 0">{_highlight(text, spans)}</div>',
        '<details><summary style="cursor:pointer">Only what was read</summary>'
        f'<div dir="auto" style="{BOX}">{isolate(" ".join(rationale.words))}</div></details>',
    ]
    return f'<div style="max-width:48em">{"".join(lines)}</div>'


def _bars(prediction: Prediction) -> str:
    """Draw how probable the likeliest labels are."""
    likeliest = sorted(prediction.probabilities.items(), key=lambda pair: -pair[1])
    rows = [
        f'<div>{isolate(label)}</div><div style="background:rgba(128,128,128,.25);height:.7em;align-self:center">'
        f'<div style="background:#0072b2;height:100%;width:{probability:.1%}"></div></div><div>{probability:.2f}</div>'
        for label, probability in likeliest[:N_BARS]
    ]
    left = len(likeliest) - N_BARS
    more = f"<div>and {left:,} more {'label' if left == 1 else 'labels'}</div>" if left > 0 else ""
    grid = "display:grid;grid-template-columns:fit-content(14em) minmax(4em,16em) 3em;gap:.1em .7em;margin:.4em 0"
    return f'<div style="{grid}">{"".join(rows)}</div>{more}'


def isolate(text: str) -> str:
    """Show a text as it is, whichever way it is written; its direction does not spread to what stands beside it."""
    return f"<bdi>{escape_text(text)}</bdi>"


def escape_text(text: str) -> str:
    """Write a text so that it is nothing but text."""
    return escape(text.translate(HTML_CONTROL_PICTURES))

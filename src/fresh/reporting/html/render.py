"""A view as one HTML file: it makes no request, and nothing in a text can run in it."""

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from fresh.highlight import HTML_CONTROL_PICTURES
from fresh.metrics.bootstrap import Estimate, LengthScore
from fresh.metrics.classification import Bin
from fresh.reporting.html.view import ShownDocument, View
from fresh.reporting.report import estimate
from fresh.text import to_utf16

STYLES = ("page.css", "explorer.css", "print.css")
SCRIPTS = ("unpack.js", "marks.js", "list.js", "explorer.js", "keys.js")
# What could end a script element, begin a comment in it, or is half a surrogate pair.
UNSAFE_IN_SCRIPT = re.compile("[<>&\u2028\u2029\ud800-\udfff]")
TICK_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
MAX_TICKS = 6
# The edges of a chart, on a picture of 520 x 290.
LEFT, RIGHT, TOP, BOTTOM = 56, 492, 12, 238


def render(view: View) -> str:
    """Return a page that needs no other file, no server and no network."""
    style = "".join(map(_read, STYLES))
    script = '"use strict";\n(() => {\n' + "".join(map(_read, SCRIPTS)) + "})();\n"
    own = [base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii") for text in (script, style)]
    # This one script and this one style sheet are allowed, and nothing else at all.
    policy = (
        f"default-src 'none'; script-src 'sha256-{own[0]}'; style-src 'sha256-{own[1]}'; "
        "img-src data:; "  # the empty icon, so that no browser asks for one
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
    template, data = _templates().get_template("report.html"), pack(view.documents)
    return template.render(view=view, policy=policy, style=style, script=script, data=data)


@cache
def _templates() -> Environment:
    """Load the templates, in which every text is escaped and shows its control characters as pictures."""
    templates = Environment(
        loader=PackageLoader("fresh.reporting.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Reversed text and control characters could make a text look like another one.
        finalize=lambda value: value.translate(HTML_CONTROL_PICTURES) if type(value) is str else value,
    )
    templates.filters["number"] = format
    for used in (estimate, calibration_chart, length_chart, whisker_axis):
        templates.globals[used.__name__] = used
    return templates


def _read(name: str) -> str:
    return resources.files("fresh.reporting.html").joinpath(name).read_text(encoding="utf-8")


def pack(documents: Sequence[ShownDocument]) -> str:
    """Return documents as compact JSON that is safe between script tags, whatever is in their texts."""
    labels: dict[str, int] = {}  # a number for each label
    packed: list[dict[str, Any]] = []
    for example, explanation in documents:
        document, prediction = explanation.document, explanation.prediction
        for label in (*prediction.probabilities, example.label):
            labels.setdefault(label, len(labels))
        text = document.text.translate(HTML_CONTROL_PICTURES)
        spans = to_utf16(text, document.spans)  # JavaScript counts in UTF-16 units
        record: dict[str, Any] = {
            "id": document.id.translate(HTML_CONTROL_PICTURES),
            "text": text,
            "words": len(spans),
            "kept": _pack_words(spans, explanation.mask.spans),
            "label": labels[prediction.label],
            # Four places are more than the page shows, and keep it small.
            "probabilities": [[labels[label], round(share, 4)] for label, share in prediction.probabilities.items()],
            "gold": labels[example.label],
        }
        if example.human is not None:
            runs = [(spans[first][0], spans[end - 1][1]) for first, end in example.human.spans]
            [record["human"]] = _pack_words(runs, [(0, len(runs))])
        if document.query:
            record["query"] = " ".join(document.query).translate(HTML_CONTROL_PICTURES)
        packed.append(record)
    names = [label.translate(HTML_CONTROL_PICTURES) for label in labels]
    page = {"labels": names, "documents": packed}
    text = json.dumps(page, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return UNSAFE_IN_SCRIPT.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _pack_words(spans: Sequence[tuple[int, int]], runs: Sequence[tuple[int, int]]) -> list[list[int]]:
    """List, for each word of each run, its distance from the end of the word before it, and its length."""
    packed: list[list[int]] = []
    position = 0
    for first, after in runs:
        run: list[int] = []
        for start, end in spans[first:after]:
            run += (start - position, end - start)
            position = end
        packed.append(run)
    return packed


# The axes of the drawings: where values stand, and which numbers are written beside them.


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of values, and the places on a drawing that it is spread over."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the place of a value; one outside goes to the edge."""
        inside = min(max(value, self.low), self.high)
        return round(self.start + (inside - self.low) / (self.high - self.low) * (self.end - self.start), 1)

    @property
    def ticks(self) -> list[float]:
        """At most seven round numbers on the axis."""
        width = self.high - self.low
        step = next((step for step in TICK_STEPS if width / step <= MAX_TICKS + 0.001), width)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(n * step, 4) for n in range(first, last + 1)]


def tenths_around(values: Iterable[float]) -> tuple[float, float]:
    """Find the nearest tenths below and above all values, at least a tenth apart."""
    # Rounded, because 0.3 * 10 is more than 3 in floating point.
    tenths = [round(value * 10, 9) for value in values]
    low, high = math.floor(min(tenths)), math.ceil(max(tenths))
    if low == high:
        low, high = (low - 1, high) if low == 10 else (low, high + 1)
    return low / 10, high / 10


def whisker_axis(estimates: Iterable[Estimate], *values: float) -> Axis:
    """Make the axis of a column of whiskers."""
    return Axis(*tenths_around([*_ends(estimates), *values]), 6, 194)


def length_chart(lengths: Sequence[LengthScore], full_text: float | None) -> tuple[Axis, Axis]:
    """Make the axes, across and up, of macro-F1 against the share of words read."""
    scores = [*_ends(point.macro_f1 for point in lengths), *([] if full_text is None else [full_text])]
    x = Axis(0.0, tenths_around(point.ratio for point in lengths)[1], LEFT, RIGHT)
    return x, Axis(*tenths_around(scores), BOTTOM, TOP)


def calibration_chart(bins: Sequence[Bin]) -> tuple[Axis, Axis]:
    """Make the axes, across and up, of how often the model is right against the probability of its predictions."""
    shares = [share for one in bins for share in (one.confidence, one.accuracy) if share is not None]
    low, _ = tenths_around([0.9, *shares])
    return Axis(low, 1.0, LEFT, RIGHT), Axis(low, 1.0, BOTTOM, TOP)


def _ends(estimates: Iterable[Estimate]) -> list[float]:
    return [number for one in estimates for number in (one.low, one.value, one.high) if number is not None]

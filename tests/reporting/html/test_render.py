import base64
import hashlib
import json
import re
from collections import defaultdict
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.document import Document, Example, Explanation
from fresh.highlight import HTML_CONTROL_PICTURES
from fresh.metrics.bootstrap import Estimate, Interval, LengthScore
from fresh.metrics.classification import Bin, ClassScore
from fresh.rationale import Prediction
from fresh.reporting.html import View, render
from fresh.reporting.html.render import SCRIPTS, STYLES, Axis, _read, pack, tenths_around
from fresh.reporting.report import Figures
from pages import (
    AGREEMENT,
    BINS,
    CALIBRATION,
    HEADLINE,
    HOSTILE,
    LENGTHS,
    PAIRS,
    VERDICTS,
    hostile_view,
    shown_document,
    small_view,
)
from strategies import masks, texts


class Page(HTMLParser):
    """The tags and attributes of a page, and what stands in its scripts and style sheets."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html, self.within = html, ""
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: defaultdict[str, str] = defaultdict(str)  # by the element or its id; what is shown by ""
        self.feed(html)
        self.close()
        self.text = " ".join(self.raw[""].split())
        self.parts = [attributes.get("id") for tag, attributes in self.tags if tag == "section"]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.within = dict(attrs).get("id") or tag if tag in ("script", "style") else ""

    def handle_endtag(self, tag: str) -> None:
        self.within = ""

    def handle_data(self, data: str) -> None:
        self.raw[self.within] += data if self.within else f" {data}"


def with_figures(full_text: float | None = None, **figures: Any) -> str:
    """Render a small page with some figures."""
    least: dict[str, Any] = {"labels": ("neg", "pos"), "confusion": ((1, 0), (0, 1)), "calibration": (), "bins": ()}
    return render(small_view(figures=Figures(**{**least, **figures}), full_text=full_text))


# Safety


def test_the_policy_allows_the_script_and_the_style_sheet_of_the_page_and_nothing_else() -> None:
    page = Page(render(small_view()))
    [policy] = [a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]

    def digest(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    assert policy == (
        f"default-src 'none'; script-src 'sha256-{digest(page.raw['script'])}'; "
        f"style-src 'sha256-{digest(page.raw['style'])}'; img-src data:; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'"
    )


def test_nothing_is_fetched_and_nothing_needs_more_than_the_policy_gives(movies: View) -> None:
    page = Page(render(movies))
    addresses = [a.get(name) or "" for _, a in page.tags for name in ("src", "href", "action", "srcset", "data")]
    assert [one for one in addresses if one and not one.startswith("#")] == ["data:,"]
    assert not [tag for tag, a in page.tags if any(name == "style" or name.startswith("on") for name in a)]
    files = "".join(map(_read, (*STYLES, *SCRIPTS)))
    assert not re.findall(r"@import|url\(|https?:(?!//www\.w3\.org/2000/svg)|innerHTML|eval\(|fetch\(|</", files)


def test_no_text_can_break_out_of_the_page() -> None:
    page, quiet = Page(render(hostile_view())), Page(render(small_view()))
    assert "alert" not in page.raw["script"] + page.raw["style"]
    assert page.raw["script"] == quiet.raw["script"]
    assert [tag for tag, _ in page.tags].count("script") == 2
    assert not [tag for tag, _ in page.tags if tag == "img"]
    page.html.encode("utf-8")
    [document] = json.loads(page.raw["data"])["documents"]
    assert document["text"].startswith("x </script><script>alert(1)</script><!-- <img src=x onerror=alert(2)>")
    assert "{{ script }} {% raw %}" in Page(render(small_view(title="{{ script }} {% raw %}"))).text
    before = page.html[: page.html.index('<script type="application/json"')].partition("</style>")[2]
    assert not set("\u202e\ud800\x00") & set(page.html)
    assert before.count("&lt;/script&gt;&lt;script&gt;alert(1)") == 20


# What is shown


def test_the_least_page_has_results_and_documents_only() -> None:
    page = Page(render(small_view()))
    assert page.parts == ["results", "documents"]
    assert re.findall(r'<a href="#(\w+)">', page.html) == ["results", "documents"]
    assert "FRESH this model 0.800 0.750 20.0%" in page.text
    assert "intervals" not in page.text
    assert "1 document" in page.text
    assert "of them shown" not in page.text
    assert "3,000 documents · 1 of them shown" in Page(render(small_view(n_documents=3000))).text


def test_the_whole_page_has_every_part_in_order(movies: View) -> None:
    page = Page(render(movies))
    assert page.parts == ["results", "figures", "agreement", "audit", "comparisons", "documents", "about"]
    assert re.findall(r'<a href="#(\w+)">', page.html) == page.parts
    assert "movies, test · 199 documents · 15 November 2026" in page.text
    assert len(page.html.encode("utf-8")) < 1_500_000


def test_the_headline_has_intervals_beside_every_baseline() -> None:
    page = Page(render(small_view(headline=HEADLINE)))
    for row in HEADLINE:
        assert f"{row.macro_f1.value:.3f} {row.macro_f1.low:.3f} to {row.macro_f1.high:.3f}" in page.text
    assert page.html.count('class="whisker"') == 2 * len(HEADLINE)
    assert page.html.count('class="interval"') == 2 * len(HEADLINE)
    assert page.html.count(">this model<") == 1


def test_verdicts_come_with_sign_word_sentence_and_evidence() -> None:
    page = Page(render(small_view(verdicts=VERDICTS, guarantee="It covers this.\n\nIt does not cover that.")))
    assert "✓ Replay holds All 199 predictions" in page.text
    for sign, verdict in zip("✓✓✗!–", VERDICTS, strict=True):
        assert (
            f'aria-hidden="true">{sign}</span><div>\n<h3><bdi>{verdict.name}</bdi> <span class="found">{verdict.found}'
            in page.html
        )
    assert page.html.count("<summary>Evidence</summary>") == 4
    assert "<p><bdi>It covers this.</bdi></p><p><bdi>It does not cover that.</bdi></p>" in page.html


def test_a_confusion_matrix_shows_counts_and_where_it_has_room_shares_of_the_gold_label() -> None:
    html = with_figures(confusion=((9, 1), (0, 0)))
    assert '<td class="shade-9 hit">9 <small>90%</small></td><td class="shade-1">1 <small>10%</small></td>' in html
    assert '<td class="shade-0">0 <small>0%</small></td><td class="shade-0 hit">0 <small>0%</small></td>' in html
    labels = tuple(f"topic {n}" for n in range(7))
    html = with_figures(labels=labels, confusion=((2, *[1] * 6),) * 7)
    assert '<div class="card whole"><h3>Confusion matrix' in html
    assert html.count("<small>") == 0
    assert '<td class="shade-2 hit">2</td><td class="shade-1">1</td>' in html


def test_a_curve_has_its_points_its_band_and_the_full_text() -> None:
    html = with_figures(0.919, lengths=LENGTHS)
    assert html.count('class="dot"') == len(LENGTHS) + 2  # and the two of the headline
    assert html.count('class="band"') == 1
    assert ">full text</text>" in html
    assert '<th scope="row"><bdi>5%</bdi></th>' in html
    bare = with_figures(lengths=(LengthScore(0.2, Interval(0.5, 0.4, 0.6)),))
    assert 'class="band"' not in bare
    assert ">full text</text>" not in bare


def test_calibration_leaves_out_empty_bins() -> None:
    html = with_figures(bins=(Bin(0.5, 0.75, 4, 0.6, 0.5, (0.25, 0.8)), Bin(0.75, 1.0, 0, None, None)))
    assert html.count('class="miss"') == 1
    assert "<b>0.500</b> <small>0.250 to 0.800</small>" in html
    assert with_figures(bins=BINS).count('class="miss"') == len(BINS)
    assert "expected calibration error" in with_figures(bins=BINS, calibration=CALIBRATION)


SCORES = ClassScore("a", 0.5, 0.25, 0.125, 7, (0.4, 0.6), (0.2, 0.3), (0.1, 0.15))
LESS_THAN_NOTHING = replace(HEADLINE[0], macro_f1=Estimate(-0.0001, -0.0002, 0.0001), accuracy=Estimate(-0.0008))


@pytest.mark.parametrize(
    ("changes", "shown", "absent"),
    [
        ({"classes": (SCORES,)}, "0.500 0.400 to 0.600 | 0.250 0.200 to 0.300 | 0.125 0.100 to 0.150", "People"),
        ({"classes": (ClassScore("older", 1, 1, 1, 2),)}, "older 1.000 1.000 1.000 2", " to "),
        ({"agreement": AGREEMENT[2:]}, "token F1 | 0.466", "precision"),
        ({"pairs": PAIRS}, "-0.045 -0.081 to -0.009 | +0.186 +0.127 to +0.246 | < 0.001 | 0.036", "People"),
        ({"headline": (LESS_THAN_NOTHING,)}, "0.000 0.000 to 0.000 | -0.001", "-0.000"),
    ],
)
def test_figures_are_shown(changes: dict[str, Any], shown: str, absent: str) -> None:
    text = Page(render(small_view(**changes))).text.partition("what is read")[2]
    assert all(figure in text for figure in shown.split(" | ")), text
    assert absent not in text


# Documents as JSON


def unpacked(runs: list[list[int]], text: str) -> list[list[str]]:
    """Read packed words back as a browser counts: in UTF-16 units."""
    units = text.encode("utf-16-le", "surrogatepass")
    at, found = 0, []
    for run in runs:
        words = []
        for gap, length in zip(run[::2], run[1::2], strict=True):
            start, at = at + gap, at + gap + length
            words.append(units[2 * start : 2 * at].decode("utf-16-le", "surrogatepass"))
        found.append(words)
    return found


def test_documents_are_packed_by_gaps_and_lengths() -> None:
    one = shown_document("😀 is a lovely film", "1 2 4", gold="neg", human=((0, 2), (3, 4)), query="good?")
    record = json.loads(pack([one]))
    assert record["labels"] == ["neg", "pos"]
    assert record["documents"] == [
        {
            "id": "d-1",
            "text": "😀 is a lovely film",
            "words": 5,
            "kept": [[3, 2, 1, 1], [8, 4]],
            "label": 1,
            "probabilities": [[0, 0.25], [1, 0.75]],
            "gold": 0,
            "human": [0, 5, 3, 6],
            "query": "good ?",
        }
    ]


@given(texts(min_size=1), st.data())
def test_packed_words_are_the_words_of_the_rationale(text: str, data: st.DataObject) -> None:
    document = Document.from_text(f"{text} x")
    mask, people = data.draw(masks(document)), data.draw(masks(document))
    explanation = Explanation(document, mask, document.cut(mask), Prediction("pos", {"pos": 1.0}))
    [record] = json.loads(pack([(Example(document, "pos", people), explanation)]))["documents"]
    shown = document.text.translate(HTML_CONTROL_PICTURES)
    words = [word.translate(HTML_CONTROL_PICTURES) for word in document.cut(mask).words]
    assert record["text"] == shown
    assert [word for run in unpacked(record["kept"], shown) for word in run] == words
    assert [len(run) // 2 for run in record["kept"]] == [end - start for start, end in mask.spans]
    marked = [shown[document.spans[start][0] : document.spans[end - 1][1]] for start, end in people.spans]
    assert unpacked([record["human"]], shown) == [marked]


@given(texts(max_size=20) | st.just(HOSTILE))
def test_nothing_in_a_text_can_end_the_script_it_stands_in(text: str) -> None:
    one = shown_document(f"x {text}", "0", id=text, query=text, probabilities={"pos": 1.0, text: 0.0}, gold=text)
    packed = pack([one])
    assert not set("<>&\u2028\u2029") & set(packed)
    packed.encode("utf-8")
    assert json.loads(packed)["documents"][0]["text"] == f"x {text}".translate(HTML_CONTROL_PICTURES)


# Axes


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_tenths_hold_all_shares(values: list[float]) -> None:
    low, high = tenths_around(values)
    assert 0 <= low <= min(values) + 1e-9
    assert max(values) - 1e-9 <= high <= 1
    assert low < high
    assert [low * 10, high * 10] == pytest.approx([round(low * 10), round(high * 10)])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([-0.045, 0.0, 0.246], (-0.1, 0.3)),
        ([0.3, 0.7], (0.3, 0.7)),
        ([0.0], (0.0, 0.1)),
        ([0.5, 0.5], (0.5, 0.6)),
        ([1.0], (0.9, 1.0)),
    ],
)
def test_tenths_are_the_nearest(values: list[float], expected: tuple[float, float]) -> None:
    assert tenths_around(values) == expected


@given(st.integers(-10, 9), st.integers(1, 20))
def test_ticks_are_few_and_lie_within(first: int, width: int) -> None:
    low, high = first / 10, (first + width) / 10
    chosen = Axis(low, high, 0, 1).ticks
    assert 2 <= len(chosen) <= 7
    assert low - 1e-9 <= chosen[0] < chosen[-1] <= high + 1e-9


def test_a_value_outside_an_axis_goes_to_its_edge() -> None:
    axis = Axis(0.5, 1.0, 100, 0)
    assert [axis.at(value) for value in (0.0, 0.5, 0.75, 1.0, 2.0)] == [100, 100, 50, 0, 0]

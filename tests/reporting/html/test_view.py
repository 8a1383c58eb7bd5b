import json
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.document import Document
from fresh.highlight import HTML_CONTROL_PICTURES
from fresh.metrics.estimate import Estimate
from fresh.reporting.html import AgreementRow, Confusion, DocumentView, LengthCurve, View
from fresh.reporting.html.drawing import _Axis, _ticks, bounds
from fresh.reporting.html.packed import pack
from fresh.reporting.verdict import Verdict
from pages import HOSTILE, document_view, small_view
from strategies import masks, texts

# What a page refuses


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Estimate(0.5, 0.4), "An interval has two ends, got 0.4 and None. Give both or neither."),
        (
            lambda: Estimate(math.nan),
            "A figure and its interval must be finite, got [nan]. Leave out what is not known.",
        ),
        (lambda: Estimate(0.5, 0.6, 0.4), "An interval runs from low to high, got 0.6 to 0.4."),
        (lambda: LengthCurve(()), "A curve has at least one point. Leave the curve out where nothing was measured."),
        (
            lambda: Confusion(("a", "b"), ((1, 2), (3,))),
            "A confusion matrix of 2 labels is square, got rows of lengths [2, 1].",
        ),
        (
            lambda: Verdict("Replay", "perhaps", "It may hold."),  # type: ignore[arg-type]
            "The verdict on 'Replay' is 'perhaps'; verdicts are: holds, broken, look here, not run.",
        ),
        (
            lambda: document_view("a film", "0", label="other"),
            "Document 'd-1': the predicted label 'other' has no probability.",
        ),
        (
            lambda: document_view("a film", "0", probabilities={"pos": math.inf}),
            "Document 'd-1': probabilities must be finite, got {'pos': inf}.",
        ),
        (
            lambda: document_view("a film", "0", human=((1, 3),)),
            "Document 'd-1': the run (1, 3) of human does not fit its 2 words and the run before it. "
            "Give runs as Mask.spans does.",
        ),
        (
            lambda: DocumentView("d", "a b", ((0, 1), (2, 3)), ((0, 1), (1, 2)), "x", {"x": 1.0}),
            "Document 'd': the run (1, 2) of kept does not fit its 2 words and the run before it. "
            "Give runs as Mask.spans does.",
        ),
        (
            lambda: small_view(headline=()),
            "A page has a headline table. Give at least the row of the model itself.",
        ),
        (lambda: small_view(documents=()), "A page shows documents. Give at least one."),
        (
            lambda: small_view(n_documents=0),
            "n_documents is 0, but the page shows 1. Leave it out where all documents are shown.",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_name(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()


def test_all_but_headline_and_documents_may_be_missing() -> None:
    view = small_view()
    assert View(view.title, view.headline, view.documents) == view
    assert AgreementRow("people") == AgreementRow("people", None, None, None, None, None, own=False)


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
    one = document_view("😀 is a lovely film", "1 2 4", gold="neg", human=((0, 2), (3, 4)), query="good?")
    record = json.loads(pack([one]))
    assert record == {
        "labels": ["neg", "pos"],
        "documents": [
            {
                "id": "d-1",
                "text": "😀 is a lovely film",
                "words": 5,
                "kept": [[3, 2, 1, 1], [8, 4]],
                "label": 1,
                "probabilities": [[0, 0.25], [1, 0.75]],
                "gold": 0,
                "human": [0, 5, 3, 6],
                "query": "good?",
            }
        ],
    }


@given(texts(min_size=1), st.data())
def test_packed_words_are_the_words_of_the_rationale(text: str, data: st.DataObject) -> None:
    document = Document.from_text(f"{text} x")
    mask, people = data.draw(masks(document)), data.draw(masks(document))
    one = DocumentView("d", document.text, document.spans, mask.spans, "pos", {"pos": 1.0}, None, people.spans)
    [record] = json.loads(pack([one]))["documents"]
    shown = document.text.translate(HTML_CONTROL_PICTURES)
    words = [word.translate(HTML_CONTROL_PICTURES) for word in document.cut(mask).words]
    assert record["text"] == shown
    assert [word for run in unpacked(record["kept"], shown) for word in run] == words
    assert [len(run) // 2 for run in record["kept"]] == [end - start for start, end in mask.spans]
    marked = [shown[document.spans[start][0] : document.spans[end - 1][1]] for start, end in people.spans]
    assert [
        run for (run,) in unpacked([record["human"][i : i + 2] for i in range(0, len(record["human"]), 2)], shown)
    ] == marked


@given(texts(max_size=20) | st.just(HOSTILE))
def test_nothing_in_a_text_can_end_the_script_it_stands_in(text: str) -> None:
    one = document_view(f"x {text}", "0", id=text, query=text, probabilities={"pos": 1.0, text: 0.0}, gold=text)
    packed = pack([one])
    assert not set("<>&\u2028\u2029") & set(packed)
    packed.encode("utf-8")
    assert json.loads(packed)["documents"][0]["text"] == f"x {text}".translate(HTML_CONTROL_PICTURES)


# Drawings


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_bounds_are_round_and_hold_all_shares(values: list[float]) -> None:
    low, high = bounds(values)
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
def test_bounds_are_the_nearest_tenths(values: list[float], expected: tuple[float, float]) -> None:
    assert bounds(values) == expected


@given(st.integers(-10, 9), st.integers(1, 20))
def test_ticks_are_few_and_lie_within(first: int, width: int) -> None:
    low, high = first / 10, (first + width) / 10
    chosen = _ticks(low, high)
    assert 2 <= len(chosen) <= 7
    assert low - 1e-9 <= chosen[0] < chosen[-1] <= high + 1e-9


def test_a_value_outside_an_axis_goes_to_its_edge() -> None:
    axis = _Axis(0.5, 1.0, 100, 0)
    assert [axis.at(value) for value in (0.0, 0.5, 0.75, 1.0, 2.0)] == [100, 100, 50, 0, 0]

from typing import Any

import pytest

TEXT = "A 😀 lovely film"  # in UTF-16 code units, lovely is at 5 to 11
WHY = [5, 11, "RATIONALE"]


def line(**fields: Any) -> dict[str, Any]:
    return {"id": 1, "text": TEXT, "Comments": [], **fields}


@pytest.mark.parametrize(
    ("record", "settings", "expected"),
    [
        pytest.param(line(cats=["good"], entities=[WHY]), {}, ("good", ("lovely",)), id="classes and spans"),
        pytest.param(
            line(label=[WHY], sentiment="good"), {"label": "sentiment"}, ("good", ("lovely",)), id="sequence labeling"
        ),
        pytest.param(
            line(
                entities=[{"id": 3, "label": "RATIONALE", "start_offset": 5, "end_offset": 11}],
                relations=[],
                cats=["good"],
            ),
            {},
            ("good", ("lovely",)),
            id="spans with relations",
        ),
        pytest.param(line(label=["good"]), {}, ("good", None), id="text classification"),
        pytest.param(line(label=[2]), {}, ("2", None), id="a number as a class"),
        pytest.param(
            line(cats=["good"], entities=[], label="old"), {}, ("good", None), id="classes take precedence over columns"
        ),
        pytest.param(
            line(cats=["good"], entities=[], gold="bad"), {"label": "gold"}, ("bad", None), id="a column that is named"
        ),
        pytest.param(line(cats=["good"], entities=[]), {}, ("good", None), id="nobody marked a span"),
        pytest.param(
            line(cats=["good"], entities=[[5, 11, "WHY"], [12, 16, "NAME"]]),
            {"rationale": "WHY"},
            ("good", ("lovely",)),
            id="spans of one label",
        ),
    ],
)
def test_lines_are_read(kept: Any, record: Any, settings: dict[str, Any], expected: Any) -> None:
    assert kept(record, **settings) == [expected]


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (line(label=[WHY], sentiment="x"), "no column 'label' for the label. It has: id, text, sentiment, rationale"),
        (line(cats=[], entities=[]), "line 1: there is no label"),
        (line(cats=["a", "b"], entities=[]), "a label must be text or a number, got ('a', 'b')"),
        *(
            (line(cats=["good"], entities=spans), problem)
            for spans, problem in (
                ([[5, 99, "X"]], "(5, 99) does not fit a text of 16 UTF-16 code units"),
                ([[3, 11, "X"]], "(3, 11) does not fit a text of 16 UTF-16 code units, or cuts a character"),
                ([[4, 5, "X"]], "the span (3, 4) holds no word, only ' '"),
                ([[5, "X"]], "a span is [start, end, label], got [5, 'X']"),
                ([[5.5, 7, "X"]], "a span is [start, end, label], got [5.5, 7, 'X']"),
                ([{"start_offset": 5}], "a span is [start, end, label], got {'start_offset': 5}"),
            )
        ),
    ],
)
def test_lines_that_cannot_be_used_are_refused(refusal: Any, record: Any, problem: str) -> None:
    assert problem in refusal(record)

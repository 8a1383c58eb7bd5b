from typing import Any

import pytest

TEXT = "A 😀 lovely film"  # in UTF-16 code units, lovely is at 5 to 11
WHY = [5, 11, "RATIONALE"]


def line(**fields: Any) -> dict[str, Any]:
    return {"id": 1, "text": TEXT, "Comments": [], **fields}


LOVELY = ("good", ("lovely",))
RELATED = {"id": 3, "label": "RATIONALE", "start_offset": 5, "end_offset": 11}
CASES: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "classes and spans": (line(cats=["good"], entities=[WHY]), {}, LOVELY),
    "sequence labeling": (line(label=[WHY], sentiment="good"), {"label": "sentiment"}, LOVELY),
    "spans with relations": (line(entities=[RELATED], relations=[], cats=["good"]), {}, LOVELY),
    "text classification": (line(label=["good"]), {}, ("good", None)),
    "a number as a class": (line(label=[2]), {}, ("2", None)),
    "classes before columns": (line(cats=["good"], entities=[], label="old"), {}, ("good", None)),
    "a column that is named": (line(cats=["good"], entities=[], gold="bad"), {"label": "gold"}, ("bad", None)),
    "nobody marked a span": (line(cats=["good"], entities=[]), {}, ("good", None)),
    "one label": (line(cats=["good"], entities=[[5, 11, "WHY"], [12, 99, "NAME"]]), {"rationale": "WHY"}, LOVELY),
}


@pytest.mark.parametrize(("record", "settings", "expected"), CASES.values(), ids=CASES)
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

from typing import Any

import pytest

from fresh.data.examples import BadRows

TEXT = "A 😀 lovely film"
TOKENS = [
    {"text": text, "start": start, "end": start + len(text), "id": i}
    for i, (text, start) in enumerate((("A", 0), ("😀", 2), ("lovely", 4), ("film", 11)))
]
LOVELY = {"start": 4, "end": 10, "token_start": 2, "token_end": 2, "label": "RATIONALE"}
FILM = {"start": 11, "end": 15, "label": "RATIONALE"}


def line(number: int = 1, answer: str = "accept", **fields: Any) -> dict[str, Any]:
    return {"text": TEXT, "_input_hash": number, "_task_hash": -number, "answer": answer, **fields}


@pytest.mark.parametrize(
    "fields",
    [
        {"label": "good"},
        {"options": [{"id": "good", "text": "Good"}, {"id": "bad", "text": "Bad"}], "accept": ["good"]},
        {"cats": {"good": 1.0, "bad": 0.0}},
        {"cats": {"good": True, "bad": False}},
    ],
)
def test_every_way_to_give_a_class_is_read(kept: Any, fields: dict[str, Any]) -> None:
    assert kept(line(tokens=TOKENS, spans=[LOVELY], **fields)) == [("good", ("lovely",))]


def test_class_query_and_id_may_be_in_meta(read: Any) -> None:
    [example] = read(line(meta={"sentiment": "good", "query": "Is it?", "id": "d1"}), label="sentiment")
    assert (example.label, example.document.query, example.document.id) == ("good", ("Is", "it", "?"), "d1")


def test_rejected_and_ignored_lines_are_left_out_and_counted(read: Any) -> None:
    lines = [line(1, label="good"), line(2, "reject", label="good"), line(3, "ignore", label="good")]
    bad = BadRows()
    assert len(read(*lines, bad=bad)) == 1
    assert "Left out 2 of 3 rows" in bad.summary()
    assert "line 2: it was rejected. out.jsonl, line 3: it was ignored." in bad.summary()


def test_several_annotators_of_one_text_vote(kept: Any, refusal: Any) -> None:
    marked = [[LOVELY], [LOVELY, FILM], [LOVELY]]
    lines = [line(spans=spans, label="good", _session_id=f"s-{i}") for i, spans in enumerate(marked)]
    assert kept(*lines) == [("good", ("lovely",))]
    assert kept(*lines, agreement=0.0) == [("good", ("lovely", "film"))]
    assert kept(*lines[:2], line(answer="reject", spans=[])) == [("good", ("lovely", "film"))]
    problem = "line 1: its annotators disagree on the label: good or bad."
    assert problem in refusal(line(accept=["good"]), line(accept=["bad"]))
    # Spans and classes of one text may come from two recipes.
    lines = [line(spans=[LOVELY]), line(accept=["good"], options=[])]
    assert kept(*lines) == kept(*lines, agreement=1.0) == [("good", ("lovely",))]


@pytest.mark.parametrize(
    ("span", "problem"),
    [
        (LOVELY | {"text": "dull"}, "the span (4, 10) should hold 'dull', but the text there is 'lovely'"),
        ({"start": 3}, "a span needs start and end, in characters, got (3, None)"),
        ("lovely", "not the format of Prodigy's JSON lines (AttributeError(\"'str' object has no attribute 'get'\"))"),
    ],
)
def test_bad_spans_are_refused(refusal: Any, span: Any, problem: str) -> None:
    assert problem in refusal(line(tokens=TOKENS, spans=[span], label="good"))

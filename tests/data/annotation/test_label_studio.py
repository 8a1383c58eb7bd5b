from pathlib import Path
from typing import Any

import pytest

import annotated
from fresh.data import BadRows, DataConfig, read_documents

TEXT = "A 😀 lovely film.\nNot dull."
LOVELY = {"start": 4, "end": 10, "text": "lovely", "labels": ["RATIONALE"]}


def region(start: int, end: int, text: str | None = None, name: str = "rationale", label: str = "RATIONALE") -> Any:
    value = {"start": start, "end": end, "labels": [label]} | ({} if text is None else {"text": text})
    return {"id": "x", "from_name": name, "to_name": "text", "type": "labels", "value": value}


def choice(*classes: str, name: str = "label") -> Any:
    return {"id": "y", "from_name": name, "to_name": "text", "type": "choices", "value": {"choices": [*classes]}}


def task(*annotations: Any, number: int = 1, **data: Any) -> dict[str, Any]:
    return {"id": number, "data": {"text": TEXT, **data}, "annotations": [*annotations], "predictions": []}


def done(*result: Any, **fields: Any) -> dict[str, Any]:
    return annotated.annotation(result, **fields)


def flat(number: int, label: Any = "good", **fields: Any) -> dict[str, Any]:
    own = {"annotator": 1, "annotation_id": number, "created_at": "", "updated_at": "", "lead_time": 1.0}
    return {"id": 1, "text": TEXT, "label": label, **own, **fields}


def test_columns_are_found_by_their_names(read: Any) -> None:
    record = task(done(choice("yes", name="sure"), choice("good", name="class")), body="A film", name="d7", q="Good?")
    [example] = read(record, text="body", label="class", id="name", query="q")
    assert (example.document.text, example.label, example.document.id) == ("A film", "good", "d7")
    assert example.document.query == ("Good", "?")


GOOD, BAD, MARKED = choice("good"), choice("bad"), ("good", ("lovely",))
SPAN, FIRST = region(4, 10), region(0, 1)
ANY = {"agreement": 0.0}
CASES: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "a task": (task(done(region(4, 10, "lovely"), GOOD)), {}, MARKED),
    "the only question is the label": (task(done(choice("good", name="mood"))), {}, ("good", None)),
    "label in data": (task(done(SPAN), stars=5), {"label": "stars"}, ("5", ("lovely",))),
    "spans of one control": (task(done(region(4, 10, name="why"), FIRST, GOOD)), {"rationale": "why"}, MARKED),
    "who marked nothing votes": (task(done(SPAN, GOOD), done(GOOD), done(GOOD)), {}, ("good", ())),
    "cancelled": (task(done(SPAN, GOOD), done(FIRST, BAD, was_cancelled=True)), ANY, MARKED),
    "ground truth": (task(*[done(FIRST, BAD)] * 2, done(SPAN, GOOD, ground_truth=True)), ANY, MARKED),
    "majority": (task(done(BAD), done(GOOD), done(GOOD)), {}, ("good", None)),
    "a flat annotation": (flat(1, why=[LOVELY]), {}, MARKED),
    "flat, other label": (flat(1, [LOVELY], mood="good"), {"label": "mood"}, MARKED),
    "breaks": (task(done(region(11, 21, "film.\\nNot "), GOOD)), {}, ("good", ("film", ".", "Not"))),
    "UTF-16": (task(done(region(5, 11, "lovely"), GOOD)), {}, MARKED),
}


@pytest.mark.parametrize(("record", "settings", "expected"), CASES.values(), ids=CASES)
def test_annotations_are_read(kept: Any, record: Any, settings: dict[str, Any], expected: Any) -> None:
    assert kept(record, **settings) == [expected]


def test_only_spans_of_a_label_that_is_named_by_enough_annotators_count(kept: Any) -> None:
    record = task(done(region(4, 10, label="WHY"), region(11, 15, label="NAME"), choice("good")))
    assert kept(record) == [("good", ("lovely", "film"))]
    assert kept(record, rationale="WHY") == [("good", ("lovely",))]
    assert kept(record, rationale="") == [("good", None)]
    # Enough annotators must have marked a word.
    marked = [[(4, 10)], [(4, 15)], [(2, 10)]]
    record = task(*(done(*(region(*span) for span in spans), choice("good")) for spans in marked))
    assert kept(record) == kept(record, agreement=1.0) == [("good", ("lovely",))]
    assert kept(record, agreement=0.0) == [("good", ("😀", "lovely", "film"))]
    assert kept(task(*record["annotations"][:2])) == [("good", ("lovely", "film"))]


def test_tasks_that_nobody_answered_are_left_out_and_counted(read: Any, tmp_path: Path) -> None:
    tasks, bad = [task(done(choice("good"))), task(number=2), task(done(was_cancelled=True), number=3)], BadRows()
    assert len(read(*tasks, bad=bad)) == 1
    reasons = "out.jsonl, line 2: nobody has annotated it. out.jsonl, line 3: it was skipped."
    assert bad.summary() == f"Left out 2 of 3 rows: {reasons}"
    assert [document.id for document in read_documents(tmp_path / "out.jsonl", DataConfig())] == ["1", "2", "3"]


def test_flat_annotations_of_one_task_are_one_row(kept: Any, refusal: Any) -> None:
    rows = [flat(1, why=[LOVELY]), flat(2, why=[LOVELY | {"end": 15, "text": "lovely film"}]), flat(3, "bad")]
    assert kept(*rows) == [("good", ("lovely",))]
    assert "its annotators disagree on the label: good or bad." in refusal(flat(1, "good"), flat(2, "bad"))


PLACE = "/p[1]/text()[1]"
HTML = {"type": "hypertextlabels", "value": {"start": PLACE, "end": PLACE, "hypertextlabels": ["X"]}}
NOT_TEXT = f"a span needs start and end, in characters, got ({PLACE!r}, {PLACE!r}). Use the tag Text"


@pytest.mark.parametrize(
    ("record", "settings", "problem"),
    [
        (task(done(choice("a", name="topic"), choice("b", name="mood"))), {}, "it has the questions mood, topic."),
        (task(done(choice("a", name="q"))), {"label": "p"}, "no column 'p' for the label. It has: text, id, q"),
        (task(done(choice("a", "b"))), {}, "a label must be text or a number, got ('a', 'b')"),
        (task(done(choice("good")), done(choice("bad"))), {}, "its annotators disagree on the label: good or bad."),
        (flat(1, [LOVELY]), {}, "no column 'label' for the label. It has: id,"),
        (task(done(HTML)), {}, NOT_TEXT),
    ],
)
def test_annotations_that_cannot_be_used_are_refused(
    refusal: Any, record: Any, settings: dict[str, Any], problem: str
) -> None:
    assert problem in refusal(record, **settings)


@pytest.mark.parametrize(
    ("spans", "problem"),
    [
        ([region(4, 10, "dull")], "the span (4, 10) should hold 'dull', but the text there is 'lovely'."),
        ([region(4, 99)], "the span (4, 99) does not fit a text of 26 characters."),
        ([region(4, 99, "dull")], "the span (4, 99) should hold 'dull', but the text there is " + repr(TEXT[4:]) + "."),
        ([region(9, 4)], "the span (9, 4) does not fit a text of 26 characters."),
        ([region(3, 4)], "the span (3, 4) holds no word, only ' '."),
    ],
)
def test_bad_spans_are_named(read: Any, refusal: Any, spans: list[Any], problem: str) -> None:
    tasks, bad = [task(done(choice("good"))), task(done(*spans, choice("good")), number=2)], BadRows()
    assert f"line 2: {problem} Fix it in the tool" in refusal(*tasks)
    assert len(read(*tasks, bad=bad, skip_bad=True)) == 1
    assert bad.summary() == f"Left out 1 of 2 rows: out.jsonl, line 2: {problem}"

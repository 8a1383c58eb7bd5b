from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import annotated
from fresh.data.annotation.aggregate import MEND
from fresh.data.annotation.label_studio import read as read_tasks
from fresh.data.readers import Row
from fresh.data.splits import BadRows, DataConfig, read_documents
from fresh.errors import DataError

TEXT = "A 😀 lovely film.\nNot dull."


def region(start: int, end: int, text: str | None = None, name: str = "rationale", label: str = "RATIONALE") -> Any:
    value = {"start": start, "end": end, "labels": [label]} | ({} if text is None else {"text": text})
    return {"id": "x", "from_name": name, "to_name": "text", "type": "labels", "value": value}


def choice(*classes: str, name: str = "label") -> Any:
    return {"id": "y", "from_name": name, "to_name": "text", "type": "choices", "value": {"choices": [*classes]}}


def task(*annotations: Any, number: int = 1, **data: Any) -> dict[str, Any]:
    return {"id": number, "data": {"text": TEXT, **data}, "annotations": [*annotations], "predictions": []}


def done(*result: Any, **more: Any) -> dict[str, Any]:
    return annotated.annotation(result, **more)


def flat(number: int, label: Any = "good", **more: Any) -> dict[str, Any]:
    own = {"annotator": 1, "annotation_id": number, "created_at": "", "updated_at": "", "lead_time": 1.0}
    return {"id": 1, "text": TEXT, "label": label, **own, **more}


def fails(tmp_path: Path, *tasks: Any, **settings: Any) -> str:
    with pytest.raises(DataError) as caught:
        annotated.read(annotated.write_list(tmp_path / "export.json", tasks), **settings)
    return str(caught.value)


def words(tmp_path: Path, *tasks: Any, **settings: Any) -> list[tuple[str, ...] | None]:
    found = annotated.read(annotated.write_list(tmp_path / "export.json", tasks), **settings)
    return [None if e.human is None else e.document.cut(e.human).words for e in found]


def test_a_task_is_read(tmp_path: Path) -> None:
    path = annotated.write_list(tmp_path / "export.json", [task(done(region(4, 10, "lovely"), choice("good")))])
    [found] = annotated.read(path)
    assert (found.document.id, found.document.text, found.label) == ("1", TEXT, "good")
    assert found.human is not None
    assert found.document.cut(found.human).words == ("lovely",)


def test_columns_are_found_by_their_names(tmp_path: Path) -> None:
    item = task(done(choice("yes", name="sure"), choice("good", name="class")), body="A film", name="d7", q="Good?")
    path = annotated.write_list(tmp_path / "export.json", [item])
    [found] = annotated.read(path, text="body", label="class", id="name", query="q")
    assert (found.document.text, found.label, found.document.id) == ("A film", "good", "d7")
    assert found.document.query == ("Good", "?")


def test_the_only_choices_are_the_label_whatever_their_name(tmp_path: Path) -> None:
    path = annotated.write_list(tmp_path / "export.json", [task(done(choice("good", name="sentiment")))])
    [found] = annotated.read(path)
    assert (found.label, found.human) == ("good", None)


def test_of_several_choices_one_must_be_named(tmp_path: Path) -> None:
    assert fails(tmp_path, task(done(choice("a", name="topic"), choice("b", name="mood")))) == (
        "export.json, row 1: it has the choices mood, topic. Name the one that is the label with `label`."
    )


def test_a_label_of_the_data_serves(tmp_path: Path) -> None:
    path = annotated.write_list(tmp_path / "export.json", [task(done(region(4, 10)), stars=5)])
    [found] = annotated.read(path, label="stars")
    assert found.label == "5"


def test_a_label_that_is_nowhere_is_named_with_what_there_is(tmp_path: Path) -> None:
    assert fails(tmp_path, task(done(choice("a", name="mood"))), label="mod") == (
        "export.json has no column 'mod' for the label. It has: text, id, mood, rationale. "
        "Name the right one with `label`."
    )


def test_two_classes_are_no_label(tmp_path: Path) -> None:
    assert fails(tmp_path, task(done(choice("a", "b")))) == (
        "export.json, row 1: a label must be text or a number, got ('a', 'b'). "
        "Mend the row, or leave such rows out with skip_bad=True."
    )


def test_spans_that_count_may_be_named(tmp_path: Path) -> None:
    item = task(done(region(4, 10, label="WHY"), region(11, 15, label="NAME"), choice("good")))
    assert words(tmp_path, item) == [("lovely", "film")]
    assert words(tmp_path, item, rationale="WHY") == [("lovely",)]
    assert words(tmp_path, task(done(region(4, 10, name="why"), choice("good"))), rationale="why") == [("lovely",)]
    assert words(tmp_path, item, rationale="") == [None]


def test_enough_annotators_must_have_marked_a_word(tmp_path: Path) -> None:
    marked = [[(4, 10)], [(4, 15)], [(2, 10)]]
    item = task(*(done(*(region(*span) for span in spans), choice("good")) for spans in marked))
    assert words(tmp_path, item) == [("lovely",)]
    assert words(tmp_path, item, agreement=0.0) == [("😀", "lovely", "film")]
    assert words(tmp_path, item, agreement=1.0) == [("lovely",)]
    assert words(tmp_path, task(*item["annotations"][:2])) == [("lovely", "film")]


def test_an_annotator_who_marked_nothing_votes_too(tmp_path: Path) -> None:
    item = task(done(region(4, 10), choice("good")), done(choice("good")), done(choice("good")))
    assert words(tmp_path, item) == [()]


def test_annotations_that_were_cancelled_do_not_count(tmp_path: Path) -> None:
    item = task(done(region(4, 10), choice("good")), done(region(0, 1), choice("bad"), was_cancelled=True))
    assert words(tmp_path, item, agreement=0.0) == [("lovely",)]


def test_the_ground_truth_goes_before_all_others(tmp_path: Path) -> None:
    others = [done(region(0, 1), choice("bad"))] * 2
    item = task(*others, done(region(4, 10), choice("good"), ground_truth=True))
    [found] = annotated.read(annotated.write_list(tmp_path / "export.json", [item]))
    assert found.label == "good"
    assert words(tmp_path, item, agreement=0.0) == [("lovely",)]


def test_the_label_is_that_of_most_annotators(tmp_path: Path) -> None:
    item = task(*(done(choice(label)) for label in ("bad", "good", "good")))
    [found] = annotated.read(annotated.write_list(tmp_path / "export.json", [item]))
    assert found.label == "good"
    assert fails(tmp_path, task(done(choice("good")), done(choice("bad")))) == (
        f"export.json, row 1: its annotators disagree on the label: good or bad. {MEND}"
    )


def test_tasks_that_nobody_answered_are_left_out_and_counted(tmp_path: Path) -> None:
    good = task(done(choice("good")))
    tasks = [good, task(number=2), task(done(was_cancelled=True), number=3)]
    bad = BadRows()
    assert len(annotated.read(annotated.write_list(tmp_path / "export.json", tasks), bad)) == 1
    assert bad.summary() == (
        "Left out 2 of 3 rows: export.json, row 2: nobody has annotated it. export.json, row 3: it was skipped."
    )


def test_texts_are_read_whether_they_were_answered_or_not(tmp_path: Path) -> None:
    tasks = [task(done(choice("good"))), task(number=2), task(done(was_cancelled=True), number=3)]
    path = annotated.write_list(tmp_path / "export.json", tasks)
    assert [document.id for document in read_documents(path, DataConfig())] == ["1", "2", "3"]


def test_flat_annotations_are_read(tmp_path: Path) -> None:
    span = {"start": 4, "end": 10, "text": "lovely", "labels": ["RATIONALE"]}
    assert words(tmp_path, flat(1, why=[span])) == [("lovely",)]


def test_flat_annotations_of_one_task_are_one_row(tmp_path: Path) -> None:
    span = {"start": 4, "end": 10, "text": "lovely", "labels": ["RATIONALE"]}
    rows = [flat(1, why=[span]), flat(2, why=[span | {"end": 15, "text": "lovely film"}]), flat(3, "bad")]
    assert words(tmp_path, *rows) == [("lovely",)]
    assert fails(tmp_path, flat(1, "good"), flat(2, "bad")).startswith(
        "export.json, row 1: its annotators disagree on the label: good or bad."
    )


def test_flat_spans_are_no_label(tmp_path: Path) -> None:
    span = {"start": 4, "end": 10, "text": "lovely", "labels": ["X"]}
    assert fails(tmp_path, flat(1, [span])).startswith("export.json has no column 'label' for the label. It has: id,")
    assert words(tmp_path, flat(1, [span], mood="good"), label="mood") == [("lovely",)]


def test_line_breaks_are_recognised_as_they_are_shown(tmp_path: Path) -> None:
    assert words(tmp_path, task(done(region(11, 21, "film.\\nNot "), choice("good")))) == [("film", ".", "Not")]


def test_places_of_older_versions_are_utf16_code_units(tmp_path: Path) -> None:
    assert words(tmp_path, task(done(region(5, 11, "lovely"), choice("good")))) == [("lovely",)]


@pytest.mark.parametrize(
    ("spans", "problem"),
    [
        ([region(4, 10, "dull")], "the span (4, 10) should hold 'dull', but the text there is 'lovely'."),
        ([region(4, 99)], "the span (4, 99) does not fit a text of 26 characters."),
        ([region(9, 4)], "the span (9, 4) does not fit a text of 26 characters."),
        ([region(3, 4)], "the span (3, 4) holds no word, only ' '."),
        (
            [region(3, 4), region(0, 1), region(16, 17)],
            "the span (3, 4) holds no word, only ' '. (and 1 more bad span)",
        ),
        (
            [region(-1, 3), region(50, 60), region(1, 2)],
            "the span (-1, 3) does not fit a text of 26 characters. (and 2 more bad spans)",
        ),
    ],
)
def test_bad_spans_are_named_and_counted(tmp_path: Path, spans: list[Any], problem: str) -> None:
    good, wrong = task(done(choice("good"))), task(done(*spans, choice("good")), number=2)
    assert fails(tmp_path, good, wrong) == f"export.json, row 2: {problem} {MEND}"
    bad = BadRows()
    path = annotated.write_list(tmp_path / "export.json", [good, wrong])
    assert len(annotated.read(path, bad, skip_bad=True)) == 1
    assert bad.summary() == f"Left out 1 of 2 rows: export.json, row 2: {problem}"


def test_places_in_html_are_refused(tmp_path: Path) -> None:
    value = {"start": "/p[1]/text()[1]", "end": "/p[1]/text()[1]", "startOffset": 0, "hypertextlabels": ["X"]}
    item = {"from_name": "rationale", "to_name": "text", "type": "hypertextlabels", "value": value}
    assert fails(tmp_path, task(done(item, choice("good")))) == (
        "export.json, row 1: its spans are places in HTML or in paragraphs, not in a text. "
        "Use the tag Text in the labelling configuration."
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 30) | st.sampled_from(("labels", "choices", TEXT)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(("type", "value", "result", "start", "end", "text", "labels", "choices", "from_name")),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=3), JSON)
def test_whatever_is_not_as_it_should_be_is_an_error_of_its_row(annotations: list[Any], label: Any) -> None:
    records = [task(*annotations), flat(2, label), {**task(), "annotations": label}]
    rows = [Row(record, "export.json", f"row {i}", i) for i, record in enumerate(records, start=1)]
    assert len(list(read_tasks(rows, DataConfig()))) == 3

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import annotated
from fresh.data.annotation.aggregate import MEND
from fresh.data.annotation.doccano import read as read_lines
from fresh.data.readers import Row
from fresh.data.splits import DataConfig
from fresh.errors import DataError

TEXT = "A 😀 lovely film"  # in UTF-16 code units, lovely is at 5 to 11


def words(tmp_path: Path, *lines: Any, **settings: Any) -> list[tuple[str, tuple[str, ...] | None]]:
    found = annotated.read(annotated.write_lines(tmp_path / "all.jsonl", lines), **settings)
    return [(e.label, None if e.human is None else e.document.cut(e.human).words) for e in found]


def fails(tmp_path: Path, *lines: Any, **settings: Any) -> str:
    with pytest.raises(DataError) as caught:
        words(tmp_path, *lines, **settings)
    return str(caught.value)


def line(**more: Any) -> dict[str, Any]:
    return {"id": 1, "text": TEXT, "Comments": [], **more}


def test_classes_and_spans_are_read(tmp_path: Path) -> None:
    assert words(tmp_path, line(cats=["good"], entities=[[5, 11, "RATIONALE"]])) == [("good", ("lovely",))]


def test_sequence_labelling_is_read_with_the_label_of_another_column(tmp_path: Path) -> None:
    given = line(label=[[5, 11, "RATIONALE"]], sentiment="good")
    assert words(tmp_path, given, label="sentiment") == [("good", ("lovely",))]
    assert fails(tmp_path, given) == (
        "all.jsonl has no column 'label' for the label. It has: id, text, sentiment, rationale. "
        "Name the right one with `label`."
    )


def test_spans_with_relations_are_read(tmp_path: Path) -> None:
    span = {"id": 3, "label": "RATIONALE", "start_offset": 5, "end_offset": 11}
    assert words(tmp_path, line(entities=[span], relations=[], cats=["good"])) == [("good", ("lovely",))]


def test_text_classification_is_read(tmp_path: Path) -> None:
    assert words(tmp_path, line(label=["good"]), line(id=2, label=[2])) == [("good", None), ("2", None)]


def test_the_class_that_people_chose_goes_before_a_column_unless_that_is_named(tmp_path: Path) -> None:
    given = line(cats=["good"], entities=[], label="old", gold="bad")
    assert words(tmp_path, given) == [("good", None)]
    assert words(tmp_path, given, label="gold") == [("bad", None)]


def test_a_text_in_which_nobody_marked_has_no_rationale(tmp_path: Path) -> None:
    assert words(tmp_path, line(cats=["good"], entities=[])) == [("good", None)]


def test_spans_that_count_may_be_named(tmp_path: Path) -> None:
    given = line(cats=["good"], entities=[[5, 11, "WHY"], [12, 16, "NAME"]])
    assert words(tmp_path, given, rationale="WHY") == [("good", ("lovely",))]


def test_classes_must_be_one(tmp_path: Path) -> None:
    rest = "Mend the row, or leave such rows out with skip_bad=True."
    assert fails(tmp_path, line(cats=[], entities=[])) == f"all.jsonl, line 1: there is no label. {rest}"
    assert fails(tmp_path, line(cats=["a", "b"], entities=[])) == (
        f"all.jsonl, line 1: a label must be text or a number, got ('a', 'b'). {rest}"
    )


@pytest.mark.parametrize(
    ("spans", "problem"),
    [
        ([[5, 99, "X"]], "the span (5, 99) does not fit a text of 16 UTF-16 code units, or cuts a character."),
        ([[3, 11, "X"]], "the span (3, 11) does not fit a text of 16 UTF-16 code units, or cuts a character."),
        (
            [[3, 11, "X"], [5, 11, "X"], [7, 7, "X"]],
            "the span (3, 11) does not fit a text of 16 UTF-16 code units, or cuts a character. (and 1 more bad span)",
        ),
        ([[4, 5, "X"]], "the span (3, 4) holds no word, only ' '."),
        ([[5, "X"]], "a span is [start, end, label], got [5, 'X']."),
        ([[5.5, 7, "X"]], "a span is [start, end, label], got [5.5, 7, 'X']."),
        ([{"start_offset": 5}], "a span is [start, end, label], got {'start_offset': 5}."),
    ],
)
def test_bad_spans_are_refused(tmp_path: Path, spans: list[Any], problem: str) -> None:
    assert fails(tmp_path, line(cats=["good"], entities=spans)) == f"all.jsonl, line 1: {problem} {MEND}"


ANY = st.recursive(
    st.none() | st.integers(-2, 20) | st.sampled_from(("good", TEXT)), lambda inner: st.lists(inner, max_size=4)
)


@given(ANY, ANY, ANY)
def test_whatever_is_not_as_it_should_be_is_an_error_of_its_row(label: Any, cats: Any, entities: Any) -> None:
    row = Row(line(label=label, cats=cats, entities=entities), "all.jsonl", "line 1", 1)
    assert len(list(read_lines([row], DataConfig()))) == 1

import inspect
import json
import re
import tracemalloc
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.data.splits import BadRows, DataConfig, read_documents, read_examples
from fresh.document import Mask
from fresh.errors import DataError

PLAIN = DataConfig()
MEND = "Mend the row, or leave such rows out with skip_bad=True."


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records), encoding="utf-8")
    return path


def review(text: str = "Good film.", label: Any = "pos", **more: Any) -> dict[str, Any]:
    return {"text": text, "label": label, **more}


def fails(source: Any, config: DataConfig = PLAIN) -> str:
    with pytest.raises(DataError) as caught:
        list(read_examples(source, config))
    return str(caught.value)


# Settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"text": ""}, "text must name a column, got ''."),
        ({"label": ""}, "label must name a column, got ''."),
        ({"text": "a", "query": "a"}, "text and query both name the column 'a'. Give each its own."),
        ({"agreement": 1.5}, "agreement must lie between 0 and 1, got 1.5."),
        ({"max_row_mb": 0}, "max_row_mb must be at least 1, got 0."),
        ({"max_unpacked": 0}, "max_unpacked must be at least 1, got 0."),
        ({"dev_share": 0.0}, "dev_share must lie between 0 and 1, got 0.0."),
        ({"test_share": 1.0}, "test_share must lie between 0 and 1, got 1.0."),
        (
            {"dev_share": 0.5, "test_share": 0.5},
            "dev_share and test_share must leave rows to train on, got 0.5 and 0.5.",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        DataConfig(**settings)


def test_optional_columns_can_be_turned_off() -> None:
    [found] = read_examples([review(id="a", query="Why?")], DataConfig(id="", query="", rationale=""))
    assert (found.document.id, found.document.query) == ("list-1", ())


# Documents and examples


def test_documents_need_no_label(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", {"text": "Good film.", "query": "Is it good?"}, {"text": "Bad.", "id": 7})
    first, second = read_documents(path, PLAIN)
    assert (first.text, first.words, first.id) == ("Good film.", ("Good", "film", "."), "r-1")
    assert first.query == ("Is", "it", "good", "?")
    assert second.id == "7"


def test_documents_are_read_one_at_a_time() -> None:
    documents = read_documents(({"text": f"film {i}"} for i in range(10**9)), PLAIN)
    assert next(documents).words == ("film", "0")


def test_tokenised_text_is_split_at_white_space_only() -> None:
    record = review("is n't  good.\n", query="what is it?")
    [found] = read_examples([record], DataConfig(tokenised=True))
    assert found.document.words == ("is", "n't", "good.")
    assert found.document.query == ("what", "is", "it?")
    assert found.document.text == "is n't  good.\n"


def test_the_text_may_stand_in_a_column_document() -> None:
    [found] = read_examples([{"document": "Good.", "label": "pos"}], PLAIN)
    assert found.document.text == "Good."
    [found] = read_examples([{"document": "no", "text": "yes", "label": "pos"}], PLAIN)
    assert found.document.text == "yes"


def test_equal_texts_are_kept_once() -> None:
    first, second = read_examples([review("one " * 9, id="a"), review("one  "[:4] * 9, id="b")], PLAIN)
    assert first.document.words is second.document.words
    assert first.document.text is second.document.text


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("pos", "pos"),
        (" pos ", "pos"),
        (1, "1"),
        (True, "True"),
        (1.0, "1"),
        (0.5, "0.5"),
        (-2.0, "-2"),
        (np.int64(3), "3"),
        (np.float32(2.0), "2"),
        (np.bool_(False), "False"),
    ],
)
def test_labels_become_text(label: Any, text: str) -> None:
    [found] = read_examples([review(label=label)], PLAIN)
    assert found.label == text


def test_whole_numbers_survive_a_frame_with_gaps() -> None:
    frame = pd.DataFrame({"text": ["Good.", "Bad.", "So so."], "label": [1, 0, None]})
    bad = BadRows()
    assert [e.label for e in read_examples(frame, DataConfig(skip_bad=True), bad)] == ["1", "0"]
    assert bad.messages == ["frame, row 3: there is no label."]


def test_whole_numbers_are_ids_without_a_point() -> None:
    frame = pd.DataFrame({"text": ["Good.", "Bad."], "label": ["a", "b"], "id": [7, None]})
    assert [e.document.id for e in read_examples(frame, PLAIN)] == ["7", "frame-2"]


def test_nullable_columns_of_a_frame_are_read() -> None:
    frame = pd.DataFrame({"text": ["Good.", "Bad."], "label": pd.array([1, None], dtype="Int64")})
    assert fails(frame) == f"frame, row 2: there is no label. {MEND}"


# Rationales


def test_a_rationale_counts_words_of_tokenised_text() -> None:
    records = [review("a b c d", rationale=[[0, 1], [2, 4], [3, 4]])]
    [found] = read_examples(records, DataConfig(tokenised=True))
    assert found.human == Mask(np.array([True, False, True, True]))


def test_a_rationale_counts_characters_of_raw_text() -> None:
    [found] = read_examples([review("A very good film.", rationale=[[8, 10], [16, 17]])], PLAIN)
    assert found.human is not None
    assert found.document.cut(found.human).words == ("good", ".")


def test_no_rationale_and_an_empty_one_are_told_apart() -> None:
    records = [review("a b", rationale=None), review("a b", rationale=[]), review("a b")]
    unknown, empty, missing = read_examples(records, PLAIN)
    assert (unknown.human, missing.human) == (None, None)
    assert empty.human == Mask(np.array([False, False]))


def test_a_rationale_may_be_json_in_a_cell(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text('text,label,rationale\nGood film,pos,"[[0, 4]]"\nBad film,neg,\nA film,neg,null\nFilm,pos,[]\n')
    humans = [found.human for found in read_examples(path, PLAIN)]
    assert humans == [Mask(np.array([True, False])), None, None, Mask(np.array([False]))]


def test_a_rationale_may_be_an_array() -> None:
    frame = pd.DataFrame([review("Good film", rationale=np.array([[0, 4]])), review("Bad film", rationale=None)])
    assert [found.human for found in read_examples(frame, PLAIN)] == [Mask(np.array([True, False])), None]


@given(st.text("ab .", min_size=1, max_size=30).filter(str.strip), st.data())
def test_a_word_is_kept_if_a_span_touches_it(text: str, data: st.DataObject) -> None:
    places = st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))
    spans = data.draw(st.lists(places.map(sorted).filter(lambda span: span[0] < span[1]), max_size=4))
    [found] = read_examples([review(text, rationale=spans)], PLAIN)
    marked = {place for start, end in spans for place in range(start, end)}
    assert found.human is not None
    assert found.human.kept.tolist() == [not marked.isdisjoint(range(*span)) for span in found.document.spans]


@pytest.mark.parametrize("span", [[0, 6], [2, 2], [3, 1], [-1, 2]])
def test_a_span_that_does_not_fit_is_refused(span: list[int]) -> None:
    message = f"list, row 1: the rationale span ({span[0]}, {span[1]}) does not fit a document of 5 {{unit}}. "
    message += "Spans count {unit} from 0 and exclude their end."
    assert fails([review("a b c", rationale=[span])]) == message.format(unit="characters")
    words = [review("a b c d e", rationale=[span])]
    assert fails(words, DataConfig(tokenised=True)) == message.format(unit="words")


@pytest.mark.parametrize("cell", [[1, 2], "[[1, 2]", [[1.5, 2]], [[1, 2, 3]], "yes", {"start": 1}, 3])
def test_a_rationale_of_another_shape_is_refused(cell: Any) -> None:
    assert fails([review(rationale=cell)]) == (
        f"list, row 1: the rationale is not a list of pairs, got {cell!r}. "
        "Write pairs of start and end, such as [[0, 4], [10, 17]], or null."
    )


# Errors


def test_a_missing_column_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text("review,stars\nGood.,5\n")
    rest = "It has: review, stars. Name the right one with"
    assert fails(path) == f"reviews.csv has no column 'text' for the text. {rest} `text`."
    assert fails(path, DataConfig(text="review")) == f"reviews.csv has no column 'label' for the label. {rest} `label`."
    named = DataConfig(text="review", label="stars")
    for name in ("query", "id", "rationale"):
        other: dict[str, Any] = {name: "x"}
        assert fails(path, replace(named, **other)) == (
            f"reviews.csv has no column 'x' for the {name}. {rest} `{name}`."
        )
    assert len(list(read_examples(path, named))) == 1


def test_a_missing_column_is_an_error_also_where_bad_rows_are_skipped() -> None:
    assert fails([{"label": "pos"}], DataConfig(skip_bad=True)) == (
        "list has no column 'text' for the text. It has: label. Name the right one with `text`."
    )


def test_document_does_not_stand_in_for_a_column_that_was_named() -> None:
    assert "no column 'body'" in fails([{"document": "Good.", "label": "pos"}], DataConfig(text="body"))


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (review(" \n"), "the text has no words."),
        (review("\u200b"), "the text has no words."),
        ({"text": None, "label": "pos"}, "the text has no words."),
        ({"label": "pos"}, "the text has no words."),
        ({"text": 5, "label": "pos"}, "the text must be text, got 5."),
        (review("a \ud800 b"), "the text holds half a character (surrogates not allowed)."),
        ({"text": "a", "label": "\ud800"}, "the label holds half a character (surrogates not allowed)."),
        ({"text": "a", "label": "b", "id": "\ud800"}, "the id holds half a character (surrogates not allowed)."),
        (review(label=None), "there is no label."),
        (review(label="  "), "there is no label."),
        (review(label=float("nan")), "there is no label."),
        ({"text": "Good."}, "there is no label."),
        (review(label=["pos"]), "a label must be text or a number, got ['pos']."),
    ],
)
def test_a_row_that_cannot_be_used_is_named(tmp_path: Path, record: dict[str, Any], problem: str) -> None:
    path = write(tmp_path / "r.jsonl", review(), record)
    assert fails(path) == f"r.jsonl, line 2: {problem} {MEND}"


def test_broken_json_is_refused(tmp_path: Path) -> None:
    message = fails(write(tmp_path / "r.jsonl", review(), "{"))
    assert message.startswith("r.jsonl, line 2: broken JSON (Expecting property name enclosed in double quotes")


def test_two_rows_of_one_id_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", review(id="a"), review(id="b"), review(id="a"))
    assert fails(path) == (
        "r.jsonl, line 3: the id 'a' stands in r.jsonl, line 1 already. "
        "Give each row its own id, or have ids made with id=''."
    )
    assert len(list(read_documents(path, PLAIN))) == 3


def test_bad_rows_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = [review(id="a"), "{", "[]", review(""), review(label=None), review(rationale=[[0, 99]]), review(id="a")]
    path = write(tmp_path / "r.jsonl", *rows, review("Bad."))
    bad = BadRows()
    found = list(read_examples(path, DataConfig(skip_bad=True), bad))
    assert [e.document.id for e in found] == ["a", "r-8"]
    assert (bad.count, bad.total) == (6, 8)
    assert bad.summary() == (
        "Left out 6 of 8 rows: r.jsonl, line 2: broken JSON (Expecting property name enclosed in double quotes: "
        "line 2 column 1 (char 2)). r.jsonl, line 3: a JSON object is needed, got '[]'. "
        "r.jsonl, line 4: the text has no words. (and 3 more)"
    )


def test_a_row_that_was_left_out_does_not_take_its_id() -> None:
    records = [review(id="a", label=None), review(id="a")]
    assert [e.document.id for e in read_examples(records, DataConfig(skip_bad=True))] == ["a"]


def test_a_summary_without_bad_rows() -> None:
    bad = BadRows()
    list(read_examples([review()], DataConfig(skip_bad=True), bad))
    assert bad.summary() == "All 1 rows were read."


def test_data_without_one_good_row_is_refused() -> None:
    message = "No row can be used. Left out 1 of 1 rows: list, row 1: the text has no words."
    assert fails([review("")], DataConfig(skip_bad=True)) == message


def test_every_setting_has_its_own_words() -> None:
    source = inspect.getsource(DataConfig)
    for setting in fields(DataConfig):
        line = next(i for i, text in enumerate(source.splitlines()) if text.startswith(f"    {setting.name}: "))
        assert source.splitlines()[line + 1].strip().startswith('"""')


# Large texts


@pytest.mark.parametrize("column", ["text", "query"])
def test_a_text_that_is_too_large_is_refused_or_left_out(column: str) -> None:
    rows = [review(id="a"), review(**{column: "a " * 2**20}), review(id="c")]
    message = (
        "list, row 2: the row is larger than 1 MB, the limit that max_row_mb sets. Split its text into several rows."
    )
    assert fails(rows, DataConfig(max_row_mb=1)) == message
    bad = BadRows()
    found = read_examples([rows[0], rows[1] | {"query": ""}, rows[2]], DataConfig(max_row_mb=1, skip_bad=True), bad)
    assert [item.document.id for item in found] == (["a", "c"] if column == "text" else ["a", "list-2", "c"])
    assert bad.count == (1 if column == "text" else 0)


def test_rows_with_the_text_of_the_row_before_share_its_words() -> None:
    texts = ["".join(("one ", "text")), "".join(("one ", "text")), "another text", "one text"]
    first, second, third, _ = (item.document for item in read_examples(map(review, texts), PLAIN))
    assert second.words is first.words
    assert second.text is first.text
    assert third.words == ("another", "text")
    [tokenised] = read_examples([review("one, text")], DataConfig(tokenised=True))
    assert tokenised.document.words == ("one,", "text")


def test_no_text_stays_in_memory_after_it_was_read() -> None:
    list(read_documents([{"text": "a film"}], PLAIN))
    tracemalloc.start()
    for number in range(4):
        list(read_documents([{"text": f"{number} " * 100_000}], PLAIN))
    left = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert left < 1_000_000


def test_of_many_columns_some_are_named() -> None:
    row = {"x" * 1000: "", **{f"c{number}": "" for number in range(2000)}}
    named = ", ".join(["x" * 60, *(f"c{number}" for number in range(29))])
    assert fails([row]) == (
        f"list has no column 'text' for the text. It has: {named} and 1,971 more. Name the right one with `text`."
    )

import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_files import review, write
from fresh.data.config import DataConfig
from fresh.data.examples import BadRows, read_documents, read_examples
from fresh.document import Example, Mask
from fresh.errors import DataError

DEFAULT = DataConfig()
TOKENIZED = DataConfig(tokenised=True)
SKIP = DataConfig(skip_bad=True)


def only(record: dict[str, Any], config: DataConfig = DEFAULT) -> Example:
    [example] = read_examples([record], config)
    return example


def refusal(source: Any, config: DataConfig = DEFAULT) -> str:
    with pytest.raises(DataError) as caught:
        list(read_examples(source, config))
    return str(caught.value)


# Documents and labels


def test_documents_need_no_label_and_are_read_one_at_a_time(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", [{"text": "Good film.", "query": "Is it good?"}, {"text": "Bad.", "id": 7}])
    first, second = read_documents(path, DEFAULT)
    assert (first.text, first.words, first.id) == ("Good film.", ("Good", "film", "."), "r-1")
    assert (first.query, second.id) == (("Is", "it", "good", "?"), "7")
    documents = read_documents(({"text": f"film {i}"} for i in range(10**9)), DEFAULT)
    assert next(documents).words == ("film", "0")


def test_columns_and_tokenization_can_be_set() -> None:
    document = only(review(id="a", query="Why?"), DataConfig(id="", query="", rationale="")).document
    assert (document.id, document.query) == ("list-1", ())
    document = only(review("is n't  good.\n", query="what is it?"), TOKENIZED).document
    assert (document.words, document.query) == (("is", "n't", "good."), ("what", "is", "it?"))
    assert document.text == "is n't  good.\n"
    assert only({"document": "Good.", "label": "pos"}).document.text == "Good."
    assert only({"document": "no", "text": "yes", "label": "pos"}).document.text == "yes"
    assert "no column 'body'" in refusal([{"document": "Good.", "label": "pos"}], DataConfig(text="body"))


def test_a_text_that_follows_an_equal_one_shares_its_words() -> None:
    texts = ["".join(("one ", "text")), "".join(("one ", "text")), "another text", "one text"]
    first, second, third, _ = (example.document for example in read_examples(map(review, texts), DEFAULT))
    assert second.words is first.words
    assert second.text is first.text
    assert third.words == ("another", "text")
    assert only(review("one, text"), TOKENIZED).document.words == ("one,", "text")


def test_no_text_stays_in_memory_after_it_was_read() -> None:
    list(read_documents([{"text": "a film"}], DEFAULT))
    tracemalloc.start()
    for number in range(4):
        list(read_documents([{"text": f"{number} " * 20_000}], DEFAULT))
    left = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert left < 200_000


def test_labels_become_text() -> None:
    labels = (" pos ", 1, True, 1.0, 0.5, -2.0, np.int64(3), np.float32(2.0), np.bool_(False))
    texts = ["pos", "1", "True", "1", "0.5", "-2", "3", "2", "False"]
    records = (review(label=label) for label in labels)
    assert [example.label for example in read_examples(records, DEFAULT)] == texts


def test_whole_numbers_survive_a_frame_with_gaps() -> None:
    frame = pd.DataFrame({"text": ["Good.", "Bad.", "So so."], "label": [1, 0, None], "id": [7, None, None]})
    bad = BadRows()
    assert [(e.label, e.document.id) for e in read_examples(frame, SKIP, bad)] == [("1", "7"), ("0", "frame-2")]
    assert bad.messages == ["frame, row 3: there is no label."]
    nullable = pd.DataFrame({"text": ["Good.", "Bad."], "label": pd.array([1, None], dtype="Int64")})
    assert "frame, row 2: there is no label." in refusal(nullable)


@pytest.mark.parametrize(
    ("record", "config", "spans"),
    [
        (review("a good film .", rationale=[[2, 3], [0, 1], [1, 3], [0, 1]]), TOKENIZED, ((2, 3), (0, 1), (1, 3))),
        (review("A good film.", rationale=[[0, 1], [2, 4], [4, 6], [7, 12]]), DEFAULT, ((0, 1), (1, 2), (2, 4))),
        (review("A very good film.", rationale=[[8, 10], [16, 17]]), DEFAULT, ((2, 3), (4, 5))),
        (review("a b", rationale=None), DEFAULT, None),
        (review("a b"), DEFAULT, None),
        (review("a b", rationale=[]), DEFAULT, ()),
    ],
)
def test_rationales_become_distinct_spans_of_words(record: Any, config: DataConfig, spans: Any) -> None:
    example = only(record, config)
    assert example.evidence == spans
    assert example.human == (None if spans is None else Mask.from_spans(spans, len(example.document.words)))


def test_a_rationale_may_be_json_in_a_cell_or_an_array(tmp_path: Path) -> None:
    cells = 'text,label,rationale\nGood film,pos,"[[0, 4]]"\nBad film,neg,\nA film,neg,null\nFilm,pos,[]\n'
    masks = [example.human for example in read_examples(write(tmp_path / "r.csv", cells), DEFAULT)]
    assert masks == [Mask(np.array([True, False])), None, None, Mask(np.array([False]))]
    frame = pd.DataFrame([review("Good film", rationale=np.array([[0, 4]])), review("Bad film", rationale=None)])
    assert [example.human for example in read_examples(frame, DEFAULT)] == [Mask(np.array([True, False])), None]


@given(st.text("ab .", min_size=1, max_size=30).filter(str.strip), st.data())
def test_a_word_is_kept_if_a_span_overlaps_it(text: str, data: st.DataObject) -> None:
    places = st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))
    spans = data.draw(st.lists(places.map(sorted).filter(lambda span: span[0] < span[1]), max_size=4))
    example = only(review(text, rationale=spans))
    marked = {place for start, end in spans for place in range(start, end)}
    assert example.human is not None
    assert example.human.kept.tolist() == [not marked.isdisjoint(range(*span)) for span in example.document.spans]


@pytest.mark.parametrize("span", [[0, 6], [2, 2], [3, 1], [-1, 2]])
@pytest.mark.parametrize(
    ("text", "config", "unit"), [("a b c", DEFAULT, "characters"), ("a b c d e", TOKENIZED, "words")]
)
def test_a_span_that_does_not_fit_is_refused(span: list[int], text: str, config: DataConfig, unit: str) -> None:
    message = refusal([review(text, rationale=[span])], config)
    assert f"list, row 1: the rationale span ({span[0]}, {span[1]}) does not fit a document of 5 {unit}." in message


@pytest.mark.parametrize("cell", [[1, 2], "[[1, 2]", [[1.5, 2]], [[1, 2, 3]], "yes", {"start": 1}, 3])
def test_a_rationale_of_another_shape_is_refused(cell: Any) -> None:
    message = refusal([review(rationale=cell)])
    assert f"list, row 1: the rationale is not a list of pairs, got {cell!r}. Write pairs" in message


# Errors


def test_a_missing_column_is_named_with_the_first_of_the_others(tmp_path: Path) -> None:
    path = write(tmp_path / "reviews.csv", "review,stars\nGood.,5\n")
    start, rest = "reviews.csv has no column", "It has: review, stars. Name the right one with"
    assert refusal(path) == f"{start} 'text' for the text. {rest} `text`."
    assert refusal(path, DataConfig(text="review")) == f"{start} 'label' for the label. {rest} `label`."
    named = DataConfig(text="review", label="stars")
    for name in ("query", "id", "rationale"):
        other: dict[str, Any] = {name: "x"}
        assert refusal(path, replace(named, **other)) == f"{start} 'x' for the {name}. {rest} `{name}`."
    assert len(list(read_examples(path, named))) == 1
    assert "list has no column 'text' for the text. It has: label." in refusal([{"label": "pos"}], SKIP)
    row = {"x" * 1000: "", **{f"c{number}": "" for number in range(2000)}}
    names = ", ".join(["x" * 60, *(f"c{number}" for number in range(29))])
    assert f"It has: {names} and more. Name" in refusal([row])


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        *((record, "the text has no words.") for record in (*map(review, (" \n", "\u200b", None)), {"label": "pos"})),
        (review(5), "the text must be a string, got 5."),
        *(
            (review(**{name: "\ud800"}), f"the {name} holds half a character (surrogates not allowed).")
            for name in ("text", "label", "id")
        ),
        *((review(label=label), "there is no label.") for label in (None, "  ", float("nan"))),
        ({"text": "Good."}, "there is no label."),
        (review(label=["pos"]), "a label must be text or a number, got ['pos']."),
        ("{", "broken JSON (Expecting property name enclosed in double quotes"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(tmp_path: Path, record: Any, problem: str) -> None:
    assert f"r.jsonl, line 2: {problem}" in refusal(write(tmp_path / "r.jsonl", [review(), record]))


def test_two_rows_of_one_id_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", [review(id="a"), review(id="b"), review(id="a")])
    assert "r.jsonl, line 3: the id 'a' is already used in r.jsonl, line 1." in refusal(path)
    assert len(list(read_documents(path, DEFAULT))) == 3
    # A row that was left out does not take its id.
    records = [review(id="a", label=None), review(id="a")]
    bad = BadRows()
    assert [e.document.id for e in read_examples(records, SKIP, bad)] == ["a"]
    assert bad.summary() == "Left out 1 of 2 rows: list, row 1: there is no label."
    message = "No row can be used. Left out 1 of 1 row: list, row 1: there is no label."
    assert refusal(records[:1], SKIP) == message


def test_bad_rows_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = [review(id="a"), "{", "[]", review(""), review(label=None), review(rationale=[[0, 99]]), review(id="a")]
    bad = BadRows()
    examples = list(read_examples(write(tmp_path / "r.jsonl", [*rows, review("Bad.")]), SKIP, bad))
    assert [e.document.id for e in examples] == ["a", "r-8"]
    assert (bad.count, bad.total) == (6, 8)
    assert bad.summary() == (
        "Left out 6 of 8 rows: r.jsonl, line 2: broken JSON (Expecting property name enclosed in double quotes: "
        "line 2 column 1 (char 2)). r.jsonl, line 3: a JSON object is needed, got []. "
        "r.jsonl, line 4: the text has no words. (and 3 more)"
    )


@pytest.mark.parametrize("column", ["text", "query"])
def test_a_text_that_is_too_large_is_refused_or_left_out(column: str) -> None:
    rows = [review(id="a"), review(**{column: "a " * 2**20}), review(id="c")]
    assert "list, row 2: the row is larger than 1 MB" in refusal(rows, DataConfig(max_row_mb=1))
    bad = BadRows()
    examples = read_examples(rows, DataConfig(max_row_mb=1, skip_bad=True), bad)
    assert [example.document.id for example in examples] == ["a", "c"]
    assert bad.count == 1

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import annotated
from fresh.data.annotation.aggregate import Marks, same, vote
from fresh.data.splits import BadRows
from fresh.document import Document, Mask
from fresh.text import from_utf16, to_utf16

CHARACTERS = st.characters(exclude_categories=["Cs"])
FILM = Document.from_text("A lovely, funny film.")


@given(st.text(CHARACTERS | st.sampled_from("😀𠮷👩\u200d\u0301\n\t"), max_size=20), st.data())
def test_units_are_those_of_utf16_and_come_back(text: str, data: st.DataObject) -> None:
    places = st.integers(0, len(text))
    spans = [
        (min(pair), max(pair))
        for pair in data.draw(st.lists(st.tuples(places, places), max_size=4))
        if pair[0] != pair[1]
    ]
    units = to_utf16(text, spans)
    encoded = text.encode("utf-16-le")
    assert [encoded[2 * a : 2 * b].decode("utf-16-le") for a, b in units] == [text[a:b] for a, b in spans]
    assert from_utf16(text, units) == spans


def test_places_that_are_none_are_told() -> None:
    text = "a😀b"
    assert from_utf16(text, [(0, 1), (1, 3), (1, 2), (2, 3), (3, 5), (-1, 1), (3, 3), (3, 1)]) == [
        (0, 1),
        (1, 2),
        *[None] * 6,
    ]


@pytest.mark.parametrize(
    ("span", "kept", "n_widened"),
    [
        ((2, 8), ("lovely",), 0),
        ((1, 9), ("lovely", ","), 0),
        ((3, 8), ("lovely",), 1),
        ((2, 7), ("lovely",), 1),
        ((4, 6), ("lovely",), 1),
        ((4, 12), ("lovely", ",", "funny"), 1),
        ((0, 21), FILM.words, 0),
    ],
)
def test_spans_that_cut_words_are_widened_and_counted(
    span: tuple[int, int], kept: tuple[str, ...], n_widened: int
) -> None:
    mask, found = vote(Marks(((span,),)), FILM, 0.5, "x")
    assert (FILM.cut(mask).words, found) == (kept, n_widened)


@given(st.lists(st.sets(st.integers(0, 5)), min_size=1, max_size=6), st.sampled_from((0.0, 0.3, 0.5, 0.7, 1.0)))
def test_a_word_is_kept_if_enough_annotators_marked_it(marked: list[set[int]], agreement: float) -> None:
    document = Document.from_words([*"abcdef"])
    marks = Marks(tuple(tuple(document.spans[word] for word in sorted(words)) for words in marked))
    mask, n_widened = vote(marks, document, agreement, "x")
    for word in range(6):
        votes = sum(word in words for words in marked)
        assert mask.kept[word] == (votes >= 1 and Fraction(votes, len(marked)) >= Fraction(str(agreement)))
    assert n_widened == 0


def test_votes_are_for_words_not_for_characters() -> None:
    mask, n_widened = vote(Marks((((2, 5),), ((5, 8),))), FILM, 1.0, "x")
    assert (FILM.cut(mask).words, n_widened) == (("lovely",), 2)


def test_white_space_beside_a_span_does_not_matter() -> None:
    text = "a\r\n  b C:\\new"
    assert same(text, 0, 6, "a\\n\\n  b")
    assert same(text, 0, 6, "a b")
    assert same(text, 7, 13, "C:\\new")
    assert same(text, 0, 6, None)
    assert not same(text, 0, 6, "a c")


def test_widened_spans_are_told(tmp_path: Path) -> None:
    lines = [
        {"id": i, "text": FILM.text, "cats": ["good"], "entities": spans, "Comments": []}
        for i, spans in enumerate(([[3, 7, "X"]], [[0, 3, "X"], [10, 16, "X"]]))
    ]
    bad = BadRows()
    first, second = annotated.read(annotated.write_lines(tmp_path / "all.jsonl", lines), bad)
    assert bad.summary() == "All 2 rows were read. 2 spans cut a word and were widened to whole words."
    assert [e.human for e in (first, second)] == [
        Mask.from_spans([(1, 2)], 6),
        Mask.from_spans([(0, 2), (3, 4)], 6),
    ]


def test_one_widened_span_is_told_beside_what_was_left_out(tmp_path: Path) -> None:
    lines = [
        {"id": i, "text": FILM.text, "cats": cats, "entities": [[3, 8, "X"]]} for i, cats in enumerate((["good"], []))
    ]
    bad = BadRows()
    annotated.read(annotated.write_lines(tmp_path / "all.jsonl", lines), bad, skip_bad=True)
    assert bad.summary() == (
        "Left out 1 of 2 rows: all.jsonl, line 2: there is no label. 1 span cut a word and was widened to whole words."
    )

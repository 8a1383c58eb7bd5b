from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.data.annotation.aggregate import AnnotatorSpans, matches_text, vote
from fresh.data.examples import BadRows
from fresh.document import Document, Mask

FILM = Document.from_text("A lovely, funny film.")


@pytest.mark.parametrize(
    ("spans", "words", "n_widened"),
    [
        ([(2, 8)], ("lovely",), 0),
        ([(1, 9)], ("lovely", ","), 0),
        ([(3, 8)], ("lovely",), 1),
        ([(2, 7)], ("lovely",), 1),
        ([(4, 12)], ("lovely", ",", "funny"), 1),
        ([(0, 21)], FILM.words, 0),
        ([(2, 5), (5, 8)], ("lovely",), 2),  # two annotators vote for one word, not for its characters
    ],
)
def test_spans_that_cut_words_are_widened_and_counted(
    spans: list[tuple[int, int]], words: tuple[str, ...], n_widened: int
) -> None:
    mask, n_cut = vote(AnnotatorSpans(tuple((span,) for span in spans)), FILM, 1.0, "x")
    assert (FILM.cut(mask).words, n_cut) == (words, n_widened)


@given(st.lists(st.sets(st.integers(0, 5)), min_size=1, max_size=6), st.sampled_from((0.0, 0.3, 0.5, 0.7, 1.0)))
def test_a_word_is_kept_if_enough_annotators_marked_it(marked: list[set[int]], agreement: float) -> None:
    document = Document.from_words([*"abcdef"])
    spans = AnnotatorSpans(tuple(tuple(document.spans[word] for word in sorted(words)) for words in marked))
    mask, n_widened = vote(spans, document, agreement, "x")
    for word in range(6):
        votes = sum(word in words for words in marked)
        assert mask.kept[word] == (votes >= 1 and Fraction(votes, len(marked)) >= Fraction(str(agreement)))
    assert n_widened == 0


def test_white_space_in_the_text_of_a_span_is_ignored() -> None:
    text = "a\r\n  b C:\\new"
    assert all(matches_text(text, (0, 6), shown) for shown in ("a\\n\\n  b", "a b", None))
    assert matches_text(text, (7, 13), "C:\\new")
    assert not matches_text(text, (0, 6), "a c")


def test_widened_spans_are_reported_next_to_rows_that_were_left_out(read: Any) -> None:
    rows = [{"id": i, "text": FILM.text, "cats": ["good"], "entities": []} for i in range(3)]
    rows[0]["entities"], rows[1]["entities"] = [[3, 7, "X"]], [[0, 3, "X"], [10, 16, "X"]]
    bad = BadRows()
    first, second = read(*rows[:2], bad=bad)
    assert bad.summary() == "Read 2 rows. 2 spans cut words and were widened to whole words."
    assert (first.human, second.human) == (Mask.from_spans([(1, 2)], 6), Mask.from_spans([(0, 2), (3, 4)], 6))
    bad = BadRows()
    read(rows[0], rows[2] | {"cats": []}, bad=bad, skip_bad=True)
    assert bad.summary().startswith("Left out 1 of 2 rows: out.jsonl, line 2: there is no label.")
    assert bad.summary().endswith("1 span cut a word and was widened to whole words.")

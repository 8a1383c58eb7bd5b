import copy
import itertools
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fresh.document import Document, Example, Explanation, Mask, Saliency
from fresh.rationale import Prediction, Rationale
from fresh.text import split_words
from strategies import documents, flags, masks, saliency, texts, words

ANSWER = Prediction("pos", {"neg": 0.25, "pos": 0.75})
FILM = Document.from_words(["a", "good", "film", "."], id="d1")
WHOLE = Mask.full(4)
READ = (FILM, WHOLE, FILM.cut(WHOLE), ANSWER)
FLAGS = st.integers(0, 20).flatmap(flags)


def mask(*kept: int) -> Mask:
    return Mask(np.array(kept, dtype=np.bool_))


# Masks


@given(FLAGS, FLAGS)
def test_masks_obey_their_laws(kept: list[bool], other: list[bool]) -> None:
    made = mask(*kept)
    assert (~made).kept.tolist() == [not flag for flag in kept]
    assert ~~made == made
    assert Mask.from_spans(made.spans, len(kept)) == made
    assert all(start < end for start, end in made.spans)
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(made.spans))
    assert made.ratio == (sum(kept) / len(kept) if kept else 0.0)
    assert len(made) == len(kept)
    assert (made == mask(*other)) == (kept == other)
    assert hash(made) == hash(mask(*kept))


def test_masks_by_hand() -> None:
    assert mask(0, 1, 1, 0, 1).spans == ((1, 3), (4, 5))
    assert Mask.full(3) == mask(1, 1, 1)
    assert Mask.from_spans([(0, 2), (1, 3)], 4) == mask(1, 1, 1, 0)
    assert mask(1, 0) != [True, False]


def test_spans_outside_the_document_and_flags_that_are_not_true_or_false_are_refused() -> None:
    for start, end in ((0, 4), (-1, 2), (2, 2), (2, 1)):
        with pytest.raises(ValueError, match=rf"span \({start}, {end}\) does not fit a document of 3 words"):
            Mask.from_spans([(start, end)], 3)
    for wrong, shown in ((np.array([0, 1]), r"int64.*\(2,\)"), (np.ones((1, 2), np.bool_), r"bool.*\(1, 2\)")):
        with pytest.raises(ValueError, match=f"one row of booleans, got {shown}"):
            Mask(wrong)


# Nothing can be changed


def copies(value: Any) -> tuple[Any, ...]:
    return value, copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))  # noqa: S301


def assert_unwritable(array: object) -> None:
    """Neither an array nor what it is a view of can be changed, or made writable."""
    while isinstance(array, np.ndarray):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[0]
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True
        array = array.base


def test_a_mask_and_its_copies_cannot_be_changed() -> None:
    given = np.array([True, False, True])
    made = Mask(given)
    given[:] = False
    [from_flags] = Mask.from_flags(np.array([True, False, True]), [3])
    for one in (*copies(made), *copies(from_flags), ~~made):
        assert one == mask(1, 0, 1)
        assert_unwritable(one.kept)


@pytest.mark.parametrize("n_read", [1, None])
def test_scores_and_their_copies_cannot_be_changed(n_read: int | None) -> None:
    given = np.array([1.0, 2.0])
    made = Saliency(given, "pos", "d1", n_read)
    given[:] = 0.0
    for one in copies(made):
        assert (one.scores.tolist(), one.target, one.id, one.n_read) == ([1.0, 2.0], "pos", "d1", n_read)
        assert_unwritable(one.scores)


@pytest.mark.parametrize(
    "value",
    [FILM, WHOLE, FILM.cut(WHOLE), ANSWER, saliency([0]), Example(FILM, "pos"), Explanation(*READ)],
    ids=lambda value: type(value).__name__,
)
def test_no_field_can_be_set(value: Any) -> None:
    for field in fields(value):
        with pytest.raises(FrozenInstanceError):
            setattr(value, field.name, getattr(value, field.name))


# Documents


@given(texts(min_size=1), texts(max_size=3), st.sampled_from((Document.from_text, Document.from_tokenized)))
def test_every_word_is_where_its_span_says(text: str, query: str, make: Callable[[str, str], Document]) -> None:
    assume(split_words(text))
    document = make(text, query)
    assert [text[start:end] for start, end in document.spans] == list(document.words)
    assert document.text == text
    assert not any(character.isspace() for word in (*document.words, *document.query) for character in word)


@given(st.lists(words(), min_size=1), st.lists(words()))
def test_words_are_taken_as_they_are(chosen: list[str], query: list[str]) -> None:
    document = Document.from_words(chosen, query, "d1")
    assert (document.words, document.query, document.id) == (tuple(chosen), tuple(query), "d1")
    assert document.text == " ".join(chosen)
    assert [document.text[start:end] for start, end in document.spans] == chosen


def test_raw_text_is_split_into_words_and_signs_and_tokenized_text_at_spaces() -> None:
    raw = Document.from_text(" It's good, really.", "Is it?", "d1")
    assert raw.words == ("It's", "good", ",", "really", ".")
    assert raw.spans == ((1, 5), (6, 10), (10, 11), (12, 18), (18, 19))
    assert raw.query == ("Is", "it", "?")
    tokenized = Document.from_tokenized("It 's  good ,", "Is it?")
    assert tokenized.words == ("It", "'s", "good", ",")
    assert tokenized.spans == ((0, 2), (3, 5), (7, 11), (12, 13))
    assert tokenized.query == ("Is", "it?")
    for text in ("", " \n", "\u200b\ufeff"):
        with pytest.raises(ValueError, match=r"^Document 'd1' has no words\.$"):
            Document.from_text(text, id="d1")


@pytest.mark.parametrize(
    ("words", "spans", "message"),
    [
        (("b",), ((0, 1),), "characters 0 to 1 are not the word 'b'"),
        (("b",), ((0, 1), (2, 3)), "has 1 word but 2 spans"),
        (("b",), ((-1, 3),), "'b' at characters -1 to 3 is empty or does not follow"),
        (("b", "a"), ((2, 3), (0, 1)), "'a' at characters 0 to 1 is empty or does not follow"),
        (("a", "a"), ((0, 1), (0, 1)), "'a' at characters 0 to 1 is empty or does not follow"),
        (("a", ""), ((0, 1), (1, 1)), "'' at characters 1 to 1 is empty or does not follow"),
    ],
)
def test_words_that_differ_from_their_spans_are_refused(words: Any, spans: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^Document 'd1'.*{message}"):
        Document("a b", words, spans, id="d1")


def test_a_cut_keeps_the_marked_words_and_the_whole_query() -> None:
    document = Document.from_words(["not", "a", "good", "film"], ["any", "good"], "d1")
    rationale = document.cut(mask(1, 0, 1, 0))
    assert rationale == Rationale(("not", "good"), ("any", "good"))
    assert rationale.id == "d1"
    with pytest.raises(ValueError, match=r"^The mask has 2 flags but document 'd1' has 4 words\.$"):
        document.cut(mask(1, 0))


@given(documents(), st.data())
def test_the_place_and_number_of_dropped_words_leave_no_trace(document: Document, data: st.DataObject) -> None:
    rationale = document.cut(data.draw(masks(document)))
    assume(rationale.words)
    assert Document.from_words(rationale.words, document.query).cut(Mask.full(len(rationale.words))) == rationale


# Scores, examples and explanations


def test_scores_are_one_row_of_finite_numbers_in_double_precision() -> None:
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(
            ValueError, match=rf"^The score of word 1 in document 'd1' is {bad}\. .* fix the scorer, or"
        ):
            saliency([0.0, bad, np.nan], "d1")
    assert Saliency(np.array([1, 2], dtype=np.float32), "pos").scores.dtype == np.float64
    with pytest.raises(ValueError, match=r"scores of document 'd1' must be one for each word.*\(1, 2\)"):
        Saliency(np.zeros((1, 2)), "pos", "d1")


def test_an_explanation_shows_where_its_words_are() -> None:
    document, kept = Document.from_text("Not  good, I say."), mask(1, 1, 0, 0, 1, 1)
    explanation = Explanation(document, kept, document.cut(kept), ANSWER)
    assert explanation.rationale == Rationale(("Not", "good", "say", "."))
    assert explanation.spans == ((0, 9), (13, 17))


@given(documents(), st.data())
def test_the_highlighted_characters_are_the_kept_words(document: Document, data: st.DataObject) -> None:
    kept = data.draw(masks(document))
    explanation = Explanation(document, kept, document.cut(kept), ANSWER)
    shown = [document.text[start:end] for start, end in explanation.spans]
    assert " ".join(shown) == " ".join(explanation.rationale.words)


# Types are exact


@pytest.mark.parametrize(
    "spans", [([0, 4], [5, 8]), [(0, 4), (5, 8)], ((0, 4), (5, np.int64(8))), ((False, 4), (5, 8))]
)
def test_spans_are_tuples_of_integers(spans: Any) -> None:
    with pytest.raises(TypeError, match=r"^Document 'd': spans must be a tuple of tuples of two integers"):
        Document("good bad", ("good", "bad"), spans, id="d")


@pytest.mark.parametrize("kind", [Mask, Document])
def test_masks_and_documents_cannot_be_subclassed(kind: type) -> None:
    with pytest.raises(TypeError, match=f"^{kind.__name__} cannot be subclassed"):
        type("Own", (kind,), {})


def test_a_look_alike_of_a_mask_does_not_cut() -> None:
    class LookAlike:
        kept = np.array([True, True])

        def __len__(self) -> int:
            return 2

    with pytest.raises(TypeError, match=r"^cut\(\) takes a Mask, got LookAlike\.$"):
        Document.from_words(["a", "b"]).cut(LookAlike())  # type: ignore[arg-type]


class Liar(str):
    """Shows other words than it holds."""

    __slots__ = ()

    def __str__(self) -> str:
        return "bad film"

    def __getitem__(self, place: Any) -> str:
        return "bad film"[place]

    def split(self, *_separators: Any) -> list[str]:
        return ["bad", "film"]


@pytest.mark.parametrize("given_words", ["good film", ["good", "film"], ("good", ""), ("good", 1), (Liar("good"),)])
def test_words_are_a_tuple_of_non_empty_strings(given_words: object) -> None:
    with pytest.raises(TypeError, match=r"^words must be a tuple of non-empty strings, got "):
        Rationale(given_words)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^query must be a tuple of non-empty strings, got "):
        Rationale((), given_words)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^query of document 'd1' must be a tuple of non-empty strings, got "):
        Document("a", ("a",), ((0, 1),), given_words, "d1")  # type: ignore[arg-type]


def test_a_text_and_words_are_what_they_hold_not_what_they_show() -> None:
    lies = Liar("good film"), Liar("good film"), Liar("d1")
    words = Document.from_words([Liar("good film"), Liar("x")], [Liar("good film")], Liar("d1"))
    assert (words.words, words.query, words.text) == (("good film", "x"), ("good film",), "good film x")
    arrays = Document.from_words(np.array(["good", "film"]), np.array(["praise"]))  # type: ignore[arg-type]
    made = [make(*lies) for make in (Document.from_text, Document.from_tokenized)]
    assert made == [make("good film", "good film", "d1") for make in (Document.from_text, Document.from_tokenized)]
    for document in (*made, words, arrays):
        assert {type(item) for item in (document.text, document.id, *document.words, *document.query)} == {str}


def test_a_document_and_a_rationale_hold_exact_strings() -> None:
    with pytest.raises(TypeError, match=r"^text of document 'd1' must be a string, got 'good film' of type Liar\.$"):
        Document(Liar("good film"), ("bad", "film"), ((0, 3), (4, 8)), id="d1")
    with pytest.raises(TypeError, match=r"^id of a document must be a string, got 'd1' of type Liar\.$"):
        Document("a", ("a",), ((0, 1),), id=Liar("d1"))
    with pytest.raises(TypeError, match=r"^words of document 'd1' must be a tuple of non-empty strings, got "):
        Document("bad", (Liar("bad"),), ((0, 3),), id="d1")
    with pytest.raises(TypeError, match=r"^id must be a string, got 'd1' of type Liar\.$"):
        Rationale(("a",), (), Liar("d1"))


class Anything:
    """Equals everything."""

    def __eq__(self, _other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("parts", "error", "message"),
    [
        ((WHOLE, FILM.cut(WHOLE), "pos"), TypeError, "takes a Prediction, got str"),
        ((WHOLE, Anything(), ANSWER), TypeError, "takes a Rationale, got Anything"),
        ((~WHOLE, FILM.cut(WHOLE), ANSWER), ValueError, "rationale of document 'd1' differs from the words its mask"),
        ((WHOLE, FILM.cut(WHOLE), ANSWER, saliency([0, 0])), ValueError, "2 scores but document 'd1' has 4 words"),
    ],
)
def test_an_explanation_shows_what_was_read(parts: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Explanation(FILM, *parts)


# Evidence: the spans that people marked


def test_unknown_evidence_is_the_spans_of_the_mask() -> None:
    kept = Mask.from_spans([(0, 1), (2, 4)], 4)
    assert Example(FILM, "pos", kept).evidence is None
    assert Example(FILM, "pos", kept).human_spans == ((0, 1), (2, 4))
    assert Example(FILM, "pos", kept, ((2, 3), (3, 4), (0, 1))).human_spans == ((2, 3), (3, 4), (0, 1))
    assert Example(FILM, "pos").human_spans is None
    assert Example(FILM, "pos", ~WHOLE, ()).human_spans == ()


@pytest.mark.parametrize(
    ("human", "evidence", "message"),
    [
        (Mask.full(2), (0, 2), "The human rationale has 2 flags but document 'd1' has 4 words"),
        *((WHOLE, span, rf"\({span[0]}, {span[1]}\) does not fit") for span in ((-1, 1), (3, 5), (3, 2), (4, 4))),
        (None, (1, 2), "mark different words"),
        (Mask.from_spans([(1, 3)], 4), (1, 2), "mark different words"),
    ],
)
def test_evidence_that_does_not_fit_is_refused(human: Mask | None, evidence: tuple[int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Example(FILM, "pos", human, (evidence,))


@pytest.mark.parametrize(
    ("parts", "ranges"),
    [((), ((0, 4),)), ((("x", 4),), ((0, 4),)), ((("x", 1), ("y", 0), ("z", 3)), ((0, 1), (1, 1), (1, 4)))],
)
def test_a_document_knows_the_ranges_of_its_parts(parts: Any, ranges: Any) -> None:
    document = Document(FILM.text, FILM.words, FILM.spans, parts=parts)
    assert document.part_ranges == ranges
    assert pickle.loads(pickle.dumps(document)) == document  # noqa: S301
    with pytest.raises(ValueError, match="has 4 words, but its parts have 3"):
        Document(FILM.text, FILM.words, FILM.spans, parts=(("x", 1), ("y", 2)))

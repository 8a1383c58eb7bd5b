from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import fresh.nn.tokenizer
from fresh.errors import TooLongError
from fresh.nn.batch import NO_WORD, EncodedText
from fresh.nn.encoder import load_encoder
from fresh.nn.tokenizer import LongPolicy, Text, WordTokenizer
from fresh.nn.word_cache import WordCache, ranges
from tiny import N_POSITIONS, WORDS

VOCABULARY = {"": [], "a": [1], "bc": [2, 3], "def": [4, 5, 6], "same": [2, 3]}
TEXTS = st.lists(st.lists(st.sampled_from(sorted(VOCABULARY)), max_size=6).map(tuple), max_size=5)
ROOM = N_POSITIONS
FRAMES = {"bert": ("[CLS]", "[SEP]", 1), "roberta": ("<s>", "</s>", 2)}
"""What stands before a text, what stands after it, and how often that stands before a query."""


def bank() -> WordCache:
    found = WordCache()
    names = list(VOCABULARY)
    found.add(names[:2], [VOCABULARY[name] for name in names[:2]])
    found.add([], [])
    found.add(names[2:], [VOCABULARY[name] for name in names[2:]])
    return found


def pieces_of(words: Sequence[str]) -> list[int]:
    return [piece for word in words for piece in VOCABULARY[word]]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 4)), max_size=8))
def test_ranges_count_up_from_each_start(pairs: list[tuple[int, int]]) -> None:
    starts, counts = (np.array([pair[place] for pair in pairs], dtype=np.int64) for place in (0, 1))
    assert ranges(starts, counts).tolist() == [start + step for start, count in pairs for step in range(count)]


@given(TEXTS)
def test_texts_are_cut_into_the_pieces_of_their_words(texts: list[tuple[str, ...]]) -> None:
    cut = bank().cut(texts)
    assert cut.ids.tolist() == pieces_of([word for words in texts for word in words])
    assert cut.by_word.tolist() == [len(VOCABULARY[word]) for words in texts for word in words]
    assert cut.n_words.tolist() == [len(words) for words in texts]
    assert cut.n_pieces.tolist() == [len(pieces_of(words)) for words in texts]
    assert cut.ends.tolist() == [len(pieces_of([w for t in texts[:n] for w in t])) for n in range(len(texts) + 1)]
    assert cut.owners.tolist() == [n for words in texts for n, word in enumerate(words) for _ in VOCABULARY[word]]


@given(TEXTS, st.data())
def test_the_words_that_fit_are_a_beginning(texts: list[tuple[str, ...]], data: st.DataObject) -> None:
    room = data.draw(st.lists(st.integers(-2, 12), min_size=len(texts), max_size=len(texts)))
    found = bank().cut(texts).count_fitting(np.array(room, dtype=np.int64))
    for words, most, n_fitting in zip(texts, room, found.tolist(), strict=True):
        assert n_fitting == sum(len(pieces_of(words[:end])) <= most for end in range(1, len(words) + 1))


@given(TEXTS, st.data())
def test_the_first_words_are_as_if_there_were_no_others(texts: list[tuple[str, ...]], data: st.DataObject) -> None:
    sizes = [data.draw(st.integers(0, len(words))) for words in texts]
    found = bank().cut(texts).first(np.array(sizes, dtype=np.int64))
    alone = bank().cut([words[:size] for words, size in zip(texts, sizes, strict=True)])
    assert found.ids.tolist() == alone.ids.tolist()
    assert found.by_word.tolist() == alone.by_word.tolist()
    assert found.n_words.tolist() == alone.n_words.tolist()


@given(TEXTS, st.data())
def test_chosen_words_are_as_if_there_were_no_others(texts: list[tuple[str, ...]], data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.sampled_from(range(len(texts))), max_size=5)) if texts else []
    row = st.lists(st.booleans(), min_size=8, max_size=8)  # more flags than a text has words
    kept = [data.draw(row) for _ in numbers]
    flags = np.array(kept, dtype=np.bool_).reshape(len(numbers), 8)
    found = bank().cut(texts).choose(np.array(numbers, dtype=np.int64), flags)
    rest = [
        tuple(w for w, flag in zip(texts[n], own, strict=False) if flag) for n, own in zip(numbers, kept, strict=True)
    ]
    alone = bank().cut(rest)
    assert found.ids.tolist() == alone.ids.tolist()
    assert found.by_word.tolist() == alone.by_word.tolist()
    assert found.n_words.tolist() == alone.n_words.tolist()


def test_a_bank_counts_its_words_and_knows_no_others() -> None:
    assert len(WordCache()) == 0
    assert len(bank()) == len(VOCABULARY)
    with pytest.raises(KeyError):
        bank().cut([("unheard-of",)])


# The same for whole texts: against a reference that puts one piece after the other


@pytest.fixture(scope="module")
def word_encoders(encoders: dict[str, Path]) -> dict[tuple[str, str], WordTokenizer]:
    loaded = {name: load_encoder(str(encoders[name])) for name in FRAMES}
    policies: tuple[LongPolicy, ...] = ("stagger", "truncate")
    return {(name, long): WordTokenizer(loaded[name], long, 2 * ROOM) for name in FRAMES for long in policies}


def slowly(encoder: WordTokenizer, name: str, text: Text) -> tuple[list[int], list[int], list[int], int] | None:
    """Put pieces together one by one: ids, types, owners and the number of words read; None for what is too long."""
    start, end, times = FRAMES[name]

    def number(piece: str) -> int:
        return int(encoder.tokenizer.convert_tokens_to_ids(piece))  # type: ignore[arg-type]

    def cut(word: str) -> list[int]:
        return list(encoder.tokenizer(encoder.lead + word, add_special_tokens=False).input_ids)

    query = [piece for word in text.query for piece in cut(word)]
    tail = [number(end)] * times + [*query, number(end)] if text.query else [number(end)]
    room = (ROOM if encoder.long == "truncate" else 2 * ROOM) - 1 - len(tail)
    ids, owners, n_read = [number(start)], [NO_WORD], 0
    for word in text.words:
        pieces = cut(word)
        if len(ids) - 1 + len(pieces) > room:
            break
        ids, owners, n_read = ids + pieces, owners + [n_read] * len(pieces), n_read + 1
    if room < 0 or (n_read < len(text.words) and (encoder.long == "stagger" or room == 0)):
        return None
    types = [0] * len(ids + tail)
    if text.query and name == "bert":
        types[-len(query) - 1 :] = [1] * (len(query) + 1)
    return ids + tail, types, owners + [NO_WORD] * len(tail), n_read


def check(found: EncodedText, expected: tuple[list[int], list[int], list[int], int], text: Text, first: int) -> None:
    ids, types, owners, n_read = expected
    assert found.ids.tolist() == ids
    assert found.types.tolist() == types
    assert found.word_of.tolist() == owners
    assert (found.n_words, found.n_read) == (len(text.words), n_read)
    n_pieces = len(ids)
    assert found.positions.tolist() == [
        first + (place * ROOM // n_pieces if n_pieces > ROOM else place) for place in range(n_pieces)
    ]


SOME = st.lists(st.sampled_from((*WORDS[:6], "xy", "unheard-of", "a.b")), max_size=70).map(tuple)
ASKED = st.just(()) | st.lists(st.sampled_from(("praise", "xyz")), min_size=1, max_size=22).map(tuple)


@pytest.mark.parametrize("long", ["stagger", "truncate"])
@pytest.mark.parametrize("name", FRAMES)
@given(texts=st.lists(st.builds(Text, SOME, ASKED), max_size=4))
def test_many_texts_are_encoded_as_each_would_be_by_hand(
    name: str, long: LongPolicy, texts: list[Text], word_encoders: dict[tuple[str, str], WordTokenizer]
) -> None:
    encoder = word_encoders[name, long]
    expected = [slowly(encoder, name, text) for text in texts]
    n_read, problems = encoder.measure(texts)
    assert set(problems) == {number for number, found in enumerate(expected) if found is None}
    if problems:
        with pytest.raises(TooLongError) as caught:
            encoder(texts)
        assert str(caught.value) == str(problems[min(problems)])
    fitting = [pair for pair in zip(texts, expected, strict=True) if pair[1] is not None]
    assert [n for number, n in enumerate(n_read.tolist()) if number not in problems] == [e[3] for _, e in fitting if e]
    found = encoder([text for text, _ in fitting])
    assert len(found) == len(fitting)
    for pieces, (text, by_hand) in zip(found, fitting, strict=True):
        assert by_hand is not None
        check(pieces, by_hand, text, first=2 if name == "roberta" else 0)


@pytest.mark.parametrize("long", ["stagger", "truncate"])
@pytest.mark.parametrize("name", FRAMES)
@given(text=st.builds(Text, SOME, st.just(()) | st.just(("praise", "it"))), data=st.data())
def test_a_variant_is_encoded_as_a_text_without_the_words_would_be(
    name: str, long: LongPolicy, text: Text, data: st.DataObject, word_encoders: dict[tuple[str, str], WordTokenizer]
) -> None:
    encoder = word_encoders[name, long]
    assume(slowly(encoder, name, text) is not None)
    [pieces] = encoder([text])
    flags = st.lists(st.booleans(), min_size=pieces.n_read, max_size=pieces.n_read)
    kept = np.array(data.draw(st.lists(flags, min_size=1, max_size=3)), dtype=np.bool_)
    found = encoder.variants(pieces, kept)
    assert len(found) == len(kept)
    for variant, row in zip(found, kept, strict=True):
        rest = Text(tuple(word for word, flag in zip(text.words, row, strict=False) if flag), text.query)
        expected = slowly(encoder, name, rest)
        assert expected is not None
        check(variant, expected, rest, first=2 if name == "roberta" else 0)


@pytest.mark.parametrize(("n_asked", "n_read"), [(59, 2), (60, 1), (61, None)])
def test_truncating_reads_what_a_query_leaves_room_for(
    n_asked: int, n_read: int | None, word_encoders: dict[tuple[str, str], WordTokenizer]
) -> None:
    encoder, asked = word_encoders["bert", "truncate"], ("praise",) * n_asked
    texts = [Text((), asked), Text(("good", "old", "film"), asked)]
    counted, problems = encoder.measure(texts)
    assert set(problems) == (set() if n_read else {1})
    assert counted.tolist() == [0, n_read or 0]
    [empty] = encoder(texts[:1])
    assert len(empty) == n_asked + 3


def test_each_text_that_is_too_long_is_told(encoders: dict[str, Path]) -> None:
    encoder = WordTokenizer(load_encoder(str(encoders["bert"])), "stagger", 16)
    texts = [Text(("good",) * size, id=f"of {size}") for size in (15, 14, 20)]
    n_read, problems = encoder.measure(texts)
    assert n_read.tolist() == [14, 14, 14]
    assert {number: str(problem).partition(". ")[0] for number, problem in problems.items()} == {
        0: "Text 'of 15' has 15 words, or 15 pieces, but only 14 can be read",
        2: "Text 'of 20' has 20 words, or 20 pieces, but only 14 can be read",
    }


@pytest.mark.parametrize("limit", ["MOST_KNOWN", "MOST_CHARACTERS"])
def test_a_full_bank_begins_anew(limit: str, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh.nn.tokenizer, limit, {"MOST_KNOWN": 3, "MOST_CHARACTERS": 12}[limit])
    encoder = WordTokenizer(load_encoder(str(encoders["bert"])), "stagger", 64)
    texts = [Text(("good", "old", "film", "xy")), Text(("good", "sea"), ("praise",))]
    first, second = encoder([texts[0]]), encoder([texts[1]])
    assert set(encoder.bank.numbers) == {"good", "sea", "praise"}
    together = encoder(texts)
    assert together.ids.tolist() == [*first.ids.tolist(), *second.ids.tolist()]


class Unwalked(dict[str, int]):
    """Words that are looked up, never gone through: there may be a million, and a text has few."""

    def keys(self) -> NoReturn:
        raise AssertionError


def test_words_that_are_known_cost_a_text_nothing(encoders: dict[str, Path]) -> None:
    encoder = WordTokenizer(load_encoder(str(encoders["bert"])), "stagger", 256)
    encoder([Text(("good",))])
    encoder.bank.numbers = Unwalked(encoder.bank.numbers)
    [pieces] = encoder([Text(("good", "sea"))])
    assert set(encoder.bank.numbers.items()) == {("good", 0), ("sea", 1)}
    assert pieces.ids.tolist() == encoder.tokenizer("good sea").input_ids

"""Texts become the tokens that the encoder's own tokenizer makes, in the places that a slow reference gives them."""

from functools import cache
from pathlib import Path
from typing import NamedTuple, NoReturn, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import fresh.nn.tokenizer
from fresh.errors import TooLongError
from fresh.nn.batch import NO_WORD, TokenTable
from fresh.nn.encoder import load_encoder
from fresh.nn.tokenizer import WINDOW, LongPolicy, Text, WordCache, WordTokenizer, ranges
from networks import split_table
from tiny import ARCHITECTURES, N_POSITIONS, WORDS

BYTE_LEVEL = ("roberta", "modernbert")
WORDPIECE = tuple(name for name in ARCHITECTURES if name not in BYTE_LEVEL)
POLICIES: tuple[LongPolicy, ...] = get_args(LongPolicy)
TEXT = Text(("The", "café", "was", "GREAT", "!", "unheard-of"))
FRAMES = {
    "bert": ("[CLS]", ("[SEP]",), "[SEP]", 1),
    "roberta": ("<s>", ("</s>", "</s>"), "</s>", 0),
    "modernbert": ("[CLS]", ("[SEP]",), "[SEP]", 0),
}
"""What stands before a text, between it and its query, and at the end; and the type of a query."""

Tokenizers = dict[tuple[str, LongPolicy], WordTokenizer]


@pytest.fixture(scope="module")
def tokenizers(encoders: dict[str, Path]) -> Tokenizers:
    """One for each architecture and policy, which reads twice the encoder's length with ``stagger``."""
    loaded = {name: load_encoder(str(folder)) for name, folder in encoders.items()}
    return {(name, long): WordTokenizer(loaded[name], long, 2 * N_POSITIONS) for name in loaded for long in POLICIES}


def names(tokenizer: WordTokenizer, text: TokenTable) -> list[str]:
    return list(tokenizer.tokenizer.convert_ids_to_tokens(text.ids.tolist()))


# Words


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_words_give_the_tokens_of_the_joined_text(architecture: str, tokenizers: Tokenizers) -> None:
    tokenizer = tokenizers[architecture, "stagger"]
    text = tokenizer([TEXT])
    lead = " " if architecture in BYTE_LEVEL else ""
    assert text.ids.tolist() == tokenizer.tokenizer(lead + " ".join(TEXT.words)).input_ids
    if architecture in BYTE_LEVEL:  # every word has the mark of its space
        firsts = [names(tokenizer, text)[text.word_of.tolist().index(word)] for word in range(len(TEXT.words))]
        assert firsts == ["Ġ", "Ġ", "Ġwas", "Ġ", "Ġ", "Ġ"]
    text = tokenizer([Text(("good", "old", "film"), ("praise", "it"))])
    expected = tokenizer.tokenizer(f"{lead}good old film", f"{lead}praise it", return_token_type_ids=True)
    assert text.ids.tolist() == expected.input_ids
    assert text.types.tolist() == expected.token_type_ids
    assert text.word_of.tolist() == [NO_WORD, 0, 1, 2, *[NO_WORD] * (len(text.ids) - 4)]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("word", ["[SEP]", "[CLS]", "<s>", "</s>", "<mask>", "[PAD]"])
def test_a_special_string_in_a_text_is_text(architecture: str, word: str, tokenizers: Tokenizers) -> None:
    tokenizer = tokenizers[architecture, "stagger"]
    tokenizer.tokenizer("somebody else uses the tokenizer, which changes its settings")
    text = tokenizer([Text((word,), (word,))])
    special = set(tokenizer.tokenizer.all_special_ids) - {tokenizer.tokenizer.unk_token_id}
    assert sum(id in special for id in text.ids.tolist()) == tokenizer._pair.size
    assert not special & set(text.ids[text.word_of == 0].tolist())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("word", ["\u200b", "👍🏽", "中", "\ud800", "\x00", "n\u0303"])
def test_every_word_has_a_token(architecture: str, word: str, tokenizers: Tokenizers) -> None:
    tokenizer = tokenizers[architecture, "stagger"]
    text = tokenizer([Text(("good", word, "film"))])
    owners = text.word_of[text.word_of != NO_WORD].tolist()
    assert owners == sorted(owners)
    assert set(owners) == {0, 1, 2}
    if architecture == "bert" and word in "\u200b👍🏽":
        assert names(tokenizer, text)[2] == "[UNK]"


# Whole texts, against a reference that puts one token after the other


class Expected(NamedTuple):
    ids: list[int]
    types: list[int]
    positions: list[int]
    word_of: list[int]
    n_words: int
    n_read: int


@cache
def tokenize(tokenizer: WordTokenizer, word: str) -> list[int]:
    return list(tokenizer.tokenizer(tokenizer.prefix + word, add_special_tokens=False).input_ids)


def encode_slowly(tokenizer: WordTokenizer, name: str, text: Text) -> Expected | None:
    """Encode a text token by token; None if it is too long."""
    start, between, end, type_of_query = FRAMES[name]
    first, *middle, last = tokenizer.tokenizer.convert_tokens_to_ids([start, *between, end])  # type: ignore[misc]
    query = [token for word in text.query for token in tokenize(tokenizer, word)]
    tail = [*middle, *query, last] if query else [last]
    n_second = len(query) + 1 if query else 0
    size = 2 * N_POSITIONS if tokenizer.long == "stagger" else N_POSITIONS
    room = size - 1 - len(tail)
    words = [(token, n) for n, word in enumerate(text.words) for token in tokenize(tokenizer, word)]
    n_read = len(text.words)
    if tokenizer.long != "chunk":
        ends = np.cumsum([0, *(len(tokenize(tokenizer, word)) for word in text.words)])
        n_read = max(0, int((ends <= room).sum()) - 1)
        words = [pair for pair in words if pair[1] < n_read]
        too_long = n_read < len(text.words) and (tokenizer.long == "stagger" or room < 1)
        if room < 0 or too_long:
            return None
    elif room < N_POSITIONS // 4:
        return None
    windows = [words[begin : begin + room] for begin in range(0, len(words), room)] if tokenizer.long == "chunk" else []
    found = Expected([], [], [], [], len(text.words), n_read)
    for window in windows or [words]:
        length = 1 + len(window) + len(tail)
        found.ids.extend([first, *(token for token, _ in window), *tail])
        found.types.extend([0] * (length - n_second) + [type_of_query] * n_second)
        places = [place * N_POSITIONS // length if length > N_POSITIONS else place for place in range(length)]
        found.positions.extend(place + 2 * (name == "roberta") for place in places)
        found.word_of.extend([NO_WORD, *(word for _, word in window), *[NO_WORD] * len(tail)])
    return found


def rows(table: TokenTable) -> list[Expected]:
    found = []
    for text in split_table(table):
        fields = [getattr(text, name).tolist() for name in Expected._fields]
        found.append(Expected._make([*fields[:4], *(number for [number] in fields[4:])]))
    return found


def many(words: list[str], times: int) -> tuple[str, ...]:
    return tuple(words * times)


SOME = st.lists(st.sampled_from((*WORDS[:6], "xy", "unheard-of", "a.b")), max_size=12)
QUERIES = st.just(()) | st.lists(st.sampled_from(("praise", "xyz")), min_size=1, max_size=22).map(tuple)
TEXTS = st.builds(Text, st.builds(many, SOME, st.integers(1, 12)), QUERIES)
every_frame = pytest.mark.parametrize("name", FRAMES)
every_policy = pytest.mark.parametrize("long", POLICIES)


@every_policy
@every_frame
@settings(deadline=None)
@given(texts=st.lists(TEXTS, max_size=4))
def test_texts_are_encoded_as_by_hand(name: str, long: LongPolicy, texts: list[Text], tokenizers: Tokenizers) -> None:
    tokenizer = tokenizers[name, long]
    expected = [encode_slowly(tokenizer, name, text) for text in texts]
    n_read, problems = tokenizer.measure(texts)
    assert set(problems) == {number for number, row in enumerate(expected) if row is None}
    if problems:
        with pytest.raises(TooLongError) as caught:
            tokenizer(texts)
        assert str(caught.value) == str(problems[min(problems)])
    fitting = [row for row in expected if row is not None]
    assert [n for number, n in enumerate(n_read.tolist()) if number not in problems] == [row.n_read for row in fitting]
    assert rows(tokenizer([text for text, row in zip(texts, expected, strict=True) if row is not None])) == fitting


def without(text: Text, kept: NDArray[np.bool_]) -> Text:
    """Take the words that are kept out of a text; none of those for which there is no flag."""
    return Text(tuple(word for word, flag in zip(text.words, kept, strict=False) if flag), text.query)


SHORT_QUERIES = st.just(()) | st.lists(st.sampled_from(("praise", "xyz")), min_size=1, max_size=9).map(tuple)
FITTING = st.builds(Text, st.builds(many, SOME.map(lambda words: words[:2]), st.integers(1, 4)), SHORT_QUERIES)


@every_policy
@pytest.mark.parametrize("name", ["bert", "roberta"])
@settings(max_examples=40, deadline=None)
@given(
    texts=st.lists(FITTING, min_size=1, max_size=3), seed=st.integers(0, 99), share=st.sampled_from((0, 0.3, 0.9, 1))
)
def test_a_text_without_some_words_is_encoded_as_if_it_never_had_them(
    name: str, long: LongPolicy, texts: list[Text], seed: int, share: float, tokenizers: Tokenizers
) -> None:
    tokenizer, generator = tokenizers[name, long], np.random.default_rng(seed)
    n_read = tokenizer(texts).n_read
    numbers = generator.integers(0, len(texts), 4)
    widest = max(len(text.words) for text in texts) + 2
    kept = generator.random((len(numbers), widest)) < share  # also where there is no word, or it was not read
    chosen = zip(numbers.tolist(), kept, strict=True)
    rest = [without(texts[number], flags[: n_read[number]]) for number, flags in chosen]
    expected = [encode_slowly(tokenizer, name, text) for text in rest]
    assert rows(tokenizer.encode_subsets(texts)(numbers, kept)) == expected


def test_a_window_is_never_larger_than_the_papers(encoders: dict[str, Path]) -> None:
    encoder = load_encoder(str(encoders["modernbert"]))
    encoder.model.config.max_position_embeddings = 8192
    assert WordTokenizer(encoder, "chunk", 64).window == WINDOW == 512


@pytest.mark.parametrize(
    ("long", "text", "message"),
    [
        ("stagger", Text(("good",) * 125 + ("xy",), id="a"), r"'a' has 126 words, or 127 tokens.*most 126.*max_piec"),
        ("stagger", Text((), ("praise",) * 130, "q"), r"'q' has 0 words, or 0 tokens.*at most 0.*long=chunk"),
        ("truncate", Text(("good",), ("praise",) * 70, "q"), r"'q' has 70 words.*room for 0 tokens.*needs room for 1"),
        ("chunk", Text(("good",), ("praise",) * 46, "q"), r"'q' has 46 words.*room for 15 tokens.*needs room for 16"),
    ],
)
def test_a_text_that_is_too_long_is_named(long: LongPolicy, text: Text, message: str, tokenizers: Tokenizers) -> None:
    texts = [Text(("good",)), text]
    n_read, problems = tokenizers["bert", long].measure(texts)
    assert n_read[0] == 1
    assert set(problems) == {1}
    with pytest.raises(TooLongError, match=message):
        tokenizers["bert", long](texts)


# The cache of words


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 4)), max_size=8))
def test_ranges_count_up_from_each_start(pairs: list[tuple[int, int]]) -> None:
    starts, counts = (np.array([pair[place] for pair in pairs], dtype=np.int64) for place in (0, 1))
    assert ranges(starts, counts).tolist() == [start + step for start, count in pairs for step in range(count)]


@pytest.mark.parametrize(("limit", "value"), [("MAX_CACHED_WORDS", 3), ("MAX_CACHED_CHARACTERS", 12)])
def test_a_full_cache_is_emptied(
    limit: str, value: int, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fresh.nn.tokenizer, limit, value)
    tokenizer = WordTokenizer(load_encoder(str(encoders["bert"])), "stagger", 64)
    texts = [Text(("good", "old", "film", "xy")), Text(("good", "sea"), ("praise",))]
    first, second = tokenizer([texts[0]]), tokenizer([texts[1]])
    assert set(tokenizer.cache) == {"good", "sea", "praise"}
    assert tokenizer(texts).ids.tolist() == [*first.ids.tolist(), *second.ids.tolist()]


class Unwalked(WordCache):
    """Words that are looked up, never iterated over: there may be a million, and a text has few."""

    def __iter__(self) -> NoReturn:
        raise AssertionError

    keys = items = __iter__


def test_words_that_are_known_cost_a_text_nothing(encoders: dict[str, Path]) -> None:
    tokenizer = WordTokenizer(load_encoder(str(encoders["bert"])), "stagger", 256)
    tokenizer.cache = Unwalked()
    tokenizer([Text(("good",))])
    text = tokenizer([Text(("good", "sea"))])
    assert len(tokenizer.cache) == 2
    assert text.ids.tolist() == tokenizer.tokenizer("good sea").input_ids

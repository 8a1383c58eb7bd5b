"""Long texts in windows: how they are laid out, and that each window is read by itself."""

from dataclasses import replace
from functools import cache
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from fresh.errors import TooLongError
from fresh.nn.batch import NO_WORD, EncodedText, TokenTable
from fresh.nn.classifier import Classifier
from fresh.nn.config import NetworkConfig
from fresh.nn.encoder import load_encoder
from fresh.nn.heads import AttentiveHead
from fresh.nn.tokenizer import LongPolicy, Text, WordTokenizer
from fresh.nn.windows import WINDOW
from shared_encoding import FIRST_POSITION
from tiny import ARCHITECTURES, N_POSITIONS, WORDS

SIZE = N_POSITIONS
"""Pieces in a window of the tiny encoders."""
POLICIES: tuple[LongPolicy, ...] = get_args(LongPolicy)
FRAMES = {
    "bert": ("[CLS]", ("[SEP]",), "[SEP]", 1),
    "roberta": ("<s>", ("</s>", "</s>"), "</s>", 0),
    "modernbert": ("[CLS]", ("[SEP]",), "[SEP]", 0),
}
"""What stands before a text, between it and its query, and at the end; and the type of a query."""

WordEncoders = dict[tuple[str, str], WordTokenizer]


@pytest.fixture(scope="module")
def word_encoders(encoders: dict[str, Path]) -> WordEncoders:
    """One a frame and a policy."""
    loaded = {name: load_encoder(str(encoders[name])) for name in FRAMES}
    return {(name, long): WordTokenizer(loaded[name], long, 8192) for name in FRAMES for long in POLICIES}


def many(words: list[str], times: int) -> tuple[str, ...]:
    return tuple(words * times)


SOME = st.lists(st.sampled_from((*WORDS[:6], "xy", "unheard-of", "a.b")), max_size=12)
QUERIES = st.just(()) | st.lists(st.sampled_from(("praise", "xyz")), min_size=1, max_size=9).map(tuple)
TEXTS = st.builds(Text, st.builds(many, SOME, st.integers(1, 25)), QUERIES)


@cache
def cut(encoder: WordTokenizer, word: str) -> tuple[int, ...]:
    return tuple(encoder.tokenizer(encoder.lead + word, add_special_tokens=False).input_ids)


@cache
def special(encoder: WordTokenizer, name: str) -> tuple[list[int], list[int], list[int]]:
    """The special pieces before a text, between it and its query, and at the end."""
    start, between, end, _ = FRAMES[name]
    first, *middle, last = encoder.tokenizer.convert_tokens_to_ids([start, *between, end])  # type: ignore[misc]
    return [first], middle, [last]


# How they are laid out


@pytest.mark.parametrize("name", FRAMES)
@settings(max_examples=40, deadline=None)
@given(texts=st.lists(TEXTS, max_size=3))
def test_a_long_text_is_one_full_window_after_the_other(
    name: str, texts: list[Text], word_encoders: WordEncoders
) -> None:
    encoder = word_encoders[name, "chunk"]
    table = encoder(texts)
    assert len(table) == len(texts)
    for pieces, text in zip(table, texts, strict=True):
        assert pieces.n_words == pieces.n_read == len(text.words)
        lengths = [len(part) for part in windows_of(pieces)]
        assert all(length == SIZE for length in lengths[:-1])
        assert lengths[-1] > 2 or not text.words
        for part in windows_of(pieces):
            check_window(encoder, name, part, text)
        owned = pieces.word_of != NO_WORD
        owners = [word for word, found in enumerate(text.words) for _ in cut(encoder, found)]
        assert pieces.word_of[owned].tolist() == owners
        assert pieces.ids[owned].tolist() == [piece for word in text.words for piece in cut(encoder, word)]


def windows_of(pieces: EncodedText) -> list[EncodedText]:
    """Take a text apart after every so many pieces."""
    edges = [*range(0, len(pieces), SIZE), len(pieces)]
    names = ("ids", "types", "positions", "word_of")
    return [
        replace(pieces, **{name: getattr(pieces, name)[start:end] for name in names}) for start, end in pairwise(edges)
    ]


def check_window(encoder: WordTokenizer, name: str, part: EncodedText, text: Text) -> None:
    """See that words stand between special pieces, with the query after them, and that positions begin anew."""
    before, between, end = special(encoder, name)
    query = [piece for word in text.query for piece in cut(encoder, word)]
    tail = [*between, *query, *end] if query else end
    n_pieces = len(part) - len(before) - len(tail)
    assert part.ids[:1].tolist() == before
    assert part.ids[1 + n_pieces :].tolist() == tail
    assert part.word_of.tolist()[1 : 1 + n_pieces] == [word for word in part.word_of.tolist() if word != NO_WORD]
    seconds = len(query) + 1 if query else 0
    assert part.types.tolist() == [0] * (len(part) - seconds) + [FRAMES[name][3]] * seconds
    first = FIRST_POSITION.get(name, 0)
    assert part.positions.tolist() == list(range(first, first + len(part)))


def test_windows_by_hand(word_encoders: WordEncoders) -> None:
    encoder = word_encoders["bert", "chunk"]
    text = Text((*("good",) * 59, "xyz", "film"), ("praise",))  # 64 - 3 special - 1 query: room for 60 pieces
    [pieces] = encoder([text])
    names = encoder.tokenizer.convert_ids_to_tokens(pieces.ids.tolist())
    tail = ["[SEP]", "praise", "[SEP]"]
    assert names == ["[CLS]", *["good"] * 59, "x", *tail, "[CLS]", "##y", "##z", "film", *tail]
    assert pieces.word_of.tolist()[58:] == [57, 58, 59, -1, -1, -1, -1, 59, 59, 60, -1, -1, -1]


def test_a_window_is_never_larger_than_the_papers(encoders: dict[str, Path]) -> None:
    encoder = load_encoder(str(encoders["modernbert"]))
    encoder.model.config.max_position_embeddings = 8192
    assert WordTokenizer(encoder, "chunk", 64).window == WINDOW == 512


def test_a_query_that_is_too_long_for_a_window_is_refused(word_encoders: WordEncoders) -> None:
    encoder = word_encoders["bert", "chunk"]
    texts = [Text(("good",), ("praise",) * size, f"asks {size}") for size in (45, 46, 70)]
    encoder(texts[:1])  # a quarter of the window is left
    n_read, problems = encoder.measure(texts)
    assert n_read.tolist() == [1, 1, 1]
    assert {number: str(problem) for number, problem in problems.items()} == {
        1: "The query of text 'asks 46' has 46 words, which leaves room for 15 pieces of the text beside it; "
        "there must be room for 16. Shorten it.",
        2: "The query of text 'asks 70' has 70 words, which leaves room for 0 pieces of the text beside it; "
        "there must be room for 16. Shorten it.",
    }
    with pytest.raises(TooLongError) as caught:
        encoder(texts)
    assert str(caught.value) == str(problems[1])


def rows(table: TokenTable) -> list[tuple[Any, ...]]:
    return [
        (
            *(getattr(text, name).tolist() for name in ("ids", "types", "positions", "word_of")),
            text.n_words,
            text.n_read,
        )
        for text in table
    ]


def without(text: Text, kept: NDArray[np.bool_]) -> Text:
    """Take the words that are kept out of a text; none of those for which there is no flag."""
    return Text(tuple(word for word, flag in zip(text.words, kept, strict=False) if flag), text.query)


@pytest.mark.parametrize("long", POLICIES)
@pytest.mark.parametrize("name", ["bert", "roberta"])
@settings(max_examples=40, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=3), seed=st.integers(0, 99), share=st.sampled_from((0, 0.3, 0.9, 1)))
def test_a_text_without_some_words_is_encoded_as_if_it_never_had_them(
    name: str, long: LongPolicy, texts: list[Text], seed: int, share: float, word_encoders: WordEncoders
) -> None:
    encoder, generator = word_encoders[name, long], np.random.default_rng(seed)
    encoded = list(encoder(texts))
    numbers = generator.integers(0, len(texts), 4)
    widest = max(text.n_words for text in encoded) + 2
    kept = generator.random((len(numbers), widest)) < share  # also where there is no word, or it was not read
    chosen = zip(numbers.tolist(), kept, strict=True)
    expected = encoder([without(texts[number], flags[: encoded[number].n_read]) for number, flags in chosen])
    assert rows(encoder.reduced(texts)(numbers, kept)) == rows(expected)
    for number in set(numbers.tolist()):
        own = kept[numbers == number][:, : encoded[number].n_read]
        found = encoder.variants(encoded[number], own)
        assert rows(found) == [row for row, of in zip(rows(expected), numbers, strict=True) if of == number]


# How they are read


def classifier_of(folder: Path, layers: int | Literal["all"] = 1) -> Classifier:
    """A classifier of windows that was not trained, with a head that makes much of small differences."""
    encoder = load_encoder(str(folder), "start")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        config = NetworkConfig(str(folder), long="chunk", layers=layers)
        classifier = Classifier(encoder, ("neg", "pos", "so"), config)
    assert isinstance(classifier.head, AttentiveHead)
    with torch.no_grad():
        classifier.head.importance.weight *= 20
        classifier.head.out.weight *= 20
    return classifier


def texts_of(*sizes: int) -> list[Text]:
    """Texts of so many words, those of an odd number with a query."""
    generator = np.random.default_rng(1)
    words = (*WORDS, "xy", "unheard-of")
    return [Text(tuple(generator.choice(words, size).tolist()), ("praise", "it") if size % 2 else ()) for size in sizes]


@torch.inference_mode()
def read_by_itself(classifier: Classifier, window: EncodedText) -> Tensor:
    """What the plain encoder makes of a window, when it is told nothing but its pieces and their types."""
    model = classifier.encoder.model
    given = {"token_type_ids": window.types} if "token_type_ids" in signature(model.forward).parameters else {}
    tensors = {name: torch.from_numpy(value)[None].long() for name, value in {"input_ids": window.ids, **given}.items()}
    found: Tensor = model(**tensors).last_hidden_state
    return found[0]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("layers", [0, 1, "all"])
def test_each_window_is_read_as_if_it_were_alone(
    architecture: str, layers: int | Literal["all"], encoders: dict[str, Path]
) -> None:
    classifier = classifier_of(encoders[architecture], layers)
    assert classifier.halves is not None
    assert classifier.halves.n_below == (0 if layers == "all" else 2 - layers)
    for sizes in ((100, 3, 0, 151), (150,), (4, 5)):
        table = classifier.words(texts_of(*sizes))
        batch = classifier.collate(table)
        with torch.inference_mode():
            _, in_halves, _ = classifier.read(batch)
            whole, _ = classifier.read_whole(batch, attentions=False)
        for row, pieces in enumerate(table):
            expected = torch.cat([read_by_itself(classifier, window) for window in windows_of(pieces)])
            for hidden in (in_halves, whole):
                torch.testing.assert_close(hidden[row, : len(pieces)], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_neighbours_in_a_batch_do_not_matter(architecture: str, encoders: dict[str, Path]) -> None:
    classifier = classifier_of(encoders[architecture])
    items = texts_of(0, 1, 3, 40, 62, 63, 124, 125, 200, 2, 301)
    alone = np.concatenate([classifier.probabilities([item]) for item in items])
    assert alone.std(0).max() > 0.01
    np.testing.assert_allclose(classifier.probabilities(items), alone, atol=1e-5)
    order = np.random.default_rng(0).permutation(len(items))
    pieces = list(classifier.words([items[number] for number in order]))
    for size in (2, 4, len(items)):
        with torch.inference_mode():
            parts = [classifier.collate(pieces[start : start + size]) for start in range(0, len(items), size)]
            together = torch.cat([classifier(part).logits for part in parts]).double().softmax(-1).numpy()
        np.testing.assert_allclose(together, alone[order], atol=1e-5)


def test_every_window_and_the_query_matter(encoders: dict[str, Path]) -> None:
    classifier = classifier_of(encoders["bert"])
    words = ("film",) * 170
    texts = [Text(words, ("praise",)), Text(words, ("blame",))]
    texts += [Text((*words[:place], "awful", *words[place + 1 :]), ("praise",)) for place in (0, 80, 169)]
    found = classifier.probabilities(texts)
    assert len({tuple(np.round(row, 6)) for row in found}) == len(texts)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_what_is_saved_comes_back(architecture: str, encoders: dict[str, Path], tmp_path: Path) -> None:
    classifier = classifier_of(encoders[architecture])
    classifier.save(tmp_path)
    loaded = Classifier.load(tmp_path, "cpu")
    items = texts_of(0, 5, 90, 151)
    assert loaded.config.long == "chunk"
    assert np.array_equal(loaded.probabilities(items), classifier.probabilities(items))

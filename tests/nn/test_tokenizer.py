from pathlib import Path

import pytest

from fresh.errors import TooLongError
from fresh.nn.batch import NO_WORD, EncodedText
from fresh.nn.encoder import load_encoder
from fresh.nn.tokenizer import LongPolicy, Text, WordTokenizer
from shared_encoding import FIRST_POSITION
from tiny import ARCHITECTURES

BYTE_LEVEL = ("roberta", "modernbert")
WORDPIECE = tuple(name for name in ARCHITECTURES if name not in BYTE_LEVEL)
TEXT = Text(("The", "café", "was", "GREAT", "!", "unheard-of"))

WordEncoders = dict[str, WordTokenizer]


@pytest.fixture(scope="module")
def word_encoders(encoders: dict[str, Path]) -> WordEncoders:
    """One an architecture."""
    return {name: word_encoder(folder) for name, folder in encoders.items()}


def word_encoder(folder: Path, long: LongPolicy = "stagger", max_pieces: int = 256) -> WordTokenizer:
    return WordTokenizer(load_encoder(str(folder)), long, max_pieces)


def names(encoder: WordTokenizer, pieces: EncodedText) -> list[str]:
    return list(encoder.tokenizer.convert_ids_to_tokens(pieces.ids.tolist()))


@pytest.mark.parametrize("architecture", WORDPIECE)
def test_words_give_the_pieces_of_the_joined_text(architecture: str, word_encoders: WordEncoders) -> None:
    encoder = word_encoders[architecture]
    [pieces] = encoder([TEXT])
    assert pieces.ids.tolist() == encoder.tokenizer(" ".join(TEXT.words)).input_ids


@pytest.mark.parametrize("architecture", BYTE_LEVEL)
def test_every_word_bears_the_mark_of_its_space(architecture: str, word_encoders: WordEncoders) -> None:
    encoder = word_encoders[architecture]
    [pieces] = encoder([TEXT])
    assert pieces.ids.tolist() == encoder.tokenizer(" " + " ".join(TEXT.words)).input_ids
    firsts = [names(encoder, pieces)[pieces.word_of.tolist().index(word)] for word in range(len(TEXT.words))]
    assert firsts == ["Ġ", "Ġ", "Ġwas", "Ġ", "Ġ", "Ġ"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_query_comes_second_as_the_tokenizer_has_it(architecture: str, word_encoders: WordEncoders) -> None:
    encoder = word_encoders[architecture]
    lead = " " if architecture in BYTE_LEVEL else ""
    [pieces] = encoder([Text(("good", "old", "film"), ("praise", "it"))])
    expected = encoder.tokenizer(f"{lead}good old film", f"{lead}praise it", return_token_type_ids=True)
    assert pieces.ids.tolist() == expected.input_ids
    assert pieces.types.tolist() == expected.token_type_ids
    rest = len(pieces) - 4
    assert pieces.word_of.tolist() == [NO_WORD, 0, 1, 2, *[NO_WORD] * rest]


def test_the_pair_layout_by_hand(word_encoders: WordEncoders) -> None:
    text = Text(("good", "xy"), ("praise",))
    [bert], [roberta] = (word_encoders[name]([text]) for name in ("bert", "roberta"))
    assert names(word_encoders["bert"], bert) == ["[CLS]", "good", "x", "##y", "[SEP]", "praise", "[SEP]"]
    assert bert.types.tolist() == [0, 0, 0, 0, 0, 1, 1]
    assert bert.word_of.tolist() == [-1, 0, 1, 1, -1, -1, -1]
    assert names(word_encoders["roberta"], roberta) == [
        *("<s>", "Ġgood", "Ġ", "x", "y", "</s>", "</s>", "Ġpraise", "</s>"),
    ]
    assert roberta.types.tolist() == [0] * 9
    assert roberta.word_of.tolist() == [-1, 0, 1, 1, 1, -1, -1, -1, -1]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_positions_begin_where_the_encoder_begins(architecture: str, word_encoders: WordEncoders) -> None:
    [pieces] = word_encoders[architecture]([Text(("good", "film"))])
    first = FIRST_POSITION.get(architecture, 0)
    assert pieces.positions.tolist() == [first, first + 1, first + 2, first + 3]


@pytest.mark.parametrize("architecture", ["bert", "roberta"])
@pytest.mark.parametrize("n_words", [62, 63, 126, 200])
def test_positions_repeat_in_a_long_text(architecture: str, n_words: int, word_encoders: WordEncoders) -> None:
    [pieces] = word_encoders[architecture]([Text(("good",) * n_words)])
    n_pieces, first = n_words + 2, FIRST_POSITION.get(architecture, 0)
    assert pieces.n_read == n_words
    assert pieces.positions.tolist() == [
        first + (place * 64 // n_pieces if n_pieces > 64 else place) for place in range(n_pieces)
    ]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("word", ["[SEP]", "[CLS]", "<s>", "</s>", "<mask>", "[PAD]"])
def test_a_special_string_in_a_text_is_text(architecture: str, word: str, word_encoders: WordEncoders) -> None:
    encoder = word_encoders[architecture]
    encoder.tokenizer("somebody else uses the tokenizer, which changes its settings")
    [pieces] = encoder([Text((word,), (word,))])
    special = set(encoder.tokenizer.all_special_ids) - {encoder.tokenizer.unk_token_id}
    assert sum(id in special for id in pieces.ids.tolist()) == len(encoder.pair)
    assert not special & set(pieces.ids[pieces.word_of == 0].tolist())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("word", ["\u200b", "👍🏽", "中", "\ud800", "\x00", "n\u0303"])
def test_every_word_has_a_piece(architecture: str, word: str, word_encoders: WordEncoders) -> None:
    [pieces] = word_encoders[architecture]([Text(("good", word, "film"))])
    owners = pieces.word_of[pieces.word_of != NO_WORD]
    assert owners.tolist() == sorted(owners.tolist())
    assert set(owners.tolist()) == {0, 1, 2}


def test_a_word_without_pieces_is_unknown(word_encoders: WordEncoders) -> None:
    encoder = word_encoders["bert"]
    [pieces] = encoder([Text(("good", "\u200b", "👍🏽"))])
    assert names(encoder, pieces) == ["[CLS]", "good", "[UNK]", "[UNK]", "[SEP]"]


def test_a_text_without_words_is_its_frame(word_encoders: WordEncoders) -> None:
    [alone, asked] = word_encoders["bert"]([Text(()), Text((), ("praise",))])
    assert names(word_encoders["bert"], alone) == ["[CLS]", "[SEP]"]
    assert names(word_encoders["bert"], asked) == ["[CLS]", "[SEP]", "praise", "[SEP]"]
    assert asked.types.tolist() == [0, 0, 1, 1]
    assert (alone.n_words, alone.n_read) == (0, 0)


def test_truncating_keeps_whole_words_and_the_query(encoders: dict[str, Path]) -> None:
    encoder = word_encoder(encoders["bert"], long="truncate")
    text = Text((*("good",) * 59, "xy", "film"), ("praise",))  # 64 - 3 special - 1 query: room for 60 pieces
    [pieces] = encoder([text])
    assert (pieces.n_words, pieces.n_read, len(pieces)) == (61, 59, 63)
    assert names(encoder, pieces)[-4:] == ["good", "[SEP]", "praise", "[SEP]"]
    assert pieces.word_of.max() == 58
    [whole] = encoder([Text(("good",) * 62)])
    assert (whole.n_read, len(whole)) == (62, 64)


def test_a_text_beyond_all_room_is_refused(encoders: dict[str, Path]) -> None:
    encoder = word_encoder(encoders["bert"], max_pieces=16)
    encoder([Text(("good",) * 14)])
    with pytest.raises(TooLongError) as caught:
        encoder([Text(("good",) * 13 + ("xy",), id="a-7")])
    assert str(caught.value) == (
        "Text 'a-7' has 14 words, or 15 pieces, but only 14 can be read. "
        "Split it, or train a model that reads it in windows (long=chunk), only its beginning (long=truncate) or more "
        "at once (a larger max_pieces)."
    )


@pytest.mark.parametrize("words", [(), ("good",)])
@pytest.mark.parametrize("long", ["stagger", "truncate"])
def test_a_query_that_leaves_no_room_is_refused(
    words: tuple[str, ...], long: LongPolicy, encoders: dict[str, Path]
) -> None:
    encoder = word_encoder(encoders["bert"], long, max_pieces=64)
    with pytest.raises(TooLongError) as caught:
        encoder([Text(words, ("praise",) * 70, "q")])
    n_words = len(words)
    assert str(caught.value) == (
        f"Text 'q' has {n_words} words, or {n_words} pieces, but only 0 can be read. Split it, or train a model that "
        "reads it in windows (long=chunk), only its beginning (long=truncate) or more at once (a larger max_pieces)."
        if long == "stagger"
        else "The query of text 'q' has 70 words, which leaves room for 0 pieces of the text beside it; there must be "
        "room for 1. Shorten it."
    )

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.text import from_utf16, split_whitespace, split_words, to_utf16
from strategies import SHARDS, texts

# Invisible characters: joiners, soft hyphens, direction marks, zero-width spaces, tags.
INVISIBLE = {
    *map(chr, (0xAD, 0x61C, 0x180E, 0xFEFF, *range(0x200B, 0x2010), *range(0x202A, 0x202F))),
    *map(chr, (*range(0x2060, 0x2070), *range(0xE0001, 0xE0080))),
}


def words_of(text: str) -> list[str]:
    return [text[start:end] for start, end in split_words(text)]


def is_separator(character: str) -> bool:
    return character.isspace() or unicodedata.category(character) in {"Cc", "Zs", "Zl", "Zp"} or character in INVISIBLE


def is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat sat.", ["The", "cat", "sat", "."]),
        ("Don't stop -- it's rock-n-roll...", ["Don't", "stop", "--", "it's", "rock-n-roll", "..."]),
        ("(3.14, 1,000 and 12:30)", ["(", "3.14", ",", "1,000", "and", "12:30", ")"]),
        ("The U.S. and, e.g., Rome.", ["The", "U.S.", "and", ",", "e.g.", ",", "Rome", "."]),
        ("«l’été» naïve", ["«", "l’été", "»", "naïve"]),
        ("e\u0301te\u0301 !", ["e\u0301te\u0301", "!"]),
        ("no\u00a0break\u3000space\u200bzero\ufeffmark", ["no", "break", "space", "zero", "mark"]),
        ("bell\x07null\x00tab\tline\x85end", ["bell", "null", "tab", "line", "end"]),
        ("中国 is 大", ["中", "国", "is", "大"]),
        ("GPT模型3个", ["GPT", "模", "型", "3", "个"]),
        ("ไม่ดี", ["ไ", "ม่", "ดี"]),
        ("中.国.", ["中", ".", "国", "."]),
        ("한국어 좋아", ["한국어", "좋아"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("good👍🏽bad👎", ["good", "👍🏽", "bad", "👎"]),
        ("👩\u200d🚀👨\u200d👩\u200d👧", ["👩\u200d🚀", "👨\u200d👩\u200d👧"]),
        ("👩🏽\u200d🤝\u200d👨🏿 🏳\ufe0f\u200d⚧\ufe0f", ["👩🏽\u200d🤝\u200d👨🏿", "🏳\ufe0f\u200d⚧\ufe0f"]),
        ("🇫🇷🇩🇪🇫", ["🇫🇷", "🇩🇪", "🇫"]),
        ("press 3\ufe0f\u20e3 #\u20e3 now", ["press", "3\ufe0f\u20e3", "#\u20e3", "now"]),
        ("I ❤\ufe0f it!!!", ["I", "❤\ufe0f", "it", "!!!"]),
        ("🏴\U000e0067\U000e0062\U000e007f ok", ["🏴\U000e0067\U000e0062\U000e007f", "ok"]),
        ("U.S.\u0301 🇫🇷\u0301 3\u20e3\u0301", ["U.S.\u0301", "🇫🇷\u0301", "3\u20e3\u0301"]),
        ("left\u200e right\u202e \u2060 \u00ad", ["left", "right"]),
        ("❤\u200dabc \u200d!\u200d", ["❤", "abc", "!"]),
        ("\u06dd\u0663 \u0600", ["\u06dd", "\u0663", "\u0600"]),
        ("က\u103b\u200cခ", ["က\u103b\u200c", "ခ"]),
        ("half \ud800 pair", ["half", "\ud800", "pair"]),
        ("", []),
        (" \t\n\u200b", []),
    ],
)
def test_words_and_signs(text: str, expected: list[str]) -> None:
    assert words_of(text) == expected


@pytest.mark.parametrize("shard", SHARDS)
def test_a_word_does_not_change_between_spaces(shard: str) -> None:
    assert words_of(f" {shard} ") == words_of(shard)


@given(texts())
def test_words_are_in_order_and_all_separators_and_nothing_else_are_between_them(text: str) -> None:
    edges = [0, *(edge for span in split_words(text) for edge in span), len(text)]
    assert edges == sorted(edges)
    assert all(start < end for start, end in split_words(text))
    gaps = "".join(text[end:start] for end, start in zip(edges[::2], edges[1::2], strict=True))
    assert all(map(is_separator, gaps))
    words = words_of(text)
    assert not any(INVISIBLE.issuperset(word) for word in words)
    assert not any(is_separator(character) for character in "".join(words) if character not in INVISIBLE)


@given(texts())
def test_a_mark_starts_a_word_only_if_it_follows_no_letter(text: str) -> None:
    for start, _ in split_words(text):
        assert not is_mark(text[start]) or start == 0 or is_separator(text[start - 1])


@given(texts(max_size=5), texts(max_size=5))
def test_a_line_break_separates_texts(first: str, second: str) -> None:
    assert words_of(f"{first}\n{second}") == words_of(first) + words_of(second)


@given(texts())
def test_words_joined_by_spaces_are_found_again(text: str) -> None:
    words = words_of(text)
    assert words_of(" ".join(words)) == words


@given(st.text(st.characters(), max_size=40) | texts())
def test_tokenized_text_is_split_at_white_space(text: str) -> None:
    assert [text[start:end] for start, end in split_whitespace(text)] == text.split()


@given(
    st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("😀𠮷👩\u200d\u0301\n\t"), max_size=20),
    st.data(),
)
def test_utf16_spans_are_exact_and_can_be_converted_back(text: str, data: st.DataObject) -> None:
    places = st.integers(0, len(text))
    pairs = data.draw(st.lists(st.tuples(places, places), max_size=4))
    spans = [(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]]
    units, encoded = to_utf16(text, spans), text.encode("utf-16-le")
    assert [encoded[2 * a : 2 * b].decode("utf-16-le") for a, b in units] == [text[a:b] for a, b in spans]
    assert from_utf16(text, units) == spans


def test_utf16_spans_that_split_a_character_or_leave_the_text_are_none() -> None:
    spans = [(0, 1), (1, 3), (1, 2), (2, 3), (3, 5), (-1, 1), (3, 3), (3, 1)]
    assert from_utf16("a😀b", spans) == [(0, 1), (1, 2), *[None] * 6]

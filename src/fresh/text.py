"""Splits raw text into words with exact character spans, and converts spans to UTF-16 and back."""

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

Spans = tuple[tuple[int, int], ...]
"""Places in a text, in characters, or in a document, in words: the first, and the one after the last."""
TextParts = tuple[tuple[str, int], ...]
"""The texts that one text was joined from: the name of each, and its number of words."""

# Scripts written without spaces: each character, with its marks, is a word.
UNSPACED = (
    "\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
JOINER = "\u200d"
# Invisible characters: some separate words, some belong to the character before them.
SEPARATING = "\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"
ATTACHED = "\u00ad\u200c\u200d"
TAGS = "\U000e0001-\U000e007f"
EMOJI_TAIL = "\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff" + TAGS


def split_words(text: str) -> Spans:
    """Find the words and signs of a text as a reader sees them.

    Letters, digits and inner apostrophes, hyphens and periods make a word. So does a run of one sign ("...", "--"), an
    emoji with its modifiers and, in scripts without spaces, each character.
    """
    return tuple(match.span() for match in _word_pattern().finditer(text))


def split_whitespace(text: str) -> Spans:
    """Find the words of a text that is already tokenized."""
    return tuple(match.span() for match in re.finditer(r"\S+", text))


@functools.cache  # on first use, not on import, since it looks at 130,000 characters
def _word_pattern() -> re.Pattern[str]:
    marks = _character_class("M")
    space = rf"\s{_character_class('Cc', 'Zs', 'Zl', 'Zp')}{SEPARATING}"
    visible = rf"[^\w{space}{ATTACHED}{TAGS}]"
    letter = rf"[^\W{UNSPACED}][{marks}{ATTACHED}]*"
    inner = r"(?:['’‘·\-‐‑]|(?<=\d)[.,:](?=\d))"
    tail = f"[{marks}{EMOJI_TAIL}]*"
    initials = rf"(?<!\w)(?:[^\W\d_{UNSPACED}]\.){{2,}}[{marks}]*"
    flag = f"[\U0001f1e6-\U0001f1ff]{{2}}{tail}"
    keycap = rf"[0-9#*]\ufe0f?\u20e3{tail}"
    emoji = f"{visible}{tail}(?:{JOINER}{visible}{tail})+|{visible}[{EMOJI_TAIL}]{tail}"
    word = f"(?:{letter})+(?:{inner}(?:{letter})+)*"
    unspaced = f"[{UNSPACED}][{marks}{ATTACHED}]*"
    sign = rf"({visible})\1*[{marks}]*"
    # The first alternative that matches wins, so special cases come before the letters and signs that they consist of.
    return re.compile("|".join((keycap, flag, emoji, initials, word, unspaced, sign)))


def _character_class(*categories: str) -> str:
    """Spell out, for a pattern, all characters whose Unicode category starts with one of some names."""
    # Only these planes hold marks and controls. Within a run, code point minus position is constant.
    points = (*range(0x20000), *range(0xE0000, 0xE0201))
    inside = [point for point in points if unicodedata.category(chr(point)).startswith(categories)]
    runs = itertools.groupby(enumerate(inside), key=lambda pair: pair[1] - pair[0])
    edges = ([point for _, point in run] for _, run in runs)
    return "".join(f"{re.escape(chr(run[0]))}-{re.escape(chr(run[-1]))}" for run in edges)


# Python counts code points, JavaScript counts UTF-16 code units.


def to_utf16(text: str, spans: Iterable[tuple[int, int]]) -> Spans:
    """Convert places in code points to places in UTF-16 code units."""
    if text.isascii():
        return tuple(spans)
    units = list(_utf16_offsets(text))
    return tuple((units[start], units[end]) for start, end in spans)


def from_utf16(text: str, spans: Iterable[tuple[int, int]]) -> list[tuple[int, int] | None]:
    """Convert places in UTF-16 code units to places in code points; None for one that splits a character."""
    points = {unit: point for point, unit in enumerate(_utf16_offsets(text))}
    return [
        (points[start], points[end]) if start in points and end in points and start < end else None
        for start, end in spans
    ]


def _utf16_offsets(text: str) -> Iterator[int]:
    return itertools.accumulate((1 if character <= "\uffff" else 2 for character in text), initial=0)


def and_list(names: Sequence[str]) -> str:
    """Join names as in a sentence: a, b and c."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def plural(count: float, noun: str, suffix: str = "s") -> str:
    """Write a count with its noun, in the plural unless it is one."""
    number = f"{count:,}" if isinstance(count, int) else f"{count:g}"
    return f"{number} {noun}{'' if count == 1 else suffix}"

"""Raw text to words, with the exact place of each one."""

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator

Spans = tuple[tuple[int, int], ...]
TextParts = tuple[tuple[str, int], ...]
"""The texts that one text was joined from: the name of each, and its number of words."""

# Scripts written without spaces: each character, with its marks, is a word.
UNSPACED = (
    "\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
JOINER = "\u200d"
# Signs that no reader sees: some part words, some only ever hang on what stands before them.
PARTING = "\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"
HANGING = "\u00ad\u200c\u200d"
TAGS = "\U000e0001-\U000e007f"
EMOJI_TAIL = "\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff" + TAGS


def split_words(text: str) -> Spans:
    """Find what a reader would call the words and signs of a text.

    Letters, digits and inner apostrophes, hyphens and points make a word; a run of one sign ("...", "--") is a word;
    an emoji with all that modifies it is a word; in scripts without spaces each character is one.
    """
    return tuple(match.span() for match in _word_pattern().finditer(text))


def split_whitespace(text: str) -> Spans:
    """Find the words of a text that was tokenised before."""
    return tuple(match.span() for match in re.finditer(r"\S+", text))


@functools.cache
def _word_pattern() -> re.Pattern[str]:
    """Build the pattern once, when the first text is split."""
    marks = _character_class("M")
    space = rf"\s{_character_class('Cc', 'Zs', 'Zl', 'Zp')}{PARTING}"
    seen = rf"[^\w{space}{HANGING}{TAGS}]"
    letter = rf"[^\W{UNSPACED}][{marks}{HANGING}]*"
    inner = r"(?:['’‘·\-‐‑]|(?<=\d)[.,:](?=\d))"
    tail = f"[{marks}{EMOJI_TAIL}]*"
    initials = rf"(?<!\w)(?:[^\W\d_{UNSPACED}]\.){{2,}}[{marks}]*"
    flag = f"[\U0001f1e6-\U0001f1ff]{{2}}{tail}"
    keycap = rf"[0-9#*]\ufe0f?\u20e3{tail}"
    emoji = f"{seen}{tail}(?:{JOINER}{seen}{tail})+|{seen}[{EMOJI_TAIL}]{tail}"
    word = f"(?:{letter})+(?:{inner}(?:{letter})+)*"
    unspaced = f"[{UNSPACED}][{marks}{HANGING}]*"
    sign = rf"({seen})\1*[{marks}]*"
    return re.compile("|".join((keycap, flag, emoji, initials, word, unspaced, sign)))


def _character_class(*categories: str) -> str:
    """Spell out, for a pattern, all characters whose Unicode category begins so."""
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in _category_ranges(categories))


def _category_ranges(categories: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Walk through the planes that hold marks and controls, and join neighbours."""
    first: int | None = None
    for point in (*range(0x20000), *range(0xE0000, 0xE0201)):
        inside = unicodedata.category(chr(point)).startswith(categories)
        if inside and first is None:
            first = point
        elif not inside and first is not None:
            yield first, point - 1
            first = None


LAST_OF_ONE_UNIT = "\uffff"


def to_utf16(text: str, spans: Iterable[tuple[int, int]]) -> Spans:
    """Turn places in code points into places in UTF-16 code units."""
    if text.isascii():
        return tuple(spans)
    starts = list(itertools.accumulate((_width(character) for character in text), initial=0))
    return tuple((starts[start], starts[end]) for start, end in spans)


def from_utf16(text: str, spans: Iterable[tuple[int, int]]) -> list[tuple[int, int] | None]:
    """Turn places in UTF-16 code units into places in code points; none for one that cuts a character."""
    starts = itertools.accumulate((_width(character) for character in text), initial=0)
    points = {unit: point for point, unit in enumerate(starts)}
    return [
        (points[start], points[end]) if start in points and end in points and start < end else None
        for start, end in spans
    ]


def _width(character: str) -> int:
    """Count the UTF-16 code units of a character."""
    return 1 if character <= LAST_OF_ONE_UNIT else 2

"""Names, numbers and queries as people read them."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from fresh.text import plural

DIRECTION_MARKS = re.compile("[\u202a-\u202e\u2066-\u2069]")
LINE_BREAKS = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
QUERY_SEPARATOR = "||"  # what corpora join the parts of a query with
QUERY_PARTS = {"multirc": ("Question", "Answer"), "evinf": ("Intervention", "Compared with", "Outcome")}
"""The names of the parts in the corpora of the paper."""


def cannot_complete(n_more: int) -> str:
    """Explain that a study needs more people than have codes."""
    are = "is" if n_more == 1 else "are"
    return f"The annotators who have codes cannot complete the study: {plural(n_more, 'more annotator')} {are} needed."


def _normalize(name: str) -> str:
    # Compatibility forms and format characters make labels that look the same and are not.
    visible = "".join(sign for sign in unicodedata.normalize("NFKC", name) if unicodedata.category(sign) != "Cf")
    return " ".join(visible.split()).casefold()


def find_lookalikes(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Find pairs of names that people would confuse."""
    seen: dict[str, str] = {}
    for name in names:
        if _normalize(name) in seen:
            yield seen[_normalize(name)], name
        seen.setdefault(_normalize(name), name)


def check_name(what: str, name: str) -> Iterator[str]:
    """Explain why a name cannot be shown on one line.

    :param what: Which name it is.
    """
    if not _normalize(name):
        yield f"{what} must contain visible text, got {name!r}."
    elif LINE_BREAKS.search(name):
        yield f"{what} must be on one line, got {name!r:.60}. Remove the line breaks."
    elif DIRECTION_MARKS.search(name):
        yield f"{what} must not contain characters that change the text direction, got {name!a:.60}. Remove them."


def split_query(query: Sequence[str], corpus: str) -> list[tuple[str, str]]:
    """Split a query into its parts, each with its name, or "" if the corpus has no names for this many.

    :param query: Its words.
    """
    parts: list[list[str]] = [[]]
    for word in query:
        if word == QUERY_SEPARATOR:
            parts.append([])
        else:
            parts[-1].append(word)
    names, texts = QUERY_PARTS.get(corpus, ()), [" ".join(part) for part in parts]
    if len(texts) == len(names):
        return list(zip(names, texts, strict=True))
    return [("", text) for text in texts if text]


def format_query(query: Sequence[str], corpus: str) -> str:
    """Write a query on one line."""
    parts = split_query(query, corpus)
    if any(name for name, _ in parts):
        return " ".join(f"{name}: {text}" for name, text in parts)
    return " / ".join(text for _, text in parts)

"""Queries as people read them: corpora join the parts of one with a sign that only models know."""

from collections.abc import Sequence

SIGN = "||"
PARTS = {"multirc": ("Question", "Answer"), "evinf": ("Intervention", "Compared with", "Outcome")}
"""What the parts are called in the corpora of the paper."""


def parts_of(query: Sequence[str], corpus: str) -> list[tuple[str, str]]:
    """Take a query apart, each part with its name; without names where the corpus has none for as many.

    :param query: Its words.
    :param corpus: What the study calls its corpus.
    """
    parts: list[list[str]] = [[]]
    for word in query:
        if word == SIGN:
            parts.append([])
        else:
            parts[-1].append(word)
    names = PARTS.get(corpus, ())
    told = [" ".join(part) for part in parts]
    if len(told) == len(names):
        return list(zip(names, told, strict=True))
    return [("", part) for part in told if part]


def spelt(query: Sequence[str], corpus: str) -> str:
    """Write a query on one line."""
    parts = parts_of(query, corpus)
    if any(name for name, _ in parts):
        return " ".join(f"{name}: {part}" for name, part in parts)
    return " / ".join(part for _, part in parts)

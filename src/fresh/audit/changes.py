"""Changes of a document that leave its rationale as it is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fresh.document import Document, Mask

ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?'-éßжΩא中か한👍"
LONGEST = 15
"""Characters of a word that is made up."""
MOST_TIMES = 5
"""How often a word stands there after it was multiplied."""

Row = tuple[str, bool]
"""A word, and whether it is kept."""


@dataclass(frozen=True, slots=True)
class Change:
    """A document whose dropped words were changed, and the mask on the same kept words."""

    kind: str
    document: Document
    mask: Mask


@dataclass(frozen=True, slots=True)
class Drawing:
    """Draws words: of a corpus, and made up."""

    vocabulary: Sequence[str]
    generator: np.random.Generator

    def chance(self, share: float) -> bool:
        """Say yes in a share of the cases."""
        return bool(self.generator.random() < share)

    def made_up(self, length: int) -> str:
        """Make up a word."""
        return "".join(ALPHABET[place] for place in self.generator.integers(len(ALPHABET), size=length).tolist())

    def another(self, word: str) -> str:
        """Draw a word of another length."""
        found = self.vocabulary[int(self.generator.integers(len(self.vocabulary)))]
        if len(found) != len(word) and self.chance(0.5):
            return found
        lengths = [length for length in range(1, LONGEST + 1) if length != len(word)]
        return self.made_up(lengths[int(self.generator.integers(len(lengths)))])


def _replaced(rows: Sequence[Row], drawing: Drawing) -> list[Row]:
    """Put other words of other lengths in the place of all dropped words."""
    return [(word, True) if kept else (drawing.another(word), False) for word, kept in rows]


def _deleted(rows: Sequence[Row], drawing: Drawing) -> list[Row]:
    """Take dropped words out: all, or some; one word at least stays."""
    dropped = [place for place, (_, kept) in enumerate(rows) if not kept]
    n_most = min(len(dropped), len(rows) - 1)
    n_out = n_most if drawing.chance(0.5) else int(drawing.generator.integers(1, n_most + 1))
    out = set(drawing.generator.choice(dropped, size=n_out, replace=False).tolist())
    return [row for place, row in enumerate(rows) if place not in out]


def _multiplied(rows: Sequence[Row], drawing: Drawing) -> list[Row]:
    """Have each dropped word stand there several times."""
    found: list[Row] = []
    for word, kept in rows:
        found += [(word, kept)] * (1 if kept else int(drawing.generator.integers(2, MOST_TIMES + 1)))
    return found


def _added(rows: Sequence[Row], drawing: Drawing) -> list[Row]:
    """Put further words, which are not kept, anywhere."""
    found = list(rows)
    for _ in range(int(drawing.generator.integers(1, len(rows) + 2))):
        found.insert(int(drawing.generator.integers(len(found) + 1)), (drawing.another(""), False))
    return found


CHANGES: dict[str, Callable[[Sequence[Row], Drawing], list[Row]]] = {
    "replaced": _replaced,
    "deleted": _deleted,
    "multiplied": _multiplied,
    "added": _added,
}


def kinds_for(mask: Mask) -> list[str]:
    """List the changes that a mask leaves room for: where nothing was dropped, words can only be added."""
    n_dropped = int((~mask.kept).sum())
    if not n_dropped:
        return ["added"]
    return [kind for kind in CHANGES if kind != "deleted" or len(mask) > 1]


def change(document: Document, mask: Mask, kind: str, drawing: Drawing) -> Change:
    """Change what a mask drops of a document; what it keeps stays, in its order."""
    rows = CHANGES[kind](list(zip(document.words, mask.kept.tolist(), strict=True)), drawing)
    kept = np.array([flag for _, flag in rows], dtype=np.bool_)
    return Change(kind, Document.from_words([word for word, _ in rows], document.query, document.id), Mask(kept))

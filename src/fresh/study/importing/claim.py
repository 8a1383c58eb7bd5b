"""What a file says that somebody answered, as it stands there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ASKED = ("label", "confidence", "readability")
OWN = ("study", "document", "condition", "gold")
"""What our own export tells of an item beside its number."""
SHOWN = ("text", "query")
"""What other tools tell of an item."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a file says that somebody answered."""

    place: str
    """Where it stands in the file."""
    person: Any
    item: Any
    answers: Mapping[str, Any]
    """By what was asked; None where nothing, or more than one thing, was answered."""
    spent: Any = 0
    """How long it took."""
    spent_in: str = "time"
    """What the file calls that."""
    per_second: int = 1
    """How many of its units make a second."""
    at: Any = None
    """When it was answered, in milliseconds since 1970, where the file says so."""
    whole: bool = True
    """Whether the tool keeps only answers to all questions; else some may not be finished."""
    void: str = ""
    """Skipped or rejected, if it was: somebody has seen the item, and that is all."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What the file says of the item, to be compared with the study."""
    kind: str = "real"
    """real, practice or check."""
    counted: Any = None
    """Whether it was part of the results, where our own export says so."""
    database: Any = None
    """Which database our own export comes from."""
    annotator: Any = None
    """The number that somebody has there."""

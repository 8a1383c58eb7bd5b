"""What can be done about an annotator on the admin page: asked first, and told afterwards."""

from collections.abc import Callable
from dataclasses import dataclass

from fresh.config import suggest
from fresh.study.annotators import exclude, leave
from fresh.study.service import readmit
from fresh.study.store import Store
from fresh.web.errors import Problem

GIVEN_BACK = " Texts that others get: {number:,}."


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked before something is done."""

    heading: str
    told: str
    """What it will do."""
    button: str


@dataclass(frozen=True, slots=True)
class _Action:
    """Something that is done about an annotator."""

    do: Callable[[Store, int], int]
    leads_to: str
    """The state in which they are then."""
    done: str
    """What is said afterwards of them."""
    more: str
    """What is said in addition, of a number that is not 0."""


def check_action(action: str) -> None:
    """Refuse what cannot be done about anybody."""
    if action not in ASKED:
        raise Problem(422, suggest(action, "something that can be done here", ASKED))


ACTIONS = {
    "exclude": _Action(exclude, "excluded", "is excluded: nothing of theirs counts.", GIVEN_BACK),
    "leave": _Action(leave, "left", "has left: what they answered counts.", GIVEN_BACK),
    "readmit": _Action(
        readmit,
        "active",
        "takes part again, and what they answered counts.",
        " Answers that do not count, since others were given the texts: {number:,}.",
    ),
}
ASKED = {
    "exclude": _Question(
        "Exclude annotator {number}?",
        "Nothing that they answered counts any more, others get the texts, and their code opens nothing. The answers "
        "are kept: readmitted, they count again as far as places are left.",
        "Exclude",
    ),
    "leave": _Question(
        "Let annotator {number} go?",
        "What they answered counts. The text before them goes to others, and their code opens nothing until they are "
        "readmitted.",
        "Let go",
    ),
    "readmit": _Question(
        "Readmit annotator {number}?",
        "They can go on with their code. What they answered counts again, unless others were given the texts "
        "meanwhile.",
        "Readmit",
    ),
    "renew": _Question(
        "A new code for annotator {number}?",
        "The code that they have opens nothing any more, and they are signed out. The new one is shown once.",
        "Make a new code",
    ),
}

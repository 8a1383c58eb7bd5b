"""Names and numbers as people read them."""

import re
import unicodedata
from collections.abc import Iterable, Iterator

STEERING = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""What turns the reading direction round."""
BREAKS = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def plural(count: int, thing: str) -> str:
    """Count things by name."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def cannot_complete(n_more: int) -> str:
    """Say that a study wants more people than there are."""
    more = f"{plural(n_more, 'more annotator')} {'is' if n_more == 1 else 'are'} needed"
    return f"Those who have codes cannot complete the study: at least {more}."


def as_seen(name: str) -> str:
    """Write a name so that two come out the same if people would take one for the other, whatever size and spaces."""
    plain = "".join(sign for sign in unicodedata.normalize("NFKC", name) if unicodedata.category(sign) != "Cf")
    return " ".join(plain.split()).casefold()


def alike(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Find names that people would take for one another."""
    seen: dict[str, str] = {}
    for name in names:
        if as_seen(name) in seen:
            yield seen[as_seen(name)], name
        seen.setdefault(as_seen(name), name)


def wrong_name(what: str, name: str) -> Iterator[str]:
    """Say why a name cannot be shown on one line, as it is written.

    :param what: Which name it is.
    """
    if not as_seen(name):
        yield f"{what} must be text that people can read, got {name!r}. Write some."
    elif BREAKS.search(name):
        yield f"{what} must stand on one line, got {name!r:.60}. Take the line breaks out."
    elif STEERING.search(name):
        yield f"{what} must not turn the reading direction round, got {name!a:.60}. Take such signs out."

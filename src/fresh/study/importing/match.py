"""What a file says that people answered, understood by what a study knows; or all that is wrong with it."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any

from sqlalchemy import select

from fresh.config import suggest
from fresh.errors import StudyError
from fresh.study.answer import LONGEST, Answer
from fresh.study.export import for_mturk, questions_of
from fresh.study.importing.claim import ASKED, Claim
from fresh.study.importing.moments import LATEST
from fresh.study.importing.parsers import KINDS, annotator_name, as_it_was
from fresh.study.queries import spelt
from fresh.study.schema import AnnotatorRow, DocumentRow, ItemRow
from fresh.study.store import Store
from fresh.study.tickets import database_name, study_name, tickets_of
from fresh.study.wording import plural

LONGEST_NAME = 200
DIGITS = 20
"""A whole number with more of them is none that a file of answers needs."""
COUNTED = {"true": True, "false": False, "": True, "none": True}
"""Files that do not say whether an answer was part of the results bring answers that can be."""
ELSEWHERE = "The file is of another study: import it into the one that it was exported from."


@dataclass(frozen=True, slots=True)
class Foreign:
    """An answer that somebody gave elsewhere, or only that they have seen an item."""

    place: str
    """Where it stands in the file."""
    person: str
    item: int
    answer: Answer | None
    at: int | None = None
    why: str = ""
    """Why there is no answer, if there is none."""
    called: str = ""
    """What the file calls the item."""
    kind: str = "real"
    counted: bool = True
    annotator: int | None = None
    """Their number, for who is known to be an annotator of this very study."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What a study knows, to understand answers by."""

    items: Mapping[str, Mapping[int, Mapping[str, Sequence[str]]]]
    """For each item of each kind, what a file may tell of it, in all ways in which it was ever exported."""
    tickets: Mapping[str, int]
    """Items by the names that they have in files for others."""
    meanings: Mapping[str, Mapping[str, str]]
    """For each question, what may stand in a file, and which answer it is."""
    database: str
    people: Mapping[int, str]
    """Annotators by their numbers, with the names that files have for them."""


def known_to(store: Store, form: str) -> _Known:
    """List items, and how answers are written: Potato keeps what people read, the others what it stands for."""
    meanings: dict[str, Mapping[str, str]] = {}
    for name, (_, answers) in questions_of(store).items():
        read = {shown.strip(): value for value, shown in answers.items()}
        stands = {value: value for value in answers}
        meanings[name] = {**stands, **read} if form == "potato" else {**read, **stands}
    tickets = {ticket: number for number, ticket in tickets_of(store).items()}
    with store.reading() as session:
        rows = session.execute(select(AnnotatorRow.id, AnnotatorRow.outside)).tuples()
        people = {number: outside or annotator_name(number) for number, outside in rows}
    return _Known(_items_of(store), tickets, meanings, database_name(store), people)


def _items_of(store: Store) -> dict[str, dict[int, dict[str, tuple[str, ...]]]]:
    """List the items that people answer, by kind, with all that files tell of them."""
    found: dict[str, dict[int, dict[str, tuple[str, ...]]]] = {kind: {} for kind in KINDS}
    study, query = study_name(store), select(ItemRow, DocumentRow.name).where(ItemRow.kind.in_(KINDS))
    with store.reading() as session:
        rows = session.execute(query.outerjoin(DocumentRow, DocumentRow.id == ItemRow.document)).tuples()
        for item, document in rows:
            condition = None if item.condition is None else store.conditions[item.condition]
            told = {"study": study, "document": document, "condition": condition, "gold": item.label}
            ways = {name: () if value is None else (value,) for name, value in told.items()}
            shown = (spelt(item.query, store.about["corpus"]), " ".join(item.query))
            found[item.kind][item.id] = ways | {"text": (" ".join(item.words),), "query": shown}
    return found


def foreign(claim: Claim, known: _Known) -> Foreign:
    """Understand an answer, or say all that is wrong with it."""
    told = {name: _meaning_of(claim.answers.get(name), known.meanings[name]) for name in ASKED}
    unfinished = [name for name in ASKED if told[name] is None]
    seen_only = claim.void or (bool(unfinished) and not claim.whole)
    about = {"person": claim.person, "item": claim.item}
    missing = [name for name, value in (about if seen_only else told | about).items() if value in (None, "")]
    if missing:
        raise StudyError(f"{claim.place}: there is no {', no '.join(missing)}, or more than one.")
    person, item, answer = str(claim.person).strip(), _item_of(claim.item, known), None
    problems = [
        *_wrong_item(claim, item, known),
        *wrong_name(person),
        *_wrong_moment(claim.at),
        *_wrong_own(claim, known),
    ]
    if not seen_only:
        try:
            answer = _answer_of(claim, told, known)
        except ValueError as error:
            problems += str(error).splitlines()
    if problems:
        raise StudyError("\n".join(f"{claim.place}: {problem}" for problem in problems))
    number = _whole(claim.annotator) if _is_own(claim, known) else None
    person = person if number is None else known.people[number]
    unanswered = f"{person} has not answered {' and '.join(unfinished)}."
    return Foreign(
        claim.place,
        person,
        item,
        answer,
        None if claim.at in (None, "") else _whole(claim.at),
        why=f"the answer of {person} was {claim.void} there." if claim.void else unanswered,
        called=str(claim.item).strip() if str(claim.item).strip() in known.tickets else str(item),
        kind=claim.kind,
        counted=COUNTED[str(claim.counted).strip().lower()],
        annotator=number,
    )


def _answer_of(claim: Claim, told: Mapping[str, Any], known: _Known) -> Answer:
    """Understand what was answered, and how long that took."""
    labels = set(known.meanings["label"].values())
    problems, label = [], str(told["label"])
    if label not in labels:
        problems.append(suggest(f"{label:.60}", "a label of this study", sorted(labels)))
    try:
        answer = Answer(label, _whole(told["confidence"]), _whole(told["readability"]), _milliseconds(claim))
    except ValueError as error:
        problems.append(str(error))
    if problems:
        raise StudyError("\n".join(problems))
    return answer


def _item_of(written: Any, known: _Known) -> Any:
    """Find an item by its name in files for others, or by its number; what cannot be found stays as it is."""
    return known.tickets.get(written.strip(), _whole(written)) if isinstance(written, str) else _whole(written)


def _wrong_item(claim: Claim, item: Any, known: _Known) -> Iterator[str]:
    """Say that there is no such item, or that a file tells something else of it than the study."""
    if type(item) is not int:
        yield f"its item is none of this study. {ELSEWHERE}"
    elif item not in known.items[claim.kind]:
        yield f"there is no item {item} in this study."
    else:
        ways = known.items[claim.kind][item]
        given = {name: value for name, value in claim.about.items() if value not in (None, "")}
        other = [name for name, value in given.items() if not any(_is_same(value, own) for own in ways[name])]
        if other:
            yield f"the item has another {' and another '.join(other)} in this study. {ELSEWHERE}"


def _is_same(given: Any, own: str) -> bool:
    """Compare what a file tells with what was exported: as it was, as HTML, or as a spreadsheet has it."""
    plain = as_it_was(str(given))
    ways = {_spaced(str(given)), _spaced(plain), _spaced(unescape(plain))}
    return not ways.isdisjoint((_spaced(own), _spaced(for_mturk(own))))


def _spaced(text: str) -> str:
    """Write a text with one space between any two words."""
    return " ".join(text.split())


def wrong_name(person: str) -> Iterator[str]:
    """Say that a name cannot be one."""
    if "\0" in person:
        yield f"a person's name must have no NUL in it, got {person!r:.60}."
    if len(person) > LONGEST_NAME:
        yield f"a person's name must have at most {LONGEST_NAME} characters, got {len(person):,}."


def _is_own(claim: Claim, known: _Known) -> bool:
    """Tell whether a row names an annotator of this very study."""
    return claim.database == known.database and claim.annotator not in (None, "")


def _wrong_own(claim: Claim, known: _Known) -> Iterator[str]:
    """Say what our own export would not say."""
    number = _whole(claim.annotator)
    if _is_own(claim, known) and not (type(number) is int and number in known.people):
        yield f"there is no annotator {claim.annotator!s:.60} in this study."
    if str(claim.counted).strip().lower() not in COUNTED:
        yield f"counted must be true or false, got {claim.counted!r:.60}."


def _wrong_moment(at: Any) -> Iterator[str]:
    """Say that a point in time cannot be one."""
    found = _whole(at)
    if at not in (None, "") and not (type(found) is int and 0 <= found <= LATEST):
        yield f"at must be a whole number of milliseconds from 0 (1970) to {LATEST} (the year 9999), got {at!r:.60}."


def _meaning_of(given: Any, meanings: Mapping[str, str]) -> Any:
    """Find which answer was meant; what cannot be found stays as it is."""
    written = str(given).strip()
    return None if given in (None, "") else meanings.get(written, given)


def _whole(value: Any) -> Any:
    """Read a whole number, however it is written; anything else stays as it is."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) <= DIGITS:
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _milliseconds(claim: Claim) -> int:
    """Read a time; tools that count while nobody looks say more than a week, which is the most that is kept."""
    try:
        seconds = float(claim.spent or 0) / claim.per_second
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not seconds >= 0:
        raise StudyError(f"{claim.spent_in} must be a number from 0, got {claim.spent!r:.60}.")
    return round(min(seconds * 1000, LONGEST))


def at_once(problems: Iterable[tuple[str, str]]) -> str:
    """Say what is wrong in a file: each thing once, with the first place and the number of the others.

    :param problems: Places, and what is wrong there, perhaps on several lines that begin with the place again.
    """
    places: dict[str, list[str]] = {}
    for place, lines in problems:
        for line in lines.splitlines():
            places.setdefault(line.removeprefix(f"{place}: "), []).append(place)
    return "\n".join(f"{first}{_and_more(len(rest))}: {line}" for line, (first, *rest) in places.items())


def _and_more(n: int) -> str:
    """Say how many more rows there are."""
    return f" and {plural(n, 'more row')}" if n else ""

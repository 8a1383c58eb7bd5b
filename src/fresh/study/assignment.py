"""Who reads what: each item by so many people, nobody one document twice, everybody in an order of their own.

Conditions come in the order of a Latin square.
"""

import functools
import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a study is."""

    n_documents: int
    n_conditions: int
    per_item: int
    most: int = 0
    """Items that one annotator does, at most; 0 for one of every document."""
    seed: int | None = None
    """Draws the order in which each annotator reads the documents; None in studies that an earlier version made, where
    all have one order."""

    @property
    def share(self) -> int:
        """Items that one annotator does at most: one of each document, unless less was asked for."""
        return min(self.most or self.n_documents, self.n_documents)

    @property
    def planned(self) -> int:
        """Answers that make the study complete."""
        return self.n_documents * self.n_conditions * self.per_item

    @property
    def needed(self) -> int:
        """People who can complete it, if each does all that they may and nobody leaves."""
        return max(self.n_conditions * self.per_item, math.ceil(self.planned / self.share))


@dataclass(frozen=True, slots=True)
class Free:
    """An item that still wants somebody."""

    item: int
    document: int
    condition: int
    taken: int
    """People who have it already."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Somebody who asks for the next item."""

    arrival: int
    """How many came before."""
    seen: tuple[tuple[int, int], ...]
    """Document and condition of all that was given to them, in that order, also of what they gave back."""


def latin_row(n_conditions: int, arrival: int) -> tuple[int, ...]:
    """Order the conditions for one annotator.

    Of as many annotators as there are conditions, each has each condition at another place; and each condition follows
    each other one equally often: at once for an even number, over twice as many annotators for an odd one
    (Williams, 1949).
    """
    first = [place // 2 if place % 2 == 0 else n_conditions - 1 - place // 2 for place in range(n_conditions)]
    if n_conditions % 2 and (arrival // n_conditions) % 2:
        first.reverse()
    return tuple((condition + arrival) % n_conditions for condition in first)


@functools.lru_cache(maxsize=128)
def _reading_order(shape: Shape, arrival: int) -> tuple[int, ...]:
    """Order the documents for one annotator; the plan has the first ones for them, as many as they may do.

    As many annotators as there are conditions make a group and share their documents, the next group takes those that
    follow, round and round. Whose place in the square a document has is the same for the whole group: so its members
    read it in all conditions, each in another one. Among the places that come to the same, each member has lots drawn
    anew, and so an order of their own.
    """
    n_documents, step, group = shape.n_documents, shape.n_conditions, arrival // shape.n_conditions
    if shape.seed is None:
        start = group * n_documents // shape.per_item
        return tuple((start + place) % n_documents for place in range(n_documents))
    around = [(group * shape.share + place) % n_documents for place in range(n_documents)]
    order = _shuffled(around[: shape.share], f"{shape.seed}, group {group}")
    for place in range(min(step, shape.share)):
        order[place::step] = _shuffled(order[place::step], f"{shape.seed}, annotator {arrival}, place {place}")
    return (*order, *_shuffled(around[shape.share :], f"{shape.seed}, annotator {arrival}, others"))


def _shuffled(documents: Sequence[int], lot: str) -> list[int]:
    """Shuffle documents, the same for the same lot; Python promises these numbers, in all its versions."""
    generator = random.Random(lot)  # noqa: S311  # nobody gains by guessing it
    return sorted(documents, key=lambda _document: generator.random())


def own(shape: Shape, reader: Reader) -> tuple[int, int]:
    """Name the document and the condition that the plan has for somebody's next item.

    As long as all keep to it, nobody's item is taken by another.
    """
    place = len(reader.seen)
    row = latin_row(shape.n_conditions, reader.arrival)
    return _reading_order(shape, reader.arrival)[place % shape.n_documents], row[place % shape.n_conditions]


def choose(shape: Shape, reader: Reader, free: Iterable[Free]) -> Free | None:
    """Choose somebody's next item, or none if nothing is left that they may read.

    Their own one of the plan first; else any document in the condition whose turn it is, the one that wants most people
    first, then the one that comes first in their own order; else in the condition that they have seen least.

    :param free: Items that still want somebody.
    """
    if len(reader.seen) >= shape.share:
        return None
    known = {document for document, _ in reader.seen}
    open_to = [item for item in free if item.document not in known]
    if not open_to:
        return None
    document, wanted = own(shape, reader)
    row = latin_row(shape.n_conditions, reader.arrival)
    counts = Counter(condition for _, condition in reader.seen)
    turn = {condition: (row.index(condition) - len(reader.seen)) % shape.n_conditions for condition in row}
    places = {number: place for place, number in enumerate(_reading_order(shape, reader.arrival))}

    def rank(item: Free) -> tuple[bool, bool, int, int, int, int]:
        planned = (item.document, item.condition) == (document, wanted)
        ahead = (places[item.document] - len(reader.seen)) % shape.n_documents
        of_condition = 0 if item.condition == wanted else counts[item.condition]
        return not planned, item.condition != wanted, of_condition, turn[item.condition], item.taken, ahead

    return min(open_to, key=rank)


def checks_due(shape: Shape, n_checks: int, arrival: int, n_answered: int) -> int:
    """Count the attention checks that somebody should have had after so many answers.

    They are spread over all items, not at the same places for everybody, never at the start and never after the end.
    """
    gap = shape.share / (n_checks + 1)
    shift = arrival % max(1, int(gap) // 2 + 1)
    places = (max(1, min(shape.share - 1, int((number + 1) * gap) + shift)) for number in range(n_checks))
    return sum(place <= n_answered for place in places)


def more_people(missing: Mapping[int, int], readers: Sequence[Set[int]], share: int) -> int:
    """Count the people who must come in addition before a study can be completed, at least.

    Nobody reads a document twice, and nobody does more than their share.

    :param missing: For each document, how many answers nobody has or gives yet.
    :param readers: For each annotator who takes part, the documents that they have seen.
    """
    left = {document: n for document, n in missing.items() if n > 0}
    open_to = [seen for seen in readers if len(seen) < share]
    may_read = {document: sum(document not in seen for seen in open_to) for document in left}
    lacking = max((n - may_read[document] for document, n in left.items()), default=0)
    by_documents = sum(min(n, may_read[document]) for document, n in left.items())
    by_people = sum(min(share - len(seen), len(left.keys() - seen)) for seen in open_to)
    beyond = sum(left.values()) - min(by_documents, by_people)
    return max(0, lacking, math.ceil(beyond / share))

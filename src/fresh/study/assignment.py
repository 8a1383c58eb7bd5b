"""Assign items: the same number of annotators for each, no document twice, conditions in a Latin square."""

import functools
import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Design:
    """The size of a study, and the order in which documents are read."""

    n_documents: int
    n_conditions: int
    per_item: int
    most: int = 0  # items for one annotator; 0 means one of every document
    seed: int | None = None  # None in studies of earlier versions, where all annotators share one order

    @property
    def max_items(self) -> int:
        """Return the maximum number of items for one annotator."""
        return min(self.most or self.n_documents, self.n_documents)

    @property
    def n_planned(self) -> int:
        """Return the number of answers that make the study complete."""
        return self.n_documents * self.n_conditions * self.per_item

    @property
    def min_annotators(self) -> int:
        """Return the number of people who can complete the study if everybody finishes."""
        return max(self.n_conditions * self.per_item, math.ceil(self.n_planned / self.max_items))


@dataclass(frozen=True, slots=True)
class OpenItem:
    """An item that needs more annotators."""

    item: int
    document: int
    condition: int
    taken: int  # annotators who hold it or have answered it


def latin_row(n_conditions: int, arrival: int) -> tuple[int, ...]:
    """Order the conditions for one annotator, by a row of a balanced Latin square (Williams, 1949).

    Among as many annotators as there are conditions, each condition has each place once. Each follows each other one
    equally often: within one such group for an even number of conditions, within two for an odd number.
    """
    first = [place // 2 if place % 2 == 0 else n_conditions - 1 - place // 2 for place in range(n_conditions)]
    if n_conditions % 2 and (arrival // n_conditions) % 2:
        first.reverse()
    return tuple((condition + arrival) % n_conditions for condition in first)


@functools.lru_cache(maxsize=128)
def reading_order(design: Design, arrival: int) -> tuple[int, ...]:
    """Order all documents for one annotator; the plan uses the first ones, up to their maximum."""
    # As many annotators as conditions form a group. A group shares its documents, and the next group takes those that
    # follow, round and round. A document keeps its place modulo the number of conditions for the whole group, so that
    # its members read it in all conditions. Among equal places, each member has a random order.
    n_documents, step, group = design.n_documents, design.n_conditions, arrival // design.n_conditions
    if design.seed is None:
        start = group * n_documents // design.per_item
        return tuple((start + place) % n_documents for place in range(n_documents))
    around = [(group * design.max_items + place) % n_documents for place in range(n_documents)]
    order = _shuffle(around[: design.max_items], f"{design.seed}, group {group}")
    for place in range(min(step, design.max_items)):
        order[place::step] = _shuffle(order[place::step], f"{design.seed}, annotator {arrival}, place {place}")
    return (*order, *_shuffle(around[design.max_items :], f"{design.seed}, annotator {arrival}, others"))


def _shuffle(documents: Sequence[int], seed: str) -> list[int]:
    # Running studies depend on these numbers: Python guarantees `random()` of a string seed across versions.
    generator = random.Random(seed)  # noqa: S311  # nobody gains by guessing it
    return sorted(documents, key=lambda _document: generator.random())


def planned_pair(design: Design, arrival: int, place: int) -> tuple[int, int]:
    """Return the document and the condition of somebody's item at a place of the plan, counted from 0.

    While everybody follows the plan, nobody else takes it.
    """
    row = latin_row(design.n_conditions, arrival)
    return reading_order(design, arrival)[place % design.n_documents], row[place % design.n_conditions]


def choose_item(
    design: Design, arrival: int, seen: Sequence[tuple[int, int]], open_items: Iterable[OpenItem]
) -> OpenItem | None:
    """Choose somebody's next item; None if nothing is left that they may read.

    The planned item comes first. Otherwise it is an item in the condition whose turn it is, then in the condition they
    have seen least; among those, the one that has fewest annotators, then the first in their own order.

    :param arrival: Number of annotators who started before.
    :param seen: Document and condition of all items that they were given, in order, also if given back.
    """
    known = {document for document, _ in seen}
    candidates = [item for item in open_items if item.document not in known]
    if not candidates or len(seen) >= design.max_items:
        return None
    planned = planned_pair(design, arrival, len(seen))
    row = latin_row(design.n_conditions, arrival)
    # Without the plan's item, such as after others left, the conditions still take turns as well as they can.
    counts = Counter(condition for _, condition in seen)
    turn = {condition: (row.index(condition) - len(seen)) % design.n_conditions for condition in row}
    places = {number: place for place, number in enumerate(reading_order(design, arrival))}

    def rank(item: OpenItem) -> tuple[bool, bool, int, int, int, int]:
        in_turn = item.condition == planned[1]
        ahead = (places[item.document] - len(seen)) % design.n_documents
        n_seen = 0 if in_turn else counts[item.condition]
        is_planned = (item.document, item.condition) == planned
        return not is_planned, not in_turn, n_seen, turn[item.condition], item.taken, ahead

    return min(candidates, key=rank)


def count_due_checks(design: Design, n_checks: int, arrival: int, n_answered: int) -> int:
    """Count the attention checks that somebody should have had after this many answers.

    Checks are spread over all items, at other places for each annotator, never before the first answer or after the
    last.
    """
    gap = design.max_items / (n_checks + 1)
    shift = arrival % max(1, int(gap) // 2 + 1)
    places = (max(1, min(design.max_items - 1, int((number + 1) * gap) + shift)) for number in range(n_checks))
    return sum(place <= n_answered for place in places)


def count_missing_annotators(missing: Mapping[int, int], readers: Sequence[Set[int]], max_items: int) -> int:
    """Count the additional people that a study needs before it can be completed, at least.

    Nobody reads a document twice, and nobody reads more than the maximum.

    :param missing: For each document, the number of answers that nobody has given or holds.
    :param readers: For each active annotator, the documents that they have seen.
    """
    # A lower bound from three counts: readers for each document, places by document, and places by reader.
    left = {document: n for document, n in missing.items() if n > 0}
    available = [seen for seen in readers if len(seen) < max_items]
    may_read = {document: sum(document not in seen for seen in available) for document in left}
    lacking = max((n - may_read[document] for document, n in left.items()), default=0)
    by_documents = sum(min(n, may_read[document]) for document, n in left.items())
    by_people = sum(min(max_items - len(seen), len(left.keys() - seen)) for seen in available)
    beyond = sum(left.values()) - min(by_documents, by_people)
    return max(0, lacking, math.ceil(beyond / max_items))

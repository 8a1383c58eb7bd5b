from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fresh.study.assignment import Free, Reader, Shape, checks_due, choose, latin_row


@pytest.mark.parametrize("n", range(1, 9))
def test_rows_make_a_latin_square(n: int) -> None:
    for group in range(3):
        rows = [latin_row(n, n * group + number) for number in range(n)]
        assert all(sorted(row) == list(range(n)) for row in rows)
        assert all(sorted(column) == list(range(n)) for column in zip(*rows, strict=True))


@pytest.mark.parametrize("n", range(2, 9))
def test_each_condition_follows_each_other_equally_often(n: int) -> None:
    arrivals = range(n if n % 2 == 0 else 2 * n)
    follows = Counter(pair for arrival in arrivals for pair in pairwise(latin_row(n, arrival)))
    assert set(follows.values()) == {1 if n % 2 == 0 else 2}
    assert len(follows) == n * (n - 1)


class Simulated:
    """A study whose annotators come, answer, leave and are excluded."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.taken: Counter[tuple[int, int]] = Counter()
        self.seen: list[list[tuple[int, int]]] = []
        self.kept: list[set[tuple[int, int]]] = []

    def free(self) -> list[Free]:
        n = self.shape.n_conditions
        pairs = [(d, c) for d in range(self.shape.n_documents) for c in range(n)]
        return [Free(d * n + c, d, c, self.taken[d, c]) for d, c in pairs if self.taken[d, c] < self.shape.per_item]

    def arrive(self) -> int:
        self.seen.append([])
        self.kept.append(set())
        return len(self.seen) - 1

    def step(self, who: int) -> bool:
        found = choose(self.shape, Reader(who, tuple(self.seen[who])), self.free())
        if found is None:
            return False
        pair = found.document, found.condition
        self.taken[pair] += 1
        self.seen[who].append(pair)
        self.kept[who].add(pair)
        return True

    def leave(self, who: int) -> None:
        for pair in self.kept[who]:
            self.taken[pair] -= 1
        self.kept[who] = set()

    def check(self) -> None:
        assert all(count <= self.shape.per_item for count in self.taken.values())
        for seen in self.seen:
            assert len({document for document, _ in seen}) == len(seen) <= self.shape.share

    @property
    def complete(self) -> bool:
        return sum(self.taken.values()) == self.shape.planned


SHAPES = st.builds(Shape, st.integers(1, 7), st.integers(1, 4), st.integers(1, 3))


@given(SHAPES, st.randoms(use_true_random=False))
def test_just_enough_annotators_complete_it_in_the_order_of_the_square(shape: Shape, random: object) -> None:
    study = Simulated(shape)
    people = [study.arrive() for _ in range(shape.needed)]
    left = [who for who in people for _ in range(shape.n_documents)]
    random.shuffle(left)  # type: ignore[attr-defined]
    assert all(study.step(who) for who in left)
    study.check()
    assert study.complete
    for who in people:
        row = latin_row(shape.n_conditions, who)
        expected = [row[place % shape.n_conditions] for place in range(shape.n_documents)]
        assert [condition for _, condition in study.seen[who]] == expected


@given(SHAPES, st.integers(0, 3), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40)), max_size=120))
@settings(max_examples=60)
def test_people_may_come_and_go(shape: Shape, more: int, events: list[tuple[int, int]]) -> None:
    study = Simulated(shape)
    gone: set[int] = set()
    for kind, number in events:
        if kind == 0 or not study.seen:
            study.arrive()
        elif kind == 1:
            gone.add(number % len(study.seen))
            study.leave(number % len(study.seen))
        elif number % len(study.seen) not in gone:
            study.step(number % len(study.seen))
        study.check()
    for _ in range(shape.needed + more):  # new people can always complete it
        who = study.arrive()
        while study.step(who):
            pass
    study.check()
    assert study.complete


@given(SHAPES, st.integers(1, 4))
def test_nobody_does_more_than_asked(shape: Shape, most: int) -> None:
    limited = Shape(shape.n_documents, shape.n_conditions, shape.per_item, most)
    study = Simulated(limited)
    for _ in range(2 * limited.needed):
        who = study.arrive()
        while study.step(who):
            pass
    study.check()
    assert study.complete


@given(SHAPES, st.integers(1, 30))
def test_everybody_sees_all_conditions_about_equally_often(shape: Shape, n_people: int) -> None:
    study = Simulated(shape)
    people = [study.arrive() for _ in range(min(n_people, shape.needed))]
    for _ in range(shape.n_documents):
        for who in people:
            study.step(who)
            counts = Counter(condition for _, condition in study.seen[who])
            assert max(counts.values()) - min(counts[c] for c in range(shape.n_conditions)) <= 1


@given(st.integers(1, 200), st.integers(0, 6), st.integers(0, 50))
def test_checks_are_spread(n_documents: int, n_checks: int, arrival: int) -> None:
    shape = Shape(n_documents, 2, 3)
    due = [checks_due(shape, n_checks, arrival, n_answered) for n_answered in range(n_documents + 1)]
    assert due == sorted(due)
    assert due[-1] == n_checks
    assert due[0] == 0
    if n_documents >= 3 * (n_checks + 1):
        assert all(after - before <= 1 for before, after in pairwise(due))
        assert due[-2] == n_checks


def test_sizes() -> None:
    assert (Shape(100, 7, 3).planned, Shape(100, 7, 3).needed, Shape(100, 7, 3, 20).needed) == (2100, 21, 105)

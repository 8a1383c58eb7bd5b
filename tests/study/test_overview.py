"""How people and conditions stand, and who is flagged."""

from collections.abc import Callable

import pytest

from fresh.study.annotators import add_annotators, exclude, leave, readmit
from fresh.study.answers import Answer
from fresh.study.overview import AnnotatorStatus, compute_results, get_condition_status, get_overview, read_responses
from fresh.study.service import may_get_more, next_item, save_answer
from fresh.study.store import Store
from studies import MakeStore, as_earlier, enroll, get_item, join, work


def statuses(store: Store) -> list[str]:
    return [one.status for one in get_overview(store).annotators]


def test_annotators_are_finished_when_nothing_can_follow(make_store: MakeStore) -> None:
    """Two people can complete it: who has read all documents has finished, and who waits for others has not."""
    store = as_earlier(make_store(sample=4, practice=0, checks=0, per_item=1))
    enroll(store, "p0")
    first, second, third = join(store, "p1", "p2", "p3")
    work(store, first)
    work(store, second, 3)
    assert statuses(store)[:3] == ["not started", "finished", "active"]
    get_item(store, second)
    work(store, third)
    assert may_get_more(store, third)
    assert statuses(store)[1:] == ["finished", "active", "active"]
    work(store, second)
    assert not may_get_more(store, third)
    assert statuses(store)[1:] == ["finished", "finished", "finished"]
    exclude(store, second)
    leave(store, first)
    assert statuses(store) == ["not started", "left", "excluded", "active"]


def test_annotators_with_a_due_check_are_not_finished(make_store: MakeStore) -> None:
    store = make_store(sample=1, practice=0, checks=1)
    [who] = join(store, "p1")
    work(store, who, 1)
    assert (get_item(store, who).kind, statuses(store)) == ("check", ["active"])
    work(store, who)
    assert statuses(store) == ["finished"]


def test_missing_annotators_are_counted(make_store: MakeStore) -> None:
    """Eight answers: whoever takes part can give four of them, one for each document."""
    store = as_earlier(make_store(sample=4, practice=0, checks=0, per_item=1))
    [who] = join(store, "W1")
    work(store, who, 3)
    get_item(store, who)

    def n_more(act: Callable[..., object] = lambda _store: None, *given: int) -> int:
        act(store, *given)
        return get_overview(store).n_more

    assert (n_more(), n_more(add_annotators, 1), n_more(leave, who), n_more(exclude, who)) == (1, 0, 1, 1)
    assert n_more(readmit, who) == 0  # what they gave back is theirs again
    assert n_more(work, *join(store, "W4")) == 0
    assert n_more(exclude, who) == 0  # who has a code can give all that is missing


def test_the_overview_counts_answers_and_flags_annotators(make_store: MakeStore) -> None:
    store = make_store(sample=4, practice=1, checks=1, per_item=2)
    for number, who in enumerate(join(store, "p0", "p1", "p2", "p3")):
        while (task := next_item(store, who)) is not None:
            passed = task.kind == "check" and number
            answer = Answer("neg", 1, 5) if passed else Answer("pos", 3, 4, 1000 * (number + 1))
            save_answer(store, who, task.item, answer)
    found = get_overview(store)
    assert (found.n_answered, found.n_planned, found.paused) == (16, 16, False)
    progress = [(one.n_answered, one.n_checks, one.n_failed, one.flagged) for one in found.annotators]
    assert progress == [(4, 1, 1, True), *[(4, 1, 0, False)] * 3]
    assert [one.seconds for one in found.annotators] == [1, 2, 3, 4]
    results = compute_results(store)
    assert [row.accuracy.value for row in results.rows] == [0.5, 0.5]  # half of the documents are positive
    assert [row.confidence.mean.value for row in results.rows] == [3, 3]
    assert [(row.agreement.raw, row.agreement.alpha) for row in results.rows] == [(1, None), (1, None)]
    assert results.notes[0] == "16 of 16 answers by 4 annotators."
    exclude(store, found.annotators[0].id)
    assert get_overview(store).n_answered == len(read_responses(store)) == 12


@pytest.mark.parametrize("state", ["active", "left", "excluded"])
def test_failed_checks_and_fast_answers_are_flagged(state: str) -> None:
    flagged: list[tuple[int, int, float | None]] = [(3, 2, 5.0), (1, 1, None), (0, 0, 0.999)]  # checks, failed, seconds
    inconspicuous: list[tuple[int, int, float | None]] = [(3, 1, 5.0), (0, 0, 1.0), (0, 0, None)]
    for figures in (*flagged, *inconspicuous):
        person = AnnotatorStatus(1, None, state, True, 9, *figures)
        assert person.flagged == (figures in flagged and state != "excluded")


def test_the_status_of_conditions(stored: Store) -> None:
    for who in join(stored, "p1", "p2"):
        work(stored, who, 2, Answer("pos", 2, 2, 4000))
    found = [(one.condition, one.n_answered, one.n_planned, one.seconds) for one in get_condition_status(stored)]
    assert found == [("human", 2, 12, 4.0), ("full", 2, 12, 4.0)]
    agreement = get_condition_status(stored)[0].agreement
    assert agreement is not None
    assert agreement.raw is None  # nobody compares yet: each text has one answer

"""Many people in one study: as threads that answer as fast as they can, and as a process that is killed."""

import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from fresh.study.annotators import record_consent
from fresh.study.answers import Answer
from fresh.study.overview import read_answers
from fresh.study.service import next_item, save_answer
from fresh.study.store import open_study
from studies import enroll


@dataclass(frozen=True)
class Load:
    """The outcome of many answers."""

    seconds: float
    acknowledged: int
    lost: int
    doubled: int
    beyond: int
    """Items with more answers than planned."""
    twice_seen: int
    """Documents that somebody saw twice."""


def load(place: str, n_people: int, n_servers: int = 2, each_posts: int = 2) -> Load:
    """Let people answer all items over several servers, each answer posted twice."""
    stores = [open_study(place) for _ in range(n_servers)]
    people = [enroll(stores[0], f"person {number}") for number in range(n_people)]
    for who in people:
        record_consent(stores[0], who)
    said: Counter[tuple[int, int]] = Counter()
    lock = threading.Lock()

    def work(number: int) -> None:
        who = people[number]
        while (task := next_item(stores[number % n_servers], who)) is not None:
            answer = Answer(("neg", "pos")[task.item % 2], 1 + task.item % 4, 1 + task.item % 5, who)
            for post in range(each_posts):
                save_answer(stores[(number + post) % n_servers], who, task.item, answer)
            with lock:
                said[who, task.item] += 1

    start = time.perf_counter()
    with ThreadPoolExecutor(n_people) as pool:
        list(pool.map(work, range(n_people)))
    seconds = time.perf_counter() - start
    found = read_answers(stores[0])
    saved = Counter((record["annotator"], record["item"]) for record in found)
    real = [record for record in found if record["kind"] == "real"]
    per_item = Counter(record["item"] for record in real)
    per_document = Counter((record["annotator"], record["document"]) for record in real)
    wanted = stores[0].design.per_item
    for store in stores:
        store.close()
    return Load(
        seconds,
        len(real),
        lost=len(said.keys() - saved.keys()),
        doubled=sum(count > 1 for count in saved.values()),
        beyond=sum(count > wanted for count in per_item.values()),
        twice_seen=sum(count > 1 for count in per_document.values()),
    )


def answer_until_killed(place: str) -> None:
    """Answer, and print each confirmed answer."""
    store = open_study(place)
    for number in range(1000):
        who = enroll(store, f"victim {number}")
        record_consent(store, who)
        while (task := next_item(store, who)) is not None:
            save_answer(store, who, task.item, Answer("pos", 1, 1))
            print(who, task.item, flush=True)  # noqa: T201


if __name__ == "__main__":
    answer_until_killed(sys.argv[1])

"""Many people in one study, as threads that answer as fast as they can."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

from fresh.study.answers import Answer
from fresh.study.service import next_item, save_answer
from fresh.study.store import open_study
from studies import join
from visitors import Outcome, compare_with_database


def load(place: str, n_people: int, n_servers: int = 2, each_posts: int = 2) -> Outcome:
    """Let people answer all items over several servers, each answer posted twice."""
    said: Counter[int] = Counter()
    lock = threading.Lock()
    with ExitStack() as stack, ThreadPoolExecutor(n_people) as pool:
        stores = [stack.enter_context(closing(open_study(place))) for _ in range(n_servers)]
        people = join(stores[0], *(f"person {number}" for number in range(n_people)))

        def work(number: int) -> None:
            who = people[number]
            while (task := next_item(stores[number % n_servers], who)) is not None:
                answer = Answer(("neg", "pos")[task.item % 2], 1 + task.item % 4, 1 + task.item % 5, who)
                for post in range(each_posts):
                    save_answer(stores[(number + post) % n_servers], who, task.item, answer)
                with lock:
                    said[who] += 1

        start = time.perf_counter()
        list(pool.map(work, range(n_people)))
        seconds = time.perf_counter() - start
    return compare_with_database(place, seconds, said)

"""People in a study: on its pages, one at a time or a crowd, or as threads without pages; and servers for them."""

import html
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from fastapi import FastAPI
from starlette.testclient import TestClient

from fresh.study.annotators import add_annotators
from fresh.study.answers import Answer
from fresh.study.overview import read_answers
from fresh.study.service import next_item, save_answer
from fresh.study.store import Store, open_study
from fresh.study.web.auth import HOUR
from fresh.study.web.site import Site
from studies import check_places, join

ANSWER = {"label": "pos", "confidence": 1, "readability": 1}
BROWSER = {"Accept": "text/html,application/xhtml+xml"}
SHOWN = re.compile(r'<p class="text shown"[^>]*>(.*?)</p>', re.DOTALL)
TOLD = re.compile(r'<(p|div)[^>]* role="alert"[^>]*>(.*?)</\1>', re.DOTALL)


class Person:
    """Somebody with a browser, who fills in the current form."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.answer: Any = None

    @property
    def page(self) -> str:
        return str(self.answer.text)

    @property
    def status(self) -> int:
        return int(self.answer.status_code)

    @property
    def alerts(self) -> list[str]:
        """The problems that a page reports, line by line."""
        found = TOLD.search(self.page)
        lines = [] if found is None else re.sub(r"<[^>]+>", "", found[2]).strip().splitlines()
        return [html.unescape(line) for line in lines]

    @property
    def text(self) -> str:
        """The words to read; empty if there are none."""
        found = SHOWN.search(self.page)
        return "" if found is None else html.unescape(found[1])

    def field(self, name: str) -> str:
        """Return the value of a hidden field."""
        found = re.search(rf'name="{name}" value="([^"]*)"', self.page)
        return "" if found is None else found[1]

    def get(self, path: str = "/") -> "Person":
        self.answer = self.client.get(path, headers=BROWSER)
        return self

    def post(self, path: str, **fields: Any) -> "Person":
        """Send the current form."""
        self.answer = self.client.post(path, data={"form": self.field("form"), **fields}, headers=BROWSER)
        return self

    def enter(self, code: str) -> "Person":
        """Sign in and consent."""
        self.get().post("/sign-in", code=code)
        return self.post("/consent") if "I agree" in self.page else self

    def send(self, **fields: Any) -> "Person":
        """Send an answer to the current text, and stay on the page that comes."""
        return self.post("/answer", **{"ticket": self.field("ticket"), **ANSWER, **fields})

    def give(self, label: str = "pos", confidence: int | str = 3, readability: int | str = 4, **more: Any) -> "Person":
        """Answer the current text, and continue after practice."""
        self.send(
            **{"label": label, "confidence": confidence, "readability": readability, "milliseconds": 1200, **more}
        )
        return self.get("/item") if "Practice does not count" in self.page else self

    def give_all(self, **more: Any) -> "Person":
        """Answer all texts that are left."""
        while self.text:
            self.give(**more)
        return self


def visitor(app: FastAPI, base_url: str = "http://127.0.0.1") -> Person:
    """Somebody with a browser, at an app in this process."""
    return Person(TestClient(app, base_url=base_url, raise_server_exceptions=False))


def site_of(app: FastAPI) -> Site:
    """Find what the pages of an app share."""
    [start] = [route for route in app.routes if getattr(route, "path", "") == "/"]
    site: Site = start.endpoint.__self__.site  # type: ignore[attr-defined]
    return site


def advance_clock(app: FastAPI, hours: float) -> None:
    """Advance the server's clock."""
    sessions = site_of(app).sessions
    at = sessions.clock() + int(hours * HOUR)
    object.__setattr__(sessions, "clock", lambda: at)


def finish_practice(person: Person) -> Person:
    """Finish the practice, so that answers count."""
    person.get("/item")
    while "Practice 1" in person.page or "Practice 2" in person.page:
        person.give()
    return person


def finish(app: FastAPI, store: Store, n: int = 2, milliseconds: str = "2500") -> None:
    """Let some people answer everything with the same label."""
    for code in add_annotators(store, n):
        finish_practice(visitor(app).enter(code)).give_all(milliseconds=milliseconds)


@contextmanager
def server_of(place: str, *options: str) -> Iterator[tuple[str, "subprocess.Popen[str]", str]]:
    """Serve a study in another process; yield its address, the process, and the line about the admin page."""
    command = [sys.executable, "-m", "fresh", "study", "serve", place, "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        line = server.stdout.readline()
        assert " at http://127.0.0.1:" in line, line + server.stderr.read()
        try:
            yield line.split(" at ")[1].split()[0].rstrip("/"), server, server.stdout.readline().strip()
        finally:
            server.kill()
            server.communicate()


@dataclass(frozen=True)
class Outcome:
    """The outcome of the answers of many people."""

    seconds: float
    n_answers: int  # acknowledged, practice and checks among them
    n_counted: int  # in the database, and part of the results
    lost: int
    doubled: int
    beyond: int  # items with more answers than planned
    twice_seen: int  # documents that somebody saw twice
    errors: tuple[str, ...]
    times: tuple[float, ...]  # from sending an answer to having the next page

    @property
    def n_faults(self) -> int:
        return len(self.errors) + self.lost + self.doubled + self.beyond + self.twice_seen

    def quantile(self, share: float) -> float:
        """Return the time within which this share of answers came back, in milliseconds."""
        ordered = sorted(self.times)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def rush(place: str, n_people: int, n_servers: int = 2, each_posts: int = 2) -> Outcome:
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


def crowd(place: str, addresses: Sequence[str], codes: Sequence[str], seconds: float, pause: float = 0.0) -> Outcome:
    """Let people answer at the same time, each answer sent twice now and then, until nothing is left or time is up.

    :param addresses: Servers of the study; everybody goes to the next one.
    :param pause: How long somebody reads a text, in seconds.
    """
    said: Counter[int] = Counter()
    errors: list[str] = []
    times: list[float] = []
    lock, ends = threading.Lock(), time.perf_counter() + seconds

    def work(number: int) -> None:
        with httpx.Client(base_url=addresses[number % len(addresses)], follow_redirects=True, timeout=60) as client:
            person, who = Person(client), int(codes[number].partition("-")[0])
            person.enter(codes[number]).get("/item")
            while person.text and time.perf_counter() < ends:
                text, ticket, form = person.text, person.field("ticket"), person.field("form")
                time.sleep(pause)
                begin = time.perf_counter()
                person.give(("neg", "pos")[len(text) % 2], 1 + len(text) % 4, 1 + len(text) % 5, milliseconds=number)
                took = time.perf_counter() - begin
                with lock:
                    times.append(took)
                    said[who] += 1
                    errors.extend([f"{person.status}: {person.alerts}"] if person.status != 200 else [])
                if said.total() % 7 == 0:  # a second click, which must change nothing
                    fields = {"form": form, "ticket": ticket, "label": "neg", "confidence": 1, "readability": 1}
                    client.post("/answer", data=fields, headers=BROWSER)

    begin = time.perf_counter()
    with ThreadPoolExecutor(len(codes)) as pool:
        list(pool.map(work, range(len(codes))))
    took = time.perf_counter() - begin
    return compare_with_database(place, took, said, errors, times)


def compare_with_database(
    place: str, seconds: float, said: Counter[int], errors: Sequence[str] = (), times: Sequence[float] = ()
) -> Outcome:
    """Compare the number of answers that each person was told are saved with the database."""
    with closing(open_study(place)) as store:
        found, wanted = read_answers(store), store.design.per_item
        check_places(store)
    saved = Counter((record["annotator"], record["item"]) for record in found)
    per_person = Counter(record["annotator"] for record in found)
    per_item = Counter(record["item"] for record in found if record["counted"])
    per_document = Counter((record["annotator"], record["document"]) for record in found if record["kind"] == "real")
    return Outcome(
        seconds,
        said.total(),
        per_item.total(),
        lost=(said - per_person).total(),
        doubled=sum(count > 1 for count in saved.values()) + (per_person - said).total(),
        beyond=sum(count > wanted for count in per_item.values()),
        twice_seen=sum(count > 1 for count in per_document.values()),
        errors=tuple(errors),
        times=tuple(times),
    )

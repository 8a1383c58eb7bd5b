"""Requests that come at the same time are read together: a thread for each model, and a queue before it."""

import logging
import math
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import Any, TypeVar

from fresh.rationalizer import Rationalizer
from fresh.serving.question import Answer, Question, answer
from fresh.web.metrics import ServerMetrics

LOG = logging.getLogger(__name__)
Result = TypeVar("Result")


class OverloadedError(RuntimeError):
    """Too much waits already."""

    def __init__(self, name: str, n_waiting: int, seconds: int) -> None:
        super().__init__(
            f"Model {name!r} has {n_waiting:,} texts to read already, and no more can wait. "
            f"Ask again in {seconds} second{'s' if seconds != 1 else ''}."
        )
        self.seconds = seconds


ENDING = "This server is about to end. Ask again when it is back."


class ClosedError(RuntimeError):
    """The server ends."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How much is read together, and how much may wait."""

    most_texts: int = 32
    """Texts that are read together, at most, unless one request brings more."""
    most_words: int = 16_384
    """Words that are read together, at most, unless one request brings more."""
    most_waiting: int = 256
    """Texts that may wait."""
    words_a_turn: int = 2048
    """Words of one request, or of files, that are read before others have their turn; one text in any case."""
    patience: float = 0.5
    """How long those who asked together are waited for to ask again, as a share of the time that reading took."""
    least_pause: float = 0.03
    """The same in seconds, at least: to tell them and to take what they ask next may take longer than to read."""
    most_pause: float = 0.25
    """The same, at most."""


Errand = Callable[[Rationalizer, Sequence[Question]], Sequence[Result]]
"""Does something with a model and questions, and gives one result for each."""


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """What somebody waits for: answers to questions, or what an errand makes of them alone."""

    questions: Sequence[Question]
    errand: Errand[Any] | None = None
    future: "Future[Any]" = field(default_factory=Future)
    later: bool = False
    """Whether all others go first."""
    before: tuple[Any, ...] = ()
    """What was found in earlier turns."""
    rest: "_Work | None" = None
    """What is left for later turns."""

    @property
    def n_texts(self) -> int:
        """How many texts it counts as."""
        return len(self.questions)

    @property
    def n_words(self) -> int:
        """How many words are read for it."""
        return sum(len(question.document.words) for question in self.questions)

    def first_turn(self, most_words: int) -> "_Work":
        """Take what is read in one turn: so many words, but one text at least."""
        ends = list(accumulate(len(question.document.words) for question in self.questions))
        n_first = max(1, bisect_right(ends, most_words))
        if n_first >= len(self.questions):
            return self
        return replace(self, questions=self.questions[:n_first], rest=replace(self, questions=self.questions[n_first:]))

    def is_wanted(self) -> bool:
        """Say whether somebody still waits; from the last turn on, nobody can take it back."""
        if self.rest is not None and not self.future.cancelled():
            return True
        return self.future.set_running_or_notify_cancel()


class Batcher:
    """Answers in the order of asking, as many at once as came in the meantime; who asks much, in several turns."""

    def __init__(
        self, name: str, model: Rationalizer, measures: ServerMetrics, limits: BatchLimits | None = None
    ) -> None:
        self.name = name
        self.model = model
        self.limits = limits or BatchLimits()
        self.measures = measures
        self.queue: deque[_Work] = deque()
        self.n_waiting = 0
        self.seconds_a_text = 0.02
        """How long a text took lately."""
        self.n_expected = 1
        """Requests that are waited for, if only for a while: as many as there were at the last reading."""
        self.pause = 0.0
        """How long they are waited for, in seconds."""
        self.closed = False
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self.work, name=f"model {name}", daemon=True)
        self.thread.start()

    def ask(self, questions: Sequence[Question], later: bool = False) -> "Future[list[Answer]]":
        """Have questions answered; a future that is cancelled before its turn costs nothing.

        :param later: All others go first.
        """
        return self.add(_Work(questions, later=later))

    def run(self, errand: Errand[Result], questions: Sequence[Question]) -> "Future[list[Result]]":
        """Have something done with questions, read together with none of others; in turns, too."""
        return self.add(_Work(questions, errand))

    def add(self, work: _Work) -> "Future[Any]":
        """Put work at the end of the queue, unless too much waits."""
        with self.changed:
            if self.closed:
                raise ClosedError(ENDING)
            if self.n_waiting and self.n_waiting + work.n_texts > self.limits.most_waiting:
                self.measures.refused.labels(self.name).inc()
                raise OverloadedError(self.name, self.n_waiting, self.seconds_left())
            self.queue.append(work)
            self.count(work.n_texts)
            if self.is_ready():
                self.changed.notify_all()
        return work.future

    def seconds_left(self) -> int:
        """Estimate how long what waits will take, from how long texts took lately; whole seconds, at least one."""
        return max(1, math.ceil(self.n_waiting * self.seconds_a_text))

    def count(self, more: int) -> None:
        """Count texts that wait."""
        self.n_waiting += more
        self.measures.waiting.labels(self.name).set(self.n_waiting)

    def close(self) -> None:
        """Finish what was begun, and refuse the rest."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        self.thread.join()
        for work in self.queue:
            work.future.cancel()

    def work(self) -> None:
        """Answer until the end."""
        while works := self.take():
            begin = time.perf_counter()
            outcomes = self.do(works)
            seconds, n_texts = time.perf_counter() - begin, sum(work.n_texts for work in works)
            self.seconds_a_text += 0.2 * (seconds / n_texts - self.seconds_a_text)
            # Before anybody is told, since who is told may ask again at once, and would count twice.
            self.n_expected = len(works) + len(self.queue)
            self.pause = min(max(self.limits.patience * seconds, self.limits.least_pause), self.limits.most_pause)
            for tell in outcomes:
                tell()

    def take(self) -> list[_Work]:
        """Wait for work and take from the front of the queue what is read together; nothing at the end."""
        with self.changed:
            if not self.changed.wait_for(self.is_ready, self.pause):
                self.n_expected = 1
                self.changed.wait_for(self.is_ready)
            works: list[_Work] = []
            n_texts = n_words = 0
            for first in () if self.closed else sorted(self.queue, key=lambda work: work.later):
                part = first.first_turn(self.limits.words_a_turn)
                n_texts, n_words = n_texts + part.n_texts, n_words + part.n_words
                most_words = self.limits.words_a_turn if first.later else self.limits.most_words
                alone = works and (first.errand or works[0].errand or first.later != works[0].later)
                if works and (alone or n_texts > self.limits.most_texts or n_words > most_words):
                    break
                works.append(part)
                self.queue.remove(first)
                self.count(-first.n_texts)
            return works

    def is_ready(self) -> bool:
        """Say whether there is nobody left to wait for: many are read in little more time than one."""
        return self.closed or len(self.queue) >= self.n_expected or self.n_waiting >= self.limits.most_texts

    def do(self, works: Sequence[_Work]) -> list[Callable[[], None]]:
        """Answer works that somebody still waits for, and return what tells them."""
        wanted = [work for work in works if work.is_wanted()]
        self.measures.dropped.labels(self.name).inc(len(works) - len(wanted))
        if not wanted:
            return []
        self.measures.batches.labels(self.name).observe(sum(work.n_texts for work in wanted))
        if len(wanted) == 1:
            return [self.outcome(wanted[0])]
        try:
            answers = iter(answer(self.model, [question for work in wanted for question in work.questions]))
        except Exception as error:  # noqa: BLE001  # one of them is at fault: each is told apart
            LOG.debug("Read one by one: %s", error)
            return [self.outcome(work) for work in wanted]
        return [partial(self.tell, work, [next(answers) for _ in work.questions]) for work in wanted]

    def outcome(self, work: _Work) -> Callable[[], None]:
        """Do one piece of work, and return what tells the result, or what went wrong, to whoever waits for it."""
        try:
            do = work.errand or answer
            return partial(self.tell, work, do(self.model, work.questions))
        except Exception as error:  # noqa: BLE001
            return partial(_fail, work, error)

    def tell(self, work: _Work, answers: Sequence[Any]) -> None:
        """Tell whoever waits, or put what is left of their questions at the end of the queue."""
        found = (*work.before, *answers)
        if work.rest is None:
            work.future.set_result(list(found))
            return
        with self.changed:
            self.queue.append(replace(work.rest, before=found))
            self.count(work.rest.n_texts)


def _fail(work: _Work, error: Exception) -> None:
    """Say what went wrong, if somebody still waits."""
    if work.rest is None or work.future.set_running_or_notify_cancel():
        work.future.set_exception(error)

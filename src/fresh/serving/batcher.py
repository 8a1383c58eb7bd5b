"""Batches requests that arrive at the same time: one thread and one queue for each model."""

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
from typing import Any

from fresh.document import Explanation
from fresh.rationalizer import ExplainSpec, Rationalizer
from fresh.serving.config import BatchLimits
from fresh.text import plural
from fresh.web.metrics import ServerMetrics

LOG = logging.getLogger(__name__)
SHUTTING_DOWN = "This server is shutting down. Try again when it is back."


class OverloadedError(RuntimeError):
    """Too many texts wait already."""

    def __init__(self, name: str, n_waiting: int, seconds: int) -> None:
        super().__init__(
            f"Model {name!r} is overloaded: {plural(n_waiting, 'text')} waiting. "
            f"Try again in {plural(seconds, 'second')}."
        )
        self.seconds = seconds


class ClosedError(RuntimeError):
    """The server is shutting down."""


Answer = tuple[Explanation, ...]
"""One explanation, or one for each length."""
Task = Callable[[Rationalizer, Sequence[ExplainSpec]], Sequence[Any]]
"""Computes one result for each text."""


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    specs: Sequence[ExplainSpec]
    task: Task | None = None  # what to compute, in a batch of its own; explanations if None
    future: "Future[Any]" = field(default_factory=Future)
    low_priority: bool = False
    results: tuple[Any, ...] = ()  # of earlier turns
    rest: "_Work | None" = None  # what is left for later turns

    @property
    def n_texts(self) -> int:
        return len(self.specs)

    @property
    def n_words(self) -> int:
        return sum(len(spec.document.words) for spec in self.specs)

    def first_turn(self, max_words: int) -> "_Work":
        """Take at most so many words, but at least one text."""
        ends = list(accumulate(len(spec.document.words) for spec in self.specs))
        n_specs = max(1, bisect_right(ends, max_words))
        if n_specs >= len(self.specs):
            return self
        return replace(self, specs=self.specs[:n_specs], rest=replace(self, specs=self.specs[n_specs:]))

    def is_wanted(self) -> bool:
        """Check whether the client still waits; in the last turn, the future can no longer be cancelled."""
        if self.rest is not None and not self.future.cancelled():
            return True
        return self.future.set_running_or_notify_cancel()

    def fail(self, error: Exception) -> None:
        """Pass an error to the client, if it still waits."""
        if self.rest is None or self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


class Batcher:
    """Answers requests in the order of arrival, in batches; large requests take several turns."""

    def __init__(
        self, name: str, model: Rationalizer, metrics: ServerMetrics, limits: BatchLimits | None = None
    ) -> None:
        self.name = name
        self.model = model
        self.limits = limits or BatchLimits()
        self.metrics = metrics
        self.n_waiting = 0  # texts in the queue
        self.seconds_per_text = 0.02  # until the first batch is measured
        self.closed = False
        self._queue: deque[_Work] = deque()
        self._changed = threading.Condition()
        # Wait a little for as many requests as the last batch had: their clients are likely to send the next at once,
        # and a batch takes little longer than a single text.
        self._n_expected = 1
        self._pause = 0.0
        self._thread = threading.Thread(target=self._run, name=f"model {name}", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the thread of the model runs."""
        return self._thread.is_alive()

    def submit(
        self, specs: Sequence[ExplainSpec], task: Task | None = None, low_priority: bool = False
    ) -> "Future[list[Any]]":
        """Queue texts; a future that is cancelled before its turn costs nothing.

        :param task: What to compute in place of explanations, in batches that no other request shares.
        :param low_priority: All other requests go first.
        """
        work = _Work(specs, task, low_priority=low_priority)
        with self._changed:
            if self.closed:
                raise ClosedError(SHUTTING_DOWN)
            if self.n_waiting and self.n_waiting + work.n_texts > self.limits.max_waiting:
                self.metrics.refused.labels(self.name).inc()
                raise OverloadedError(self.name, self.n_waiting, self.seconds_left())
            self._queue.append(work)
            self._count(work.n_texts)
            if self._is_ready():
                self._changed.notify_all()
        return work.future

    def seconds_left(self) -> int:
        """Estimate the seconds until the queue is empty, at least 1."""
        return max(1, math.ceil(self.n_waiting * self.seconds_per_text))

    def close(self) -> None:
        """Finish the current batch, and cancel the rest."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()
        self._thread.join()
        for work in self._queue:
            work.future.cancel()

    def _count(self, change: int) -> None:
        self.n_waiting += change
        self.metrics.waiting.labels(self.name).set(self.n_waiting)

    def _run(self) -> None:
        while batch := self._next_batch():
            start = time.perf_counter()
            resolvers = self._compute(batch)
            seconds, n_texts = time.perf_counter() - start, sum(work.n_texts for work in batch)
            # A moving average over about the last five batches.
            self.seconds_per_text += 0.2 * (seconds / n_texts - self.seconds_per_text)
            # Before the futures are resolved: their clients may send the next request at once, and count twice.
            self._n_expected = len(batch) + len(self._queue)
            self._pause = min(max(self.limits.patience * seconds, self.limits.min_pause), self.limits.max_pause)
            for resolve in resolvers:
                resolve()

    def _next_batch(self) -> list[_Work]:
        """Wait for requests and take a batch of them; an empty one at the end."""
        limits = self.limits
        with self._changed:
            if not self._changed.wait_for(self._is_ready, self._pause):
                self._n_expected = 1
                self._changed.wait_for(self._is_ready)
            batch: list[_Work] = []
            n_texts = n_words = 0
            for work in () if self.closed else sorted(self._queue, key=lambda work: work.low_priority):
                part = work.first_turn(limits.words_per_turn)
                n_texts, n_words = n_texts + part.n_texts, n_words + part.n_words
                if batch:
                    # Files share no batch with requests, so that a request waits for one turn of a file at most.
                    max_words = limits.words_per_turn if work.low_priority else limits.max_words
                    is_full = n_texts > limits.max_texts or n_words > max_words
                    if is_full or work.task or batch[0].task or work.low_priority != batch[0].low_priority:
                        break
                batch.append(part)
                self._queue.remove(work)
                self._count(-work.n_texts)
            return batch

    def _is_ready(self) -> bool:
        return self.closed or len(self._queue) >= self._n_expected or self.n_waiting >= self.limits.max_texts

    def _compute(self, batch: Sequence[_Work]) -> list[Callable[[], None]]:
        """Compute what clients still wait for, and return the functions that resolve the futures."""
        wanted = [work for work in batch if work.is_wanted()]
        self.metrics.dropped.labels(self.name).inc(len(batch) - len(wanted))
        if not wanted:
            return []
        self.metrics.batches.labels(self.name).observe(sum(work.n_texts for work in wanted))
        if len(wanted) == 1:
            return [self._compute_alone(wanted[0])]
        try:
            answers = iter(self.model.explain_specs([spec for work in wanted for spec in work.specs]))
        except Exception as error:  # noqa: BLE001  # a single request fails the batch: find it, and answer the others
            LOG.debug("A batch failed; its requests are computed one by one: %s", error)
            return [self._compute_alone(work) for work in wanted]
        return [partial(self._resolve, work, [next(answers) for _ in work.specs]) for work in wanted]

    def _compute_alone(self, work: _Work) -> Callable[[], None]:
        try:
            task = work.task or Rationalizer.explain_specs
            return partial(self._resolve, work, task(self.model, work.specs))
        except Exception as error:  # noqa: BLE001
            return partial(work.fail, error)

    def _resolve(self, work: _Work, results: Sequence[Any]) -> None:
        """Resolve the future, or queue what is left."""
        results = (*work.results, *results)
        if work.rest is None:
            work.future.set_result(list(results))
            return
        with self._changed:
            self._queue.append(replace(work.rest, results=results))
            self._count(work.rest.n_texts)

"""Batches and turns, and how the server bears a load."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fresh.audit.certificates.format import Maker
from fresh.document import Document, Mask
from fresh.rationalizer import ExplainSpec, Rationalizer
from fresh.serving.batcher import Batcher, ClosedError, OverloadedError, _Work
from fresh.serving.config import BatchLimits, ServeConfig
from fresh.serving.models import ServedModel
from fresh.serving.routes import _wait_for
from fresh.web.errors import Problem, problem_response
from fresh.web.metrics import ServerMetrics
from running import call_app
from served import TEXT, assert_same, client_of, loaded, on_a_port
from strategies import documents
from tiny import WORDS

PATIENT = 200.0


@pytest.fixture
def make_batcher(model: Rationalizer) -> Iterator[Callable[..., Batcher]]:
    """Make batchers that are closed in the end."""
    made: list[Batcher] = []

    def make(**limits: Any) -> Batcher:
        made.append(Batcher("m", model, ServerMetrics(), BatchLimits(**limits)))
        return made[-1]

    yield make
    for batcher in made:
        batcher.close()


@pytest.fixture
def batcher(make_batcher: Callable[..., Batcher]) -> Batcher:
    return make_batcher(max_texts=4, max_waiting=8)


def metric(batcher: Batcher, name: str, **labels: str) -> float:
    return batcher.metrics.registry.get_sample_value(name, {"model": "m", **labels}) or 0.0


def spec(name: object = "one", n_words: int = 4) -> ExplainSpec:
    return ExplainSpec(Document.from_words(["good", "film", "story", "old"] * (n_words // 4), id=str(name)))


def specs(prefix: str, n: int) -> list[ExplainSpec]:
    return [spec(f"{prefix}{number}") for number in range(n)]


def numbered(number: int) -> ExplainSpec:
    return ExplainSpec(Document.from_words(["a", "good", "film", WORDS[number % len(WORDS)]], id=str(number)))


def block(batcher: Batcher) -> Callable[[], None]:
    """Keep a model busy until the function that is returned is called."""
    begun, free = threading.Event(), threading.Event()

    def task(_model: Rationalizer, given: Sequence[ExplainSpec]) -> Sequence[ExplainSpec]:
        begun.set()
        free.wait(10)
        return given

    batcher.submit([spec()], task)
    assert begun.wait(10)
    return free.set


@pytest.fixture
def release(batcher: Batcher) -> Iterator[Callable[[], None]]:
    """A busy model, so that all else waits until it is released."""
    free = block(batcher)
    yield free
    free()


def finish(*futures: "Future[Any]") -> None:
    assert not wait(futures, timeout=20).not_done


KINDS = st.sampled_from(("own", "ratio", "mask", "curve"))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.tuples(documents(), KINDS, st.floats(0.1, 0.6)), min_size=1, max_size=6))
def test_mixed_batches_give_the_same_answers(model: Rationalizer, drawn: list[tuple[Document, str, float]]) -> None:
    mixed: list[ExplainSpec] = []
    for document, kind, ratio in drawn:
        plain = replace(document, query=())
        mask = Mask(np.arange(len(plain.words)) % 2 == 0) if kind == "mask" else None
        mixed.append(ExplainSpec(plain, ratio if kind == "ratio" else None, mask, kind == "curve"))
    assert_same(model.explain_specs(mixed), [model.explain_specs([one])[0] for one in mixed])


def test_waiting_requests_are_batched_in_order(
    batcher: Batcher, release: Callable[[], None], model: Rationalizer
) -> None:
    futures = [batcher.submit([numbered(number)]) for number in range(6)]
    ended: list[int] = []
    for number, future in enumerate(futures):
        future.add_done_callback(lambda _future, number=number: ended.append(number))  # type: ignore[misc]
    assert metric(batcher, "fresh_waiting_texts") == 6
    release()
    for number, future in enumerate(futures):
        assert_same(future.result(10), model.explain_specs([numbered(number)]))
    assert ended == list(range(6))
    assert metric(batcher, "fresh_batch_texts_bucket", le="4.0") == 3  # the task, four together, two together
    assert metric(batcher, "fresh_batch_texts_sum") == 7
    assert metric(batcher, "fresh_waiting_texts") == 0


@pytest.mark.parametrize(
    ("n_first", "n_then", "patience", "n_batches"),
    [(3, 3, PATIENT, 1), (2, 4, PATIENT, 2), (3, 2, 0.0, 2), (1, 2, PATIENT, 2)],
    ids=["the same clients", "more clients", "clients that left", "a single client"],
)
def test_the_next_batch_waits_for_the_clients_of_the_last(
    make_batcher: Callable[..., Batcher], n_first: int, n_then: int, patience: float, n_batches: int
) -> None:
    batcher = make_batcher(patience=patience, min_pause=0.0)
    release = block(batcher)
    first = [batcher.submit([numbered(number)]) for number in range(n_first)]
    release()
    finish(*first)
    before = metric(batcher, "fresh_batch_texts_count")
    futures = []
    for number in range(n_then):
        futures.append(batcher.submit([numbered(number)]))
        time.sleep(0.05)
    finish(*futures)
    batcher.close()
    assert metric(batcher, "fresh_batch_texts_count") - before == n_batches
    assert batcher._pause <= BatchLimits().max_pause


def test_a_text_that_cannot_be_read_fails_alone(batcher: Batcher, release: Callable[[], None]) -> None:
    long = ExplainSpec(Document.from_words(["film"] * 15_000, id="long"))
    futures: list[Future[Any]] = [batcher.submit([one]) for one in (numbered(1), long, numbered(2))]
    release()
    finish(*futures)
    assert [future.exception() is None for future in futures] == [True, False, True]
    assert str(futures[1].exception()).startswith("Text 'long' has 15,000 words")


def test_cancelled_requests_are_dropped(batcher: Batcher, release: Callable[[], None]) -> None:
    futures = [batcher.submit([numbered(number)]) for number in range(3)]
    assert futures[1].cancel()
    release()
    finish(futures[0], futures[2])
    assert metric(batcher, "fresh_dropped_requests_total") == 1
    assert metric(batcher, "fresh_batch_texts_sum") == 3


def test_overload_is_refused(batcher: Batcher, release: Callable[[], None]) -> None:
    for number in range(8):
        batcher.submit([numbered(number)])
    with pytest.raises(OverloadedError, match=r"'m' is overloaded: 8 texts.*1 second\."):
        batcher.submit([numbered(9)])
    assert metric(batcher, "fresh_refused_requests_total") == 1
    release()
    batcher.close()
    batcher.n_waiting, batcher.seconds_per_text = 90, 0.05
    assert batcher.seconds_left() == 5


# Turns: large requests are computed in several, so that others are not held up


class Turns:
    """Holds a model up before each turn, and remembers what was read in it."""

    def __init__(self) -> None:
        self.read: list[list[str]] = []
        self.begun = threading.Semaphore(0)
        self.free = threading.Semaphore(0)

    def explain(self, model: Rationalizer, given: Sequence[ExplainSpec]) -> Any:
        self.begun.release()
        assert self.free.acquire(timeout=10)
        self.read.append([one.document.id for one in given])
        return EXPLAIN(model, given)


EXPLAIN = Rationalizer.explain_specs


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    made = Turns()
    # A bound method would not receive the model.
    monkeypatch.setattr(Rationalizer, "explain_specs", lambda model, given: made.explain(model, given))  # noqa: PLW0108
    return made


@pytest.fixture
def short_turns(make_batcher: Callable[..., Batcher]) -> Batcher:
    """Two texts a turn."""
    return make_batcher(words_per_turn=10, patience=0.0, min_pause=0.0)


def test_a_small_request_runs_between_the_turns_of_a_large_one(short_turns: Batcher, turns: Turns) -> None:
    large = short_turns.submit(specs("large", 5))
    assert turns.begun.acquire(timeout=10)
    small = short_turns.submit([spec("small")])
    turns.free.release(4)
    finish(small, large)
    assert turns.read[0] == ["large0", "large1"]
    assert turns.read[1][0] == "small"
    assert sorted(name for turn in turns.read for name in turn) == [*(f"large{n}" for n in range(5)), "small"]
    assert [one.document.id for [one] in large.result()] == [f"large{n}" for n in range(5)]


def test_a_cancelled_request_gets_no_further_turn(short_turns: Batcher, turns: Turns) -> None:
    large = short_turns.submit(specs("large", 9))
    assert turns.begun.acquire(timeout=10)
    assert large.cancel()
    last = short_turns.submit([spec("last")])
    turns.free.release(9)
    finish(last)
    assert turns.read == [["large0", "large1"], ["last"]]
    assert short_turns.n_waiting == 0
    assert metric(short_turns, "fresh_dropped_requests_total") == 1


def test_files_have_the_lowest_priority(short_turns: Batcher, turns: Turns) -> None:
    rows = [short_turns.submit([one], low_priority=True) for one in specs("row", 6)]
    assert turns.begun.acquire(timeout=10)
    texts = [short_turns.submit([one]) for one in specs("text", 3)]
    turns.free.release(9)
    finish(*rows, *texts)
    first, second, *others = turns.read
    assert len(first) <= 2
    assert second == ["text0", "text1", "text2"]
    assert all(len(turn) <= 2 for turn in others)


def test_closing_waits_for_the_current_turn_only(short_turns: Batcher, turns: Turns) -> None:
    large = short_turns.submit(specs("large", 9))
    assert turns.begun.acquire(timeout=10)
    waiting = short_turns.submit([spec("waiting")])
    closing = threading.Thread(target=short_turns.close)
    closing.start()
    turns.free.release(1)
    closing.join(10)
    assert not closing.is_alive()
    assert turns.read == [["large0", "large1"]]
    assert large.cancelled()
    assert waiting.cancelled()
    with pytest.raises(ClosedError, match="shutting down"):
        short_turns.submit([spec("late")])


def test_certificates_are_made_in_turns_too(short_turns: Batcher, turns: Turns) -> None:
    served = ServedModel("m", Path(), Maker("0" * 64, "1"), short_turns)
    large = served.certify(specs("large", 5))
    assert turns.begun.acquire(timeout=10)
    small = short_turns.submit([spec("small")])
    turns.free.release(4)
    finish(small, large)
    assert turns.read == [["large0", "large1"], ["small"], ["large2", "large3"], ["large4"]]
    made = large.result()
    assert [certificate.rationale.id for certificate in made] == [f"large{n}" for n in range(5)]
    assert [certificate.group for certificate in made] == [0, 0, 1, 1, 2]  # verification reads as much at once


def test_an_error_in_a_later_turn_is_passed_on(short_turns: Batcher, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(model: Rationalizer, given: Sequence[ExplainSpec]) -> Any:
        if given[0].document.id == "large2":
            raise ValueError("cannot be read")
        return EXPLAIN(model, given)

    monkeypatch.setattr(Rationalizer, "explain_specs", broken)
    with pytest.raises(ValueError, match="cannot be read"):
        short_turns.submit(specs("large", 5)).result(10)
    assert short_turns.submit([spec("next")]).result(10)


SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=8)


@given(sizes=SIZES, most=st.integers(1, 30))
def test_turns_hold_all_texts_in_their_order(sizes: list[int], most: int) -> None:
    work = _Work([spec(number, 4 * size) for number, size in enumerate(sizes)])
    seen: list[ExplainSpec] = []
    rest: _Work | None = work
    while rest is not None:
        part = rest.first_turn(most)
        assert part.specs
        assert part.n_words <= most or len(part.specs) == 1
        seen += part.specs
        rest = part.rest
    assert seen == list(work.specs)


@settings(max_examples=10, deadline=None)
@given(sizes=SIZES)
def test_answers_do_not_depend_on_the_number_of_turns(sizes: list[int], model: Rationalizer) -> None:
    given_specs = [spec(number, 4 * size) for number, size in enumerate(sizes)]
    batcher = Batcher("m", model, ServerMetrics(), BatchLimits(words_per_turn=10))
    found = batcher.submit(given_specs).result(10)
    batcher.close()
    assert_same(found, model.explain_specs(given_specs))


# Waiting for results in a route


def wait_in_route(future: "Future[Any]", stays: float = 60, timeout: float = 5.0) -> Problem:
    """Have a client wait that leaves after some seconds."""

    async def receive() -> dict[str, str]:
        await asyncio.sleep(stays)
        return {"type": "http.disconnect"}

    client, batcher = SimpleNamespace(receive=receive), SimpleNamespace(seconds_left=lambda: 7)
    with pytest.raises(Problem) as caught:
        asyncio.run(_wait_for(client, batcher, lambda: future, timeout))  # type: ignore[arg-type]
    return caught.value


def test_a_client_that_left_is_not_counted_as_refused() -> None:
    future: Future[Any] = Future()
    problem = wait_in_route(future, stays=0)
    assert (problem.status_code, future.cancelled()) == (499, True)
    assert json.loads(bytes(problem_response(499, problem.detail).body))["title"] == "Client Closed Request"


def test_waiting_clients_are_told_of_a_shutdown_and_of_the_queue() -> None:
    future: Future[Any] = Future()
    future.cancel()
    problem = wait_in_route(future)
    assert (problem.status_code, "shutting down" in problem.detail) == (503, True)
    assert wait_in_route(Future(), timeout=0.01).headers == {"Retry-After": "7"}


def test_overload_and_timeouts_are_answered_with_retry_after(place: str) -> None:
    models, metrics = loaded(place, limits=BatchLimits(max_waiting=1))
    address = "/v1/models/one-length/explain"
    with client_of(models, metrics, ServeConfig(timeout=0.3)) as client:
        release = block(models.get("one-length").batcher)
        slow = client.post(address, json={"text": TEXT})
        assert slow.status_code == 503
        assert "longer than 0.3 seconds" in slow.json()["detail"]
        full = client.post(address, json={"text": TEXT})
        assert (full.status_code, full.headers["retry-after"]) == (503, "1")
        assert "'one-length' is overloaded: 1 text waiting" in full.json()["detail"]
        release()
        time.sleep(0.3)
        assert client.post(address, json={"text": TEXT}).status_code == 200
        shown = client.get("/metrics").text
    assert 'fresh_dropped_requests_total{model="one-length"} 1.0' in shown
    assert 'fresh_requests_total{method="POST",route="/v1/models/{name}/explain",status="503"} 2.0' in shown


def test_nothing_is_computed_for_a_client_that_disconnects(place: str) -> None:
    models, metrics = loaded(place)

    async def call(leaves: bool) -> int:
        messages = iter([{"type": "http.request", "body": json.dumps({"text": TEXT}).encode(), "more_body": False}])

        async def receive() -> dict[str, Any]:
            for message in messages:
                return message
            await asyncio.sleep(0.2 if leaves else 60)
            return {"type": "http.disconnect"}

        sent = await call_app(client.app, "/v1/models/one-length/explain", receive)
        return int(sent[0]["status"])

    async def calls() -> list[int]:
        staying = [asyncio.create_task(call(leaves=False)) for _ in range(2)]
        left = await asyncio.wait_for(call(leaves=True), 10)
        release()
        return [left, *await asyncio.gather(*staying)]

    with client_of(models, metrics) as client:
        release = block(models.get("one-length").batcher)
        assert asyncio.run(calls()) == [499, 200, 200]
    assert metrics.registry.get_sample_value("fresh_dropped_requests_total", {"model": "one-length"}) == 1
    # The task and two texts
    assert metrics.registry.get_sample_value("fresh_batch_texts_sum", {"model": "one-length"}) == 3


def test_a_large_request_does_not_block_others(place: str) -> None:
    large = {"texts": ["a " * 15_000] * 64}  # it is split for seconds, and then refused
    with on_a_port(place) as url, ThreadPoolExecutor(1) as pool:
        slow = pool.submit(httpx.post, f"{url}v1/models/one-length/explain", json=large, timeout=60)
        time.sleep(0.3)
        slowest = 0.0
        while not slow.done():
            begin = time.monotonic()
            assert httpx.get(f"{url}health", timeout=60).status_code == 200
            slowest = max(slowest, time.monotonic() - begin)
        assert slow.result().status_code == 422
    assert 0 < slowest < 1.5

"""Requests that are read together, and how the server bears a load."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

import small
from fresh.attribution.support_model import SupportModel
from fresh.document import Document, Mask
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK
from fresh.serving.app import ServeConfig, create_app
from fresh.serving.batcher import Batcher, BatchLimits, ClosedError, OverloadedError
from fresh.serving.question import Question, answer
from fresh.web.metrics import ServerMetrics
from served import TEXT, listening, loaded, on_a_port, save_models
from shared_web_batcher import same
from strategies import documents
from tiny import WORDS


@pytest.fixture(scope="module")
def model(support: SupportModel, predictor: Predictor) -> Rationalizer:
    return replace(small.rationalizer(support, predictor, TopK(0.2)), ratios=(0.1, 0.6))


@pytest.fixture
def batcher(model: Rationalizer) -> Iterator[Batcher]:
    made = Batcher("m", model, ServerMetrics(), BatchLimits(most_texts=4, most_waiting=8))
    yield made
    if not made.closed:
        made.close()


def figure(batcher: Batcher, name: str, **labels: str) -> float:
    return batcher.measures.registry.get_sample_value(name, {"model": "m", **labels}) or 0.0


def question(number: int) -> Question:
    return Question(Document.from_words(["a", "good", "film", WORDS[number % len(WORDS)]], id=str(number)))


def block(batcher: Batcher, begun: threading.Event, free: threading.Event) -> None:
    """Have a model busy with an errand that says that it has begun, and ends when it may."""

    def errand(_model: Rationalizer, questions: Sequence[Question]) -> Sequence[Question]:
        begun.set()
        free.wait(10)
        return questions

    batcher.run(errand, [question(0)])


@pytest.fixture
def blocked(batcher: Batcher) -> Iterator[Callable[[], None]]:
    """A model at work, so that all else waits until it is let go."""
    free, begun = threading.Event(), threading.Event()
    block(batcher, begun, free)
    assert begun.wait(10)
    yield free.set
    free.set()


KINDS = st.sampled_from(("own", "ratio", "held", "every"))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.tuples(documents(), KINDS, st.floats(0.1, 0.6)), min_size=1, max_size=6))
def test_questions_of_all_kinds_are_answered_as_if_asked_alone(
    model: Rationalizer, drawn: list[tuple[Document, str, float]]
) -> None:
    questions: list[Question] = []
    for document, kind, ratio in drawn:
        plain = replace(document, query=())
        held = Mask(np.arange(len(plain.words)) % 2 == 0) if kind == "held" else None
        questions.append(Question(plain, ratio if kind == "ratio" else None, held, kind == "every"))
    same(answer(model, questions), [answer(model, [question])[0] for question in questions])


def test_a_curve_and_a_ratio_are_those_of_the_model(model: Rationalizer) -> None:
    document = Document.from_text(TEXT)
    every, own = answer(model, [Question(document, curve=True), Question(document, 0.5)])
    same([every], [model.curve(document).points])
    same([own], [(model.explain(document, ratio=0.5),)])


def test_what_waits_is_read_together_in_order(
    batcher: Batcher, blocked: Callable[[], None], model: Rationalizer
) -> None:
    futures = [batcher.ask([question(number)]) for number in range(6)]
    ended: list[int] = []
    for number, future in enumerate(futures):
        future.add_done_callback(lambda _future, number=number: ended.append(number))  # type: ignore[misc]
    assert figure(batcher, "fresh_waiting_texts") == 6
    blocked()
    for number, future in enumerate(futures):
        same(future.result(10), answer(model, [question(number)]))
    assert ended == list(range(6))
    assert figure(batcher, "fresh_batch_texts_bucket", le="4.0") == 3  # the errand, four together, two together
    assert figure(batcher, "fresh_batch_texts_sum") == 7
    assert figure(batcher, "fresh_waiting_texts") == 0


def read_together(model: Rationalizer, n_first: int, n_then: int, patience: float) -> float:
    """Have requests read together, ask some again one by one, and say in how many readings these were answered."""
    batcher = Batcher("m", model, ServerMetrics(), BatchLimits(patience=patience, least_pause=0.0))
    free, begun = threading.Event(), threading.Event()
    block(batcher, begun, free)
    assert begun.wait(10)
    first = [batcher.ask([question(number)]) for number in range(n_first)]
    free.set()
    wait(first, 10)
    before = figure(batcher, "fresh_batch_texts_count")
    futures = []
    for number in range(n_then):
        futures.append(batcher.ask([question(number)]))
        time.sleep(0.05)
    wait(futures, 10)
    batcher.close()
    assert all(future.done() for future in futures)
    return figure(batcher, "fresh_batch_texts_count") - before


LONG = 200.0


def test_those_who_asked_together_are_waited_for(model: Rationalizer) -> None:
    assert read_together(model, n_first=3, n_then=3, patience=LONG) == 1


def test_as_many_as_there_were_are_waited_for_and_no_more(model: Rationalizer) -> None:
    assert read_together(model, n_first=2, n_then=4, patience=LONG) == 2


def test_who_does_not_come_again_is_not_waited_for_for_long(model: Rationalizer) -> None:
    assert read_together(model, n_first=3, n_then=2, patience=0.0) == 2


def test_who_is_alone_waits_for_nobody(model: Rationalizer) -> None:
    assert read_together(model, n_first=1, n_then=2, patience=LONG) == 2


def test_one_that_cannot_be_read_does_not_spoil_the_others(batcher: Batcher, blocked: Callable[[], None]) -> None:
    long = Question(Document.from_words(["film"] * 15_000, id="long"))
    futures: list[Future[Any]] = [batcher.ask([item]) for item in (question(1), long, question(2))]
    blocked()
    wait(futures, 20)
    assert [future.exception() is None for future in futures] == [True, False, True]
    assert str(futures[1].exception()).startswith("Text 'long' has 15000 words")


def test_what_nobody_waits_for_is_dropped(batcher: Batcher, blocked: Callable[[], None]) -> None:
    futures = [batcher.ask([question(number)]) for number in range(3)]
    assert futures[1].cancel()
    blocked()
    wait([futures[0], futures[2]], 10)
    assert figure(batcher, "fresh_dropped_requests_total") == 1
    assert figure(batcher, "fresh_batch_texts_sum") == 3


def test_too_much_is_refused(batcher: Batcher, blocked: Callable[[], None]) -> None:
    for number in range(8):
        batcher.ask([question(number)])
    with pytest.raises(OverloadedError) as caught:
        batcher.ask([question(9)])
    assert str(caught.value) == ("Model 'm' has 8 texts to read already, and no more can wait. Ask again in 1 second.")
    assert figure(batcher, "fresh_refused_requests_total") == 1
    blocked()


def test_at_the_end_nothing_is_left_hanging(batcher: Batcher, blocked: Callable[[], None]) -> None:
    future = batcher.ask([question(1)])
    threading.Timer(0.05, blocked).start()
    batcher.close()
    assert future.cancelled()
    with pytest.raises(ClosedError, match=r"^This server is about to end\. Ask again when it is back\.$"):
        batcher.ask([question(1)])


# Over HTTP


@pytest.fixture(scope="module")
def place(support: SupportModel, predictor: Predictor, tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_models(support, predictor, tmp_path_factory.mktemp("models"))["one-length"]


def test_overload_and_slow_answers_are_told_with_when_to_come_back(place: str) -> None:
    models, measures = loaded(place, limits=BatchLimits(most_waiting=1))
    batcher = models.find("one-length").batcher
    free, begun = threading.Event(), threading.Event()
    with TestClient(create_app(models, measures, ServeConfig(seconds=0.3)), base_url="http://127.0.0.1") as client:
        block(batcher, begun, free)
        assert begun.wait(10)
        slow = client.post("/v1/models/one-length/explain", json={"text": TEXT})
        assert slow.status_code == 503
        assert slow.json()["detail"] == "The answer took longer than 0.3 seconds. Ask again, or about less text."
        full = client.post("/v1/models/one-length/explain", json={"text": TEXT})
        assert (full.status_code, full.headers["retry-after"]) == (503, "1")
        assert full.json()["detail"].startswith("Model 'one-length' has 1 texts to read already")
        free.set()
        time.sleep(0.3)
        again = client.post("/v1/models/one-length/explain", json={"text": TEXT})
        assert again.status_code == 200
        told = client.get("/metrics").text
    assert 'fresh_dropped_requests_total{model="one-length"} 1.0' in told
    assert 'fresh_requests_total{method="POST",route="/v1/models/{name}/explain",status="503"} 2.0' in told


def test_who_leaves_before_the_answer_is_not_worked_for(place: str) -> None:
    models, measures = loaded(place)
    batcher = models.find("one-length").batcher
    free, begun = threading.Event(), threading.Event()
    body = json.dumps({"text": TEXT})
    head = "POST /v1/models/one-length/explain HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with listening(models, measures) as address:
        block(batcher, begun, free)
        assert begun.wait(10)
        clients = [socket.create_connection(("127.0.0.1", urlsplit(address).port or 0), 10) for _ in range(3)]
        for client in clients:
            client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        wait_for(lambda: batcher.n_waiting == 3)
        clients[1].close()
        wait_for(lambda: any(work.future.cancelled() for work in batcher.queue))
        free.set()
        for client in (clients[0], clients[2]):
            assert client.recv(100).startswith(b"HTTP/1.1 200 OK")
            client.close()
    count = measures.registry.get_sample_value
    assert count("fresh_dropped_requests_total", {"model": "one-length"}) == 1
    assert count("fresh_batch_texts_sum", {"model": "one-length"}) == 3  # the errand and two texts


def test_a_request_with_much_text_does_not_hold_up_others(place: str) -> None:
    much = {"texts": ["a " * 15_000] * 64}  # it is split for seconds, and then refused
    with on_a_port(place) as address, ThreadPoolExecutor(1) as pool:
        long = pool.submit(httpx.post, f"{address}v1/models/one-length/explain", json=much, timeout=60)
        time.sleep(0.3)
        slowest = 0.0
        while not long.done():
            begin = time.monotonic()
            assert httpx.get(f"{address}health", timeout=60).status_code == 200
            slowest = max(slowest, time.monotonic() - begin)
        assert long.result().status_code == 422
    assert 0 < slowest < 1.5


def wait_for(true: Callable[[], bool]) -> None:
    """Wait until something is so, but not for long."""
    ends = time.monotonic() + 10
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.01)

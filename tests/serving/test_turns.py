"""Who asks much is read in several turns, so that others are not held up."""

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import small
from fresh.attribution.support_model import SupportModel
from fresh.audit.certificates.format import Maker
from fresh.document import Document
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK
from fresh.serving import batcher as module
from fresh.serving import models
from fresh.serving.batcher import Batcher, BatchLimits, _Work
from fresh.serving.models import Served
from fresh.serving.question import Question, answer
from fresh.serving.routes import _got
from fresh.web.errors import Problem, problem_response
from fresh.web.metrics import ServerMetrics
from shared_web_batcher import same

WORDS_A_TURN = 10


@pytest.fixture(scope="module")
def model(support: SupportModel, predictor: Predictor) -> Rationalizer:
    return replace(small.rationalizer(support, predictor, TopK(0.2)), ratios=(0.1, 0.6))


class Turns:
    """Holds a model up before each turn, and remembers what was read in it."""

    def __init__(self) -> None:
        self.read: list[list[str]] = []
        self.free = threading.Semaphore(0)
        self.begun = threading.Semaphore(0)

    def answer(self, model: Rationalizer, questions: Sequence[Question]) -> Any:
        self.begun.release()
        assert self.free.acquire(timeout=10)
        self.read.append([question.document.id for question in questions])
        return answer(model, questions)

    def let(self, n_turns: int) -> None:
        """Let so many turns begin and go on."""
        for _ in range(n_turns):
            self.free.release()


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    made = Turns()
    monkeypatch.setattr(module, "answer", made.answer)
    return made


@pytest.fixture
def batcher(model: Rationalizer) -> Iterator[Batcher]:
    made = Batcher("m", model, ServerMetrics(), BatchLimits(words_a_turn=WORDS_A_TURN, patience=0.0, least_pause=0.0))
    yield made
    if not made.closed:
        made.close()


def question(name: str, n_words: int = 4) -> Question:
    return Question(Document.from_words(["good", "film", "story", "old"] * (n_words // 4), id=name))


def named(beginning: str, n: int, n_words: int = 4) -> list[Question]:
    return [question(f"{beginning}{number}", n_words) for number in range(n)]


def done(*futures: "Future[Any]") -> None:
    assert not wait(futures, timeout=10).not_done


def test_somebody_who_asks_little_goes_between(batcher: Batcher, turns: Turns) -> None:
    much = batcher.ask(named("much", 5))
    assert turns.begun.acquire(timeout=10)
    little = batcher.ask([question("little")])
    turns.let(4)
    done(little, much)
    assert turns.read[0] == ["much0", "much1"]
    assert turns.read[1][0] == "little"
    assert sorted(name for turn in turns.read for name in turn) == ["little", *(f"much{place}" for place in range(5))]
    assert [one.document.id for [one] in much.result()] == [f"much{place}" for place in range(5)]


def test_who_leaves_is_not_worked_for_after_the_turn(batcher: Batcher, turns: Turns) -> None:
    much = batcher.ask(named("much", 9))
    assert turns.begun.acquire(timeout=10)
    assert much.cancel()
    last = batcher.ask([question("last")])
    turns.let(9)
    done(last)
    assert turns.read == [["much0", "much1"], ["last"]]
    assert batcher.n_waiting == 0
    assert batcher.measures.registry.get_sample_value("fresh_dropped_requests_total", {"model": "m"}) == 1


def test_files_are_read_when_nobody_else_asks(batcher: Batcher, turns: Turns) -> None:
    rows = [batcher.ask([one], later=True) for one in named("row", 6)]
    assert turns.begun.acquire(timeout=10)
    texts = [batcher.ask([one]) for one in named("text", 3)]
    turns.let(9)
    done(*rows, *texts)
    first, second, *others = turns.read
    assert len(first) <= 2
    assert second == ["text0", "text1", "text2"]
    assert all(len(turn) <= 2 for turn in others)


def test_a_server_that_ends_waits_for_the_turn_only(batcher: Batcher, turns: Turns) -> None:
    much = batcher.ask(named("much", 9))
    assert turns.begun.acquire(timeout=10)
    ending = threading.Thread(target=batcher.close)
    ending.start()
    turns.let(1)
    ending.join(10)
    assert not ending.is_alive()
    assert turns.read == [["much0", "much1"]]
    assert much.cancelled()


class Staying:
    """A client that stays."""

    async def receive(self) -> dict[str, str]:
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}


class Gone:
    """A client that has gone."""

    async def receive(self) -> dict[str, str]:
        return {"type": "http.disconnect"}


def test_who_has_gone_is_not_counted_as_refused() -> None:
    waiting: Future[Any] = Future()
    with pytest.raises(Problem) as caught:
        asyncio.run(_got(Gone(), waiting, 5.0, lambda: 7))  # type: ignore[arg-type]
    assert (caught.value.status_code, waiting.cancelled()) == (499, True)
    told = problem_response(499, caught.value.detail)
    assert json.loads(bytes(told.body))["title"] == "Client Closed Request"


def test_who_waits_when_a_server_ends_is_told_so() -> None:
    given_up: Future[Any] = Future()
    given_up.cancel()
    with pytest.raises(Problem) as caught:
        asyncio.run(_got(Staying(), given_up, 5.0, lambda: 7))  # type: ignore[arg-type]
    told = "This server is about to end. Ask again when it is back."
    assert (caught.value.status_code, caught.value.detail) == (503, told)


def test_who_waited_too_long_is_told_how_long_what_waits_will_take() -> None:
    with pytest.raises(Problem) as caught:
        asyncio.run(_got(Staying(), Future(), 0.01, lambda: 7))  # type: ignore[arg-type]
    assert caught.value.headers == {"Retry-After": "7"}


def test_the_time_that_is_left_follows_what_waits_and_how_long_texts_take(batcher: Batcher) -> None:
    assert batcher.seconds_left() == 1
    batcher.n_waiting, batcher.seconds_a_text = 90, 0.05
    assert batcher.seconds_left() == 5
    batcher.n_waiting = 0


def test_certificates_are_made_in_turns_too(batcher: Batcher, turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "answer", turns.answer)
    served = Served("m", Path(), Maker("0" * 64, "1"), batcher)
    much = served.certify(named("much", 5))
    assert turns.begun.acquire(timeout=10)
    little = batcher.ask([question("little")])
    turns.let(4)
    done(little, much)
    assert turns.read == [["much0", "much1"], ["little"], ["much2", "much3"], ["much4"]]
    made = much.result()
    assert [certificate.rationale.id for certificate in made] == [f"much{place}" for place in range(5)]
    assert [certificate.group for certificate in made] == [0, 0, 1, 1, 2]  # who reads them again reads as much at once


def test_what_goes_wrong_in_a_later_turn_is_told(batcher: Batcher, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(model: Rationalizer, questions: Sequence[Question]) -> Any:
        if questions[0].document.id == "much2":
            raise ValueError("cannot be read")
        return answer(model, questions)

    monkeypatch.setattr(module, "answer", broken)
    with pytest.raises(ValueError, match="cannot be read"):
        batcher.ask(named("much", 5)).result(10)
    assert batcher.ask([question("next")]).result(10)


def test_a_long_reading_does_not_make_the_next_one_wait_long(model: Rationalizer) -> None:
    made = Batcher("m", model, ServerMetrics(), BatchLimits(patience=1e9))
    made.ask([question("one")]).result(10)
    made.ask([question("two")]).result(10)
    assert made.pause == BatchLimits().most_pause
    made.close()


@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=8), most=st.integers(1, 30))
def test_turns_hold_all_questions_in_their_order(sizes: list[int], most: int) -> None:
    work = _Work([question(str(number), 4 * size) for number, size in enumerate(sizes)])
    seen: list[Question] = []
    rest: _Work | None = work
    while rest is not None:
        part = rest.first_turn(most)
        assert part.questions
        assert part.n_words <= most or len(part.questions) == 1
        seen += part.questions
        rest = part.rest
    assert seen == list(work.questions)


@settings(max_examples=10, deadline=None)
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=8))
def test_answers_are_the_same_in_however_many_turns(sizes: list[int], model: Rationalizer) -> None:
    questions = [question(str(number), 4 * size) for number, size in enumerate(sizes)]
    made = Batcher("m", model, ServerMetrics(), BatchLimits(words_a_turn=WORDS_A_TURN))
    found = made.ask(questions).result(10)
    made.close()
    same(found, answer(model, questions))

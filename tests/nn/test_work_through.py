import itertools
import warnings
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fresh.nn import memory as gpu
from fresh.nn.batch import IntArray
from fresh.nn.batching import _batches_by_budget, _run_batches_within
from fresh.nn.memory import WELL

LENGTHS = st.lists(st.integers(0, 80), max_size=40)
OUT_OF_MEMORY = (
    "Out of GPU memory: fewer pieces are read at once for a while. "
    "The result is the same; a smaller batch_size would be faster in training."
)


class Worker:
    """Notes what it did, and has memory for so many texts at once."""

    def __init__(self, room: Callable[[IntArray], bool] = lambda _numbers: True) -> None:
        self.room = room
        self.done: list[list[int]] = []

    def __call__(self, numbers: IntArray) -> None:
        if not self.room(numbers):
            raise torch.OutOfMemoryError("full")
        self.done.append(numbers.tolist())

    def visited(self) -> list[int]:
        return sorted(itertools.chain.from_iterable(self.done))


@given(LENGTHS, st.integers(1, 300), st.integers(1, 5000))
def test_all_texts_are_worked_on_once_within_budgets(lengths: list[int], budget: int, squared: int) -> None:
    work = Worker()
    _run_batches_within(lengths, budget, squared, work)
    assert work.done == [batch.tolist() for batch in _batches_by_budget(lengths, budget, squared)]
    assert work.visited() == list(range(len(lengths)))


@given(LENGTHS, st.integers(1, 5))
def test_where_memory_runs_out_all_texts_are_still_worked_on_once(lengths: list[int], most: int) -> None:
    work = Worker(lambda numbers: len(numbers) <= most)
    groups = list(_batches_by_budget(lengths, 300, 10_000))
    with warnings.catch_warnings(record=True) as found, pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu, "MEMORY_BUDGET", gpu._MemoryBudget())
        warnings.simplefilter("always")
        _run_batches_within(lengths, 300, 10_000, work)
    assert work.visited() == list(range(len(lengths)))
    wanted = [(RuntimeWarning, OUT_OF_MEMORY)] if max(map(len, groups), default=0) > most else []
    assert [(item.category, str(item.message)) for item in found] == wanted


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("full"), RuntimeError("CUBLAS_STATUS_ALLOC_FAILED")])
def test_what_was_done_before_memory_ran_out_is_not_done_again(
    error: RuntimeError, warned: list[warnings.WarningMessage]
) -> None:
    calls: list[list[int]] = []

    def work(numbers: IntArray) -> None:
        calls.append(numbers.tolist())
        if len(calls) == 2:
            raise error

    _run_batches_within([10] * 8, 40, 10_000, work)
    assert calls == [[0, 1, 2, 3], [4, 5, 6, 7], [4, 5], [6, 7]]
    assert len(warned) == 1


def test_what_torch_holds_in_store_is_given_back_where_memory_ran_out(
    warned: list[warnings.WarningMessage], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []
    work = Worker(lambda numbers: len(numbers) <= 2)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: given.append(len(work.done)))
    _run_batches_within([10] * 8, 80, 10_000, work)
    assert given == [0, 0]  # after 8 texts at once, and after 4
    assert len(warned) == 1


@pytest.mark.parametrize("before", [True, False])
def test_cudnn_does_not_attend_while_texts_are_worked_on(before: bool) -> None:
    usual = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    torch.backends.cuda.enable_cudnn_sdp(before)
    try:
        seen: list[bool] = []
        _run_batches_within([1], 1, 1, lambda _: seen.append(torch.backends.cuda.cudnn_sdp_enabled()))  # type: ignore[no-untyped-call]
        assert seen == [False]
        assert torch.backends.cuda.cudnn_sdp_enabled() == before  # type: ignore[no-untyped-call]
    finally:
        torch.backends.cuda.enable_cudnn_sdp(usual)


def test_a_process_stays_careful_after_memory_ran_out_once(warned: list[warnings.WarningMessage]) -> None:
    _run_batches_within([10] * 8, 40, 10_000, Worker(lambda numbers: len(numbers) <= 2))
    later = Worker()
    _run_batches_within([10] * 8, 40, 10_000, later)
    assert later.done == [[0, 1], [2, 3], [4, 5], [6, 7]]
    _run_batches_within([10] * 8, 40, 10_000, Worker(lambda numbers: len(numbers) <= 1))
    assert [str(item.message) for item in warned] == [OUT_OF_MEMORY]


def test_what_went_well_for_long_is_tried_with_more_again(warned: list[warnings.WarningMessage]) -> None:
    calls: list[int] = []

    def work(numbers: IntArray) -> None:
        calls.append(len(numbers))
        if len(calls) <= 3:  # as where another process takes up the card for a while
            raise torch.OutOfMemoryError("full")

    for _ in range(2):
        _run_batches_within([10] * 600, 160, 100_000, work)
    found = [(size, len(list(group))) for size, group in itertools.groupby(calls)]
    assert found == [(16, 1), (8, 1), (4, 1), (2, WELL), (4, WELL), (8, WELL), (16, 19)]
    assert len(warned) == 1


@given(LENGTHS, st.lists(st.booleans(), max_size=30))
def test_memory_that_runs_out_now_and_then_costs_no_text(lengths: list[int], short: list[bool]) -> None:
    tries = iter(short)
    work = Worker(lambda numbers: len(numbers) == 1 or not next(tries, False))
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu, "MEMORY_BUDGET", gpu._MemoryBudget())
        patch.setattr(gpu, "WELL", 2)
        warnings.simplefilter("ignore")
        _run_batches_within(lengths, 300, 10_000, work)
    assert work.visited() == list(range(len(lengths)))


def test_a_text_that_does_not_fit_alone_is_an_error(warned: list[warnings.WarningMessage]) -> None:
    work = Worker(lambda numbers: 3 not in numbers)
    with pytest.raises(torch.OutOfMemoryError, match=r"^full$"):
        _run_batches_within([10, 10, 10, 50, 10], 1000, 1_000_000, work)
    assert [str(item.message) for item in warned] == [OUT_OF_MEMORY]


def test_other_errors_are_not_tried_again() -> None:
    def work(_numbers: IntArray) -> None:
        raise RuntimeError("another")

    with pytest.raises(RuntimeError, match=r"^another$"):
        _run_batches_within([10, 10], 1000, 1_000_000, work)

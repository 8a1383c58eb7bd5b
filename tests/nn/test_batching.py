"""Batches keep to their budgets, texts of similar length meet, and batches shrink where memory runs out."""

import itertools
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fresh.attribution.support_model import text_of
from fresh.data.corpora import CORPORA
from fresh.data.splits import Splits
from fresh.nn import batching
from fresh.nn import device as gpu
from fresh.nn.batch import IntArray
from fresh.nn.batching import BatchSpec, _round_up_length, bucketed_batches, padding_share, run_batches
from fresh.nn.device import BATCHES_BEFORE_GROWTH, OUT_OF_MEMORY
from fresh.nn.encoder import load_encoder
from fresh.nn.tokenizer import WordTokenizer

CPU = torch.device("cpu")
LENGTHS = st.lists(st.integers(0, 80), max_size=40).map(lambda sizes: np.array(sizes, dtype=np.int64))
MANY = st.lists(st.integers(2, 600), min_size=1, max_size=200).map(np.array)
SIZES = st.integers(1, 40)
SEEDS = st.integers(0, 1000)


def spread(n_texts: int, middle: float, width: float) -> IntArray:
    """Lengths as corpora have them: many of middling length, and a tail of long ones."""
    found: IntArray = np.random.default_rng(0).lognormal(np.log(middle), width, n_texts).astype(np.int64) + 2
    return found


def run_within(lengths: IntArray, budget: int, squared: int, work: Callable[[IntArray], None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batching, "TOKENS_AT_ONCE", budget)
        patch.setattr(batching, "SQUARED_TOKENS_AT_ONCE", squared)
        run_batches(lengths, CPU, work)


@given(LENGTHS, st.integers(1, 300), st.integers(1, 5000))
def test_texts_are_read_once_within_two_budgets_longest_first(lengths: IntArray, budget: int, squared: int) -> None:
    batches: list[list[int]] = []
    run_within(lengths, budget, squared, lambda numbers: batches.append(numbers.tolist()))
    assert sorted(itertools.chain(*batches)) == list(range(len(lengths)))
    assert [lengths[number] for number in itertools.chain(*batches)] == sorted(lengths, reverse=True)
    for place, batch in enumerate(batches):
        n_texts, longest = len(batch), max(1, *lengths[batch])
        assert n_texts == 1 or (n_texts * longest <= budget and n_texts * longest**2 <= squared)
        if place + 1 < len(batches):  # one text more would be too many
            assert (n_texts + 1) * longest > budget or (n_texts + 1) * longest**2 > squared


# Widths


@given(st.integers(1, 100_000))
def test_a_width_is_at_least_the_length_and_little_more(length: int) -> None:
    more = _round_up_length(length) - length
    assert 0 <= more * (8 if length <= 128 else 32) < length
    assert _round_up_length(_round_up_length(length)) == _round_up_length(length)


def test_widths_are_few() -> None:
    assert {_round_up_length(length) for length in range(65, 129)} == {72, 80, 88, 96, 104, 112, 120, 128}
    assert {_round_up_length(length) for length in range(257, 513)} == {256 + 8 * step for step in range(1, 33)}
    assert [_round_up_length(length) for length in (1, 2, 9, 16, 17, 33, 129)] == [1, 2, 9, 16, 18, 36, 132]
    widths = [_round_up_length(length) for length in range(1, 5000)]
    assert widths == sorted(widths)


# Batches of training texts


@given(MANY | st.just(np.zeros(0, dtype=np.int64)), SIZES, SEEDS, st.integers(0, 5))
def test_every_text_is_in_one_batch_of_known_shape(lengths: IntArray, batch_size: int, seed: int, epoch: int) -> None:
    batches = bucketed_batches(lengths, batch_size, seed, epoch)
    assert sorted(int(number) for batch in batches for number in batch.numbers) == list(range(len(lengths)))
    for batch in batches:
        found = [lengths[number] for number in batch.numbers]
        assert batch.longest == max(found)
        assert batch.dense == (len(set(found)) == 1)
        assert batch.longest <= batch.width == _round_up_length(batch.width)
        assert len(batch.numbers) <= batch.n_texts


@given(MANY, SIZES, SEEDS)
def test_batches_of_one_width_are_equally_large(lengths: IntArray, batch_size: int, seed: int) -> None:
    epochs = [bucketed_batches(lengths, batch_size, seed, epoch) for epoch in range(3)]
    shapes = {(batch.width, batch.n_texts) for batch in itertools.chain(*epochs)}
    assert len(shapes) == len({width for width, _ in shapes})
    for batches in epochs:  # all but the last one are full
        assert sum(len(batch.numbers) < batch.n_texts for batch in batches) <= 1


@given(MANY, SIZES, SEEDS)
def test_a_batch_has_as_many_pieces_as_the_budget_buys(lengths: IntArray, batch_size: int, seed: int) -> None:
    budget = batch_size * np.mean(lengths)
    for batch in bucketed_batches(lengths, batch_size, seed, 0):
        too_few = batch.n_texts == 1 and batch.width > budget
        too_many = batch.n_texts == 4 * batch_size and batch.n_texts * batch.width < budget
        assert too_few or too_many or abs(batch.n_texts * batch.width - budget) <= batch.width / 2


@given(MANY, SIZES, SEEDS)
def test_texts_of_like_length_meet(lengths: IntArray, batch_size: int, seed: int) -> None:
    spans = [
        (min(lengths[number] for number in batch.numbers), batch.longest)
        for batch in bucketed_batches(lengths, batch_size, seed, 0)
    ]
    for (least, longest), (other_least, other_longest) in itertools.combinations(spans, 2):
        assert longest <= 1.03 * other_least or other_longest <= 1.03 * least  # as far as texts move


def test_seed_and_epoch_decide_who_meets_in_no_order_of_length() -> None:
    lengths = spread(1000, 60, 0.5)
    groups: list[list[frozenset[int]]] = []
    for seed, epoch in ((0, 0), (0, 0), (0, 1), (1, 0), (1, 1)):
        batches = bucketed_batches(lengths, 8, seed, epoch)
        groups.append([frozenset(batch.numbers.tolist()) for batch in batches])
        longest = [batch.longest for batch in batches]
        assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.3
    assert groups[0] == groups[1]
    for one, other in itertools.combinations(map(set, groups[1:]), 2):
        assert len(one & other) < 0.2 * len(one)  # some of the longest are always alone


@pytest.mark.parametrize(("middle", "width"), [(20, 0.0), (20, 0.5), (40, 0.3), (300, 0.4), (800, 0.6)])
@pytest.mark.parametrize("batch_size", [8, 32])
def test_batches_are_as_many_as_the_batch_size_says(middle: float, width: float, batch_size: int) -> None:
    batches = bucketed_batches(spread(3000, middle, width), batch_size, 0, 0)
    assert len(batches) == pytest.approx(3000 / batch_size, rel=0.1)


def test_the_padding_share_by_hand() -> None:
    batches = [BatchSpec(np.array([0, 1]), 10, False, 12, 2), BatchSpec(np.array([2]), 20, True, 20, 1)]
    assert padding_share(np.array([10, 6, 20]), batches, rounded=False) == pytest.approx(4 / 40)
    assert padding_share(np.array([10, 6, 20]), batches, rounded=True) == pytest.approx(8 / 44)
    assert padding_share(np.zeros(0, dtype=np.int64), [], rounded=True) == 0


@cache
def word_encoder() -> WordTokenizer:
    return WordTokenizer(load_encoder("minilm"), "stagger", 4096)


BIG = ("agnews", "multirc", "evinf")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in BIG else name for name in CORPORA]
)
def test_padding_is_under_a_twentieth_on_every_corpus(
    name: str, corpora_dir: Path, read_corpus: Callable[[str, Path], Splits]
) -> None:
    lengths = word_encoder()([text_of(example.document) for example in read_corpus(name, corpora_dir).train]).lengths
    for epoch, rounded in itertools.product(range(2), (False, True)):
        batches = bucketed_batches(lengths, 32, 0, epoch)
        assert 0 <= padding_share(lengths, batches, rounded) < 0.05
        assert len(batches) == pytest.approx(len(lengths) / 32, rel=0.1)


# Running batches


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("full"), RuntimeError("CUBLAS_STATUS_ALLOC_FAILED")])
def test_what_was_done_before_memory_ran_out_is_not_done_again(
    error: RuntimeError, warned: list[warnings.WarningMessage], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[int]] = []
    emptied: list[int] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(len(calls)))  # others can use that memory

    def work(numbers: IntArray) -> None:
        calls.append(numbers.tolist())
        if len(calls) == 2:
            raise error

    run_within(np.array([10] * 8), 40, 10_000, work)
    assert calls == [[0, 1, 2, 3], [4, 5, 6, 7], [4, 5], [6, 7]]
    assert emptied == [2]
    assert len(warned) == 1


@pytest.mark.parametrize("before", [True, False])
def test_cudnn_does_not_attend_while_texts_are_worked_on(before: bool) -> None:
    usual = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    torch.backends.cuda.enable_cudnn_sdp(before)
    try:
        seen: list[bool] = []
        run_within(np.array([1]), 1, 1, lambda _: seen.append(torch.backends.cuda.cudnn_sdp_enabled()))  # type: ignore[no-untyped-call]
        assert seen == [False]
        assert torch.backends.cuda.cudnn_sdp_enabled() == before  # type: ignore[no-untyped-call]
    finally:
        torch.backends.cuda.enable_cudnn_sdp(usual)


def test_what_went_well_for_long_is_tried_with_more_again(warned: list[warnings.WarningMessage]) -> None:
    calls: list[int] = []

    def work(numbers: IntArray) -> None:
        calls.append(len(numbers))
        if len(calls) <= 3:  # as where another process takes up the card for a while
            raise torch.OutOfMemoryError("full")

    for _ in range(2):
        run_within(np.array([10] * 600), 160, 100_000, work)
    found = [(size, len(list(group))) for size, group in itertools.groupby(calls)]
    many = BATCHES_BEFORE_GROWTH  # also in the second call: the process stays careful
    assert found == [(16, 1), (8, 1), (4, 1), (2, many), (4, many), (8, many), (16, 19)]
    assert [str(item.message) for item in warned] == [OUT_OF_MEMORY]


@given(LENGTHS, st.lists(st.booleans(), max_size=30))
def test_memory_that_runs_out_now_and_then_costs_no_text(lengths: IntArray, short: list[bool]) -> None:
    tries, done = iter(short), list[int]()

    def work(numbers: IntArray) -> None:
        if len(numbers) > 1 and next(tries, False):
            raise torch.OutOfMemoryError("full")
        done.extend(numbers.tolist())

    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu, "MEMORY_BUDGET", gpu._MemoryBudget())
        patch.setattr(gpu, "BATCHES_BEFORE_GROWTH", 2)
        warnings.simplefilter("ignore")
        run_within(lengths, 300, 10_000, work)
    assert sorted(done) == list(range(len(lengths)))


@pytest.mark.parametrize(("error", "n_warnings"), [(torch.OutOfMemoryError("full"), 1), (RuntimeError("another"), 0)])
def test_a_text_that_does_not_fit_alone_and_other_errors_are_raised(
    error: RuntimeError, n_warnings: int, warned: list[warnings.WarningMessage]
) -> None:
    def work(numbers: IntArray) -> None:
        if 3 in numbers:
            raise error

    with pytest.raises(type(error), match=f"^{error}$"):
        run_within(np.array([10, 10, 10, 50, 10]), 1000, 1_000_000, work)
    assert [str(item.message) for item in warned] == [OUT_OF_MEMORY] * n_warnings

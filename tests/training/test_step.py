import copy
import warnings

import pytest
import torch
from torch import Tensor, nn

from fresh.nn.device import OUT_OF_MEMORY
from fresh.training.distributed import ProcessGroup
from fresh.training.step import RunningMean, TrainStep
from shared_update import RATES, SIZES, Limited, dealt, far_apart, network, step_through


@pytest.mark.parametrize("n_parts", [2, 3, 4, 16])
def test_gradients_of_parts_add_up_to_those_of_the_whole(n_parts: int) -> None:
    whole, parts = network(), network()
    step_through(whole, Limited(whole), SIZES)
    loss = Limited(parts)
    step_through(parts, loss, SIZES, n_parts)
    assert [len(call) for call in loss.calls[: min(n_parts, 8)]] == [
        len(part) for part in torch.arange(8).tensor_split(min(n_parts, 8))
    ]
    assert far_apart(whole, parts) < 1e-6
    assert far_apart(whole, network()) > 0.1


def step_by_hand(sizes: list[int], max_norm: float) -> nn.Sequential:
    model = network()
    learning = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=0.05, weight_decay=0.01)
    for size in sizes:
        optimizer.zero_grad()
        (Limited(model)(torch.arange(size), 5, True) / 8).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
    return model


def test_a_step_is_that_of_adamw_after_clipping() -> None:
    model = network()
    step_through(model, Limited(model), SIZES)
    assert far_apart(model, step_by_hand(SIZES, max_norm=0.3)) < 1e-6
    assert far_apart(model, step_by_hand(SIZES, max_norm=100)) > 1e-3  # so clipping matters here,
    assert far_apart(model, step_by_hand(SIZES, max_norm=1e-3)) > 1e-3  # and not in every step
    assert torch.equal(model.state_dict()["0.bias"], network().state_dict()["0.bias"])


def test_no_gradient_is_left_for_the_next_step() -> None:
    model = network()
    step_through(model, Limited(model), [8])
    assert all(weight.grad is None for weight in model.parameters())


def test_the_loss_hears_of_the_longest_text_and_not_of_the_rounded_width() -> None:
    model = network()
    loss = Limited(model)
    update = TrainStep(model, loss, RATES, ProcessGroup())
    with torch.random.fork_rng(devices=[]):
        for dense in (False, True):
            update(dealt(range(4), dense), torch.arange(4), 1 / 8, 0)
    assert loss.given == {(5, False), (5, True)}


def test_a_step_draws_from_its_seed() -> None:
    drawn: list[float] = []
    model = network()
    plain = Limited(model)

    def loss(numbers: Tensor, width: int, dense: bool) -> Tensor:
        drawn.append(torch.rand(1).item())
        return plain(numbers, width, dense)

    update = TrainStep(model, loss, RATES, ProcessGroup())
    with torch.random.fork_rng(devices=[]):
        for seed in (3, 3, 4):
            update(dealt(range(4)), torch.arange(4), 1 / 8, seed)
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("most", [1, 2, 3, 5, 8])
def test_where_memory_runs_out_a_batch_is_read_in_parts(most: int, warned: list[warnings.WarningMessage]) -> None:
    whole, limited = network(), network()
    step_through(whole, Limited(whole), SIZES)
    loss = Limited(limited, most)
    step_through(limited, loss, SIZES)
    assert far_apart(whole, limited) < 1e-6
    assert [(item.category, str(item.message)) for item in warned] == [(RuntimeWarning, OUT_OF_MEMORY)]
    read = [call for call in loss.calls if len(call) <= most]
    assert sorted(number for call in read for number in call) == sorted(n for size in SIZES for n in range(size))
    assert len(loss.calls) - len(read) <= 4  # a lesson is learnt once


def test_an_epoch_tries_whole_batches_again(warned: list[warnings.WarningMessage]) -> None:
    model = network()
    loss = Limited(model, 4)
    update = step_through(model, loss, [8])
    assert update.n_parts == 2
    loss.most = 8  # another process has left the card
    update.begin()
    update(dealt(range(8)), torch.arange(8), 1 / 8, 3)
    assert [len(call) for call in loss.calls] == [8, 4, 4, 8]


def test_what_a_step_draws_does_not_depend_on_where_memory_ran_out(warned: list[warnings.WarningMessage]) -> None:
    model, drawn = network(), list[float]()
    plain = Limited(model, 4)

    def loss(numbers: Tensor, width: int, dense: bool) -> Tensor:
        drawn.append(torch.rand(1).item())
        return plain(numbers, width, dense)

    step_through(model, loss, [8])
    whole, first, second = drawn
    assert whole == first != second


def test_parts_are_halved_until_they_fit(warned: list[warnings.WarningMessage]) -> None:
    model = network()
    loss = Limited(model, 2)
    step_through(model, loss, [8, 8])
    assert [len(call) for call in loss.calls] == [8, 4, *[2] * 4, *[2] * 4]
    assert [number for call in loss.calls[2:6] for number in call] == list(range(8))
    assert len(warned) == 1


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("full"), RuntimeError("CUDA error: out of memory")])
def test_what_was_added_before_memory_ran_out_does_not_count_twice(
    error: RuntimeError, warned: list[warnings.WarningMessage]
) -> None:
    whole, broken = network(), network()
    step_through(whole, Limited(whole), [8])
    plain, calls = Limited(broken), [0]

    def loss(numbers: Tensor, width: int, dense: bool) -> Tensor:
        calls[0] += 1
        if calls[0] == 2:  # the second of two parts
            raise error
        return plain(numbers, width, dense)

    step_through(broken, loss, [8], n_parts=2)
    assert far_apart(whole, broken) < 1e-6
    assert len(warned) == 1


@pytest.mark.parametrize("size", [1, 5])
def test_a_text_that_does_not_fit_alone_is_an_error(size: int, warned: list[warnings.WarningMessage]) -> None:
    model = network()
    before = copy.deepcopy(model)
    with pytest.raises(torch.OutOfMemoryError, match=r"^full$"):
        step_through(model, Limited(model, 0), [size])
    assert far_apart(model, before) == 0
    assert len(warned) == (size > 1)


def test_other_errors_are_not_tried_again() -> None:
    model = network()

    def loss(_numbers: Tensor, _width: int, _dense: bool) -> Tensor:
        raise RuntimeError("another")

    with pytest.raises(RuntimeError, match=r"^another$"):
        step_through(model, loss, [8])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_the_first_step_whose_gradients_are_no_numbers_is_noted(value: float) -> None:
    model = network()
    plain, steps = Limited(model), iter([1.0, 1.0, value, 1.0, value])

    def loss(numbers: Tensor, width: int, dense: bool) -> Tensor:
        return plain(numbers, width, dense) * next(steps)

    update = TrainStep(model, loss, RATES, ProcessGroup())
    noted: list[int | None] = []
    with torch.random.fork_rng(devices=[]):
        for _ in range(5):
            update(dealt(range(4)), torch.arange(4), 1 / 8, 0)
            noted.append(update.broken_step)
    assert noted == [None, None, 3, 3, 3]
    update.begin()
    assert update.broken_step is None


@pytest.mark.parametrize("max_norm", [1e-3, 0.3, 100])
def test_clipping_tells_the_norm_that_there_was(max_norm: float) -> None:
    model = network()
    update = TrainStep(model, Limited(model), (0.05, 0.01, max_norm), ProcessGroup())
    assert update.add_gradients(torch.arange(8), 5, True, 1.0)
    before = torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])
    norm = update.clip()
    after = torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])
    torch.testing.assert_close(norm, before.norm())
    torch.testing.assert_close(after, before * min(1, max_norm / float(before.norm())), rtol=1e-4, atol=1e-7)


class Tallied(Limited):
    """The same, and every text's number is tallied; negative ones stand for no text."""

    def __init__(self, model: nn.Module, tally: RunningMean, most: int = 1000) -> None:
        super().__init__(model, most)
        self.tally = tally

    def __call__(self, numbers: Tensor, width: int, dense: bool) -> Tensor:
        self.tally.add(numbers.float(), numbers != 3)
        return super().__call__(numbers, width, dense)


@pytest.mark.parametrize("most", [1000, 8, 3, 1])
@pytest.mark.usefixtures("warned")
def test_a_tally_is_settled_once_a_step_whatever_parts_it_is_made_in(most: int) -> None:
    means: list[float] = []
    tally = RunningMean(lambda mean: means.append(float(mean)), torch.device("cpu"))
    model = nn.Sequential(*network(), tally)
    step_through(model, Tallied(model[:3], tally, most), [8, 4, 16, 1])
    counted = [[number for number in range(size) if number != 3] for size in (8, 4, 16, 1)]
    assert means == pytest.approx([sum(numbers) / len(numbers) for numbers in counted])


def test_a_tally_of_no_texts_is_nothing_and_it_is_not_kept() -> None:
    means: list[float] = []
    tally = RunningMean(lambda mean: means.append(float(mean)), torch.device("cpu"))
    tally.add(torch.tensor([5.0]), torch.tensor([False]))
    tally.settle(ProcessGroup())
    assert means == [0]
    assert tally.state_dict() == {}


@pytest.mark.parametrize(("n_texts", "width", "n_parts"), [(8, 362, 1), (8, 363, 2), (24, 560, 8), (1, 4096, 1)])
def test_long_texts_are_read_in_parts_on_a_cpu(n_texts: int, width: int, n_parts: int) -> None:
    loss = Limited(network())
    TrainStep(loss.model, loss, RATES, ProcessGroup()).add_gradients(torch.arange(n_texts), width, True, 1.0)
    assert len(loss.calls) == n_parts

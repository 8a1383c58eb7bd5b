"""What of recorded steps can be tried without a GPU: what happens where memory is too short for one."""

import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from unittest.mock import MagicMock

import pytest
import torch
from torch import Tensor, nn

from fresh.nn import device as gpu
from fresh.training import cuda_graphs as recording
from fresh.training.cuda_graphs import GraphedTrainStep
from fresh.training.distributed import ProcessGroup
from shared_update import INPUTS, RATES, dealt, far_apart, network, step_through


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[MagicMock]:
    """Stand-ins for what only a GPU has; nothing is recorded, and a graph notes what it is asked for."""
    graph = MagicMock()
    for name in ("Stream", "graph_pool_handle", "synchronize", "current_stream", "stream"):
        monkeypatch.setattr(torch.cuda, name, MagicMock())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: graph)
    monkeypatch.setattr(recording, "_own_numbers", lambda _generator, _device: nullcontext())
    monkeypatch.setattr(gpu, "MEMORY_BUDGET", gpu._MemoryBudget())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Out of GPU memory")
        yield graph


class WhileRecording:
    """A loss for which there is no room for as long as a step is recorded."""

    def __init__(self, model: nn.Module, graph: MagicMock) -> None:
        self.model, self.graph = model, graph

    def __call__(self, numbers: Tensor, _width: int, _dense: bool) -> Tensor:
        if self.graph.capture_begin.call_count > self.graph.capture_end.call_count:
            raise torch.OutOfMemoryError("full")
        return self.model(INPUTS[numbers]).square().sum()  # type: ignore[no-any-return]


@pytest.mark.parametrize("size", [1, 2, 8])
def test_without_memory_for_a_recording_steps_are_made_plainly(size: int, no_gpu: MagicMock) -> None:
    plain, model = network(), network()
    step_through(plain, lambda numbers, _width, _dense: plain(INPUTS[numbers]).square().sum(), [size] * 3)
    update = GraphedTrainStep(model, WhileRecording(model, no_gpu), RATES, ProcessGroup())
    with torch.random.fork_rng(devices=[]):
        for seed in range(3):
            update(dealt(range(size)), torch.arange(size), 1 / 8, seed)
    assert far_apart(plain, model) < 1e-6
    assert no_gpu.capture_begin.call_count == no_gpu.capture_end.call_count == 1
    assert not no_gpu.replay.called


def test_a_replayed_step_is_made_with_its_share_of_the_learning_rate(no_gpu: MagicMock) -> None:
    model = network()
    update = GraphedTrainStep(model, WhileRecording(model, no_gpu), RATES, ProcessGroup(), paced=True)
    update.recorded[2, 6] = no_gpu, torch.zeros(2, dtype=torch.int64)
    update.seen[2, 6] = 1
    [group] = update.optimizer.param_groups
    rates: list[float] = []
    no_gpu.replay.side_effect = lambda: rates.append(float(group["lr"]))
    for share in (0.5, 1.0, 0.1):
        update.set_share(share)
        update(dealt(range(2)), torch.arange(2), 1 / 8, 0)
    assert rates == pytest.approx([RATES[0] * share for share in (0.5, 1.0, 0.1)])


def test_it_is_said_once_that_steps_are_not_recorded(no_gpu: MagicMock) -> None:
    model = network()
    update = GraphedTrainStep(model, WhileRecording(model, no_gpu), RATES, ProcessGroup())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for width in (6, 7):
            update.record((2, width), 1.0)
    assert [str(warning.message) for warning in said] == [
        "Out of GPU memory: training steps of some sizes are made without recording, which is slower. "
        "The result is the same; a smaller batch_size would leave room."
    ]
    assert not gpu.MEMORY_BUDGET.has_warned  # that fewer pieces are read at once is another thing, and not true here


def test_memory_that_runs_out_at_the_end_of_a_step_leaves_no_gradient(
    no_gpu: MagicMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = network()
    update = GraphedTrainStep(model, lambda _numbers, _width, _dense: model(INPUTS[:2]).sum(), RATES, ProcessGroup())
    monkeypatch.setattr(update.optimizer, "step", MagicMock(side_effect=torch.OutOfMemoryError("full")))
    update.record((2, 6), 1.0)
    assert update.refused == {(2, 6)}
    assert update.recorded == {}
    assert all(weight.grad is None for weight in model.parameters())


@pytest.mark.parametrize("recorded_before", [False, True])
def test_a_pool_whose_only_recording_failed_is_not_taken_again(recorded_before: bool, no_gpu: MagicMock) -> None:
    torch.cuda.graph_pool_handle.side_effect = ["first", "second", "third"]  # type: ignore[attr-defined]
    model = network()
    update = GraphedTrainStep(model, WhileRecording(model, no_gpu), RATES, ProcessGroup())
    if recorded_before:
        update.recorded[2, 6] = no_gpu, torch.zeros(2)
    for width in (7, 8):
        update.record((2, width), 1.0)
        update.begin()
    taken = [call.args[0] for call in no_gpu.capture_begin.call_args_list]
    assert taken == (["first", "first"] if recorded_before else ["first", "second"])


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("full"), RuntimeError("CUDA error: out of memory"), RuntimeError("other")]
)
def test_memory_may_also_be_short_for_what_was_recorded(error: RuntimeError, no_gpu: MagicMock) -> None:
    model = network()
    update = GraphedTrainStep(model, lambda _numbers, _width, _dense: model(INPUTS[:2]).sum(), RATES, ProcessGroup())
    no_gpu.capture_end.side_effect = error
    if str(error) == "other":
        with pytest.raises(RuntimeError, match="other"):
            update.record((2, 6), 1.0)
        return
    update.record((2, 6), 1.0)
    assert update.refused == {(2, 6)}
    assert no_gpu.reset.called
    assert all(weight.grad is None for weight in model.parameters())


def test_shapes_that_were_recorded_are_replayed_whatever_others_lack(no_gpu: MagicMock) -> None:
    model = network()
    update = GraphedTrainStep(model, WhileRecording(model, no_gpu), RATES, ProcessGroup())
    update.recorded[2, 6] = no_gpu, torch.zeros(2, dtype=torch.int64)
    update.seen[2, 6] = 1
    sizes = [3, 3, 2, 3, 2]
    with torch.random.fork_rng(devices=[]):
        for seed, size in enumerate(sizes):
            update(dealt(range(size)), torch.arange(size), 1 / 8, seed)
        assert no_gpu.replay.call_count == sizes.count(2)
        assert no_gpu.capture_begin.call_count == 1  # for three texts, and not again in this epoch
        update.begin()
        update(dealt(range(3)), torch.arange(3), 1 / 8, 0)
    assert no_gpu.capture_begin.call_count == 2

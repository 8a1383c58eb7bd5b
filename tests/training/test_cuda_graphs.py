"""CUDA graphs, as far as they can be tested without a GPU: mostly what happens without memory."""

import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import torch
from torch import Tensor, nn

from fresh.nn import device as gpu
from fresh.training import cuda_graphs
from fresh.training.checkpoint import trained_parameters
from fresh.training.config import TrainConfig
from fresh.training.cuda_graphs import GraphedTrainStep
from fresh.training.distributed import ProcessGroup
from networks import untrained
from training_toys import INPUTS, STEP_CONFIG, loss_of, make_job, make_steps, network, step_through


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[MagicMock]:
    """Stand-ins for what only a GPU has; nothing is captured, and a graph records its calls."""
    graph = MagicMock()
    for name in ("Stream", "graph_pool_handle", "synchronize", "current_stream", "stream"):
        monkeypatch.setattr(torch.cuda, name, MagicMock())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: graph)
    monkeypatch.setattr(cuda_graphs, "_use_generator", lambda _generator, _device: nullcontext())
    monkeypatch.setattr(gpu, "MEMORY_BUDGET", gpu._MemoryBudget())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Out of GPU memory")
        yield graph


def make_step(graph: MagicMock, config: TrainConfig = STEP_CONFIG) -> GraphedTrainStep:
    """Make a step whose loss runs out of memory while it is captured."""
    model = network(dropout=0)

    def loss(numbers: Tensor, _width: int, _dense: bool) -> Tensor:
        if graph.capture_begin.call_count > graph.capture_end.call_count:
            raise torch.OutOfMemoryError("full")
        return model(INPUTS[numbers]).square().sum()  # type: ignore[no-any-return]

    return GraphedTrainStep(model, loss, config, ProcessGroup())


@pytest.mark.parametrize(("long", "expected"), [("stagger", True), ("chunk", False)])
def test_steps_that_read_windows_are_not_recorded(long: str, expected: bool, encoders: dict[str, Path]) -> None:
    model = nn.Sequential(untrained(encoders["bert"], long=long))
    job = make_job(model, loss_of(model), lambda: 1.0)
    assert replace(job, inputs=replace(job.inputs, device=torch.device("cuda"))).uses_graphs == expected
    assert not job.uses_graphs


@pytest.mark.parametrize("size", [1, 2, 8])
def test_without_memory_for_a_graph_steps_run_without_one(size: int, no_gpu: MagicMock) -> None:
    plain = network(dropout=0)
    step_through(plain, lambda numbers, _width, _dense: plain(INPUTS[numbers]).square().sum(), [size] * 3)
    step = make_step(no_gpu)
    make_steps(step, [size] * 3)
    for weight, expected in zip(step.weights, trained_parameters(plain), strict=True):
        torch.testing.assert_close(weight, expected[1], atol=1e-6, rtol=0)
    assert no_gpu.capture_begin.call_count == no_gpu.capture_end.call_count == 1
    assert not no_gpu.replay.called


def test_a_replayed_step_follows_the_schedule(no_gpu: MagicMock) -> None:
    step = make_step(no_gpu, replace(STEP_CONFIG, schedule="linear"))
    step.graphs[2, 6] = no_gpu, torch.zeros(2, dtype=torch.int64)
    step.counts[2, 6] = 1
    [group] = step.optimizer.param_groups
    rates: list[float] = []
    no_gpu.replay.side_effect = lambda: rates.append(float(group["lr"]))
    make_steps(step, [2] * 3, [0.5, 1.0, 0.1])
    assert rates == pytest.approx([0.025, 0.05, 0.005])


def test_the_warning_appears_once(no_gpu: MagicMock) -> None:
    step = make_step(no_gpu)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for width in (6, 7):
            step._try_capture((2, width))
    [warning] = said
    assert str(warning.message).startswith("Out of GPU memory: training steps of some sizes run without CUDA graphs")
    assert not gpu.MEMORY_BUDGET.has_warned  # batches stay as large as they were


@pytest.mark.parametrize("captured_before", [False, True])
def test_a_pool_whose_only_capture_failed_is_not_used_again(captured_before: bool, no_gpu: MagicMock) -> None:
    torch.cuda.graph_pool_handle.side_effect = ["first", "second", "third"]  # type: ignore[attr-defined]
    step = make_step(no_gpu)
    if captured_before:
        step.graphs[2, 6] = no_gpu, torch.zeros(2)
    for width in (7, 8):
        step._try_capture((2, width))
        step.start_epoch()
    taken = [call.args[0] for call in no_gpu.capture_begin.call_args_list]
    assert taken == (["first", "first"] if captured_before else ["first", "second"])


@pytest.mark.parametrize("part", ["optimizer", "end"])
@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("full"), RuntimeError("CUDA error: out of memory"), RuntimeError("other")]
)
def test_a_capture_without_memory_leaves_no_gradient(
    error: RuntimeError, part: str, no_gpu: MagicMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = make_step(no_gpu)
    step.loss = lambda *_given: step.weights[0].sum()  # which fits
    if part == "optimizer":
        monkeypatch.setattr(step.optimizer, "step", MagicMock(side_effect=error))
    else:
        no_gpu.capture_end.side_effect = error
    if str(error) == "other":
        with pytest.raises(RuntimeError, match="other"):
            step._try_capture((2, 6))
        return
    step._try_capture((2, 6))
    assert step.too_large == {(2, 6)}
    assert step.graphs == {}
    assert no_gpu.reset.called
    assert all(weight.grad is None for weight in step.weights)


def test_captured_shapes_are_replayed_while_others_have_no_memory(no_gpu: MagicMock) -> None:
    step = make_step(no_gpu)
    step.graphs[2, 6] = no_gpu, torch.zeros(2, dtype=torch.int64)
    step.counts[2, 6] = 1
    sizes = [3, 3, 2, 3, 2]
    make_steps(step, sizes)
    assert no_gpu.replay.call_count == sizes.count(2)
    assert no_gpu.capture_begin.call_count == 1  # for three texts, and not again in this epoch
    step.start_epoch()
    make_steps(step, [3])
    assert no_gpu.capture_begin.call_count == 2

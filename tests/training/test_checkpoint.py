"""What a training keeps: the best state where it breaks down, and all that it goes on from."""

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from fresh.training import checkpoint as kept
from fresh.training import loop as training
from fresh.training.checkpoint import BestState, _CheckpointWriter, _moving, _state_of, _TrainState, restore
from fresh.training.config import TrainConfig
from fresh.training.loop import RunContext, TrainingJob, fit_side_by_side
from fresh.training.step import TrainStep
from shared_training import CONFIG, INPUTS, TARGETS, fit_on, loss_of, network, same, train

STEPS = 5
"""Steps in an epoch."""


class Breaking:
    """A loss that is no number in one step."""

    def __init__(self, model: nn.Module, at: int, value: float) -> None:
        self.plain, self.left, self.value = loss_of(model), at, value

    def __call__(self, numbers: Tensor, width: int, dense: bool) -> Tensor:
        self.left -= 1
        return self.plain(numbers, width, dense) * (self.value if self.left == -1 else 1)


# Where it breaks down


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize(("scores", "best"), [([0.25], 1), ([0.25, 0.5], 2), ([0.5, 0.25, 0.3], 1)])
@pytest.mark.parametrize("step", [1, 3, 5])
def test_a_training_that_breaks_down_keeps_the_best_state_before(
    step: int, scores: list[float], best: int, value: float
) -> None:
    model, left, context = network(), iter(scores), RunContext("some network")
    loss = Breaking(model, len(scores) * STEPS + step - 1, value)
    with pytest.warns(RuntimeWarning) as caught:
        found = fit_on(model, loss, lambda: next(left), CONFIG, context)
    assert found == tuple(scores)
    assert same(model, train(replace(CONFIG, epochs=best)))
    assert not model.training
    assert context.notes == [str(warning.message) for warning in caught]
    assert context.notes == [
        f"some network: training diverged in step {step} of epoch {len(scores) + 1}, its loss or gradients are no "
        f"longer numbers. The best state before that is kept (epoch {best}, dev score {max(scores):.3f}). "
        "Lower the learning_rate."
    ]


@pytest.mark.parametrize("step", [1, 4])
def test_a_training_that_breaks_down_at_once_is_an_error(step: int) -> None:
    model, context = network(), RunContext("some network")
    with pytest.raises(ValueError, match="diverged") as caught:
        fit_on(model, Breaking(model, step - 1, float("nan")), lambda: pytest.fail("validated"), CONFIG, context)
    assert str(caught.value) == (
        f"some network: training diverged in step {step} of epoch 1, its loss or gradients are no longer numbers. "
        "Lower the learning_rate."
    )
    assert context.notes == []


def test_what_broke_down_is_not_gone_on_from(tmp_path: Path) -> None:
    model, context = network(), RunContext(folder=tmp_path)
    left = iter([0.25, 0.5])
    with pytest.warns(RuntimeWarning, match="epoch 3"):
        fit_on(model, Breaking(model, 2 * STEPS, float("nan")), lambda: next(left), CONFIG, context)
    scores = [0.25, 0.5, 0.75, 0.6]
    assert same(train(scores=scores[2:], context=RunContext(folder=tmp_path)), train(scores=scores))


def test_networks_of_a_run_write_into_the_same_notes() -> None:
    context = RunContext()
    with pytest.warns(RuntimeWarning, match=r"^something to know$"):
        context.named("support model").note("something to know")
    assert context.named("predictor").notes == context.notes == ["something to know"]
    assert RunContext().notes == []


# What is written


def test_the_state_is_kept_in_one_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = RunContext(folder=tmp_path)
    train(replace(CONFIG, epochs=1), context=context)
    before = (tmp_path / "network.safetensors").read_bytes()

    def half(_tensors: object, path: Path, _about: object) -> None:
        path.write_bytes(b"half")
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(kept, "save_file", half)
    with pytest.raises(OSError, match=r"No space left on device") as caught:
        train(replace(CONFIG, epochs=2), context=context)
    assert str(caught.value) == f"[Errno 28] No space left on device: '{tmp_path / 'network.safetensors'}'"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"network.safetensors": before}


def test_a_damaged_state_is_named(tmp_path: Path) -> None:
    path = tmp_path / "network.safetensors"
    train(context=RunContext(folder=tmp_path))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"The state kept in .* is damaged") as caught:
        train(context=RunContext(folder=tmp_path))
    assert str(caught.value) == (
        f"The state kept in {path} is damaged: Error while deserializing header: incomplete metadata, file not fully "
        "covered. Delete the file to begin anew."
    )


def test_a_state_without_scores_is_damaged(tmp_path: Path) -> None:
    save_file({"now/x": torch.zeros(1)}, tmp_path / "network.safetensors")
    with pytest.raises(ValueError, match=r" is damaged: .*\. Delete the file to begin anew\.$"):
        train(context=RunContext(folder=tmp_path))


def test_the_state_of_another_network_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "network.safetensors"
    train(context=RunContext(folder=tmp_path))
    tensors = load_file(path)
    del tensors["now/0.weight"]
    save_file(tensors, path, {"scores": json.dumps([0.1])})
    with pytest.raises(ValueError, match="is of another network") as caught:
        train(context=RunContext(folder=tmp_path))
    assert str(caught.value) == f"The state kept in {path} is of another network. Delete the file to begin anew."


# What is kept account of beside the weights


class Baseline(nn.Module):
    """A network whose loss depends on a moving mean of its losses."""

    moving: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.inner = network()
        self.register_buffer("moving", torch.zeros(2))
        self.register_buffer("standing", torch.ones(1))

    def loss(self, numbers: Tensor, _width: int, _dense: bool) -> Tensor:
        found = self.inner(INPUTS[numbers])[:, 0]
        loss = nn.functional.binary_cross_entropy_with_logits(found, TARGETS[numbers], reduction="sum")
        self.moving.mul_(0.9).add_(0.1 * loss.detach())
        return loss * (1 + self.moving.sum())


def train_with_baseline(config: TrainConfig, scores: list[float], context: RunContext) -> Baseline:
    model, left = Baseline(), iter(scores)
    fit_on(model, model.loss, lambda: next(left), config, context)
    return model


def test_what_moves_survives_a_break(tmp_path: Path) -> None:
    scores = [0.1, 0.2, 0.3, 0.4]
    whole = train_with_baseline(CONFIG, scores, RunContext())
    train_with_baseline(replace(CONFIG, epochs=2), scores, RunContext(folder=tmp_path))
    resumed = train_with_baseline(CONFIG, scores[2:], RunContext(folder=tmp_path))
    assert float(whole.moving.min()) > 0
    assert torch.equal(resumed.moving, whole.moving)
    assert same(resumed, whole)


def test_only_buffers_called_moving_move() -> None:
    model = nn.Sequential(Baseline(), nn.BatchNorm1d(3))
    assert [name for name, _ in _moving(model)] == ["0.moving"]


def test_what_moves_is_restored_into_the_network_itself(tmp_path: Path) -> None:
    path, model, fresh_one = tmp_path / "state.safetensors", Baseline(), Baseline()
    best = BestState()
    best.add(0.5, model)
    model.moving.copy_(torch.tensor([3.0, 4.0]))
    _state_of(model, torch.optim.AdamW(model.inner.parameters()), best).write(path)
    held = fresh_one.moving
    restored = restore(path, fresh_one, torch.optim.AdamW(fresh_one.inner.parameters()))
    assert held.tolist() == [3.0, 4.0]
    assert restored.scores == [0.5]


def test_a_state_without_what_moves_is_of_another_network(tmp_path: Path) -> None:
    path, model = tmp_path / "state.safetensors", Baseline()
    best = BestState()
    best.add(0.5, model)
    optimizer = torch.optim.AdamW(model.inner.parameters())
    del model._buffers["moving"]
    _state_of(model, optimizer, best).write(path)
    other = Baseline()
    with pytest.raises(ValueError, match="is of another network") as caught:
        restore(path, other, torch.optim.AdamW(other.inner.parameters()))
    assert str(caught.value) == f"The state kept in {path} is of another network. Delete the file to begin anew."


def kept_epochs(folder: Path) -> int:
    with safe_open(folder / "network.safetensors", "pt") as file:
        return len(json.loads(file.metadata()["scores"]))


def test_however_training_ends_the_last_whole_epoch_is_kept(tmp_path: Path) -> None:
    context = RunContext(folder=tmp_path, every=1000)
    scores = iter([0.1, 0.2, 0.3])

    def validate() -> float:
        score = next(scores, None)
        if score is None:
            raise KeyboardInterrupt
        return score

    model = Baseline()
    with pytest.raises(KeyboardInterrupt):
        fit_on(model, model.loss, validate, CONFIG, context)
    assert kept_epochs(tmp_path) == 3
    whole = train_with_baseline(CONFIG, [0.1, 0.2, 0.3, 0.4], RunContext())
    assert same(train_with_baseline(CONFIG, [0.4], RunContext(folder=tmp_path)), whole)


def test_states_in_between_are_not_written_more_often_than_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    monkeypatch.setattr(_TrainState, "write", lambda state, _path: written.append(len(state.scores)))
    keeper, model, best = _CheckpointWriter(tmp_path / "state", every=1000), Baseline(), BestState()
    for done in (False, False, True):
        best.add(0.5, model)
        keeper.keep(model, torch.optim.AdamW(model.inner.parameters()), best, done)
    keeper.write()
    assert written == [3]


def test_trainings_side_by_side_stop_when_one_is_broken_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "Recording", TrainStep)
    monkeypatch.setattr(TrainingJob, "recorded", True)  # as on a GPU: one thread each
    endless, begun = replace(CONFIG, epochs=10**6, patience=10**6), threading.Event()

    def goes_on() -> float:
        begun.set()
        return 0.5

    def breaks() -> float:
        assert begun.wait(60)
        raise KeyboardInterrupt

    jobs: list[TrainingJob] = []
    for name, validate in (("one", breaks), ("other", goes_on)):
        model, context = Baseline(), RunContext(name, folder=tmp_path, every=1000)
        jobs.append(TrainingJob(model, [3] * 40, model.loss, validate, endless, context, torch.device("cpu")))
    with pytest.raises(KeyboardInterrupt):
        fit_side_by_side(jobs)
    assert [path.stem for path in tmp_path.glob("*.safetensors")] == ["other"]

"""Learning rates that change while a network is trained."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import fresh.pipeline
import fresh.training.loop
import small
from fresh.data.splits import Splits
from fresh.errors import ConfigError
from fresh.experiments.grid import deciding, lasting
from fresh.pipeline import describe_unfinished, resolve_settings, train
from fresh.progress import SILENT
from fresh.training.config import TrainConfig
from fresh.training.distributed import ProcessGroup
from fresh.training.step import TrainStep
from shared_update import RATES, SIZES, Limited, dealt, far_apart, network

EPOCHS = 3


@pytest.mark.parametrize(
    ("n_epochs", "share"), [(0, 0), (0.2, 0.5), (0.4, 1), (2.2, 0.5), (4, 0), (0.3, 0.75), (3.1, 0.25)]
)
def test_a_linear_schedule_goes_up_for_a_tenth_and_then_down(n_epochs: float, share: float) -> None:
    assert TrainConfig(epochs=4, schedule="linear").rate_share(n_epochs) == pytest.approx(share)


@given(st.integers(1, 50), st.floats(0, 1))
def test_shares_are_shares(epochs: int, done: float) -> None:
    assert 0 <= TrainConfig(epochs=epochs, schedule="linear").rate_share(done * epochs) <= 1
    assert TrainConfig(epochs=epochs).rate_share(done * epochs) == 1


def test_an_unknown_schedule_is_refused_in_python_too() -> None:
    unknown: Any = "cosine"
    with pytest.raises(ValueError, match=r"^schedule must be constant or linear, got cosine\.$"):
        TrainConfig(schedule=unknown)


SHARES = [0.1, 0.5, 1.0, 0.6, 0.25, 0.0]


def by_hand(shares: list[float]) -> nn.Sequential:
    """Train with AdamW as torch has it."""
    model = network()
    learning = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=0.05, weight_decay=0.01)
    for size, share in zip(SIZES, shares, strict=True):
        optimizer.param_groups[0]["lr"] = 0.05 * share
        optimizer.zero_grad()
        (Limited(model)(torch.arange(size), 5, True) / 8).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        optimizer.step()
    return model


def stepped(paced: bool, as_on_a_gpu: bool = False) -> nn.Sequential:
    """Train as the product does."""
    model = network()
    update = TrainStep(model, Limited(model), RATES, ProcessGroup(), paced=paced)
    [group] = update.optimizer.param_groups
    if as_on_a_gpu:
        group["lr"] = torch.tensor(RATES[0])
    place = group["lr"]
    with torch.random.fork_rng(devices=[]):
        for seed, (size, share) in enumerate(zip(SIZES, SHARES, strict=True)):
            update.set_share(share)
            update(dealt(range(size)), torch.arange(size), 1 / 8, seed)
            assert not as_on_a_gpu or group["lr"] is place  # a recorded step reads no other
    return model


@pytest.mark.parametrize("as_on_a_gpu", [False, True])
def test_each_step_is_made_with_its_share_of_the_learning_rate(as_on_a_gpu: bool) -> None:
    assert far_apart(stepped(True, as_on_a_gpu), by_hand(SHARES)) < 1e-6
    assert far_apart(by_hand(SHARES), by_hand([1.0] * 6)) > 1e-3
    assert far_apart(stepped(False), by_hand([1.0] * 6)) < 1e-6


@pytest.fixture(scope="module")
def splits(toy: Splits) -> Splits:
    return small.some(toy, 48, 8)


@pytest.fixture(scope="module")
def settings(encoders: dict[str, Path]) -> dict[str, Any]:
    own = {"schedule": "linear", "baseline": False, "progress": SILENT}
    return {**small.run_settings(encoders["bert"], epochs=EPOCHS, dropout=0.3), **own}


def test_a_training_goes_through_its_schedule(
    splits: Splits, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares: dict[int, list[float]] = {}
    real, updates = TrainStep.__call__, []

    def step(update: TrainStep, batch: Any, numbers: Tensor, scale: float, seed: int) -> None:
        updates.append(update)  # so that no other gets its id
        shares.setdefault(id(update), []).append(update.share)
        real(update, batch, numbers, scale, seed)

    monkeypatch.setattr(TrainStep, "__call__", step)
    train(splits, out=tmp_path / "model", **settings)
    assert len(shares) == len(("support model", "predictor"))
    for own in shares.values():
        peak = own.index(max(own))
        assert own[: peak + 1] == sorted(own[: peak + 1])
        assert own[peak:] == sorted(own[peak:], reverse=True)
        assert len(own) % EPOCHS == 0
        assert own[-1] == pytest.approx(0.5 / len(own) / 0.9)


def break_off(splits: Splits, settings: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Break training off in its second epoch."""
    real, begun = fresh.training.loop.run_epoch, iter(range(1))

    def run_epoch(*arguments: Any) -> Any:
        if next(begun, None) is None:
            raise KeyboardInterrupt
        yield from real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(fresh.training.loop, "run_epoch", run_epoch)
        patch.setattr(fresh.pipeline, "KEPT_EVERY", 0)
        with pytest.raises(KeyboardInterrupt):
            train(splits, out=folder, **settings)


def test_what_was_broken_off_goes_on_with_as_many_epochs_only(
    splits: Splits, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"
    unbroken = tmp_path / "unbroken" / "model"  # the card, whose digest is in config.json, tells the folder's name
    train(splits, out=unbroken, **settings)
    break_off(splits, settings, folder, monkeypatch)
    assert describe_unfinished(folder).endswith("Give the same command again to go on from there.")
    expected = (
        f"{folder}.partial holds a training that was broken off and differs in: train.epochs. "
        "Finish that one first, choose another folder, or discard it: overwrite=True."
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(expected)}$"):
        train(splits, out=folder, **{**settings, "epochs": EPOCHS + 1})
    with pytest.raises(ConfigError, match=r"broken off and differs in: train\.schedule\. Finish"):
        train(splits, out=folder, **{**settings, "schedule": "constant"})
    train(splits, out=folder, **settings)
    assert (folder / "config.json").read_bytes() == (unbroken / "config.json").read_bytes()


def test_runs_of_a_grid_that_leave_the_learning_rate_as_it_is_keep_their_keys(encoders: dict[str, Path]) -> None:
    given = small.run_settings(encoders["bert"])
    run = resolve_settings("texts.jsonl", None, None, given)
    assert lasting(run)["train.schedule"] == "constant"
    assert deciding(run).keys() == lasting(run).keys() - {"train.schedule"}
    other = resolve_settings("texts.jsonl", None, None, {**given, "schedule": "linear"})
    assert deciding(other)["train.schedule"] == "linear"


def test_a_training_that_was_broken_off_before_there_were_schedules_can_go_on(
    splits: Splits, encoders: dict[str, Path]
) -> None:
    run = resolve_settings("texts.jsonl", None, None, small.run_settings(encoders["bert"]))
    noted = fresh.pipeline.run_identity(run, splits, None)
    assert "train.learning_rate" in noted
    assert not {"train.schedule", "train.epochs"} & noted.keys()

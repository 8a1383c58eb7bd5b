import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import small
from fresh.attribution.support_model import SupportModel
from fresh.config import from_mapping
from fresh.data.splits import Splits
from fresh.errors import ModelError
from fresh.methods import joint
from fresh.methods.config import FreshConfig, LeiConfig
from fresh.methods.lei import Lei
from fresh.training import checkpoint
from fresh.training import fit as training_fit
from fresh.training.checkpoint import (
    BestState,
    Checkpoint,
    CheckpointWriter,
    _running_state,
    is_training_complete,
    load_finished,
    restore,
)
from fresh.training.loop import RunContext, fit
from training_toys import CONFIG, INPUTS, TARGETS, make_job, network, same, train, train_judged

SCORES = [0.1, 0.4, 0.3, 0.2]
OWN = [0.1, 0.2, 0.3, 0.4]
OTHER_NETWORK = r"The checkpoint .*safetensors is of another network. Delete the file"


def sections(path: Path) -> set[str]:
    """List the sections of a checkpoint."""
    with safe_open(path, "pt") as file:
        return {name.partition("/")[0] for name in file.keys()}  # noqa: SIM118


# What is written


def test_a_checkpoint_is_written_atomically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = RunContext(folder=tmp_path)
    train(replace(CONFIG, epochs=1), context=context)
    before = (tmp_path / "network.safetensors").read_bytes()

    def fill_the_disk(_tensors: object, path: Path, _metadata: object) -> None:
        path.write_bytes(b"half")
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(checkpoint, "save_file", fill_the_disk)
    with pytest.raises(OSError, match=r"Errno 28.*No space left on device: '.*network\.safetensors'"):
        train(replace(CONFIG, epochs=2), context=context)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"network.safetensors": before}


def test_checkpoints_are_not_written_too_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    monkeypatch.setattr(Checkpoint, "write", lambda self, _path: written.append(len(self.scores)))
    writer, model, best = CheckpointWriter(tmp_path / "state", 1000, "all"), network(), BestState()
    for done in (False, False, True):
        best.add(0.5, model)
        writer.add(model, torch.optim.AdamW(model.parameters()), best, done)
    writer.flush()
    assert written == [3]


def test_retention(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    train(scores=SCORES, context=RunContext("net", folder=tmp_path, checkpoint_every=1000, retention="nothing"))
    assert not path.exists()
    train(scores=SCORES, context=RunContext("net", folder=tmp_path, retention="nothing"))
    assert not is_training_complete(path, CONFIG.epochs, CONFIG.patience)
    assert is_training_complete(path, CONFIG.epochs - 1, CONFIG.patience)
    path.unlink()
    train(scores=SCORES, context=RunContext("net", folder=tmp_path))
    assert sections(path) == {"best", "now", "optimizer"}  # so that more epochs can follow
    for place in (None, tmp_path / "missing.safetensors", path):
        assert not load_finished(place, network(), CONFIG.epochs + 1, CONFIG.patience)
    path.unlink()
    context = RunContext("net", folder=tmp_path, retention="best")
    model = train(scores=SCORES, context=context)
    assert sections(path) == {"best"}
    assert path.stat().st_size < sum(weight.numel() * 4 for weight in model.parameters()) + 1000
    other = network()
    assert load_finished(path, other, CONFIG.epochs, CONFIG.patience)
    assert same(other, model)
    assert not other.training
    assert same(train(context=context), model)


# What is refused


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    path = tmp_path / "network.safetensors"
    train(context=RunContext(folder=tmp_path))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelError, match=r"network\.safetensors is damaged: .*not fully covered.*Delete the file"):
        train(context=RunContext(folder=tmp_path))
    save_file({"now/x": torch.zeros(1)}, path)  # without scores
    with pytest.raises(ModelError, match=r"network\.safetensors is damaged: .*Delete the file"):
        train(context=RunContext(folder=tmp_path))


def test_the_checkpoint_of_another_network_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "network.safetensors"
    train(context=RunContext(folder=tmp_path))
    with pytest.raises(ModelError, match=OTHER_NETWORK):
        load_finished(path, nn.Linear(2, 2), CONFIG.epochs, CONFIG.patience)
    tensors = load_file(path)
    del tensors["now/0.weight"]
    save_file(tensors, path, {"scores": json.dumps([0.1])})
    with pytest.raises(ModelError, match=OTHER_NETWORK):
        train(context=RunContext(folder=tmp_path))


# Running state


class Baseline(nn.Module):
    """A network whose loss depends on a moving average of its losses."""

    moving: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.inner = network()
        self.register_buffer("moving", torch.zeros(2))
        self.register_buffer("fixed", torch.ones(1))

    def loss(self, numbers: Tensor, _width: int, _dense: bool) -> Tensor:
        logits = self.inner(INPUTS[numbers])[:, 0]
        loss = nn.functional.binary_cross_entropy_with_logits(logits, TARGETS[numbers], reduction="sum")
        self.moving.mul_(0.9).add_(0.1 * loss.detach())
        return loss * (1 + self.moving.sum())


def train_with_baseline(scores: list[float], context: RunContext) -> Baseline:
    """Train until the scores end, which interrupts the training."""
    model, left = Baseline(), iter(scores)

    def validate() -> float:
        score = next(left, None)
        if score is None:
            raise KeyboardInterrupt
        return score

    with suppress(KeyboardInterrupt):
        fit(make_job(model, model.loss, validate, context=context))
    return model


@pytest.mark.parametrize("checkpoint_every", [0, 1000])
def test_an_interrupt_leaves_the_last_whole_epoch_and_running_state(checkpoint_every: int, tmp_path: Path) -> None:
    whole, context = train_with_baseline(OWN, RunContext()), RunContext(folder=tmp_path)
    train_with_baseline(OWN[:3], replace(context, checkpoint_every=checkpoint_every))
    with safe_open(tmp_path / "network.safetensors", "pt") as file:
        assert len(json.loads(file.metadata()["scores"])) == 3
    resumed = train_with_baseline(OWN[3:], context)
    assert float(whole.moving.min()) > 0
    assert torch.equal(resumed.moving, whole.moving)
    assert same(resumed, whole)
    assert [name for name, _ in _running_state(nn.Sequential(whole, nn.BatchNorm1d(3)))] == ["0.moving"]


def test_running_state_is_restored_into_the_network_itself(tmp_path: Path) -> None:
    path, model, other, best = tmp_path / "state.safetensors", Baseline(), Baseline(), BestState()
    best.add(0.5, model)
    model.moving.copy_(torch.tensor([3.0, 4.0]))
    optimizer = torch.optim.AdamW(model.inner.parameters())
    Checkpoint.of(model, best, optimizer).write(path)
    held = other.moving
    assert restore(path, other, torch.optim.AdamW(other.inner.parameters())).scores == [0.5]
    assert held.tolist() == [3.0, 4.0]
    del model._buffers["moving"]
    Checkpoint.of(model, best, optimizer).write(path)
    with pytest.raises(ModelError, match=OTHER_NETWORK):
        restore(path, other, torch.optim.AdamW(other.inner.parameters()))


# Other measures of the same training


def refuse(*_given: Any, **_others: Any) -> Any:
    pytest.fail("texts were read again")


def take_up(context: RunContext) -> nn.Sequential:
    """Load what a finished training kept."""
    model = network()
    fit(make_job(model, refuse, lambda: 1.0, replace(CONFIG, patience=4), context=context))
    return model


LISTS = st.lists(st.sampled_from([0.1, 0.2, 0.3]), min_size=4, max_size=4)


@settings(max_examples=20, deadline=None)
@given(first=LISTS, second=LISTS)
def test_each_measure_keeps_what_a_training_by_it_alone_would(
    first: list[float], second: list[float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("kept")
    model = train_judged(folder, {"own": OWN, "first": first, "second": second})
    config, context = replace(CONFIG, patience=4), RunContext("net", folder=folder)
    assert same(model, train(config, OWN))
    assert same(take_up(context), model)
    for name, scores in (("first", first), ("second", second)):
        assert same(take_up(replace(context, folder=folder / name)), train(config, scores)), name


def test_a_resumed_training_knows_the_best_state_by_each_measure(tmp_path: Path) -> None:
    scores = {"own": OWN, "other": [0.4, 0.2, 0.3, 0.1]}
    train_judged(tmp_path, {name: values[:2] for name, values in scores.items()}, n_epochs=2)
    train_judged(tmp_path, {name: values[2:] for name, values in scores.items()})
    best = take_up(RunContext("net", folder=tmp_path / "other"))
    assert same(best, train(replace(CONFIG, patience=4), scores["other"]))
    with pytest.raises(ModelError, match=OTHER_NETWORK):
        train_judged(tmp_path, {"own": OWN, "another": OWN})


def test_states_by_other_measures_survive_an_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = [0.4, 0.3, 0.2, 0.1]
    write = Checkpoint.write

    def fail_for_others(self: Checkpoint, path: Path) -> None:
        if path.parent != tmp_path:
            raise KeyboardInterrupt
        write(self, path)

    monkeypatch.setattr(Checkpoint, "write", fail_for_others)
    with pytest.raises(KeyboardInterrupt):
        train_judged(tmp_path, {"own": OWN, "other": other}, retention="best")
    monkeypatch.setattr(Checkpoint, "write", write)
    train_judged(tmp_path, {"own": [], "other": []}, retention="best")
    model = network()
    assert load_finished(tmp_path / "other" / "net.safetensors", model, 4, 4)
    assert same(model, train(scores=other))


# Real networks


def test_a_trained_classifier_reads_no_texts_again(
    toy: Splits, encoders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = from_mapping(FreshConfig, small.settings(encoders["bert"]))
    context = RunContext("support model", folder=tmp_path)
    trained = SupportModel.train(toy.train[:32], toy.dev[:8], config, context)
    monkeypatch.setattr(training_fit, "prepare", refuse)
    again = SupportModel.train(toy.train[:32], toy.dev[:8], config, context)
    assert same(again.classifier, trained.classifier)
    documents = [example.document for example in toy.test[:8]]
    assert again.predict(documents) == trained.predict(documents)


@pytest.mark.filterwarnings("ignore:The gate has collapsed")
def test_a_trained_gate_reads_no_training_texts_again(
    toy: Splits, encoders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = from_mapping(LeiConfig, small.settings(encoders["bert"], epochs=2))
    trained = joint.train_joint(Lei, toy, config, RunContext(folder=tmp_path))
    monkeypatch.setattr(joint, "encode", refuse)
    again = joint.train_joint(Lei, toy, config, RunContext(folder=tmp_path))
    assert (again.dev_masks(), again.masks()) == (trained.dev_masks(), trained.masks())
    documents = [example.document for example in toy.test[:8]]
    explained, expected = (model.explain(documents) for model in (again.model, trained.model))
    assert [(item.mask, item.prediction) for item in explained] == [(item.mask, item.prediction) for item in expected]

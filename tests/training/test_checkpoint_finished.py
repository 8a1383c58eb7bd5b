"""What is kept of a training that is over, and how it is taken up again without the texts it was trained on."""

from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from torch import nn

import small
from fresh.attribution.support_model import SupportModel, text_of
from fresh.config import from_mapping
from fresh.data.splits import Splits
from fresh.methods import joint, lei
from fresh.methods.config import FreshConfig
from fresh.methods.gate_config import LeiConfig
from fresh.training import fit as learning
from fresh.training.checkpoint import is_training_complete, load_finished
from fresh.training.fit import FitRequest, train_classifiers
from fresh.training.loop import RunContext
from gates import configured
from shared_kept_others import OWN, judged
from shared_training import CONFIG, network, same, train

SCORES = [0.1, 0.4, 0.3, 0.2]


def kinds(path: Path) -> set[str]:
    """List what a file keeps, and check that it keeps all of it in whole."""
    with safe_open(path, "pt") as file:
        return {name.partition("/")[0] for name in file.keys()}  # noqa: SIM118


def test_only_the_best_state_stays_if_nothing_else_is_wanted(tmp_path: Path) -> None:
    model = train(scores=SCORES, context=RunContext("net", folder=tmp_path, over="best"))
    path = tmp_path / "net.safetensors"
    assert kinds(path) == {"best"}
    assert path.stat().st_size < sum(weight.numel() * 4 for weight in model.parameters()) + 1000
    other = network()
    assert load_finished(path, other, CONFIG.epochs, CONFIG.patience)
    assert same(other, model)
    assert not other.training
    assert same(train(context=RunContext("net", folder=tmp_path, over="best")), model)


def test_all_stays_as_a_rule_so_that_more_epochs_may_follow(tmp_path: Path) -> None:
    train(scores=SCORES, context=RunContext("net", folder=tmp_path))
    assert kinds(tmp_path / "net.safetensors") == {"best", "now", "optimizer"}


def test_nothing_more_is_written_at_the_end_if_nothing_is_wanted(tmp_path: Path) -> None:
    train(scores=SCORES, context=RunContext("net", folder=tmp_path, every=1000, over="nothing"))
    assert list(tmp_path.iterdir()) == []
    train(scores=SCORES, context=RunContext("net", folder=tmp_path, over="nothing"))
    path = tmp_path / "net.safetensors"
    assert not is_training_complete(path, CONFIG.epochs, CONFIG.patience)
    assert is_training_complete(path, CONFIG.epochs - 1, CONFIG.patience)


def test_other_measures_have_their_states_also_where_only_the_best_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = [0.4, 0.3, 0.2, 0.1]
    monkeypatch.setattr("fresh.training.loop._keep_others", lambda *_given: pytest.fail("killed before"))
    with pytest.raises(pytest.fail.Exception):
        judged(tmp_path, {"own": OWN, "other": other}, over="best")
    monkeypatch.undo()
    judged(tmp_path, {"own": [], "other": []}, over="best")
    again = network()
    assert load_finished(tmp_path / "other" / "net.safetensors", again, 4, 4)
    assert same(again, train(scores=other))


def test_what_is_not_over_is_not_taken_up(tmp_path: Path) -> None:
    train(scores=SCORES, context=RunContext("net", folder=tmp_path))
    model, before = network(), network()
    assert not load_finished(None, model, 4, 4)
    assert not load_finished(tmp_path / "missing.safetensors", model, 4, 4)
    assert not load_finished(tmp_path / "net.safetensors", model, 5, 5)
    assert same(model, before)


def test_another_network_is_not_taken_up(tmp_path: Path) -> None:
    train(scores=SCORES, context=RunContext("net", folder=tmp_path))
    path = tmp_path / "net.safetensors"
    with pytest.raises(ValueError, match="is of another network") as caught:
        load_finished(path, nn.Linear(2, 2), CONFIG.epochs, CONFIG.patience)
    assert str(caught.value) == f"The state kept in {path} is of another network. Delete the file to begin anew."


def refuse(*_given: Any, **_others: Any) -> Any:
    """Stand for work that is not to be done again."""
    pytest.fail("texts were read again")


def test_a_classifier_that_is_trained_reads_no_texts_again(
    toy: Splits, encoders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = from_mapping(FreshConfig, small.settings(encoders["bert"])).classifier
    context = RunContext("support model", folder=tmp_path)
    trained = SupportModel.train(toy.train[:32], toy.dev[:8], config, context)
    monkeypatch.setattr(learning, "prepare", refuse)
    again = SupportModel.train(toy.train[:32], toy.dev[:8], config, context)
    assert same(again.classifier, trained.classifier)
    documents = [example.document for example in toy.test[:8]]
    assert again.predict(documents) == trained.predict(documents)


def test_where_layers_are_frozen_what_they_put_out_is_had_again(
    toy: Splits, encoders: dict[str, Path], tmp_path: Path
) -> None:
    config = from_mapping(FreshConfig, small.settings(encoders["bert"], layers=1)).classifier
    pairs = [(text_of(example.document), example.label) for example in toy.train[:16]]
    lesson = FitRequest(pairs, pairs, toy.labels, config, RunContext("net", folder=tmp_path))
    train_classifiers([lesson])
    [taught] = train_classifiers([lesson])
    assert taught.seen.find([text for text, _ in pairs]) is not None


@pytest.mark.filterwarnings("ignore:The gate has collapsed")
def test_a_gate_that_is_trained_reads_no_training_texts_again(
    toy: Splits, encoders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured(LeiConfig, encoders["bert"], epochs=2)
    trained = lei.train(toy, config, RunContext(folder=tmp_path))
    monkeypatch.setattr(joint, "run_frozen", refuse)
    again = lei.train(toy, config, RunContext(folder=tmp_path))
    assert again.dev_masks == trained.dev_masks
    assert again.masks == trained.masks
    documents = [example.document for example in toy.test[:8]]
    found, expected = (model.explain(documents) for model in (again.model, trained.model))
    assert [(item.mask, item.prediction) for item in found] == [(item.mask, item.prediction) for item in expected]

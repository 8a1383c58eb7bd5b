import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import fresh.training.fit
import fresh.training.loop
import small
from fresh.data.splits import Splits
from fresh.nn.batch import Batch, IntArray
from fresh.nn.batching import budget_share
from fresh.nn.classifier import Classifier
from fresh.nn.config import NetworkConfig
from fresh.nn.encoder import load_encoder
from fresh.nn.tokenizer import Text
from fresh.pipeline import train
from fresh.progress import SILENT
from fresh.training.feature_cache import CachedInputs, FrozenFeatures
from fresh.training.feature_store import FeatureStore, _StoreError
from fresh.training.fit import FitRequest, train_classifiers
from fresh.training.loop import RunContext
from networks import last_matrix
from shared_frozen import (
    LABELS,
    lesson,
    losses,  # noqa: F401
)
from shared_recipe_resume import Saying
from shared_store import Usage, cannot_keep
from tiny import ARCHITECTURES, N_POSITIONS, WORDS

# A folder that nobody closed is closed when its shelf goes, which Python may remark upon.
CPU = torch.device("cpu")


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts ran through frozen layers, each time that some did."""
    found: list[int] = []
    real = FrozenFeatures.fill_some

    def fill_some(self: FrozenFeatures, rows: Tensor, pieces: Any, table: Any, numbers: IntArray) -> None:
        found.append(len(numbers))
        real(self, rows, pieces, table, numbers)

    monkeypatch.setattr(FrozenFeatures, "fill_some", fill_some)
    return found


def reseeded(given: FitRequest, seed: int, **others: Any) -> FitRequest:
    config = replace(given.config, train=replace(given.config.train, seed=seed))
    return replace(given, config=config, **others)


# Training from the store equals training without it


KEY_BIASES = (".key.bias", ".k_lin.bias", ".k.bias")
"""Attention does not depend on these, so that what they learn is how gradients of 0 were rounded."""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_training_from_the_store_equals_training_without_it(
    architecture: str, toy_pairs: Splits, encoders: dict[str, Path], losses: list[float]
) -> None:
    found: dict[str, tuple[list[float], dict[str, Tensor]]] = {}
    for place in ("off", "memory", "file"):
        losses.clear()
        [taught] = train_classifiers([lesson(toy_pairs, encoders[architecture], RunContext(), frozen=place)])
        found[place] = list(losses), taught.classifier.state_dict()
    plain, weights = found["off"]
    assert len(plain) >= 50
    assert np.std(plain[-20:]) > 0
    for place in ("memory", "file"):
        np.testing.assert_allclose(found[place][0], plain, atol=1e-5)
        for name, weight in weights.items():
            if not name.endswith(KEY_BIASES):
                torch.testing.assert_close(found[place][1][name], weight, atol=1e-4, rtol=1e-4)


def test_dropout_matters_in_these_trainings(toy_pairs: Splits, encoders: dict[str, Path], losses: list[float]) -> None:
    given = lesson(toy_pairs, encoders["bert"], RunContext())
    for dropout in (0.3, 0.0):
        config = replace(given.config, network=replace(given.config.network, dropout=dropout))
        train_classifiers([replace(given, config=config)])
    half = len(losses) // 2
    assert np.abs(np.subtract(losses[:half], losses[half:])).max() > 0.1


@pytest.mark.parametrize("layers", [0, 1, 2])
@pytest.mark.parametrize("place", ["memory", "file", "folder", "off"])
def test_training_says_what_runs_once(
    layers: int, place: str, toy: Splits, encoders: dict[str, Path], runs: list[int], tmp_path: Path
) -> None:
    saying = Saying()
    engine = {"frozen": "file", "frozen_folder": str(tmp_path)} if place == "folder" else {"frozen": place}
    given = lesson(small.some(toy), encoders["bert"], RunContext("some network", saying), layers, **engine)
    train_classifiers([given])
    where = {"memory": "memory", "file": "a temporary file", "folder": f"a file in {tmp_path}"}
    n_pieces = sum(len(text.words) + 2 for text, _ in given.train)
    once = place != "off" and layers < 2
    assert sum(runs) == (64 if once else 0)
    [line] = saying.lines
    start, _, rest = line.partition(" padding; ")
    assert start.startswith("some network: 48 texts, ")
    assert rest == (
        f"{2 - layers} frozen layers run once, their output ({n_pieces * 64 / 1000:.3g} kB) is kept in {where[place]}."
        if once
        else "every step runs all layers."
    )


# Sharing


def test_other_seeds_run_no_frozen_layers_again(toy: Splits, encoders: dict[str, Path], runs: list[int]) -> None:
    splits = small.some(toy)
    given = lesson(splits, encoders["bert"], RunContext(feature_store=FeatureStore("memory")))
    train_classifiers([given])
    assert sum(runs) == 64
    runs.clear()
    train_classifiers([reseeded(given, 1), reseeded(given, 2)])
    assert runs == []


def test_networks_side_by_side_share_without_being_told(
    toy: Splits, encoders: dict[str, Path], runs: list[int]
) -> None:
    given = lesson(small.some(toy), encoders["bert"], RunContext())
    train_classifiers([given, reseeded(given, 1)])
    assert sum(runs) == 64
    runs.clear()
    train_classifiers([given])  # with a shelf of its own
    assert sum(runs) == 64


def test_other_texts_and_other_weights_run_anew(toy: Splits, encoders: dict[str, Path], runs: list[int]) -> None:
    splits = small.some(toy)
    given = lesson(splits, encoders["bert"], RunContext(feature_store=FeatureStore("memory")))
    rationales = [(Text(text.words[:3], text.query), label) for text, label in given.train]
    electra = replace(given.config, network=replace(given.config.network, encoder=str(encoders["electra"])))
    mean = replace(given.config, network=replace(given.config.network, pooling="mean", layers=0))
    expected = {
        "all": (given, 64),
        "another dev": (replace(given, dev=given.dev[::-1]), 16),
        "rationales": (replace(given, train=rationales), 48),
        "other weights": (replace(given, config=electra), 64),
        "other layers": (replace(given, config=mean), 64),
        "again": (given, 0),
    }
    for name, (other, n_texts) in expected.items():
        runs.clear()
        train_classifiers([other])
        assert sum(runs) == n_texts, name


def classifier_of(folder: Path) -> Classifier:
    return Classifier(load_encoder(str(folder), "start"), LABELS, NetworkConfig(str(folder), layers=1))


def frozen(classifier: Classifier, feature_store: FeatureStore, dtype: torch.dtype = torch.float32) -> FrozenFeatures:
    assert classifier.split is not None
    return FrozenFeatures(classifier.split, feature_store, CPU, classifier.padding, dtype)


def long_and_short() -> list[Text]:
    generator = np.random.default_rng(2)
    return [Text(tuple(generator.choice(WORDS, size).tolist())) for size in (5, 2 * N_POSITIONS, 0, 9, 5)]


def test_a_key_knows_all_that_the_output_is_made_from(encoders: dict[str, Path]) -> None:
    classifier = classifier_of(encoders["bert"])
    table, some = classifier.tokenizer(long_and_short()), frozen(classifier, FeatureStore("memory"))
    keys = [some.key(table), replace(some, dtype=torch.bfloat16).key(table)]
    changed = {name: getattr(table, name).copy() for name in ("ids", "types", "positions")}
    for name, array in changed.items():
        array[7] += 1
        keys.append(some.key(replace(table, **{name: array})))
    with torch.no_grad():
        last_matrix(classifier).weight.add_(1)
        assert some.key(table) == keys[0]
        next(iter(classifier.encoder.layers[1].parameters())).add_(1)
        assert some.key(table) == keys[0]  # the upper layer is not frozen
        next(iter(classifier.encoder.layers[0].parameters())).add_(1)
        keys.append(some.key(table))
        classifier.encoder.word_embeddings.weight[5, 3] += 1
        keys.append(some.key(table))
    assert len(set(keys)) == 7


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_kept_is_what_the_frozen_layers_put_out(
    architecture: str, dtype: torch.dtype, encoders: dict[str, Path]
) -> None:
    classifier = classifier_of(encoders[architecture])
    table = classifier.tokenizer(long_and_short())
    reading = frozen(classifier, FeatureStore("memory"), dtype).read(table, SILENT, "")
    plain = CachedInputs(reading.pieces, None)
    numbers = torch.tensor([3, 1, 0])
    width = int(table.lengths[1]) + 3
    taken, batch = (item.take(numbers, width, dense=False) for item in (reading, plain))
    assert isinstance(batch, Batch)
    assert isinstance(taken, tuple)
    layout, states = taken
    assert torch.equal(layout.mask, batch.mask)
    assert torch.equal(layout.positions, batch.positions)
    assert classifier.split is not None
    there = batch.mask.bool()
    with torch.inference_mode():
        expected = classifier.split.run_lower(batch)[there]
    assert states.dtype == torch.float32
    far = 1e-5 if dtype == torch.float32 else 0.02
    torch.testing.assert_close(states[there], expected, atol=far, rtol=far)


# From a user's side


@pytest.fixture
def settings(encoders: dict[str, Path]) -> dict[str, Any]:
    return {**small.run_settings(encoders["bert"], epochs=1, layers=1), "progress": SILENT}


def test_a_folder_spares_the_next_run_the_frozen_layers(
    toy: Splits, settings: dict[str, Any], runs: list[int], tmp_path: Path
) -> None:
    first = train(small.some(toy), frozen_folder=str(tmp_path / "frozen"), out=tmp_path / "first", **settings)
    assert sum(runs) == 4 * 64  # documents, rationales, random words and complements, of train and of dev
    runs.clear()
    second = train(small.some(toy), frozen_folder=str(tmp_path / "frozen"), out=tmp_path / "second", **settings)
    assert runs == []
    assert small.reported(second.report) == small.reported(first.report)
    assert small.digests(tmp_path / "second") == small.digests(tmp_path / "first")


def test_without_room_on_the_disk_nothing_is_begun(
    toy: Splits, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: Usage(5000, 4000, 1000))
    monkeypatch.setattr(fresh.training.loop, "run_epoch", lambda *_given: pytest.fail("Training began."))
    splits = small.some(toy)
    n_pieces = sum(len(example.document.words) + 2 for example in splits.train)
    with pytest.raises(_StoreError) as caught:
        train(splits, frozen_folder=str(tmp_path / "frozen"), out=tmp_path / "model", **settings)
    folder = tmp_path / "frozen"
    assert str(caught.value) == cannot_keep(folder, f"{n_pieces * 64 / 1000:.3g} kB", "1 kB are free there")
    assert [path.name for path in tmp_path.iterdir()] == ["frozen"]
    assert list(folder.iterdir()) == []


def test_a_gpu_reads_fewer_pieces_at_once_with_a_larger_encoder(encoders: dict[str, Path]) -> None:
    encoder, gpu = load_encoder(str(encoders["bert"])), torch.device("cuda")
    assert budget_share(encoder, gpu) == 1.0
    encoder.model.config.update({"num_hidden_layers": 12, "hidden_size": 768})
    assert budget_share(encoder, gpu) == 0.25
    assert budget_share(encoder, torch.device("cpu")) == 1.0

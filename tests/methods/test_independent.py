from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import small
from fresh.data.fingerprints import TrainingFingerprints
from fresh.data.splits import Splits
from fresh.errors import ModelError
from fresh.methods.config import FreshConfig
from fresh.methods.independent import load_reader, sample_mask, train_independent, train_readers
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.training.loop import RunContext
from small import answers


@pytest.fixture(scope="module")
def config(configure: small.Configure) -> FreshConfig:
    config = configure("fresh")
    assert isinstance(config, FreshConfig)
    return config


@pytest.fixture(scope="module")
def reader(toy: Splits, config: FreshConfig) -> Rationalizer:
    return train_independent(small.some(toy), config)


def test_masks_are_of_the_ratio_or_of_any_length_scattered_or_in_one_run() -> None:
    generator = np.random.default_rng(0)
    masks = [sample_mask(20, 0.2, generator).kept for _ in range(2000)]
    sizes = np.array([mask.sum() for mask in masks])
    assert (sizes.min(), sizes.max()) == (1, 20)
    assert 0.5 < (sizes == 4).mean() < 0.65  # half of them, and some of the others
    assert 0.1 < ((sizes > 4) & (sizes < 20)).mean() < 0.3
    runs = [bool(np.diff(np.flatnonzero(mask)).max(initial=1) == 1) for mask in masks if 1 < mask.sum() < 10]
    assert 0.5 < np.mean(runs) < 0.65
    assert sample_mask(1, 0.2, generator).kept.tolist() == [True]


def test_the_seed_and_the_scorer_play_no_part(toy: Splits, config: FreshConfig, reader: Rationalizer) -> None:
    other = replace(config, scorer="gradient", train=replace(config.train, seed=7))
    documents = [example.document for example in toy.test]
    again = train_independent(small.some(toy), other)
    assert answers(again.explain(documents)) == answers(reader.explain(documents))
    assert all(explanation.mask.kept.all() for explanation in again.explain(documents))


def test_a_reader_is_loaded_where_it_fits_and_refused_elsewhere(
    toy: Splits, config: FreshConfig, reader: Rationalizer, tmp_path: Path
) -> None:
    folder, documents = tmp_path / "reader", [example.document for example in toy.test]
    reader.save_pretrained(folder)
    model = replace(reader, settings={**reader.settings, "method": "fresh"})
    assert answers(load_reader(folder, model, "cpu").explain(documents)) == answers(reader.explain(documents))
    assert load_reader(folder, replace(model, fingerprints=None), "cpu").labels == model.labels
    other = TrainingFingerprints.from_documents(documents)
    network = {**reader.settings["network"], "encoder": "roberta"}
    for changed, reason in (
        (replace(model, fingerprints=other), "other texts"),
        (
            replace(model, settings={**model.settings, "network": network}),
            "has the encoder bert, but the model has rob",
        ),
        (replace(model, needs_query=True), "was trained with queries"),
        (replace(model, predictor=Mock(classifier=Mock(labels=("a", "b")))), "answers with neg, pos, but the model"),
    ):
        with pytest.raises(ModelError, match=reason):
            load_reader(folder, changed, "cpu")
    model.save_pretrained(tmp_path / "model")
    with pytest.raises(ModelError, match="no independent reader"):
        load_reader(tmp_path / "model", model, "cpu")


def test_a_training_of_more_epochs_reads_the_same_words_in_the_first_ones(
    toy: Splits, config: FreshConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(Predictor, "train_many", lambda data, *_: seen.extend(data))
    splits = small.some(toy)
    for epochs in (2, 3, 20):
        train_readers(splits, [replace(config, train=replace(config.train, epochs=epochs))], RunContext())
    two, three, many = seen
    assert [data.n_versions for data in seen] == [2, 3, 8]
    assert two.dev == three.dev == many.dev
    assert two.train == three.train[: len(two.train)] == many.train[: len(two.train)]
    assert len({rationale.words for rationale, _ in many.train if rationale.id == splits.train[0].document.id}) > 4

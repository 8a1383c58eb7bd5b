"""Training of classifiers, also of those that read windows."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import small
from fresh.attribution import make_scorer
from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.document import Document, Example
from fresh.nn.tokenizer import Text
from fresh.predictor import Predictor
from fresh.rationale import Rationale
from fresh.training.config import ClassifierConfig, TrainConfig
from fresh.training.fit import TrainingPairs, train_classifiers
from fresh.training.loop import RunContext
from tiny import FILLERS, KEY_BIASES
from training_hooks import record_losses


@given(st.integers(1, 5), st.integers(0, 6), st.integers(0, 30))
def test_each_epoch_reads_the_next_version(n_versions: int, n_each: int, epoch: int) -> None:
    pairs = [(Rationale((str(number),)), "pos") for number in range(n_versions * n_each)]
    data = TrainingPairs(pairs, [], n_versions)
    epochs = [data.numbers(epoch + step).tolist() for step in range(n_versions)]
    assert sorted(np.concatenate(epochs).tolist()) == list(range(len(pairs)))
    assert data.numbers(epoch).tolist() == data.numbers(epoch + n_versions).tolist()
    assert data.numbers(0).tolist() == list(range(n_each))


def test_a_predictor_reads_one_version_an_epoch(quick: ClassifierConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = record_losses(monkeypatch)
    pairs = [(Rationale((word,)), label) for word, label in (("good", "pos"), ("bad", "neg")) * 6]
    config = replace(quick, train=replace(quick.train, epochs=4))
    Predictor.train_many([TrainingPairs(pairs, pairs[:2], 3)], [config])
    read = [number for numbers, _ in recorded for number in numbers]
    epochs = [sorted(read[start : start + 4]) for start in range(0, 16, 4)]
    assert epochs == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [0, 1, 2, 3]]


def test_with_frozen_layers_a_finished_training_still_reads_its_texts(
    toy: Splits,
    frozen_config: Callable[..., ClassifierConfig],
    pairs_of: Callable[..., TrainingPairs[Text]],
    tmp_path: Path,
) -> None:
    data = pairs_of(small.some(toy, 16, 8))
    for _ in range(2):
        [(_, texts)] = train_classifiers([data], [frozen_config()], RunContext("net", folder=tmp_path))
    assert texts.find([text for text, _ in data.train]) is not None  # for scores


# Windows


def lengthened(example: Example) -> Example:
    """Make every other document longer than a window."""
    document = example.document
    more = FILLERS * 5 if len(document.words) % 2 else ()
    half = len(more) // 2
    words = (*more[:half], *document.words, *more[half:])
    return Example(Document.from_words(words, document.query, document.id), example.label)


def long_splits(splits: Splits, n_train: int, n_dev: int) -> Splits:
    parts = (splits.train[:n_train], splits.dev[:n_dev], splits.test[:n_dev])
    return Splits(*(tuple(map(lengthened, part)) for part in parts))


def in_windows(config: ClassifierConfig, epochs: int) -> ClassifierConfig:
    return ClassifierConfig(replace(config.network, long="chunk"), replace(config.train, epochs=epochs))


def test_training_from_the_cache_equals_training_without_it(
    toy_pairs: Splits,
    frozen_config: Callable[..., ClassifierConfig],
    pairs_of: Callable[..., TrainingPairs[Text]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data, recorded = pairs_of(long_splits(toy_pairs, 48, 8)), record_losses(monkeypatch)
    found: dict[str, tuple[list[float], dict[str, torch.Tensor]]] = {}
    for place in ("off", "memory", "file"):
        recorded.clear()
        config = in_windows(frozen_config(frozen=place), epochs=2)
        [(classifier, _)] = train_classifiers([data], [config], RunContext())
        found[place] = [loss for _, loss in recorded], classifier.state_dict()
    losses, weights = found["off"]
    assert len(losses) >= 6
    for place in ("memory", "file"):
        np.testing.assert_allclose(found[place][0], losses, atol=1e-5)
        for name, weight in weights.items():
            if not name.endswith(KEY_BIASES):
                torch.testing.assert_close(found[place][1][name], weight, atol=1e-4, rtol=1e-4)


def test_a_word_that_decides_counts_in_every_window(toy: Splits, quick: ClassifierConfig) -> None:
    splits = long_splits(toy, 128, 16)
    train = TrainConfig(epochs=9, batch_size=16, learning_rate=5e-3, device="cpu")
    config = ClassifierConfig(replace(quick.network, long="chunk"), train)
    support = SupportModel.train(splits.train, splits.dev, config)
    answers = support.predict([example.document for example in splits.test])
    assert np.mean([a.label == e.label for a, e in zip(answers, splits.test, strict=True)]) > 0.9
    around = FILLERS * 5
    for place in (5, 40, 65):
        texts = [(*around[:place], word, *around[place:]) for word in ("good", "bad")]
        good, bad = support.predict([Document.from_words(words) for words in texts])
        assert (good.label, bad.label) == ("pos", "neg")


@pytest.mark.parametrize("name", ["attention", "attention_gradient"])
@pytest.mark.parametrize("layers", [0, 1])
def test_training_documents_are_scored_without_being_read_again(
    name: str,
    layers: int,
    toy: Splits,
    frozen_config: Callable[..., ClassifierConfig],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    splits = long_splits(toy, 12, 8)
    support = SupportModel.train(splits.train, splits.dev, in_windows(frozen_config(layers=layers), epochs=1))
    documents = [example.document for example in splits.train]
    plain = make_scorer(name, SupportModel(support.classifier), {}).score(documents)
    monkeypatch.setattr(support.classifier.split, "run_lower", lambda _batch: pytest.fail("read again"))
    for found, expected in zip(make_scorer(name, support, {}).score(documents), plain, strict=True):
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)
        assert found.target == expected.target

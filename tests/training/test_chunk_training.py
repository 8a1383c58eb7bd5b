"""Training of networks that read windows."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import shared_frozen
from fresh.attribution import make_scorer
from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.document import Document, Example
from fresh.nn.config import NetworkConfig
from fresh.training.config import ClassifierConfig, TrainConfig
from fresh.training.fit import train_classifiers
from fresh.training.loop import RunContext
from tiny import FILLERS

losses = shared_frozen.losses  # the fixture that notes the loss of every step


def lengthened(example: Example) -> Example:
    """Every other document as it is, and the others longer than a window."""
    document = example.document
    more = FILLERS * 5 if len(document.words) % 2 else ()
    half = len(more) // 2
    words = (*more[:half], *document.words, *more[half:])
    return Example(Document.from_words(words, document.query, document.id), example.label)


def long_splits(splits: Splits, n_train: int, n_dev: int) -> Splits:
    parts = (splits.train[:n_train], splits.dev[:n_dev], splits.test[:n_dev])
    return Splits(*(tuple(map(lengthened, part)) for part in parts))


def test_training_from_the_store_equals_training_without_it(
    toy_pairs: Splits, encoders: dict[str, Path], losses: list[float]
) -> None:
    splits = long_splits(toy_pairs, 48, 8)
    found: dict[str, tuple[list[float], dict[str, torch.Tensor]]] = {}
    for place in ("off", "memory", "file"):
        losses.clear()
        given = shared_frozen.lesson(splits, encoders["bert"], RunContext(), frozen=place)
        network = replace(given.config.network, long="chunk")
        config = ClassifierConfig(network, replace(given.config.train, epochs=2))
        [taught] = train_classifiers([replace(given, config=config)])
        found[place] = list(losses), taught.classifier.state_dict()
    plain, weights = found["off"]
    assert len(plain) >= 6
    for place in ("memory", "file"):
        np.testing.assert_allclose(found[place][0], plain, atol=1e-5)
        for name, weight in weights.items():
            torch.testing.assert_close(found[place][1][name], weight, atol=1e-4, rtol=1e-4)


def test_a_word_that_decides_counts_in_every_window(toy: Splits, quick: ClassifierConfig) -> None:
    splits = long_splits(toy, 128, 16)
    network = replace(quick.network, long="chunk")
    train = TrainConfig(epochs=9, batch_size=16, learning_rate=5e-3, device="cpu")
    support = SupportModel.train(splits.train, splits.dev, ClassifierConfig(network, train))
    answers = support.predict([example.document for example in splits.test])
    assert np.mean([a.label == e.label for a, e in zip(answers, splits.test, strict=True)]) > 0.9
    around = FILLERS * 5
    for place in (5, 40, 65):
        texts = [(*around[:place], word, *around[place:]) for word in ("good", "bad")]
        good, bad = support.predict([Document.from_words(words) for words in texts])
        assert (good.label, bad.label) == ("pos", "neg")


@pytest.mark.parametrize("name", ["attention", "attention_gradient"])
@pytest.mark.parametrize("layers", [0, 1])
def test_documents_of_training_score_the_same_without_being_read_again(
    name: str, layers: int, toy: Splits, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = long_splits(toy, 12, 8)
    network = NetworkConfig(str(encoders["bert"]), long="chunk", layers=layers)
    config = ClassifierConfig(network, TrainConfig(epochs=1, device="cpu"))
    support = SupportModel.train(splits.train, splits.dev, config)
    items = [example.document for example in splits.train]
    plain = make_scorer(name, SupportModel(support.classifier), {}).score(items)
    monkeypatch.setattr(support.classifier.split, "run_lower", lambda _batch: pytest.fail("read again"))
    for found, expected in zip(make_scorer(name, support, {}).score(items), plain, strict=True):
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)
        assert found.target == expected.target

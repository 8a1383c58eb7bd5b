"""Training of classifiers, also of those that read windows."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.document import Document
from fresh.nn.classifier import Classifier
from fresh.nn.tokenizer import Text
from fresh.predictor import Predictor
from fresh.rationale import Rationale
from fresh.training.config import ClassifierConfig, TrainConfig
from fresh.training.fit import TrainingPairs, build, prepare
from fresh.training.loop import RunContext
from tiny import FILLERS
from toy import lengthened
from training_hooks import record_losses


def test_a_predictor_reads_one_version_an_epoch(quick: ClassifierConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = record_losses(monkeypatch)
    pairs = [(Rationale((word,)), label) for word, label in (("good", "pos"), ("bad", "neg")) * 6]
    config = replace(quick, train=replace(quick.train, epochs=4))
    Predictor.train_many([TrainingPairs(pairs, pairs[:2], 3)], [config])
    read = [number for numbers, _ in recorded for number in numbers]
    epochs = [sorted(read[start : start + 4]) for start in range(0, 16, 4)]
    assert epochs == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [0, 1, 2, 3]]


def test_rare_labels_count_as_much_as_others_if_wanted(quick: ClassifierConfig) -> None:
    pairs = [(Text(("a", "film")), label) for label in ("neg", "pos", "pos", "pos")]
    balanced = replace(quick, train=replace(quick.train, class_weight="balanced"))
    classifier, data = build(Classifier, ("neg", "pos"), quick), TrainingPairs(pairs, pairs)
    plain, weighted = (prepare(classifier, data, config, RunContext()).loss for config in (quick, balanced))
    for number, weight in ((0, 4 / 2), (1, 4 / 6)):
        one = torch.tensor([number])
        assert weighted(one, 4, True).item() == pytest.approx(weight * plain(one, 4, True).item())


def test_a_word_that_decides_counts_in_every_window(toy: Splits, quick: ClassifierConfig) -> None:
    learned, dev, unseen = (tuple(map(lengthened, part)) for part in (toy.train[:128], toy.dev[:16], toy.test[:16]))
    train = TrainConfig(epochs=9, batch_size=16, learning_rate=5e-3, device="cpu")
    support = SupportModel.train(learned, dev, ClassifierConfig(replace(quick.network, long="chunk"), train))
    answers = support.predict([example.document for example in unseen])
    assert np.mean([a.label == e.label for a, e in zip(answers, unseen, strict=True)]) > 0.9
    around = FILLERS * 5
    for place in (5, 40, 65):
        texts = [(*around[:place], word, *around[place:]) for word in ("good", "bad")]
        good, bad = support.predict([Document.from_words(words) for words in texts])
        assert (good.label, bad.label) == ("pos", "neg")

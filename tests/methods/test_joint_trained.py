import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import fresh.training.loop
import small
from fresh.data.splits import Splits
from fresh.methods import bastings, lei
from fresh.methods.gate_config import BastingsConfig, LeiConfig
from fresh.methods.result import MethodResult
from fresh.methods.trial import DevEvaluator
from fresh.metrics.classification import macro_f1
from fresh.selection.discretizers import budget
from fresh.selection.extractors import SaliencyExtractor
from fresh.selection.tagger import Tagger
from fresh.training.loop import RunContext
from gates import configured

METHODS: dict[str, tuple[Any, type[Any], dict[str, Any]]] = {
    "lei": (lei.train, LeiConfig, {"lambda_1": 0.02, "epochs": 12, "learning_rate": 3e-3}),
    "bastings": (bastings.train, BastingsConfig, {"epochs": 12}),
}


@pytest.mark.parametrize("method", METHODS)
def test_a_gate_finds_the_word_that_decides(method: str, toy: Splits, encoders: dict[str, Path]) -> None:
    learn, kind, others = METHODS[method]
    trained: MethodResult = learn(toy, configured(kind, encoders["bert"], batch_size=32, **others))
    documents = [example.document for example in toy.dev]
    explained = trained.model.explain(documents)
    gold, answers = [example.label for example in toy.dev], [item.prediction.label for item in explained]
    assert macro_f1(gold, answers, trained.model.labels) > 0.9
    assert [int(item.mask.kept.sum()) for item in explained] == [budget(len(item.words), 0.2) for item in documents]
    assert trained.dev_masks == [item.mask for item in explained]


@pytest.fixture
def every_epoch_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the last epoch win, so that a model is the outcome of all of them."""
    scores = itertools.count(1)
    monkeypatch.setattr(DevEvaluator, "anew", lambda _self: float(next(scores)))


def weights(trained: MethodResult) -> Iterator[Tensor]:
    """Go through all weights of a model."""
    extractor = trained.model.extractor
    assert isinstance(extractor, SaliencyExtractor)
    assert isinstance(extractor.scorer, Tagger)
    yield from extractor.scorer.network.state_dict().values()
    yield from trained.model.predictor.classifier.state_dict().values()


@pytest.mark.usefixtures("every_epoch_is_better")
@pytest.mark.filterwarnings("ignore:The gate has collapsed")
@pytest.mark.parametrize("method", METHODS)
def test_a_training_that_goes_on_ends_the_same_to_the_bit(
    method: str, toy: Splits, encoders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn, kind, _ = METHODS[method]
    splits, real = small.some(toy, 32, 8), fresh.training.loop.run_epoch
    config = configured(kind, encoders["bert"], epochs=3, dropout=0.3, lambda_2=0.5, human=0.5)
    unbroken = learn(splits, config, RunContext())

    def run_epoch(update: Any, batches: Any, config: Any, epoch: int, on: Any) -> Any:
        for number, step in enumerate(real(update, batches, config, epoch, on)):
            if (epoch, number) == (1, 2):
                raise KeyboardInterrupt
            yield step

    with monkeypatch.context() as patch:
        patch.setattr(fresh.training.loop, "run_epoch", run_epoch)
        with pytest.raises(KeyboardInterrupt):
            learn(splits, config, RunContext(folder=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == [f"{method}.safetensors"]
    again = learn(splits, config, RunContext(folder=tmp_path))
    assert all(torch.equal(one, other) for one, other in zip(weights(unbroken), weights(again), strict=True))


@pytest.mark.filterwarnings("ignore:The gate has collapsed")
@pytest.mark.parametrize("method", METHODS)
def test_a_gate_that_diverges_keeps_its_best_state(
    method: str, toy: Splits, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    learn, kind, _ = METHODS[method]
    splits, real = small.some(toy, 32, 8), fresh.training.loop.run_epoch
    once = learn(splits, configured(kind, encoders["bert"], epochs=1))

    def run_epoch(update: Any, batches: Any, config: Any, epoch: int, on: Any) -> Any:
        for number, step in enumerate(real(update, batches, config, epoch, on)):
            if (epoch, number) == (1, 0):
                for weight in update.weights:
                    weight.data.fill_(float("nan"))
            yield step

    monkeypatch.setattr(fresh.training.loop, "run_epoch", run_epoch)
    context = RunContext()
    with pytest.warns(RuntimeWarning, match=rf"^{method}: training diverged in step 2 of epoch 2, its loss or"):
        trained = learn(splits, configured(kind, encoders["bert"], epochs=3), context)
    assert all(torch.equal(one, other) for one, other in zip(weights(once), weights(trained), strict=True))
    assert context.notes[0].startswith(f"{method}: training diverged in step 2 of epoch 2, ")


@pytest.mark.parametrize("method", METHODS)
def test_a_gate_that_diverges_at_once_says_so(method: str, toy: Splits, encoders: dict[str, Path]) -> None:
    learn, kind, _ = METHODS[method]
    with pytest.raises(ValueError, match=rf"^{method}: training diverged in step \d+ of epoch 1, .* Lower the"):
        learn(small.some(toy, 32, 8), configured(kind, encoders["bert"], learning_rate=1e30))

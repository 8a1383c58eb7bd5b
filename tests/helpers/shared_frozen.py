"""What tests of frozen share with others."""

from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

import fresh.training.fit
import fresh.training.loop
from fresh.attribution.support_model import text_of
from fresh.data.splits import Splits
from fresh.document import Example
from fresh.nn.config import NetworkConfig
from fresh.nn.tokenizer import Text
from fresh.training.config import ClassifierConfig, TrainConfig, _EngineConfig
from fresh.training.fit import FitRequest
from fresh.training.loop import RunContext
from fresh.training.step import Loss

LABELS = ("neg", "pos")


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The loss of every step that is made from here on."""
    found: list[float] = []
    real = fresh.training.fit._make_loss

    def make_loss(*given: Any) -> Loss:
        loss = real(*given)

        def noted(numbers: Tensor, width: int, dense: bool) -> Tensor:
            value = loss(numbers, width, dense)
            found.append(value.item())
            return value

        return noted

    monkeypatch.setattr(fresh.training.fit, "_make_loss", make_loss)
    return found


def pairs(examples: tuple[Example, ...]) -> list[tuple[Text, str]]:
    return [(text_of(example.document), example.label) for example in examples]


def lesson(splits: Splits, folder: Path, context: RunContext, layers: int = 1, **engine: Any) -> FitRequest:
    """Settings under which the part that learns drops much out."""
    config = ClassifierConfig(
        NetworkConfig(str(folder), layers=layers, dropout=0.3),
        TrainConfig(epochs=4, batch_size=16, learning_rate=3e-3, device="cpu", engine=_EngineConfig(**engine)),
    )
    return FitRequest(pairs(splits.train), pairs(splits.dev), LABELS, config, context)

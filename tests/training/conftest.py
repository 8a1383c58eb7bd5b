"""What tests of training share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fresh.attribution.support_model import text_of
from fresh.data.splits import Splits
from fresh.document import Example
from fresh.nn.config import NetworkConfig
from fresh.nn.tokenizer import Text
from fresh.training.config import ClassifierConfig, EngineConfig, TrainConfig
from fresh.training.fit import TrainingPairs


@pytest.fixture
def frozen_config(encoders: dict[str, Path]) -> Callable[..., ClassifierConfig]:
    """Make settings with frozen layers, under which what learns drops much out."""

    def make(architecture: str = "bert", layers: int = 1, **engine: Any) -> ClassifierConfig:
        network = NetworkConfig(str(encoders[architecture]), layers=layers, dropout=0.3)
        return ClassifierConfig(
            network,
            TrainConfig(epochs=4, batch_size=16, learning_rate=3e-3, device="cpu", engine=EngineConfig(**engine)),
        )

    return make


@pytest.fixture
def pairs_of() -> Callable[[Splits], TrainingPairs[Text]]:
    """Make what a support model is trained on."""

    def texts(examples: tuple[Example, ...]) -> list[tuple[Text, str]]:
        return [(text_of(example.document), example.label) for example in examples]

    return lambda splits: TrainingPairs(texts(splits.train), texts(splits.dev))

"""The training loop, and what makes it fast."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fresh.training.config import ClassifierConfig, EngineConfig, TrainConfig
    from fresh.training.feature_cache import FeatureStore
    from fresh.training.fit import TrainingPairs, train_classifiers
    from fresh.training.loop import RunContext, TrainingJob

__all__ = [
    "ClassifierConfig",
    "EngineConfig",
    "FeatureStore",
    "RunContext",
    "TrainConfig",
    "TrainingJob",
    "TrainingPairs",
    "train_classifiers",
]

_HOMES = {
    "FeatureStore": "feature_cache",
    "RunContext": "loop",
    "TrainingJob": "loop",
    "TrainingPairs": "fit",
    "train_classifiers": "fit",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'fresh.training' has no attribute {name!r}")
    return getattr(importlib.import_module(f"fresh.training.{_HOMES.get(name, 'config')}"), name)

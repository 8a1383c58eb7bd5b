"""Training methods: settings, and what makes a model from data and settings."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fresh.methods.config import (
        METHODS,
        BastingsConfig,
        FreshConfig,
        FullTextConfig,
        HumanConfig,
        LeiConfig,
        RandomConfig,
        RunConfig,
    )
    from fresh.methods.fresh import train_seeds
    from fresh.methods.registry import MethodResult, train_method

__all__ = [
    "METHODS",
    "BastingsConfig",
    "FreshConfig",
    "FullTextConfig",
    "HumanConfig",
    "LeiConfig",
    "MethodResult",
    "RandomConfig",
    "RunConfig",
    "train_method",
    "train_seeds",
]

_HOMES = {"MethodResult": "registry", "train_method": "registry", "train_seeds": "fresh"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'fresh.methods' has no attribute {name!r}")
    return getattr(importlib.import_module(f"fresh.methods.{_HOMES.get(name, 'config')}"), name)

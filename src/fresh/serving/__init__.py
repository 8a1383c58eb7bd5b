"""Saved models in the browser and over JSON."""

import importlib
from typing import Any

__all__ = ["BatchLimits", "JobLimits", "Models", "ServeConfig", "create_app", "load_models"]

_MODULES = {"Models": "models", "create_app": "app", "load_models": "models"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'fresh.serving' has no attribute {name!r}")
    return getattr(importlib.import_module(f"fresh.serving.{_MODULES.get(name, 'config')}"), name)

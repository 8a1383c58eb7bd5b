"""What the servers of models and of studies share: the app, its security, errors, metrics and assets."""

import importlib
from typing import Any

__all__ = ["Assets", "PortError", "Problem", "SecurityConfig", "ServerMetrics", "bind", "make_app", "serve"]

_MODULES = {"Problem": "errors", "SecurityConfig": "security", "ServerMetrics": "metrics"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'fresh.web' has no attribute {name!r}")
    return getattr(importlib.import_module(f"fresh.web.{_MODULES.get(name, 'server')}"), name)

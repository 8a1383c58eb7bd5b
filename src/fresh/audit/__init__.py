"""Audit: tries to break the guarantee of a model, and looks for what leaks past it."""

from fresh._optional import lazy_package

__getattr__, __dir__, __all__ = lazy_package(__name__, __file__)

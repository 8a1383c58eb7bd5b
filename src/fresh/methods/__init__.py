"""Training methods: settings, and what makes a model from data and settings."""

from fresh._optional import lazy_package

__getattr__, __dir__, __all__ = lazy_package(__name__, __file__)

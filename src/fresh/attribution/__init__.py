"""The support model, and one file for each way to score words by it."""

from fresh._optional import lazy_package

__getattr__, __dir__, __all__ = lazy_package(__name__, __file__)

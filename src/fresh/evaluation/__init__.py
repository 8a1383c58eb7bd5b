"""Evaluation of a model on labelled documents, and comparison of several models."""

from fresh._optional import lazy_package

__getattr__, __dir__, __all__ = lazy_package(__name__, __file__)

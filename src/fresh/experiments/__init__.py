"""Experiments: grids of runs from files, each run done once by as many workers as there are; tables and figures."""

from fresh._optional import lazy_package

__getattr__, __dir__, __all__ = lazy_package(__name__, __file__)

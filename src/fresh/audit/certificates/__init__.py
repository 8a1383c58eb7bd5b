"""Certificates: what a prediction was computed from, in lines that cannot be changed unnoticed."""

from fresh._optional import lazy_package

# `certify` and `verify` are in `fresh`: here, these names are modules.
__getattr__, __dir__, __all__ = lazy_package(__name__, __file__)

"""What the servers of models and of studies share: the app, its security, errors, metrics and assets."""

from fresh._optional import lazy_package

__getattr__, __dir__, __all__ = lazy_package(__name__, __file__)

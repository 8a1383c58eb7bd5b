"""The pages of a study, for annotators and for the person who runs it."""

from fresh._optional import lazy_package

__getattr__, __dir__, __all__ = lazy_package(__name__, __file__)

"""From scores to masks: discretizers, the tagger, and the extractors that use them."""

from fresh._optional import lazy_package

__getattr__, __dir__, __all__ = lazy_package(__name__, __file__)

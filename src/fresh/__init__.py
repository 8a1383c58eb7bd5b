"""Text classification that shows exactly the words each answer was computed from."""

from fresh._optional import lazy_package

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_package(__name__, __file__)

"""Human studies: who reads which rationale, what they answer, and what follows from it."""

from fresh._optional import lazy_package

__getattr__, __dir__, __all__ = lazy_package(__name__, __file__)

"""Data: read texts, labels and human rationales from files, tables, annotation tools and published corpora."""

from fresh._optional import lazy_package

__getattr__, __dir__, __all__ = lazy_package(__name__, __file__)

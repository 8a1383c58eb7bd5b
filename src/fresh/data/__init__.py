"""Data: read texts, labels and human rationales from files, tables, annotation tools and published corpora."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fresh.data.config import DataConfig
    from fresh.data.corpora import CORPORA, Corpus, find_corpus, read_demo
    from fresh.data.examples import BadRows, read_documents, read_examples
    from fresh.data.fingerprints import TrainingFingerprints, dataset_digest
    from fresh.data.splits import Splits, load_splits, split_off

__all__ = [
    "CORPORA",
    "BadRows",
    "Corpus",
    "DataConfig",
    "Splits",
    "TrainingFingerprints",
    "dataset_digest",
    "find_corpus",
    "load_splits",
    "read_demo",
    "read_documents",
    "read_examples",
    "split_off",
]

_MODULES = {
    "DataConfig": "config",
    **dict.fromkeys(("CORPORA", "Corpus", "find_corpus", "read_demo"), "corpora"),
    **dict.fromkeys(("BadRows", "read_documents", "read_examples"), "examples"),
    **dict.fromkeys(("TrainingFingerprints", "dataset_digest"), "fingerprints"),
    **dict.fromkeys(("Splits", "load_splits", "split_off"), "splits"),
}


def __getattr__(name: str) -> Any:
    """Import a name when it is used, so that settings can be read without numpy."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)

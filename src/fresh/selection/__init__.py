"""From scores to masks: discretizers, the tagger, and the extractors that use them."""

from typing import TYPE_CHECKING

from fresh._optional import lazy_exports

if TYPE_CHECKING:
    from fresh.selection.discretizers import (
        DISCRETIZERS,
        Contiguous,
        Discretizer,
        GlobalContiguous,
        GlobalTopK,
        Threshold,
        TopK,
        budget,
    )
    from fresh.selection.extractors import Curve, Extractor, FullText, HumanRationales, SaliencyExtractor
    from fresh.selection.tagger import Tagger

__all__ = [
    "DISCRETIZERS",
    "Contiguous",
    "Curve",
    "Discretizer",
    "Extractor",
    "FullText",
    "GlobalContiguous",
    "GlobalTopK",
    "HumanRationales",
    "SaliencyExtractor",
    "Tagger",
    "Threshold",
    "TopK",
    "budget",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "discretizers": (
            *("DISCRETIZERS", "Contiguous", "Discretizer", "GlobalContiguous", "GlobalTopK", "Threshold", "TopK"),
            "budget",
        ),
        "extractors": ("Curve", "Extractor", "FullText", "HumanRationales", "SaliencyExtractor"),
        "tagger": ("Tagger",),
    },
)

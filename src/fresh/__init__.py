"""Text classification that shows exactly the words an answer was made from."""

import importlib
from typing import TYPE_CHECKING, Any

from fresh.extras import explained

if TYPE_CHECKING:
    from fresh.certificates.certifier import certify
    from fresh.certificates.verifier import verify
    from fresh.document import Document, Explanation, Mask
    from fresh.progress import SILENT
    from fresh.rationale import Prediction, Rationale
    from fresh.rationalizer import Rationalizer
    from fresh.recipe import train

__version__ = "0.1.0"

__all__ = [
    "SILENT",
    "Document",
    "Explanation",
    "Mask",
    "Prediction",
    "Rationale",
    "Rationalizer",
    "__version__",
    "certify",
    "train",
    "verify",
]

HOMES = {
    "Document": "document",
    "Explanation": "document",
    "Mask": "document",
    "Prediction": "rationale",
    "Rationale": "rationale",
    "Rationalizer": "rationalizer",
    "SILENT": "progress",
    "certify": "certificates.certifier",
    "train": "recipe",
    "verify": "certificates.verifier",
}


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is asked for, so that importing fresh is instant."""
    if name not in HOMES:
        raise AttributeError(f"module 'fresh' has no attribute {name!r}")
    with explained(f"fresh.{name}"):
        return getattr(importlib.import_module(f"fresh.{HOMES[name]}"), name)

"""Text classification that shows exactly the words an answer was made from."""

import importlib
from typing import TYPE_CHECKING, Any

from fresh._optional import explain_missing_extra

if TYPE_CHECKING:
    from fresh.audit.certificates.certify import certify
    from fresh.audit.certificates.verify import verify
    from fresh.document import Document, Explanation, Mask
    from fresh.pipeline import train
    from fresh.progress import SILENT
    from fresh.rationale import Prediction, Rationale
    from fresh.rationalizer import Rationalizer

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
    "certify": "audit.certificates.certify",
    "train": "pipeline",
    "verify": "audit.certificates.verify",
}


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is asked for, so that importing fresh is instant."""
    if name not in HOMES:
        raise AttributeError(f"module 'fresh' has no attribute {name!r}")
    with explain_missing_extra(f"fresh.{name}"):
        return getattr(importlib.import_module(f"fresh.{HOMES[name]}"), name)

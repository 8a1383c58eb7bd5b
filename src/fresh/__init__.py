"""Text classification that shows exactly the words each answer was computed from."""

from typing import TYPE_CHECKING

from fresh._optional import lazy_exports
from fresh.errors import (
    CertificateError,
    ConfigError,
    DataError,
    EncoderError,
    FreshError,
    MissingExtraError,
    ModelError,
    OutputError,
    StudyError,
    TooLongError,
)

if TYPE_CHECKING:
    from fresh.audit.certificates.certify import certify
    from fresh.audit.certificates.verify import verify
    from fresh.data.splits import Splits, load_splits
    from fresh.document import Document, Example, Explanation, Mask, Saliency
    from fresh.evaluation import compare, evaluate
    from fresh.pipeline import train
    from fresh.progress import SILENT, Progress, Terminal
    from fresh.rationale import Prediction, Rationale
    from fresh.rationalizer import Rationalizer
    from fresh.reporting.report import Report
    from fresh.selection.extractors import Curve

__version__ = "0.1.0"

__all__ = [
    "SILENT",
    "CertificateError",
    "ConfigError",
    "Curve",
    "DataError",
    "Document",
    "EncoderError",
    "Example",
    "Explanation",
    "FreshError",
    "Mask",
    "MissingExtraError",
    "ModelError",
    "OutputError",
    "Prediction",
    "Progress",
    "Rationale",
    "Rationalizer",
    "Report",
    "Saliency",
    "Splits",
    "StudyError",
    "Terminal",
    "TooLongError",
    "__version__",
    "certify",
    "compare",
    "evaluate",
    "load_splits",
    "train",
    "verify",
]

# torch alone takes seconds to import, so each name is imported on first use.
__getattr__ = lazy_exports(
    __name__,
    {
        "audit.certificates.certify": ("certify",),
        "audit.certificates.verify": ("verify",),
        "data.splits": ("Splits", "load_splits"),
        "document": ("Document", "Example", "Explanation", "Mask", "Saliency"),
        "evaluation": ("compare", "evaluate"),
        "pipeline": ("train",),
        "progress": ("SILENT", "Progress", "Terminal"),
        "rationale": ("Prediction", "Rationale"),
        "rationalizer": ("Rationalizer",),
        "reporting.report": ("Report",),
        "selection.extractors": ("Curve",),
    },
)

"""Certificates: what a prediction was computed from, in lines that cannot be changed unnoticed."""

from typing import TYPE_CHECKING

from fresh._optional import lazy_exports

if TYPE_CHECKING:
    from fresh.audit.certificates.certify import Certifier, CertifyResult, certifying
    from fresh.audit.certificates.format import Certificate, Maker
    from fresh.audit.certificates.verify import Verification

# `certify` and `verify` are in `fresh`: here, these names are modules.
__all__ = ["Certificate", "Certifier", "CertifyResult", "Maker", "Verification", "certifying"]

__getattr__ = lazy_exports(
    __name__,
    {
        "certify": ("Certifier", "CertifyResult", "certifying"),
        "format": ("Certificate", "Maker"),
        "verify": ("Verification",),
    },
)

"""Audit: tries to break the guarantee of a model, and looks for what leaks past it."""

from typing import TYPE_CHECKING

from fresh._optional import lazy_exports

if TYPE_CHECKING:
    from fresh.audit.checks import Audit, audit
    from fresh.audit.degenerate import find_degenerate
    from fresh.audit.duplicates import find_duplicates
    from fresh.audit.leakage import find_leaks, find_length_leak
    from fresh.audit.replay import replay_saved

__all__ = [
    "Audit",
    "audit",
    "find_degenerate",
    "find_duplicates",
    "find_leaks",
    "find_length_leak",
    "replay_saved",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "checks": ("Audit", "audit"),
        "degenerate": ("find_degenerate",),
        "duplicates": ("find_duplicates",),
        "leakage": ("find_leaks", "find_length_leak"),
        "replay": ("replay_saved",),
    },
)

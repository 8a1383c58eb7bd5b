"""The pages of a study, for annotators and for the person who runs it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fresh.study.web.app import StudyServeConfig, create_app

__all__ = ["StudyServeConfig", "create_app"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is used: FastAPI takes long to load, and is optional."""
    if name not in __all__:
        raise AttributeError(f"module 'fresh.study.web' has no attribute {name!r}")
    from fresh.study.web import app

    return getattr(app, name)

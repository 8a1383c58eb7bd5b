"""Human studies: who reads which rationale, what they answer, and what follows from it."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fresh.study.annotators import add_annotators, exclude, leave, readmit, record_consent, set_paused, sign_in
    from fresh.study.answers import Answer
    from fresh.study.config import Condition, Study, StudyConfig, read_study
    from fresh.study.export import export_study
    from fresh.study.importing import import_study
    from fresh.study.items import Plan, make_plan, read_documents
    from fresh.study.overview import compute_results, get_overview, read_answers
    from fresh.study.results import Results, draw_results
    from fresh.study.service import next_item, save_answer
    from fresh.study.store import Store, create_study, open_study

__all__ = [
    "Answer",
    "Condition",
    "Plan",
    "Results",
    "Store",
    "Study",
    "StudyConfig",
    "add_annotators",
    "compute_results",
    "create_study",
    "draw_results",
    "exclude",
    "export_study",
    "get_overview",
    "import_study",
    "leave",
    "make_plan",
    "next_item",
    "open_study",
    "read_answers",
    "read_documents",
    "read_study",
    "readmit",
    "record_consent",
    "save_answer",
    "set_paused",
    "sign_in",
]

_MODULES = {
    "annotators": ("add_annotators", "exclude", "leave", "readmit", "record_consent", "set_paused", "sign_in"),
    "answers": ("Answer",),
    "config": ("Condition", "Study", "StudyConfig", "read_study"),
    "export": ("export_study",),
    "importing": ("import_study",),
    "items": ("Plan", "make_plan", "read_documents"),
    "overview": ("compute_results", "get_overview", "read_answers"),
    "results": ("Results", "draw_results"),
    "service": ("next_item", "save_answer"),
    "store": ("Store", "create_study", "open_study"),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is used: the database packages take long to load, and are optional."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"fresh.study.{module}"), name)
    raise AttributeError(f"module 'fresh.study' has no attribute {name!r}")

"""Questions to a model, many of them answered in one go."""

from collections.abc import Sequence

from fresh.document import Explanation
from fresh.rationalizer import ExplainSpec as Question
from fresh.rationalizer import Rationalizer

__all__ = ["Answer", "Question", "answer"]

Answer = tuple[Explanation, ...]
"""One explanation, or one for each length."""


def answer(model: Rationalizer, questions: Sequence[Question]) -> list[Answer]:
    """Answer questions of all kinds with one pass of each network."""
    return model.explain_specs(questions)

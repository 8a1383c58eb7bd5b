"""Settings of scorers."""

from dataclasses import dataclass
from typing import Literal

from fresh.config import check_max, check_min, raise_all

MOST_STEPS = 1_000
MOST_SAMPLES = 10_000
"""The most that one document is read: without a limit, a model from somebody else could compute for ever."""


@dataclass(frozen=True, slots=True)
class ScorerConfig:
    """What the scorers can be told; each takes what concerns it."""

    embeddings: Literal["words", "whole"] = "words"
    """What gradient differentiates by: the words' own embeddings, or the whole of them with positions and types, as the
    authors' code has it."""
    layer: int | Literal["all"] = -1
    """Layer whose attention is read: -1 is the last, -2 the one before it, as the paper's text has it; all of them,
    added up, with attention_gradient and attention_shift only."""
    steps: int = 20
    """Points at which integrated gradients are taken; at most 1,000."""
    samples: int = 200
    """Variants of a document that lime and kernel_shap read; at most 10,000."""

    def __post_init__(self) -> None:
        check_effort(self.steps, self.samples)


def check_effort(steps: int = 1, samples: int = 1) -> None:
    """Refuse to read a document never, or more often than there is time for."""
    raise_all(
        *check_min(1, steps=steps, samples=samples),
        *check_max(MOST_STEPS, steps=steps),
        *check_max(MOST_SAMPLES, samples=samples),
    )

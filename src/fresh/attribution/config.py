"""Settings of scorers."""

from dataclasses import dataclass
from typing import Literal

from fresh.config import check_max, check_min, raise_all

# Without limits, the settings of a downloaded model could keep a computer busy forever.
MAX_STEPS = 1_000
MAX_SAMPLES = 10_000

Evidence = Literal["for", "both"]


@dataclass(frozen=True, slots=True)
class ScorerConfig:
    """Settings of all scorers; each takes its own."""

    embeddings: Literal["words", "whole"] = "words"
    """What gradient differentiates by: the words' own embeddings (words), or their sum with positions and types
    (whole), as in the authors' code."""
    layer: int | Literal["all"] = -1
    """Layer whose attention is read: -1 is the last, -2 the one before it, as in the paper's text; or all of them,
    added up, for attention_gradient and attention_shift."""
    steps: int = 20
    """Points at which integrated gradients are taken; at most 1,000."""
    samples: int = 200
    """Variants of a document that lime and kernel_shap read; at most 10,000."""
    evidence: Evidence = "for"
    """Which words score high with signed scorers: those that raise the predicted probability (for), or those that
    change it most, up or down (both)."""

    def __post_init__(self) -> None:
        check_effort(self.steps, self.samples)


def check_effort(steps: int = 1, samples: int = 1) -> None:
    """Check how often a document is read."""
    raise_all(
        *check_min(1, steps=steps, samples=samples),
        *check_max(MAX_STEPS, steps=steps),
        *check_max(MAX_SAMPLES, samples=samples),
    )

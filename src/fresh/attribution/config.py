"""Settings of scorers."""

from dataclasses import dataclass
from typing import Literal

from fresh.config import below, refuse


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
    """Points at which integrated gradients are taken."""
    samples: int = 200
    """Variants of a document that lime and kernel_shap read."""

    def __post_init__(self) -> None:
        refuse(*below(1, steps=self.steps, samples=self.samples))

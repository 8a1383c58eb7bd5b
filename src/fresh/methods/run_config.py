"""Settings of a training run beside those of its method."""

from dataclasses import dataclass, field
from typing import Literal

from fresh.data.config import DataConfig


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Settings of a training run that are the same for all methods."""

    method: Literal["fresh", "lei", "bastings", "full_text", "random", "human"] = "fresh"
    """How words are chosen: by a support model's scores (fresh), by a gate that is trained along (lei, bastings), not
    at all (full_text), by lot (random), or by people (human)."""
    baseline: bool = True
    """Also train predictors to compare with: on random words, on what was dropped, and on full text where no support
    model is trained."""
    audit: bool = True
    """Try to break the guarantee of the finished model, and look for what leaks past it."""
    data: DataConfig = field(default_factory=DataConfig)

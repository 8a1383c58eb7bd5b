"""Ways to say how much each word mattered to a support model, one file a method."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Protocol

from fresh.attribution.attention import Attention
from fresh.attribution.attention_gradient import AttentionGradient, AttentionShift
from fresh.attribution.gradient import Gradient
from fresh.attribution.integrated_gradients import IntegratedGradients
from fresh.attribution.occlusion import Occlusion
from fresh.attribution.random import Random
from fresh.attribution.support_model import SupportModel
from fresh.attribution.surrogate import KernelShap, Lime
from fresh.config import raise_all, suggest
from fresh.document import Document, Saliency


class Scorer(Protocol):
    """Says how much each word mattered to the support model."""

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score a word, for the label the support model itself predicts."""
        ...


ScorerFactory = Callable[[SupportModel], Scorer]
"""Anything that makes a scorer from the support model it asks, such as a class of your own."""

Targeted = Gradient | AttentionGradient | AttentionShift | IntegratedGradients | Occlusion | Lime | KernelShap
"""Scorers whose scores depend on the label that is explained; attention and random numbers do not."""


def check_scorer_name(name: str) -> str | None:
    """Say so if no scorer has this name."""
    return None if name in SCORERS else suggest(name, "a scorer", SCORERS)


def needs_support(name: str) -> bool:
    """Say whether a scorer asks a support model at all."""
    return "support" in scorer_settings(name)


def make_scorer(name: str, support: SupportModel | None, settings: Mapping[str, Any]) -> Scorer:
    """Make a scorer by its name; of the settings it takes those that concern it."""
    values = {"support": support, **settings}
    chosen = {key: values[key] for key in scorer_settings(name) if key in values}
    scorer: Scorer = SCORERS[name](**chosen)
    return scorer


def scorer_to_dict(scorer: Scorer) -> dict[str, Any]:
    """Write down a scorer's name and settings; of a scorer of somebody's own, only what it is called."""
    for name, kind in SCORERS.items():
        if type(scorer) is kind:
            settings = {key: getattr(scorer, key) for key in scorer_settings(name) if key != "support"}
            return {"name": name, **settings}
    return {"name": CUSTOM, "class": f"{type(scorer).__module__}.{type(scorer).__qualname__}"}


def with_target(scorer: Targeted, label: str) -> Targeted:
    """Make a scorer that explains a given label, whatever the support model predicts."""
    return replace(scorer, support=scorer.support.with_target(label))


def scorer_settings(name: str) -> list[str]:
    """List what a scorer is made from."""
    raise_all(check_scorer_name(name))
    return [field.name for field in fields(SCORERS[name])]


CUSTOM = "custom"

SCORERS: dict[str, type[Any]] = {
    "attention": Attention,
    "gradient": Gradient,
    "attention_gradient": AttentionGradient,
    "attention_shift": AttentionShift,
    "integrated_gradients": IntegratedGradients,
    "occlusion": Occlusion,
    "lime": Lime,
    "kernel_shap": KernelShap,
    "random": Random,
}

"""Scorers by name."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from fresh.config import raise_all, suggest
from fresh.document import Document, Saliency

if TYPE_CHECKING:
    from fresh.attribution.support_model import SupportModel

CUSTOM = "custom"
"""What stands for the name of a user's own scorer."""

SCORERS = {
    "attention": "Attention",
    "gradient": "Gradient",
    "attention_gradient": "AttentionGradient",
    "attention_shift": "AttentionShift",
    "integrated_gradients": "IntegratedGradients",
    "occlusion": "Occlusion",
    "lime": "Lime",
    "kernel_shap": "KernelShap",
    "random": "Random",
}
"""Name and class of each scorer. The classes are imported on first use, since they need torch."""


TARGETED = SCORERS.keys() - {"attention", "random"}
"""Names of the scorers whose scores depend on the label that is explained."""


class Scorer(Protocol):
    """Scores how much each word mattered to the support model."""

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score per word, for the label that the support model itself predicts."""
        ...


ScorerFactory = Callable[["SupportModel"], Scorer]
"""Anything that makes a scorer from a support model, such as a class of your own."""


class TargetedScorer(Scorer, Protocol):
    """A scorer whose scores depend on the label that is explained; attention and random numbers do not."""

    @property
    def support(self) -> "SupportModel":
        """The support model that it asks."""
        ...


def is_targeted(scorer: Scorer) -> TypeGuard[TargetedScorer]:
    """Whether a scorer's scores depend on the label that is explained."""
    return scorer_to_dict(scorer)["name"] in TARGETED


def check_scorer_name(name: str) -> str | None:
    """Return what is wrong with the name of a scorer, if anything."""
    return None if name in SCORERS else suggest(name, "a scorer", SCORERS)


def _scorer_class(name: str) -> type[Any]:
    kind: type[Any] = getattr(importlib.import_module("fresh.attribution"), SCORERS[name])
    return kind


def scorer_settings(name: str) -> list[str]:
    """List what a scorer is made from."""
    raise_all(check_scorer_name(name))
    return [field.name for field in fields(_scorer_class(name))]


def needs_support(name: str) -> bool:
    """Whether a scorer needs a support model at all."""
    return "support" in scorer_settings(name)


def make_scorer(name: str, support: "SupportModel | None", settings: Mapping[str, Any]) -> Scorer:
    """Make a scorer by its name, with those of the settings that it takes."""
    values = {"support": support, **settings}
    own = {key: values[key] for key in scorer_settings(name) if key in values}
    scorer: Scorer = _scorer_class(name)(**own)
    return scorer


def scorer_to_dict(scorer: Scorer) -> dict[str, Any]:
    """Record a scorer's name and settings; of a user's own scorer, only its class."""
    for name in SCORERS:
        if type(scorer) is _scorer_class(name):
            return {"name": name} | {key: getattr(scorer, key) for key in scorer_settings(name) if key != "support"}
    return {"name": CUSTOM, "class": f"{type(scorer).__module__}.{type(scorer).__qualname__}"}


def with_target(scorer: TargetedScorer, label: str) -> Scorer:
    """Make a scorer that explains a given label, whatever the support model predicts."""
    return replace(scorer, support=scorer.support.with_target(label))  # type: ignore[type-var]

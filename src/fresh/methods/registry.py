"""Methods by name: their settings, and what training returns."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from fresh.attribution import SCORERS, ScorerFactory, scorer_settings
from fresh.attribution.config import ScorerConfig
from fresh.attribution.support_model import SupportModel
from fresh.config import flatten, list_settings, suggest, suggest_setting
from fresh.data.splits import Splits
from fresh.document import Mask
from fresh.errors import ConfigError
from fresh.methods.config import METHODS, CutConfig, FreshConfig, RunConfig
from fresh.nn.encoder import pin_revision
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import DISCRETIZERS
from fresh.selection.extractors import Extractor
from fresh.text import and_list
from fresh.training.config import ClassifierConfig
from fresh.training.loop import RunContext

# Settings that have an effect only with some values of another setting.
NEEDS = (("lagrange_square", "two_sided", ("True",)),)


@dataclass(frozen=True, slots=True)
class MethodResult:
    """A trained model, and the words of train and dev that it keeps."""

    model: Rationalizer
    # Functions, since a gate has to read all of train for that, and not every caller needs it.
    masks: Callable[[], list[Mask]]
    """Returns the words of train that are kept."""
    dev_masks: Callable[[], list[Mask]]
    """Returns the words of dev that are kept."""
    support: SupportModel | None = None
    """The support model that was trained, if any."""
    kept_by_gate: float | None = None
    """The share of the words of dev that a gate is expected to keep before the cut."""


def find_config(name: str) -> type[ClassifierConfig]:
    """Return the settings class of a method."""
    if name not in METHODS:
        raise ConfigError(suggest(name, "a method", METHODS))
    return METHODS[name]


def train_method(
    name: str,
    splits: Splits,
    config: ClassifierConfig,
    context: RunContext | None = None,
    scorer: ScorerFactory | None = None,
) -> MethodResult:
    """Train a model with a method.

    :param scorer: Makes a custom scorer from the support model, in place of ``config.scorer``.
    """
    # Not at the top: these modules import from this one.
    from fresh.methods import baselines, fresh
    from fresh.methods.bastings import Bastings
    from fresh.methods.joint import train_joint
    from fresh.methods.lei import Lei

    context = context or RunContext()
    if scorer is not None:
        if not isinstance(config, FreshConfig):
            raise ConfigError(f"scorer is a setting of fresh, not of the method {name}.")
        return fresh.train(splits, config, context, scorer)
    train: dict[str, Callable[[Splits, Any, RunContext], MethodResult]] = {
        "fresh": fresh.train,
        "lei": partial(train_joint, Lei),
        "bastings": partial(train_joint, Bastings),
        "full_text": baselines.train_full_text,
        "random": baselines.train_random,
        "human": baselines.train_human,
    }
    find_config(name)  # raises with the nearest name
    return train[name](splits, config, context)


def make_rationalizer(
    name: str, splits: Splits, config: ClassifierConfig, extractor: Extractor, predictor: Predictor
) -> Rationalizer:
    """Join both halves of a model, and record the settings that they were trained with."""
    ratios = config.served_ratios if isinstance(config, FreshConfig) else None
    has_queries = bool(splits.train[0].document.query)
    return Rationalizer(extractor, predictor, settings_record(name, config), has_queries, ratios=ratios)


def settings_record(name: str, config: ClassifierConfig) -> dict[str, Any]:
    """Turn settings into plain values for a model card, with the commit of an encoder of the hub."""
    settings = {"method": name, **asdict(config)}
    encoder = config.network.encoder
    # No local path: a model card is for sharing.
    settings["network"]["encoder"] = Path(encoder).resolve().name if Path(encoder).is_dir() else pin_revision(encoder)
    return settings


def owns(config: type, name: str) -> bool:
    """Whether a class has a setting with this name or end of a path."""
    return any(f".{setting.path}".endswith(f".{name}") for setting in list_settings(config))


def split_settings(name: str, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Separate the settings of a method from those of a run.

    :return: The settings of the method, those of the run, and problems: unknown settings, and those without effect.
    """
    method_values, run_values, problems = dict[str, Any](), dict[str, Any](), list[str]()
    config = find_config(name)
    known = [setting.path for setting in (*list_settings(config), *list_settings(RunConfig))]
    for key, value in flatten(values):
        if owns(config, key):
            method_values[key] = value
        elif owns(RunConfig, key):
            run_values[key] = value
        elif owners := [method for method, kind in METHODS.items() if owns(kind, key)]:
            problems.append(f"{key} is a setting of {and_list(owners)}, not of the method {name}.")
        else:
            problems.append(suggest_setting(key, known))
    return method_values, run_values, [*problems, *_find_without_effect(method_values, config)]


def _find_without_effect(values: Mapping[str, Any], config: type[ClassifierConfig]) -> Iterator[str]:
    names = {key.rpartition(".")[2]: value for key, value in values.items()}
    defaults = {setting.name: setting.default for setting in list_settings(config)}
    scorers = {name: scorer_settings(name) for name in SCORERS}
    discretizers = {name: [field.name for field in fields(kind)] for name, kind in DISCRETIZERS.items()}
    for choice, kinds, settings in (("scorer", scorers, ScorerConfig), ("discretizer", discretizers, CutConfig)):
        chosen = names.get(choice, defaults.get(choice))
        if not isinstance(chosen, str) or chosen not in kinds:
            continue
        for key in sorted({field.name for field in fields(settings)} & names.keys()):
            owners = [name for name, taken in kinds.items() if key in taken]
            if owners and chosen not in owners:
                yield f"{key} is a setting of the {choice} {and_list(owners)}, not of {chosen}."
    for key, other, needed in NEEDS:
        value = str(names.get(other, defaults.get(other)))
        if key in names and value.lower() not in map(str.lower, needed):
            yield f"{key} has no effect with {other}={value}. Leave it out, or set {other}={needed[0]}."

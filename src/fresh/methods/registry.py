"""All methods by their names, and settings for one of them out of what a user gives."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from fresh.attribution.config import ScorerConfig
from fresh.attribution.registry import SCORERS, ScorerFactory
from fresh.config import flatten, list_settings, suggest, suggest_setting
from fresh.data.splits import Splits
from fresh.errors import ConfigError
from fresh.methods import bastings, fresh, full_text, human, lei, random
from fresh.methods.config import CutConfig, FreshConfig, NetworksConfig
from fresh.methods.gate_config import GateConfig
from fresh.methods.joint import GateObjective
from fresh.methods.listed import CONFIGS
from fresh.methods.result import MethodResult
from fresh.selection.discretizers import DISCRETIZERS
from fresh.training.loop import RunContext


@dataclass(frozen=True, slots=True)
class _Method:
    """A way to train."""

    config: type[NetworksConfig]
    train: Callable[[Splits, Any, RunContext], MethodResult]


METHODS: dict[str, _Method] = {
    "fresh": _Method(CONFIGS["fresh"], fresh.train_and_mark),
    "lei": _Method(CONFIGS["lei"], lei.train),
    "bastings": _Method(CONFIGS["bastings"], bastings.train),
    "full_text": _Method(CONFIGS["full_text"], full_text.train),
    "random": _Method(CONFIGS["random"], random.train),
    "human": _Method(CONFIGS["human"], human.train),
}


SCHEMES: dict[str, Callable[[Any], GateObjective]] = {"lei": lei.scheme, "bastings": bastings.scheme}

NEEDS = (("lagrange_square", "two_sided", ("true",)), ("frozen_gb", "frozen", ("auto", "memory")))
"""Settings that have an effect only where another one has one of some values."""


def find_method(name: str) -> _Method:
    """Find a method by its name."""
    if name not in METHODS:
        raise ConfigError(suggest(name, "a method", METHODS))
    return METHODS[name]


def scheme_of(name: str, config: GateConfig) -> GateObjective:
    """Say how the gate of a method learns."""
    return SCHEMES[name](config)


def owns(config: type, name: str) -> bool:
    """Say whether a name, or the end of a path, is that of one of the settings of a class."""
    return any(f".{setting.path}".endswith(f".{name}") for setting in list_settings(config))


def split_settings(
    name: str, values: Mapping[str, Any], others: type
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Tell the settings of a method from those of a run.

    :param others: The settings of a run beside those of a method.
    :return: Those of the method, those of the run, and what is wrong: settings that are neither, or without effect.
    """
    own: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    problems: list[str] = []
    config = find_method(name).config
    known = [setting.path for setting in (*list_settings(config), *list_settings(others))]
    for key, value in flatten(values):
        if owns(config, key):
            own[key] = value
        elif owns(others, key):
            rest[key] = value
        else:
            owners = [other for other, item in METHODS.items() if owns(item.config, key)]
            problems.append(
                f"{key} is a setting of {' and '.join(owners)}, not of the method {name}."
                if owners
                else suggest_setting(key, known)
            )
    return own, rest, [*problems, *_without_effect(own, config)]


def _without_effect(own: Mapping[str, Any], config: type[NetworksConfig]) -> Iterator[str]:
    """Name the settings that the chosen scorer or discretizer does not ask for, and those that do."""
    given = {key.rpartition(".")[2]: value for key, value in own.items()}
    usual = {setting.name: setting.default for setting in list_settings(config)}
    kinds: tuple[tuple[str, Mapping[str, type], type], ...] = (
        ("scorer", SCORERS, ScorerConfig),
        ("discretizer", DISCRETIZERS, CutConfig),
    )
    for what, known, told in kinds:
        chosen = given.get(what, usual.get(what))
        takes = {name: {field.name for field in fields(kind)} for name, kind in known.items()}
        concerned = {field.name for field in fields(told)} & given.keys()
        for key in sorted(concerned) if isinstance(chosen, str) and chosen in known else ():
            owners = [name for name in known if key in takes[name]]
            if owners and chosen not in owners:
                yield f"{key} is a setting of the {what} {' and '.join(owners)}, not of {chosen}."
    for key, other, needed in NEEDS:
        value = str(given.get(other, usual.get(other))).lower()
        if key in given and value not in needed:
            yield f"{key} has no effect with {other}={value}: leave it out, or take {other}={needed[0]}."


def train_method(
    name: str, splits: Splits, config: NetworksConfig, context: RunContext, scorer: ScorerFactory | None
) -> MethodResult:
    """Train a model with a method, given by its name."""
    if scorer is None:
        return find_method(name).train(splits, config, context)
    if not isinstance(config, FreshConfig):
        raise ConfigError(f"scorer is a setting of fresh, not of the method {name}.")
    return fresh.train_and_mark(splits, config, context, scorer)

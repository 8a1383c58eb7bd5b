"""Names of settings in a grid file: each by its end, and those that stand where they do not belong."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fresh.config import flatten, list_settings, nearest_name, suggest, suggest_setting
from fresh.errors import ConfigError
from fresh.experiments.wording import known
from fresh.methods.config import METHODS, RunConfig
from fresh.methods.registry import owns

OWN = ("name", "corpus", "reads", "draw", "trials")
"""What a row says beside settings of `fresh train`."""
HOMES = {
    "name": "It stands in a row, or at the top of the file.",
    "corpus": "It stands in [grid] or in a row, or in `overrides`.",
    "documents": "It stands at the top of the file, or is given as `documents`.",
    "data": "It stands in [corpora.NAME].",
    **dict.fromkeys(("reads", "draw", "trials"), "It stands in a row."),
    **dict.fromkeys(("corpora", "dataset"), "Corpora are named by corpus, in [grid] or in a row, or in `overrides`."),
    **{name: f"It is given as `{name}`." for name in ("out", "data_dir", "workers", "engine")},
}
"""Where names belong that are no settings."""


def short_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Name settings by the end of their paths, so that each has one name.

    :raises ConfigError: If one has two values, under two of its names.
    """
    found: dict[str, Any] = {}
    for name, value in flatten(values):
        short = _short_name(name)
        if short in found:
            raise ConfigError(f"{short} is given twice, once as {name}. Leave one of them out.")
        found[short] = value
    return found


@functools.cache
def _short_name(name: str) -> str:
    """Take the end of a setting's path, or all of a name that is none."""
    kinds: list[type] = [RunConfig, *METHODS.values()]
    return name.rpartition(".")[2] if any(owns(kind, name) for kind in kinds) else name


@functools.cache
def _paths() -> tuple[str, ...]:
    """List the paths of all settings of all methods."""
    kinds: list[type] = [RunConfig, *METHODS.values()]
    return tuple(setting.path for kind in kinds for setting in list_settings(kind))


def _sections() -> list[str]:
    """List the tables that settings may stand in."""
    return list(dict.fromkeys(part for path in _paths() for part in path.split(".")[:-1]))


def wrong_part(name: str, parts: Sequence[str]) -> str:
    """Say that a part of a grid file is none, and where it belongs if it is something else.

    :param parts: The parts that there are.
    """
    meant = nearest_name(name, known()) if nearest_name(name, parts) is None else None
    if name in HOMES:
        home = HOMES[name]
    elif name in _sections():
        home = f"Settings of all runs stand in [settings.{name}]."
    elif meant is not None:
        home = f"The setting {meant} stands in [settings], in [grid] or in a row."
    else:
        return suggest(name, "a part of a grid", parts)
    return f"{name} is not a part of a grid. {home}"


def wrong_names(given: Mapping[str, Any], overrides: Mapping[str, Any]) -> Iterator[str]:
    """Name what is not a setting where one should be, and what does not belong there."""
    for number, row in enumerate(given["rows"], 1):
        yield from _wrong_in(f"row {row.get('name', number)}", row, OWN)
    yield from _wrong_in("[grid]", given.get("grid", {}), ("corpus",))
    yield from _wrong_in("[settings]", given.get("settings", {}), ())
    for name, about in given.get("corpora", {}).items():
        yield from _wrong_in(f"[corpora.{name}]", about, ("data",))
    yield from _wrong_in("`overrides`", overrides, ("corpus",))


def _wrong_in(place: str, table: Mapping[str, Any], own: Sequence[str]) -> Iterator[str]:
    """Name what is wrong in one place of a grid.

    :param own: Names that it may have beside settings.
    """
    for name, value in table.items():
        if name in own:
            continue
        if isinstance(value, Mapping) and name not in _sections():
            tables = [*(item for item in own if item == "draw"), *_sections()]
            yield f"{place}: {suggest(name, 'a table of settings', tables)}"
        else:
            yield from (
                f"{place}: {_wrong_name(short, own)}" for short in short_names({name: value}) if short not in known()
            )


def _wrong_name(name: str, own: Sequence[str]) -> str:
    """Say that a name is not one of a setting, and what is more like it, or where it belongs."""
    if name in HOMES:
        return f"{name} is not a setting. {HOMES[name]}"
    if "." in name or nearest_name(name, known()) is not None:
        return suggest_setting(name, _paths())
    return suggest(name, "a setting", [*own, *known()])

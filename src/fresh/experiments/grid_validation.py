"""What is wrong with a grid file: its parts, names of settings, corpora, overrides, and labels of runs."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fresh.config import Setting, flatten, list_settings, nearest_name, suggest, suggest_setting
from fresh.data.corpora import CORPORA
from fresh.errors import ConfigError
from fresh.experiments.grid import RunSpec
from fresh.methods.config import METHODS, RunConfig, settings_of_methods
from fresh.methods.registry import NEEDS, owns, split_settings

PARTS = ("name", "about", "documents", "settings", "grid", "corpora", "rows", "figure")
ROW_KEYS = ("name", "corpus", "reads", "draw", "trials")
"""Keys of a row that are not settings."""
PLACES = {
    "name": "It belongs in a row, or at the top of the file.",
    "corpus": "It belongs in [grid], in a row, or in `overrides`.",
    "documents": "It belongs at the top of the file, or is passed as `documents`.",
    "data": "It belongs in [corpora.NAME].",
    **dict.fromkeys(("reads", "draw", "trials"), "It belongs in a row."),
    **dict.fromkeys(("corpora", "dataset"), "Name corpora with corpus, in [grid], in a row, or in `overrides`."),
    **{name: f"It is passed as `{name}`." for name in ("out", "data_dir", "workers", "engine")},
}
"""Where names belong that are not settings."""
SWITCHES = ("scorer", "discretizer", *(other for _, other, _ in NEEDS))
"""Settings that decide, besides the method, which other settings a run has."""


@dataclass(frozen=True, slots=True)
class Row:
    """The runs of one row of a grid file."""

    specs: tuple[RunSpec, ...]
    ranges: Mapping[str, Any]
    """Settings that are drawn for each seed, and their ranges."""

    def common_settings(self, spec: RunSpec) -> dict[str, Any]:
        """List what the row's runs of one name on one corpus have in common: all but the seed and what is drawn."""
        settings = {name: value for name, value in spec.settings.items() if name != "seed"}
        return {"method": spec.method, "reads": spec.reads, **settings, **self.ranges}


def as_list(values: Any) -> list[Any]:
    """Return a list as it is, and a single value in a list."""
    return values if isinstance(values, list) else [values]


@functools.cache
def known_settings() -> Mapping[str, Setting]:
    """List the settings of all methods and of a run, by name."""
    of_methods = {name: setting for name, (setting, _) in settings_of_methods().items()}
    return {**{setting.name: setting for setting in list_settings(RunConfig)}, **of_methods}


def _configs() -> list[type]:
    return [RunConfig, *METHODS.values()]


@functools.cache
def _paths() -> tuple[str, ...]:
    return tuple(setting.path for kind in _configs() for setting in list_settings(kind))


def _sections() -> list[str]:
    """List the tables that settings may be in."""
    return list(dict.fromkeys(part for path in _paths() for part in path.split(".")[:-1]))


def short_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Name settings by the last part of their paths, so that each has one name.

    :raises ConfigError: If one is given twice, under two of its names.
    """
    short: dict[str, Any] = {}
    for path, value in flatten(values):
        name = _short_name(path)
        if name in short:
            raise ConfigError(f"{name} is given twice, once as {path}. Remove one of them.")
        short[name] = value
    return short


@functools.cache
def _short_name(path: str) -> str:
    is_setting = any(owns(kind, path) for kind in _configs())
    return path.rpartition(".")[2] if is_setting else path


def check_parts(content: Mapping[str, Any]) -> Iterator[str]:
    """Describe parts of a file that are unknown, missing, or of the wrong kind.

    :param content: The content of the file.
    """
    for name in content:
        if name not in PARTS:
            yield _unknown_part(name)
    rows = content.get("rows", [{}])
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows) or not rows:
        yield "rows must be tables, each under its own [[rows]]."
    for name in ("settings", "grid", "corpora", "figure"):
        if not isinstance(content.get(name, {}), Mapping):
            yield f"{name} must be a table, as in [{name}]."
    corpora = content.get("corpora", {})
    for name, about in corpora.items() if isinstance(corpora, Mapping) else ():
        if not isinstance(about, Mapping):
            yield f"{name} must be a table, as in [corpora.{name}]."
        elif not all(isinstance(file, str) for file in as_list(about.get("data", []))):
            yield f"data of the corpus {name} must name one or more files, got {about['data']!r}."
    yield from _check_values(content)


def _check_values(content: Mapping[str, Any]) -> Iterator[str]:
    documents = content.get("documents", 1)
    if not isinstance(documents, int) or isinstance(documents, bool) or documents < 1:
        yield f"documents must be a whole number of at least 1, got {documents!r}."
    name = str(content.get("name", "grid"))
    if Path(name).name != name or not name.isprintable():
        yield f"name must be a valid file name, got {name!r}."


def check_has_rows(content: Mapping[str, Any]) -> Iterator[str]:
    """Describe what a row looks like if there are no rows."""
    if "rows" not in content:
        yield (
            "there are no rows, so there is nothing to train. Add one: a line [[rows]], and below it, "
            "for example, scorer = 'attention' or method = 'full_text'."
        )


def _unknown_part(name: str) -> str:
    setting = nearest_name(name, known_settings()) if nearest_name(name, PARTS) is None else None
    if name in PLACES:
        place = PLACES[name]
    elif name in _sections():
        place = f"Settings of all runs belong in [settings.{name}]."
    elif setting is not None:
        place = f"The setting {setting} belongs in [settings], in [grid] or in a row."
    else:
        return suggest(name, "a part of a grid", PARTS)
    return f"{name} is not a part of a grid. {place}"


def check_names(content: Mapping[str, Any], overrides: Mapping[str, Any]) -> Iterator[str]:
    """Describe names of settings that are unknown, or in the wrong place."""
    for number, row in enumerate(content["rows"], 1):
        yield from _check_table(f"row {row.get('name', number)}", row, ROW_KEYS)
    yield from _check_table("[grid]", content.get("grid", {}), ("corpus",))
    yield from _check_table("[settings]", content.get("settings", {}), ())
    for name, about in content.get("corpora", {}).items():
        yield from _check_table(f"[corpora.{name}]", about, ("data",))
    yield from _check_table("`overrides`", overrides, ("corpus",))


def _check_table(place: str, table: Mapping[str, Any], keys: Sequence[str]) -> Iterator[str]:
    """Check the names of one table.

    :param keys: Names that it may have besides settings.
    """
    for name, value in table.items():
        if name in keys:
            continue
        if isinstance(value, Mapping) and name not in _sections():
            tables = [*(key for key in keys if key == "draw"), *_sections()]
            yield f"{place}: {suggest(name, 'a table of settings', tables)}"
            continue
        for short in short_names({name: value}):
            if short in known_settings():
                continue
            if short in PLACES:
                yield f"{place}: {short} is not a setting. {PLACES[short]}"
            elif "." in short or nearest_name(short, known_settings()) is not None:
                yield f"{place}: {suggest_setting(short, _paths())}"
            else:
                yield f"{place}: {suggest(short, 'a setting', [*keys, *known_settings()])}"


def _custom_corpora(content: Mapping[str, Any]) -> list[str]:
    return [name for name, about in content.get("corpora", {}).items() if "data" in about]


def corpora_of(row: Mapping[str, Any], content: Mapping[str, Any]) -> list[Any]:
    """List the corpora of a row: its own, those of [grid], all that the file declares, or all of the paper's."""
    default = content.get("grid", {}).get("corpus", _custom_corpora(content) or list(CORPORA))
    return as_list(row.get("corpus", default))


def check_corpora(content: Mapping[str, Any], overrides: Mapping[str, Any]) -> Iterator[str]:
    """Describe unknown corpora or, if there are none, tables of corpora that no row uses."""
    tables, known = content.get("corpora", {}), (*_custom_corpora(content), *CORPORA)
    named = [*(name for row in content["rows"] for name in corpora_of(row, content))]
    used = list(dict.fromkeys(map(str, [*named, *as_list(overrides.get("corpus", []))])))
    unknown = [name for name in used if name not in known]
    for name in unknown:
        if not name.strip():
            yield f"corpus has an empty name. There are: {', '.join(known)}."
        elif name in tables:
            yield f"the corpus {name} has no data. Name its files: data = 'FILE' in [corpora.{name}]."
        else:
            yield suggest(name, "a corpus of this grid or of the paper", known)
    for name in () if unknown else tables:
        if name not in used:
            hint = "Correct its name, add it to corpus, or remove the table."
            yield f"[corpora.{name}] is not used: the corpora of the rows are {', '.join(used)}. {hint}"


def check_labels(rows: Sequence[Row]) -> Iterator[str]:
    """Describe runs with one label that differ: a table would treat them as one run, or as seeds of one row."""
    firsts: dict[tuple[str, str], tuple[RunSpec, dict[str, Any]]] = {}
    reported: set[tuple[str, str]] = set()
    for row in rows:
        for spec in row.specs:
            place, settings = (spec.row, spec.corpus), row.common_settings(spec)
            first, first_settings = firsts.setdefault(place, (spec, settings))
            if settings != first_settings and place not in reported:
                reported.add(place)
                names = dict.fromkeys((*first_settings, *settings))
                values = "; ".join(
                    f"{name} is {_show(name, first_settings)} and {_show(name, settings)}"
                    for name in names
                    if first_settings.get(name) != settings.get(name)
                )
                same = spec.seed == first.seed
                subject = f"two runs are called {spec}" if same else f"{first} and {spec} are in one row"
                yield f"{subject}, but differ: {values}. Give their rows different names."


def _show(name: str, settings: Mapping[str, Any]) -> str:
    return repr(settings[name]) if name in settings else "not given"


def drop_foreign(chosen: Mapping[str, Any], overrides: Sequence[str], others: Mapping[str, Any]) -> dict[str, Any]:
    """Drop overrides that a run does not have, such as the ratio of full text.

    :param chosen: The settings that were chosen for the run.
    :param overrides: Names of settings in overrides that the file does not give for this row.
    :param others: Other settings of the run.
    """
    settings = {**others, **chosen}
    return {
        name: value for name, value in chosen.items() if name not in overrides or _why_foreign(name, settings) is None
    }


def _why_foreign(name: str, settings: Mapping[str, Any]) -> str | None:
    """Explain why a run with some settings does not have a further one; None if it does."""
    switches = tuple((other, str(settings[other])) for other in SWITCHES if other in settings and other != name)
    return _find_reason(name, str(settings.get("method", "fresh")), switches)


# Cached, since a large grid asks the same few questions for thousands of runs.
@functools.cache
def _find_reason(name: str, method: str, switches: tuple[tuple[str, str], ...]) -> str | None:
    if method not in METHODS or name not in known_settings():
        return None
    own = {other: value for other, value in switches if owns(METHODS[method], other)}
    before, after = (split_settings(method, settings)[2] for settings in (own, {**own, name: ""}))
    return next((problem for problem in after if problem not in before), None)


def check_overrides_used(overrides: Mapping[str, Any], specs: Sequence[RunSpec]) -> Iterator[str]:
    """Describe overrides that no run has."""
    for name in overrides:
        if name != "corpus" and specs and not any(name in spec.settings for spec in specs):
            reasons = dict.fromkeys(filter(None, (_why_foreign(name, spec.settings) for spec in specs)))
            yield f"`overrides`: no run has {name}. {' '.join(reasons)} Remove it, or add a row that has it."


def check_method_override(content: Mapping[str, Any], overrides: Mapping[str, Any]) -> Iterator[str]:
    """Refuse an unknown method in overrides, and one that contradicts rows: their names would no longer be true."""
    methods = as_list(overrides.get("method", []))
    unknown = [str(method) for method in methods if method not in METHODS]
    yield from (f"`overrides`: {suggest(method, 'a method', METHODS)}" for method in unknown)
    if unknown or not methods:
        return
    own = [(row, as_list(short_names(row)["method"])) for row in content["rows"] if "method" in row]
    others = [str(row.get("name", ", ".join(map(str, given)))) for row, given in own if given != methods]
    if others:
        rows = f"the row {others[0]} has" if len(others) == 1 else f"the rows {'; '.join(others)} have"
        yield (
            f"`overrides`: method cannot be changed, because {rows} another method, so the table would be mislabeled. "
            "Remove it, or add a row with that method to the file."
        )

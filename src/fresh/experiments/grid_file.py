"""Reads a grid file: checks its parts, and expands its rows to the runs of an experiment."""

import functools
import itertools
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING
from pathlib import Path
from typing import Any, get_args

import numpy as np

from fresh.config import convert_to, flatten, list_settings, read_toml, suggest, suggest_setting
from fresh.data.corpora import CORPORA
from fresh.errors import ConfigError
from fresh.experiments.figures import check_figure
from fresh.experiments.grid import Grid, Reads, RunSpec, describe_settings
from fresh.experiments.search import Span, read_spans, scale
from fresh.methods.config import METHODS, RunConfig, settings_of_methods
from fresh.methods.registry import NEEDS, owns, split_settings
from fresh.training.config import FREE, REMOVED

PARTS = ("name", "about", "documents", "settings", "grid", "corpora", "rows", "figure")
ROW_KEYS = ("name", "corpus", "reads", "draw", "trials")  # keys of a row that are not settings
FILE_SETTINGS = ("dev", "test")  # settings of a corpus that name a file
SWITCHES = ("scorer", "discretizer", *(other for _, other, _ in NEEDS))
"""Settings that decide, with the method, which other settings a run has."""
N_TRIALS = 20
_CONFIGS: tuple[type, ...] = (RunConfig, *METHODS.values())


def read_grid(path: Path, overrides: Mapping[str, Any] | None = None, documents: int | None = None) -> Grid:
    """Read a grid file.

    :param overrides: Settings that override those of the file; a list makes one run for each value.
    :param documents: Maximum number of documents of each split; overrides that of the file.
    """
    content, own = _drop_removed(read_toml(path, "grid")), _short_names(overrides or {})
    content |= {} if documents is None else {"documents": documents}
    problems = list(_check_parts(content))
    if not problems:
        problems = [*_check_corpora(content, own), *_check_names(content, own), *_check_method(content, own)]
    specs: list[RunSpec] = []
    if not problems:
        specs, problems = _expand(content, own, path.parent)
        # Overrides apply only to the runs that have the setting: full text has no ratio.
        lost = [name for name in own if name != "corpus" and not any(name in spec.settings for spec in specs)]
        for name in lost if specs and not problems else ():
            reasons = " ".join(dict.fromkeys(filter(None, (_why_foreign(name, spec.settings) for spec in specs))))
            problems.append(f"`overrides`: no run has {name}. {reasons} Remove it, or add a row that has it.")
    if not problems and "figure" in content:
        # The figure shows all runs of the file, with or without overrides. If only overrides make the file valid, its
        # figure cannot be checked.
        of_file, errors = _expand(content, {}, path.parent) if own else (specs, [])
        problems = [] if errors else list(check_figure(content["figure"], of_file))
    if problems:
        raise ConfigError("\n".join(f"In {path}: {problem}" for problem in dict.fromkeys(problems)))
    name, about = str(content.get("name", path.stem)), str(content.get("about", ""))
    return Grid(name, about, tuple(specs), content.get("figure", {}))


def _drop_removed(values: Any) -> Any:
    """Leave out what earlier versions let one set about speed, so that their grid files stay valid."""
    if isinstance(values, list):
        return [_drop_removed(value) for value in values]
    if not isinstance(values, Mapping):
        return values
    names = {path: path.rpartition(".")[2] for path in values}
    removed = [path for path, name in names.items() if name in REMOVED]
    removed += [path for path, name in names.items() if name == "frozen" and values[path] in ("memory", "file")]
    return {path: _drop_removed(value) for path, value in values.items() if path not in removed}


def _as_list(values: Any) -> list[Any]:
    return values if isinstance(values, list) else [values]


# Names of settings


@functools.cache
def _setting_names() -> frozenset[str]:
    return frozenset((*settings_of_methods(), *(setting.name for setting in list_settings(RunConfig))))


def _short_names(values: Mapping[str, Any]) -> dict[str, Any]:
    # Settings are named by the last part of their paths, so that each has one name.
    short: dict[str, Any] = {}
    for path, value in flatten(values):
        name = _short_name(path)
        if name in short:
            raise ConfigError(f"{name} is set twice, once as {path}. Remove one of them.")
        short[name] = value
    return short


@functools.cache
def _short_name(path: str) -> str:
    is_setting = any(owns(kind, path) for kind in _CONFIGS)
    return path.rpartition(".")[2] if is_setting else path


# Checks


def _check_parts(content: Mapping[str, Any]) -> Iterator[str]:
    yield from (suggest(name, "a part of a grid", PARTS) for name in content if name not in PARTS)
    rows = content.get("rows")
    if not rows or not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        yield "rows must be one or more tables, each below its own line [[rows]], such as scorer = 'attention'."
    tables = {name: content.get(name, {}) for name in ("settings", "grid", "corpora", "figure")}
    if isinstance(tables["corpora"], Mapping):
        tables |= {f"corpora.{name}": about for name, about in tables["corpora"].items()}
    for name, table in tables.items():
        if not isinstance(table, Mapping):
            yield f"{name} must be a table, as in [{name}]."
        elif name.startswith("corpora.") and not all(isinstance(file, str) for file in _as_list(table.get("data", []))):
            yield f"[{name}]: data must name one or more files, got {table['data']!r}."
    if problem := _check_count("documents", content.get("documents", 1)):
        yield problem
    name = str(content.get("name", "grid"))
    if Path(name).name != name or name in ("", "..") or not name.isprintable():
        yield f"name must be a valid file name, got {name!r}."


def _check_count(name: str, value: Any) -> str | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    return None if is_count else f"{name} must be a whole number of at least 1, got {value!r}."


def _check_names(content: Mapping[str, Any], overrides: Mapping[str, Any]) -> Iterator[str]:
    tables: list[tuple[str, Mapping[str, Any], Sequence[str]]] = [
        *((f"row {row.get('name', number)}", row, ROW_KEYS) for number, row in enumerate(content["rows"], 1)),
        ("[grid]", content.get("grid", {}), ("corpus",)),
        ("[settings]", content.get("settings", {}), ()),
        *((f"[corpora.{name}]", about, ("data",)) for name, about in content.get("corpora", {}).items()),
        ("`overrides`", overrides, ("corpus",)),
    ]
    paths = [setting.path for kind in _CONFIGS for setting in list_settings(kind)]
    for place, table, keys in tables:
        for path, _ in flatten({name: value for name, value in table.items() if name not in keys}):
            name = _short_name(path)
            if "." in name:
                yield f"{place}: {suggest_setting(name, paths)}"
            elif name not in _setting_names():
                known = [*keys, *(path.rpartition(".")[2] for path in paths)]
                yield f"{place}: {suggest(name, 'a setting', known)}"


def _corpora_of(row: Mapping[str, Any], content: Mapping[str, Any]) -> list[Any]:
    # Its own, those of [grid], all custom corpora of the file, or all of the paper.
    custom = [name for name, about in content.get("corpora", {}).items() if "data" in about]
    return _as_list(row.get("corpus", content.get("grid", {}).get("corpus", custom or list(CORPORA))))


def _check_corpora(content: Mapping[str, Any], overrides: Mapping[str, Any]) -> Iterator[str]:
    tables = content.get("corpora", {})
    known = [*(name for name, about in tables.items() if "data" in about), *CORPORA]
    named = [name for row in content["rows"] for name in _corpora_of(row, content)]
    used = list(dict.fromkeys(map(str, [*named, *_as_list(overrides.get("corpus", []))])))
    unknown = [name for name in used if name not in known]
    for name in unknown:
        if name in tables:
            yield f"the corpus {name} has no data. Name its files: data = 'FILE' in [corpora.{name}]."
        else:
            yield suggest(name, "a corpus of this grid or of the paper", known)
    for name in () if unknown else tables:
        if name not in used:
            hint = "Correct its name, add it to corpus, or remove the table."
            yield f"[corpora.{name}] is not used: the corpora of the rows are {', '.join(used)}. {hint}"


def _check_method(content: Mapping[str, Any], overrides: Mapping[str, Any]) -> Iterator[str]:
    methods = _as_list(overrides.get("method", []))
    unknown = [str(method) for method in methods if method not in METHODS]
    yield from (f"`overrides`: {suggest(method, 'a method', METHODS)}" for method in unknown)
    own = [_as_list(row["method"]) for row in content["rows"] if "method" in row]
    if methods and not unknown and any(given != methods for given in own):
        hint = "The table would be mislabeled. Remove it, or add a row with that method to the file."
        yield f"`overrides`: method cannot be changed, because some rows set another method. {hint}"


def _check_labels(runs: Sequence[tuple[RunSpec, Mapping[str, Any]]]) -> Iterator[str]:
    # A table would treat runs with one label as one run, or as seeds of one row. With each run are its drawn ranges.
    firsts: dict[tuple[str, str], tuple[RunSpec, dict[str, Any]]] = {}
    problems: dict[tuple[str, str], str] = {}
    for spec, ranges in runs:
        place, settings = (spec.row, spec.corpus), {"method": spec.method, "reads": spec.reads, **spec.settings}
        # Seeds differ within a row, and so do drawn values, but the ranges that they are drawn from must not.
        settings |= {"seed": None, **ranges}
        first, others = firsts.setdefault(place, (spec, settings))
        differing = [name for name in {**others, **settings} if others.get(name) != settings.get(name)]
        if differing:
            values = "; ".join(f"{name} is {others.get(name)!r} and {settings.get(name)!r}" for name in differing)
            same = spec.seed == first.seed
            subject = f"two runs are called {spec}" if same else f"{first} and {spec} are in one row"
            problems.setdefault(place, f"{subject}, but differ: {values}. Give their rows different names.")
    yield from problems.values()


def _why_foreign(name: str, settings: Mapping[str, Any]) -> str | None:
    # Why a run with some settings does not have a further one; None if it does.
    switches = tuple((other, str(settings[other])) for other in SWITCHES if other in settings and other != name)
    return _find_reason(name, str(settings.get("method", "fresh")), switches)


# Cached, since a large grid asks the same few questions for thousands of runs.
@functools.cache
def _find_reason(name: str, method: str, switches: tuple[tuple[str, str], ...]) -> str | None:
    if method not in METHODS or name not in _setting_names():
        return None
    own = {other: value for other, value in switches if owns(METHODS[method], other)}
    # The reason is what the method objects to with this setting, but not without it.
    before, after = (split_settings(method, settings)[2] for settings in (own, {**own, name: ""}))
    return next((problem for problem in after if problem not in before), None)


# Rows


def _expand(content: Mapping[str, Any], overrides: Mapping[str, Any], folder: Path) -> tuple[list[RunSpec], list[str]]:
    runs: list[tuple[RunSpec, Mapping[str, Any]]] = []
    problems: list[str] = []
    for row in content["rows"]:
        try:
            specs = list(_expand_row(row, content, overrides, folder))
            ranges = {name: text for name, text in _short_names(row.get("draw", {})).items() if name not in overrides}
            runs += [(spec, ranges) for spec in specs]
        except ConfigError as error:
            problems.append(str(error))
    return [spec for spec, _ in runs], [*problems, *_check_labels(runs)]


def _expand_row(
    row: Mapping[str, Any], content: Mapping[str, Any], overrides: Mapping[str, Any], folder: Path
) -> Iterator[RunSpec]:
    # Each of its lists, and each of [grid], makes one run for each value.
    reads = row.get("reads", "rationale")
    if reads not in get_args(Reads):
        raise ConfigError(f"reads must be {' or '.join(map(repr, get_args(Reads)))}, got {reads!r}.")
    lists, tables = _lists_of(row, content, overrides), content.get("corpora", {})
    common = _short_names(content.get("settings", {}))
    of_corpora = {
        corpus: _short_names({name: value for name, value in tables.get(corpus, {}).items() if name != "data"})
        for corpus in map(str, lists["corpus"])
    }
    in_file = {**_short_names(content.get("grid", {})), **_short_names(row)}
    added = [name for name in overrides if name not in in_file]
    for chosen in _choices(lists, added, {corpus: {**common, **own} for corpus, own in of_corpora.items()}):
        name, corpus = _row_name(row, chosen, lists, reads), str(chosen.pop("corpus"))
        of_corpus = of_corpora[corpus]
        ratio = of_corpus.get("ratio")
        if not isinstance(ratio, int | float):
            ratio = CORPORA[corpus].ratio if corpus in CORPORA else None
        method = str({**common, **of_corpus, **chosen}.get("method", "fresh"))
        own = {key: value for key, value in of_corpus.items() if not _is_of_other_methods(key, method)}
        own |= {key: str(folder / own[key]) for key in FILE_SETTINGS if own.get(key)}
        # The most specific setting wins.
        settings = {"seed": 0, **common, **own, **chosen}
        seed = convert_to(settings["seed"], int)
        if seed is MISSING or seed < 0:
            raise ConfigError(f"seed must be a whole number of at least 0, got {settings['seed']!r}.")
        settings["seed"] = int(seed)
        data = tuple(str(folder / file) for file in _as_list(tables.get(corpus, {}).get("data", [])))
        for suffix, drawn in draw_trials(row, method, settings["seed"], overrides):
            scaled = _scale_ratio({**settings, **drawn}, ratio)
            yield RunSpec(name + suffix, corpus, scaled, reads, content.get("documents"), data)


def _choices(
    lists: Mapping[str, Sequence[Any]], overrides: Sequence[str], others: Mapping[str, Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    # One value of each list, in all combinations, without those `overrides` that a run does not have.
    # Several choices that differ only in a dropped override are the same run. A list: values may not be hashable.
    reduced: list[dict[str, Any]] = []
    for values in itertools.product(*lists.values()):
        whole = dict(zip(lists, values, strict=True))
        settings = {**others[str(whole["corpus"])], **whole}
        foreign = [name for name in overrides if _why_foreign(name, settings) is not None]
        chosen = {name: value for name, value in whole.items() if name not in foreign}
        if foreign:
            if chosen in reduced:
                continue
            reduced.append(dict(chosen))
        yield chosen


def _lists_of(row: Mapping[str, Any], content: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, list[Any]]:
    own = _short_names({name: value for name, value in row.items() if name not in ROW_KEYS or name == "corpus"})
    values = {"corpus": _corpora_of(row, content), **_short_names(content.get("grid", {})), **own, **overrides}
    lists = {name: _as_list(value) for name, value in values.items()}
    for name, items in lists.items():
        if not items:
            raise ConfigError(f"{name} = [] makes no run. Add a value, or remove {name}.")
        repeated = next((item for place, item in enumerate(items) if item in items[:place]), None)
        if repeated is not None:
            raise ConfigError(f"{name} has {repeated!r} twice, which would be the same run. Remove one of them.")
        if name in FREE and len(items) > 1:
            raise ConfigError(f"{name} affects only the speed of a run, not its result, so it cannot be a list.")
    return lists


@functools.cache
def _is_of_other_methods(name: str, method: str) -> bool:
    # A setting of a corpus, such as its ratio, is for all methods that have it. Full text has none, and ignores it.
    kinds = [kind for kind in METHODS.values() if owns(kind, name)]
    return method in METHODS and bool(kinds) and METHODS[method] not in kinds and not owns(RunConfig, name)


def _row_name(row: Mapping[str, Any], chosen: Mapping[str, Any], lists: Mapping[str, Sequence[Any]], reads: str) -> str:
    # By its name or its settings, and by what varies besides corpus and seed.
    varying = {name: value for name, value in chosen.items() if len(lists[name]) > 1 and name not in ("corpus", "seed")}
    if "name" in row:
        return ", ".join([str(row["name"]), *describe_settings(varying)])
    own = {
        name: value
        for name, value in chosen.items()
        if name not in ("corpus", "seed", "method") and (name in varying or name in _short_names(row))
    }
    suffix = [reads] if reads != "rationale" else []
    return ", ".join([str(chosen.get("method", "fresh")), *describe_settings(own), *suffix])


def _scale_ratio(settings: Mapping[str, Any], usual: float | None) -> dict[str, Any]:
    ratio = settings.get("ratio")
    if not isinstance(ratio, str) or not ratio.endswith("x"):
        return dict(settings)
    try:
        factor = float(ratio[:-1])
    except ValueError:
        raise ConfigError(f"ratio must be a number, a range as in 0.05:0.5, or as in 0.5x, got {ratio!r}.") from None
    if usual is None:
        raise ConfigError(f"ratio {ratio} is relative to that of the corpus, which has none. Set one: ratio = 0.2.")
    return {**settings, "ratio": round(factor * float(usual), 6)}


def draw_trials(
    row: Mapping[str, Any], method: str, seed: int, overrides: Collection[str] = ()
) -> Iterator[tuple[str, dict[str, float]]]:
    """Draw the values of each trial, with a suffix for the name of the row; without a search, there is one trial."""
    draw, n_trials = row.get("draw", {}), row.get("trials", N_TRIALS)
    if not isinstance(draw, Mapping):
        raise ConfigError(f"draw must be a table, as in draw = {{ lambda_1 = '0.01:1:log' }}, got {draw!r}.")
    if problem := _check_count("trials", n_trials):
        raise ConfigError(problem)
    if not draw:
        if "trials" in row:
            raise ConfigError("trials needs draw, which says what is drawn.")
        yield "", {}
        return
    ranges = {name: values for name, values in _short_names(draw).items() if name not in overrides}
    for name, values in ranges.items():
        factor = str(values).partition("*")[2].strip()
        if factor in overrides:
            raise ConfigError(f"`overrides`: {name} is drawn as a multiple of {factor}. Set both of them, or neither.")
    spans = read_spans([f"{name}={values}" for name, values in ranges.items()], method)
    # A generator for each setting, seeded by its name: adding a setting to `draw` leaves the values of the others, and
    # adding trials leaves the first ones, so that their runs keep their keys and are not repeated.
    generators = [np.random.default_rng((seed, zlib.crc32(span.name.encode()))) for span in spans]
    for number in range(n_trials):
        pairs = zip(spans, generators, strict=True)
        yield f", trial {number}", scale({span.name: _draw_value(span, rng) for span, rng in pairs}, spans)


def _draw_value(span: Span, generator: np.random.Generator) -> float:
    # Six digits: names of rows and reports show the value that was used, not an abbreviation of it.
    if span.choices:
        return span.choices[int(generator.integers(len(span.choices)))]
    low, high = (np.log((span.low, span.high)) if span.log else (span.low, span.high)) + np.zeros(2)
    value = generator.uniform(low, high)
    return min(span.high, max(span.low, float(f"{np.exp(value) if span.log else value:.6g}")))

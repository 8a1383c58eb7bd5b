"""Reads a grid file: expands its rows to the runs of an experiment."""

import functools
import itertools
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING
from pathlib import Path
from typing import Any, get_args

import numpy as np

from fresh.config import convert_to, read_toml
from fresh.data.corpora import CORPORA
from fresh.errors import ConfigError
from fresh.experiments.figures import check_figure
from fresh.experiments.grid import Grid, Reads, RunSpec, describe_settings
from fresh.experiments.grid_validation import (
    ROW_KEYS,
    Row,
    as_list,
    check_corpora,
    check_has_rows,
    check_labels,
    check_method_override,
    check_names,
    check_overrides_used,
    check_parts,
    corpora_of,
    drop_foreign,
    short_names,
)
from fresh.experiments.search import Span, read_span
from fresh.methods.config import METHODS, RunConfig
from fresh.methods.registry import owns
from fresh.training.config import FREE

FILE_SETTINGS = ("dev", "test")
"""Settings of a corpus that name a file."""
N_TRIALS = 20


def read_grid(path: Path, overrides: Mapping[str, Any] | None = None, documents: int | None = None) -> Grid:
    """Read a grid file.

    :param overrides: Settings that override those of the file; a list stands for one run each.
    :param documents: Maximum number of documents of each split; overrides that of the file.
    """
    content, own = read_toml(path, "grid"), short_names(overrides or {})
    content |= {} if documents is None else {"documents": documents}
    problems = list(check_parts(content)) or list(check_has_rows(content))
    if not problems:
        problems = [*check_corpora(content, own), *check_names(content, own), *check_method_override(content, own)]
    specs: list[RunSpec] = []
    if not problems:
        specs, problems = _expand(content, own, path.parent)
        problems = problems or list(check_overrides_used(own, specs))
    if not problems and "figure" in content:
        # The figure is one of all runs of the file; overrides may have repaired the rest, so its errors do not matter.
        of_file, errors = _expand(content, {}, path.parent) if own else (specs, [])
        problems = [] if errors else list(check_figure(content["figure"], of_file))
    if problems:
        raise ConfigError("\n".join(f"In {path}: {problem}" for problem in dict.fromkeys(problems)))
    name, about = str(content.get("name", path.stem)), str(content.get("about", ""))
    return Grid(name, about, tuple(specs), content.get("figure", {}))


def _expand(content: Mapping[str, Any], overrides: Mapping[str, Any], folder: Path) -> tuple[list[RunSpec], list[str]]:
    """Expand all rows, and describe what is wrong with them."""
    rows: list[Row] = []
    problems: list[str] = []
    for row in content["rows"]:
        try:
            specs = tuple(_expand_row(row, content, overrides, folder))
            ranges = {name: text for name, text in short_names(row.get("draw", {})).items() if name not in overrides}
            rows.append(Row(specs, ranges))
        except ConfigError as error:
            problems.append(str(error))
    return [spec for row in rows for spec in row.specs], [*problems, *check_labels(rows)]


def _expand_row(
    row: Mapping[str, Any], content: Mapping[str, Any], overrides: Mapping[str, Any], folder: Path
) -> Iterator[RunSpec]:
    """Expand one row: each of its lists, and of those of [grid], stands for one run a value.

    :param folder: Where relative paths of custom corpora start.
    """
    reads = row.get("reads", "rationale")
    if reads not in get_args(Reads):
        raise ConfigError(f"reads must be {' or '.join(map(repr, get_args(Reads)))}, got {reads!r}.")
    lists, tables = _lists_of(row, content, overrides), content.get("corpora", {})
    common = short_names(content.get("settings", {}))

    def corpus_settings(corpus: str) -> dict[str, Any]:
        return short_names({name: value for name, value in tables.get(corpus, {}).items() if name != "data"})

    foreign = [name for name in overrides if name not in {**short_names(content.get("grid", {})), **short_names(row)}]
    for chosen in _choices(lists, foreign, lambda corpus: {**common, **corpus_settings(corpus)}):
        name, corpus = _row_name(row, chosen, lists, reads), str(chosen.pop("corpus"))
        of_corpus = corpus_settings(corpus)
        ratio = of_corpus.get("ratio")
        if not isinstance(ratio, int | float):
            ratio = CORPORA[corpus].ratio if corpus in CORPORA else None
        method = str({**common, **of_corpus, **chosen}.get("method", "fresh"))
        own = {key: value for key, value in of_corpus.items() if not _is_of_other_methods(key, method)}
        own |= {key: str(folder / own[key]) for key in FILE_SETTINGS if own.get(key)}
        settings = {"seed": 0, **common, **own, **chosen}
        settings["seed"] = _read_seed(settings["seed"])
        data = tuple(str(folder / file) for file in as_list(tables.get(corpus, {}).get("data", [])))
        for suffix, drawn in draw_trials(row, method, settings["seed"]):
            new = {key: value for key, value in drawn.items() if key not in overrides}
            scaled = _scale_ratio({**settings, **new}, ratio)
            yield RunSpec(name + suffix, corpus, scaled, reads, content.get("documents"), data)


def _choices(
    lists: Mapping[str, Sequence[Any]], overrides: Sequence[str], others: Callable[[str], Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Choose one value of each list, in all ways; overrides that a run does not have are dropped.

    :param others: Returns the other settings of runs on a corpus.
    """
    # Without an override that they do not have, several choices may be the same run.
    reduced: list[dict[str, Any]] = []
    for values in itertools.product(*lists.values()):
        whole = dict(zip(lists, values, strict=True))
        chosen = drop_foreign(whole, overrides, others(str(whole["corpus"])))
        if len(chosen) < len(whole):
            if chosen in reduced:
                continue
            reduced.append(dict(chosen))
        yield chosen


def _lists_of(row: Mapping[str, Any], content: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, list[Any]]:
    """List the values of everything that a row, [grid] or overrides give."""
    own = short_names({name: value for name, value in row.items() if name not in ROW_KEYS or name == "corpus"})
    values = {"corpus": corpora_of(row, content), **short_names(content.get("grid", {})), **own, **overrides}
    lists = {name: as_list(value) for name, value in values.items()}
    for name, items in lists.items():
        if not items:
            raise ConfigError(f"{name} = [] stands for no run at all. Add a value, or remove {name}.")
        repeated = next((item for place, item in enumerate(items) if item in items[:place]), None)
        if repeated is not None:
            raise ConfigError(f"{name} has {repeated!r} twice, which would be the same run. Remove one of them.")
        if name in FREE and len(items) > 1:
            raise ConfigError(f"{name} affects only the speed of a run, not its result, so it cannot be a list.")
    return lists


@functools.cache
def _is_of_other_methods(name: str, method: str) -> bool:
    """Return whether only other methods have a setting, as with the ratio of a corpus for full text."""
    kinds = [kind for kind in METHODS.values() if owns(kind, name)]
    return method in METHODS and bool(kinds) and METHODS[method] not in kinds and not owns(RunConfig, name)


def _read_seed(value: Any) -> int:
    seed = convert_to(value, int)
    if seed is MISSING or seed < 0:
        raise ConfigError(f"seed must be a whole number of at least 0, got {value!r}.")
    return int(seed)


def _row_name(row: Mapping[str, Any], chosen: Mapping[str, Any], lists: Mapping[str, Sequence[Any]], reads: str) -> str:
    """Name a row as the file does, or by its settings; with what varies besides corpus and seed."""
    varying = {name: value for name, value in chosen.items() if len(lists[name]) > 1 and name not in ("corpus", "seed")}
    if "name" in row:
        return ", ".join([str(row["name"]), *describe_settings(varying)])
    own = {
        name: value
        for name, value in chosen.items()
        if name not in ("corpus", "seed", "method") and (name in varying or name in short_names(row))
    }
    suffix = [reads] if reads != "rationale" else []
    return ", ".join([str(chosen.get("method", "fresh")), *describe_settings(own), *suffix])


def _scale_ratio(settings: Mapping[str, Any], usual: float | None) -> dict[str, Any]:
    """Multiply a ratio such as ``0.5x`` by the corpus's usual one."""
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


def draw_trials(row: Mapping[str, Any], method: str, seed: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Draw the values of searched settings for each trial; a row without a search is a single trial without values.

    More trials start with the values of fewer, and the values of a setting do not depend on which others are drawn.

    :return: Suffix of the name of the row, and the values.
    """
    draw, n_trials = row.get("draw", {}), row.get("trials", N_TRIALS)
    if not isinstance(draw, Mapping):
        raise ConfigError(f"draw must be a table, as in draw = {{ lambda_1 = '0.01:1:log' }}, got {draw!r}.")
    if not isinstance(n_trials, int) or n_trials < 1:
        raise ConfigError(f"trials must be a whole number of at least 1, got {n_trials!r}.")
    if not draw:
        if "trials" in row:
            raise ConfigError("trials needs draw, which says what is drawn.")
        yield "", {}
        return
    spans: list[Span] = []
    for name, values in short_names(draw).items():
        span = read_span(f"{name}={values}", method)
        if not all(map(math.isfinite, (span.low, span.high, *span.choices))):
            raise ConfigError(f"{name} can be drawn from finite numbers only, got {values!r}.")
        spans.append(span)
    # A generator for each setting, seeded by its name, makes its values independent of the other settings.
    generators = [np.random.default_rng((seed, zlib.crc32(span.name.encode()))) for span in spans]
    for number in range(n_trials):
        pairs = zip(spans, generators, strict=True)
        yield f", trial {number}", {span.name: _draw_value(span, generator) for span, generator in pairs}


def _draw_value(span: Span, generator: np.random.Generator) -> float:
    """Draw a value, rounded to six digits so that people can read it."""
    if span.choices:
        return span.choices[int(generator.integers(len(span.choices)))]
    low, high = (np.log((span.low, span.high)) if span.log else (span.low, span.high)) + np.zeros(2)
    value = generator.uniform(low, high)
    return min(span.high, max(span.low, float(f"{np.exp(value) if span.log else value:.6g}")))

"""A grid file: reads which trainings make up an experiment."""

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
from fresh.experiments.figure_check import wrong_figure
from fresh.experiments.grid import Grid, Reads, RunSpec
from fresh.experiments.grid_keys import OWN, short_names, wrong_names
from fresh.experiments.grid_set import had, of_no_run, wrong_method
from fresh.experiments.grid_validation import (
    Row,
    as_list,
    corpora_of,
    namesakes,
    wrong_corpora,
    wrong_rows,
    wrong_tables,
    wrong_values,
)
from fresh.experiments.naming import told
from fresh.experiments.search import Span, read_span
from fresh.methods.config import METHODS, RunConfig
from fresh.methods.registry import owns
from fresh.training.config import FREE

PLACES = ("dev", "test")
"""Settings of a corpus that name a file."""
N_TRIALS = 20


def read_grid(path: Path, overrides: Mapping[str, Any] | None = None, documents: int | None = None) -> Grid:
    """Read a grid file.

    :param overrides: Settings that go before those of the file, whatever it lists; a list stands for one run each.
    :param documents: How many documents of each split to use, at most, in place of what the file says.
    """
    given, asked = read_toml(path, "grid"), short_names(overrides or {})
    given |= {} if documents is None else {"documents": documents}
    problems = [*wrong_tables(given), *wrong_values(given)] or list(wrong_rows(given))
    problems = problems or [*wrong_corpora(given, asked), *wrong_names(given, asked), *wrong_method(given, asked)]
    cells: list[RunSpec] = []
    if not problems:
        cells, problems = _expanded(given, asked, path.parent)
        problems = problems or list(of_no_run(asked, cells))
    if not problems and "figure" in given:
        of_file, unfit = _expanded(given, {}, path.parent) if asked else (cells, [])
        problems = [] if unfit else list(wrong_figure(given["figure"], of_file))  # settings may have mended the rest
    if problems:
        raise ConfigError("\n".join(f"In {path}: {problem}" for problem in dict.fromkeys(problems)))
    return Grid(str(given.get("name", path.stem)), str(given.get("about", "")), tuple(cells), given.get("figure", {}))


def _expanded(given: Mapping[str, Any], overrides: Mapping[str, Any], folder: Path) -> tuple[list[RunSpec], list[str]]:
    """Expand all rows, and say what is wrong with them."""
    rows: list[Row] = []
    problems: list[str] = []
    for row in given["rows"]:
        try:
            cells = tuple(_cells_of(row, given, overrides, folder))
            spans = {name: span for name, span in short_names(row.get("draw", {})).items() if name not in overrides}
            rows.append(Row(cells, spans))
        except ConfigError as error:
            problems.append(str(error))
    return [cell for row in rows for cell in row.cells], [*problems, *namesakes(rows)]


def _cells_of(
    row: Mapping[str, Any], given: Mapping[str, Any], overrides: Mapping[str, Any], folder: Path
) -> Iterator[RunSpec]:
    """Expand one row: each of its lists, and of those of the grid, stands for as many trainings as it is long.

    :param folder: Where files of corpora of one's own are looked for.
    """
    reads = row.get("reads", "rationale")
    if reads not in get_args(Reads):
        raise ConfigError(f"reads must be {' or '.join(map(repr, get_args(Reads)))}, got {reads!r}.")
    lists, tables = _lists_of(row, given, overrides), given.get("corpora", {})
    common = short_names(given.get("settings", {}))
    asked = [name for name in overrides if name not in {**short_names(given.get("grid", {})), **short_names(row)}]
    for chosen in _choices(lists, asked, lambda corpus: {**common, **_about_corpus(tables, corpus)}):
        name, corpus = _name_of(row, chosen, lists, reads), str(chosen.pop("corpus"))
        about = _about_corpus(tables, corpus)
        method = str({**common, **about, **chosen}.get("method", "fresh"))
        of_corpus = {key: value for key, value in about.items() if not _of_others(key, method)}
        of_corpus |= {key: str(folder / of_corpus[key]) for key in PLACES if of_corpus.get(key)}
        settings = {"seed": 0, **common, **of_corpus, **chosen}
        settings["seed"] = _seed_of(settings)
        data = _files_of(tables.get(corpus, {}).get("data", []), folder)
        for trial, drawn in draws(row, method, settings["seed"]):
            new = {key: value for key, value in drawn.items() if key not in overrides}
            whole = _scaled({**settings, **new}, _ratio_of(corpus, about))
            yield RunSpec(name + trial, corpus, whole, reads, given.get("documents"), data)


def _choices(
    lists: Mapping[str, Sequence[Any]], asked: Sequence[str], rest: Callable[[str], Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Choose one of each list, in all ways; what was asked for is left out where a run does not have it.

    :param rest: Says what else is known of the runs on a corpus.
    """
    fewer: list[dict[str, Any]] = []
    for values in itertools.product(*lists.values()):
        whole = dict(zip(lists, values, strict=True))
        chosen = had(whole, asked, rest(str(whole["corpus"])))
        if len(chosen) < len(whole):
            if chosen in fewer:
                continue
            fewer.append(dict(chosen))
        yield chosen


def _about_corpus(tables: Mapping[str, Any], corpus: str) -> dict[str, Any]:
    """List the settings that a grid gives one corpus."""
    return short_names({name: value for name, value in tables.get(corpus, {}).items() if name != "data"})


def _lists_of(row: Mapping[str, Any], given: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, list[Any]]:
    """List the values of all that a row, the grid or the user gives; one value is a list of one."""
    own = short_names({name: value for name, value in row.items() if name not in OWN or name == "corpus"})
    values = {"corpus": corpora_of(row, given), **short_names(given.get("grid", {})), **own, **overrides}
    lists = {name: as_list(value) for name, value in values.items()}
    for name, several in lists.items():
        if not several:
            raise ConfigError(f"{name} = [] stands for no run at all. List something, or leave {name} out.")
        twice = next((value for place, value in enumerate(several) if value in several[:place]), None)
        if twice is not None:
            raise ConfigError(f"{name} has {twice!r} twice, which would be one run. Leave one of them out.")
        if name in FREE and len(several) > 1:
            raise ConfigError(f"{name} decides on how fast a run is, not on what comes out, so it cannot be a list.")
    return lists


@functools.cache
def _of_others(name: str, method: str) -> bool:
    """Say whether a setting is one of other methods only, as the ratio of a corpus is for full text."""
    kinds = [kind for other, kind in METHODS.items() if owns(kind, name)]
    return method in METHODS and bool(kinds) and METHODS[method] not in kinds and not owns(RunConfig, name)


def _seed_of(settings: Mapping[str, Any]) -> int:
    """Take the seed, which draws are made from before any other setting is looked at."""
    seed = convert_to(settings["seed"], int)
    if seed is MISSING or seed < 0:
        raise ConfigError(f"seed must be a whole number of at least 0, got {settings['seed']!r}.")
    return int(seed)


def _files_of(data: str | Sequence[str], folder: Path) -> tuple[str, ...]:
    """Find the files of a corpus of one's own, which are named from where the grid file is."""
    return tuple(str(folder / name) for name in ([data] if isinstance(data, str) else data))


def _name_of(row: Mapping[str, Any], chosen: Mapping[str, Any], lists: Mapping[str, Sequence[Any]], reads: str) -> str:
    """Name a row of the table: as the file does, or by its settings; with what varies beside corpus and seed."""
    shown = {name: value for name, value in chosen.items() if name not in ("corpus", "seed", "method")}
    varying = {name: value for name, value in chosen.items() if len(lists[name]) > 1 and name not in ("corpus", "seed")}
    if "name" in row:
        return ", ".join([str(row["name"]), *told(varying)])
    own = {name: value for name, value in shown.items() if name in varying or name in short_names(row)}
    return ", ".join([str(chosen.get("method", "fresh")), *told(own), *([reads] if reads != "rationale" else [])])


def _ratio_of(corpus: str, about: Mapping[str, Any]) -> float | None:
    """Find the ratio that a corpus is known for."""
    ratio = about.get("ratio")
    usual = CORPORA[corpus].ratio if corpus in CORPORA else None
    return float(ratio) if isinstance(ratio, int | float) else usual


def _scaled(settings: Mapping[str, Any], usual: float | None) -> dict[str, Any]:
    """Turn a ratio such as ``0.5x`` into that many times the usual one."""
    ratio = settings.get("ratio")
    if not isinstance(ratio, str) or not ratio.endswith("x"):
        return dict(settings)
    try:
        factor = float(ratio[:-1])
    except ValueError:
        raise ConfigError(f"ratio must be a number, two as in 0.05:0.5, or one as in 0.5x, got {ratio!r}.") from None
    if usual is None:
        raise ConfigError(
            f"ratio {ratio} is so many times that of the corpus, which has none. Give it one: ratio = 0.2."
        )
    return {**settings, "ratio": round(factor * usual, 6)}


def draws(row: Mapping[str, Any], method: str, seed: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Draw values for the settings that are searched, as often as there are trials; nothing, once, where none are.

    More trials begin with those of fewer, and a setting's values do not depend on which others are drawn.

    :return: What is added to the name of the row, and the values.
    """
    wanted, n_trials = row.get("draw", {}), row.get("trials", N_TRIALS)
    if not isinstance(wanted, Mapping):
        raise ConfigError(f"draw must be a table, as in draw = {{ lambda_1 = '0.01:1:log' }}, got {wanted!r}.")
    if not isinstance(n_trials, int) or n_trials < 1:
        raise ConfigError(f"trials must be a whole number of at least 1, got {n_trials!r}.")
    if not wanted:
        if "trials" in row:
            raise ConfigError("trials are of no use without draw, which says what is drawn.")
        yield "", {}
        return
    spans = [_span_of(name, values, method) for name, values in short_names(wanted).items()]
    generators = [np.random.default_rng((seed, zlib.crc32(span.name.encode()))) for span in spans]
    for number in range(n_trials):
        pairs = zip(spans, generators, strict=True)
        yield f", trial {number}", {span.name: draw(span, generator) for span, generator in pairs}


def _span_of(name: str, values: Any, method: str) -> Span:
    """Read ``low:high``, ``low:high:log`` or ``one,two,three``."""
    span = read_span(f"{name}={values}", method)
    if not all(map(math.isfinite, (span.low, span.high, *span.choices))):
        raise ConfigError(f"{name} can be drawn from finite numbers only, got {values!r}.")
    return span


def draw(span: Span, generator: np.random.Generator) -> float:
    """Draw a value, which is rounded so that it can be read."""
    if span.choices:
        return span.choices[int(generator.integers(len(span.choices)))]
    low, high = (np.log((span.low, span.high)) if span.log else (span.low, span.high)) + np.zeros(2)
    drawn = generator.uniform(low, high)
    return min(span.high, max(span.low, float(f"{np.exp(drawn) if span.log else drawn:.6g}")))

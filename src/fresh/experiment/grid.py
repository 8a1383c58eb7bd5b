"""A grid file: which trainings make up an experiment."""

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from fresh.config import ConfigError, flatten, read_toml, to_mapping, unknown
from fresh.corpora import CORPORA, find_corpus
from fresh.data import DataError
from fresh.methods.marking import asks_support
from fresh.methods.settings import FreshConfig
from fresh.recipe import Run, resolve

Reads = Literal["rationale", "complement"]
"""What the predictor of a run reads: what was kept, or what was dropped."""
TABLES = ("name", "about", "documents", "settings", "grid", "corpora", "rows", "figure")
OWN = ("name", "corpus", "reads", "draw", "trials")
"""What a row says beside settings of `fresh train`."""
FREE = ("device", "frozen", "frozen_gb", "frozen_folder", "recording")
"""Settings that say where and how fast a run is done, not what comes out."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One training of a grid."""

    row: str
    """Name of the row of the table it belongs to."""
    corpus: str
    settings: Mapping[str, Any]
    """What the grid says, each by its name, with method and seed."""
    reads: Reads = "rationale"
    documents: int | None = None
    """How many documents of each split are used, at most."""
    data: tuple[str, ...] = ()
    """Files of a corpus of one's own; none for one of the paper's."""

    @property
    def method(self) -> str:
        """Name of the method."""
        return str(self.settings.get("method", "fresh"))

    @property
    def seed(self) -> int:
        """The seed of the training."""
        return int(self.settings.get("seed", 0))

    def source(self, data_dir: Path | None) -> tuple[Any, Path | None]:
        """Say what is read, and from which folder."""
        if self.data:
            return list(self.data), None
        if data_dir is None:
            find_corpus(self.corpus)
            raise DataError(f"{self.corpus} is the name of a corpus. Say where its files are: --data-dir FOLDER.")
        return self.corpus, data_dir

    def resolve(self, data_dir: Path | None) -> Run:
        """Put all settings together: those of the grid, of the corpus, and the defaults."""
        return resolve(*self.source(data_dir), None, {"audit": False, "baseline": False, **self.settings})

    def key(self, run: Run, digest: str) -> str:
        """Make the name of the run's folder from all that decides on what comes out.

        :param digest: Digest of the corpus.
        """
        about = {"corpus": self.corpus, "data": digest, "documents": self.documents, "reads": self.reads}
        return short_hash({**about, "method": self.method, "settings": lasting(run)})

    def __str__(self) -> str:
        return f"{self.corpus}, {self.row}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Grid:
    """An experiment: its name, what it is about, and its trainings."""

    name: str
    about: str
    cells: tuple[Cell, ...]
    figure: Mapping[str, Any] = field(default_factory=dict)
    """What `fresh plot` draws of it if nothing else is said."""


def lasting(run: Run) -> dict[str, Any]:
    """List the settings of a run that decide on what comes out."""
    return {name: value for name, value in flatten(to_mapping(run.method)) if name.rpartition(".")[2] not in FREE}


def short_hash(about: Any) -> str:
    """Digest plain values."""
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]


def read_grid(path: Path, overrides: Mapping[str, Any] | None = None, documents: int | None = None) -> Grid:
    """Read a grid file.

    :param overrides: Settings that go before those of the file.
    :param documents: How many documents of each split to use, at most, in place of what the file says.
    """
    given = read_toml(path)
    problems = [f"In {path}: {unknown(name, 'a part of a grid', TABLES)}" for name in given if name not in TABLES]
    rows = given.get("rows", [{}])
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows) or not rows:
        problems.append(f"In {path}: rows must be tables, each under its own [[rows]].")
    problems += [
        f"In {path}: {name} must be a table, as in [{name}]."
        for name in ("settings", "grid", "corpora", "figure")
        if not isinstance(given.get(name, {}), Mapping)
    ]
    if problems:
        raise ConfigError("\n".join(problems))
    most = documents if documents is not None else given.get("documents")
    cells = [cell for row in rows for cell in cells_of(row, given, overrides or {}, most, path.parent)]
    return Grid(str(given.get("name", path.stem)), str(given.get("about", "")), tuple(cells), given.get("figure", {}))


def cells_of(
    row: Mapping[str, Any],
    given: Mapping[str, Any],
    overrides: Mapping[str, Any],
    documents: int | None,
    folder: Path,
) -> Iterator[Cell]:
    """Expand one row: each of its lists, and of those of the grid, stands for as many trainings as it is long.

    :param folder: Where files of corpora of one's own are looked for.
    """
    own = {name: value for name, value in row.items() if name not in OWN}
    axes = {
        "corpus": list(CORPORA),
        "seed": [0],
        **given.get("grid", {}),
        **{k: row[k] for k in ("corpus",) if k in row},
    }
    lists = {name: value if isinstance(value, list) else [value] for name, value in {**axes, **own}.items()}
    reads = row.get("reads", "rationale")
    if reads not in get_args(Reads):
        raise ConfigError(f"reads must be {' or '.join(map(repr, get_args(Reads)))}, got {reads!r}.")
    varying = [name for name in own if len(lists[name]) > 1]
    for values in itertools.product(*lists.values()):
        chosen = dict(zip(lists, values, strict=True))
        corpus, name = str(chosen.pop("corpus")), name_of(row, chosen, varying, reads)
        of_corpus = dict(given.get("corpora", {}).get(corpus, {}))
        data = files_of(of_corpus.pop("data", ()), folder)
        settings = {**given.get("settings", {}), **of_corpus, **chosen, **overrides}
        for number, drawn in enumerate(draws(row, int(settings["seed"]))):
            trial = f", trial {number}" if drawn else ""
            whole = scaled({**settings, **drawn}, ratio_of(corpus, of_corpus))
            yield Cell(name + trial, corpus, whole, reads, documents, data)


def files_of(data: str | Sequence[str], folder: Path) -> tuple[str, ...]:
    """Find the files of a corpus of one's own, which are named from where the grid file is."""
    return tuple(str(folder / name) for name in ([data] if isinstance(data, str) else data))


def name_of(row: Mapping[str, Any], chosen: Mapping[str, Any], varying: Sequence[str], reads: str) -> str:
    """Name a row of the table: as the file does, or by its settings."""
    parts = [str(chosen[name]) for name in varying]
    if "name" in row:
        return ", ".join([str(row["name"]), *parts])
    own = [str(chosen.get("method", "fresh"))]
    own += [
        f"{value}" if isinstance(value, str) else f"{name} {value}" for name, value in chosen.items() if name in row
    ]
    return ", ".join(dict.fromkeys([*own, *([reads] if reads != "rationale" else [])]))


def ratio_of(corpus: str, of_corpus: Mapping[str, Any]) -> float | None:
    """Find the ratio that a corpus is known for."""
    ratio = of_corpus.get("ratio", CORPORA[corpus].ratio if corpus in CORPORA else None)
    return ratio if isinstance(ratio, float) else None


def scaled(settings: Mapping[str, Any], usual: float | None) -> dict[str, Any]:
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


def draws(row: Mapping[str, Any], seed: int) -> Iterator[dict[str, float]]:
    """Draw values for the settings that are searched, as often as there are trials; nothing, once, where none are."""
    spans, n_trials = row.get("draw", {}), int(row.get("trials", 20))
    if not spans:
        yield {}
        return
    generator = np.random.default_rng((seed, n_trials))
    for _ in range(n_trials):
        yield {name: draw(str(values), generator) for name, values in spans.items()}


def draw(values: str, generator: np.random.Generator) -> float:
    """Draw from ``low:high``, ``low:high:log`` or ``one,two,three``."""
    try:
        if ":" not in values:
            choices = [float(value) for value in values.split(",")]
            return choices[int(generator.integers(len(choices)))]
        low, high, *how = values.split(":")
        if how == ["log"]:
            return round(float(np.exp(generator.uniform(np.log(float(low)), np.log(float(high))))), 6)
        return round(float(generator.uniform(float(low), float(high))), 6)
    except ValueError:
        wanted = "low:high, low:high:log or one,two,three, with numbers"
        raise ConfigError(f"{values!r} cannot be drawn from. Write {wanted}.") from None


def checked(grid: Grid, data_dir: Path | None) -> list[tuple[Cell, Run]]:
    """Put together the settings of all cells, or refuse the grid with all that is wrong with any of them."""
    found: list[tuple[Cell, Run]] = []
    wrong: dict[str, list[str]] = {}
    for cell in grid.cells:
        try:
            run = cell.resolve(data_dir)
            refuse_reads(cell, run)
            found.append((cell, run))
        except (ConfigError, DataError) as error:
            wrong.setdefault(str(error), []).append(str(cell))
    if wrong:
        raise impossible(wrong)
    return found


def refuse_reads(cell: Cell, run: Run) -> None:
    """Refuse to read what was dropped where nothing is, or where it is not known beforehand."""
    plain = shares_scores(run) and isinstance(run.method, FreshConfig) and not run.method.tagging.tags
    if cell.reads == "complement" and not plain:
        raise ConfigError("reads = 'complement' is for the method fresh with a scorer, without a tagger or folds.")


def shares_scores(run: Run) -> bool:
    """Say whether a run cuts scores that others may cut too."""
    config = run.method
    return isinstance(config, FreshConfig) and config.folds == 1 and asks_support(config, None)


def impossible(wrong: Mapping[str, Sequence[str]]) -> ConfigError:
    """Name all cells that cannot be, by what is wrong with them."""
    told = [f"{reason}\n" + "\n".join(f"  {cell}" for cell in cells) for reason, cells in wrong.items()]
    n_cells = sum(map(len, wrong.values()))
    return ConfigError(f"{n_cells} runs of the grid cannot be, so none was begun:\n" + "\n".join(told))

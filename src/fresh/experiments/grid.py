"""A grid: the runs that make up an experiment, their keys, and their labels."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fresh.config import flatten
from fresh.data.corpora import find_corpus
from fresh.errors import ConfigError, DataError
from fresh.experiments.results import TRIAL
from fresh.methods.config import CutConfig, FreshConfig, FullTextConfig, GateConfig
from fresh.methods.independent import shared_config
from fresh.methods.rationales import trains_support
from fresh.nn.encoder import identify_encoder
from fresh.pipeline import RunSettings, resolve_settings
from fresh.text import plural
from fresh.training.config import FREE, LATER, ClassifierConfig

Reads = Literal["rationale", "complement"]  # what the predictor of a run reads: the selected words, or all others
N_SINGLE = 5  # invalid runs that are listed one by one; more are grouped by rows
WHERE_SETTINGS_BELONG = (
    "Settings belong in a row, in [corpora.NAME], in [grid] or in [settings] of the grid file, or in `overrides`."
)
"""A hint for errors of library functions, which do not know of grid files."""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One run of a grid."""

    row: str  # name of its row in the table
    corpus: str
    settings: Mapping[str, Any]  # the settings in the grid, by name, including the method and the seed
    reads: Reads = "rationale"
    documents: int | None = None  # maximum number of documents of each split
    data: tuple[str, ...] = ()  # the files of a custom corpus; empty for a corpus of the paper

    @property
    def method(self) -> str:
        """The name of the method."""
        return str(self.settings.get("method", "fresh"))

    @property
    def seed(self) -> int:
        """The seed."""
        return int(self.settings.get("seed", 0))

    def source(self, data_dir: Path | None) -> tuple[Any, Path | None]:
        """Return the data and the folder to read it from, as `fresh.train` takes them."""
        if self.data:
            return self.data[0] if len(self.data) == 1 else list(self.data), None
        if data_dir is None:
            find_corpus(self.corpus)
            raise DataError(f"{self.corpus} is the name of a corpus. Give the folder of its files: data_dir=FOLDER.")
        return self.corpus, data_dir

    def resolve(self, data_dir: Path | None) -> RunSettings:
        """Combine the settings of the grid, those of the corpus, and the defaults."""
        return resolve_settings(*self.source(data_dir), None, {"audit": False, "baseline": False, **self.settings})

    def key(self, run: RunSettings, digest: str) -> str:
        """Compute the name of the run's folder from everything that affects the result; `digest` is the corpus's."""
        about = {"corpus": self.corpus, "data": digest, "documents": self.documents, "reads": self.reads}
        if self.is_audited(run):
            about["audit"] = True  # its report has more measures than that of the same run without an audit
        return short_hash({**about, "method": self.method, "settings": key_settings(run)})

    def is_audited(self, run: RunSettings) -> bool:
        """Return whether an audit adds measures to the run."""
        return run.config.audit and self.reads == "rationale" and isinstance(run.method, CutConfig)

    def table_settings(self, run: RunSettings) -> dict[str, Any]:
        """Return the settings in the grid, converted to their types, and those that every table needs."""
        converted = {name.rpartition(".")[2]: value for name, value in flatten(asdict(run.method))}
        own = {name: converted.get(name, value) for name, value in self.settings.items()}
        # Every run has these three, so that they can be rows, columns and axes of any experiment.
        return {"method": self.method, "ratio": converted.get("ratio"), "reads": self.reads, **own}

    def __str__(self) -> str:
        return f"{self.corpus}, {self.row}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Grid:
    """An experiment."""

    name: str
    about: str
    specs: tuple[RunSpec, ...]
    figure: Mapping[str, Any] = field(default_factory=dict)  # what `fresh plot` draws by default


class CheckedGrid(NamedTuple):
    """A grid, its valid runs with all of their settings, and the errors of the invalid ones."""

    grid: Grid
    runs: list[tuple[RunSpec, RunSettings]]
    errors: dict[str, list[RunSpec]]


def check_grid(grid: Grid, data_dir: Path | None) -> CheckedGrid:
    """Resolve the settings of all runs, and collect all errors."""
    checked = CheckedGrid(grid, [], {})
    for spec in grid.specs:
        try:
            run = spec.resolve(data_dir)
            plain = shares_scores(run) and isinstance(run.method, FreshConfig) and not run.method.tagging.has_tagger
            if spec.reads == "complement" and not (plain and not has_independent_predictor(run.method)):
                raise ConfigError(
                    "reads = 'complement' needs method fresh with a scorer and its own predictor, without a tagger or "
                    "folds."
                )
            checked.runs.append((spec, run))
        except (ConfigError, DataError) as error:
            checked.errors.setdefault(str(error), []).append(spec)
    return checked


def result_settings(run: RunSettings) -> dict[str, Any]:
    """List the settings of a run that affect its result."""
    return {name: value for name, value in flatten(asdict(run.method)) if name.rpartition(".")[2] not in FREE}


def key_settings(run: RunSettings) -> dict[str, Any]:
    """List the settings that make up a run's key."""
    # Settings added in later versions are left out at the value that reproduces earlier behavior, so that the keys of
    # published runs stay valid. An encoder is identified by its content, so that a copy elsewhere is the same run.
    settings = {name: value for name, value in result_settings(run).items() if (name, value) not in LATER.items()}
    return {**settings, "network.encoder": identify_encoder(run.method.network.encoder)}


def short_hash(value: Any) -> str:
    """Compute a short digest of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def shares_scores(run: RunSettings) -> bool:
    """Return whether a run uses scores that it can share with other runs."""
    config = run.method
    return isinstance(config, FreshConfig) and config.folds == 1 and trains_support(config, None)


def shares_support(run: RunSettings) -> bool:
    """Return whether a run uses, or is, a support model that it can share with other runs."""
    return isinstance(run.method, FullTextConfig) or shares_scores(run)


def has_independent_predictor(config: ClassifierConfig) -> bool:
    """Return whether the predictor of a run is an independent reader."""
    return isinstance(config, FreshConfig) and config.predictor == "independent"


def reader_config(config: ClassifierConfig) -> ClassifierConfig:
    """Return the settings of the reader of a run: its predictor, or the one that judges all other runs of a corpus."""
    return config if has_independent_predictor(config) else shared_config(config)


def shares_gate(run: RunSettings) -> bool:
    """Return whether a run uses a gate that it can share with other runs."""
    config = run.method
    # Early stopping ends training at the best epoch, which depends on how the gate is cut. Then it cannot be shared.
    return isinstance(config, GateConfig) and config.train.patience >= config.train.epochs - 1


def describe_settings(settings: Mapping[str, Any]) -> list[str]:
    """Describe settings in a few words each; a value that is a word needs no name."""

    def is_word(value: Any) -> bool:
        return isinstance(value, str) and value[:1].isalpha() and value not in ("true", "false")

    return [value if is_word(value) else f"{name} {value}" for name, value in settings.items()]


def invalid_runs(errors: Mapping[str, Sequence[RunSpec]], owner: str = "the grid") -> str:
    """List all invalid runs by what is wrong with them."""
    n_runs = len({str(spec) for specs in errors.values() for spec in specs})
    lines = [f"{plural(n_runs, 'run')} of {owner} cannot be done, so none was started:"]
    for reason, specs in errors.items():
        lines.append(reason)
        unique = {str(spec): spec for spec in specs}
        rows: dict[str, list[str]] = {}
        for spec in unique.values():
            rows.setdefault(TRIAL.sub("", spec.row), []).append(spec.corpus)  # the trials of a search are one row
        by_row = [f"{row}: {plural(len(own), 'run')} on {', '.join(dict.fromkeys(own))}" for row, own in rows.items()]
        lines += [f"  {line}" for line in (unique if len(unique) <= N_SINGLE else by_row)]
    return "\n".join(lines)

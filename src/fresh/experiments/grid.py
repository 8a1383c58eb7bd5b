"""A grid: the trainings that make up an experiment, and what tells each from all others."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fresh.config import flatten
from fresh.data.corpora import find_corpus
from fresh.errors import ConfigError, DataError
from fresh.experiments.refusal import Place
from fresh.methods.config import FreshConfig, FullTextConfig, GateConfig
from fresh.methods.rationales import trains_support
from fresh.nn.encoder import identify_encoder
from fresh.pipeline import RunSettings, resolve_settings
from fresh.training.config import FREE, LATER

Reads = Literal["rationale", "complement"]
"""What the predictor of a run reads: what was kept, or what was dropped."""


@dataclass(frozen=True, slots=True)
class RunSpec:
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
            return self.data[0] if len(self.data) == 1 else list(self.data), None
        if data_dir is None:
            find_corpus(self.corpus)
            raise DataError(f"{self.corpus} is the name of a corpus. Give the folder of its files: data_dir=FOLDER.")
        return self.corpus, data_dir

    def resolve(self, data_dir: Path | None) -> RunSettings:
        """Put all settings together: those of the grid, of the corpus, and the defaults."""
        return resolve_settings(*self.source(data_dir), None, {"audit": False, "baseline": False, **self.settings})

    def key(self, run: RunSettings, digest: str) -> str:
        """Make the name of the run's folder from all that decides on what comes out.

        :param digest: Digest of the corpus.
        """
        about = {"corpus": self.corpus, "data": digest, "documents": self.documents, "reads": self.reads}
        return short_hash({**about, "method": self.method, "settings": deciding(run)})

    def told(self, run: RunSettings) -> dict[str, Any]:
        """Write down the settings that the grid gives, as they were understood, and those that every table needs."""
        understood = {name.rpartition(".")[2]: value for name, value in flatten(asdict(run.method))}
        given = {name: understood.get(name, value) for name, value in self.settings.items()}
        return {"method": self.method, "ratio": understood.get("ratio"), "reads": self.reads, **given}

    @property
    def place(self) -> Place:
        """Where it stands in the table."""
        return Place(self.corpus, self.row, self.seed)

    def __str__(self) -> str:
        return str(self.place)


@dataclass(frozen=True, slots=True)
class Grid:
    """An experiment: its name, what it is about, and its trainings."""

    name: str
    about: str
    cells: tuple[RunSpec, ...]
    figure: Mapping[str, Any] = field(default_factory=dict)
    """What `fresh plot` draws of it if nothing else is said."""


class Checked(NamedTuple):
    """A grid, its runs that can be as far as is known, and what is wrong with which others."""

    grid: Grid
    pairs: list[tuple[RunSpec, RunSettings]]
    wrong: dict[str, list[Place]]


def lasting(run: RunSettings) -> dict[str, Any]:
    """List the settings of a run that decide on what comes out."""
    return {name: value for name, value in flatten(asdict(run.method)) if name.rpartition(".")[2] not in FREE}


def free(run: RunSettings) -> dict[str, Any]:
    """List the settings of a run that do not."""
    settings = {name.rpartition(".")[2]: value for name, value in flatten(asdict(run.method))}
    return {name: settings[name] for name in FREE}


def deciding(run: RunSettings) -> dict[str, Any]:
    """List the same for a run's key: with what an encoder is in the place of where it is, and what came later."""
    told = {name: value for name, value in lasting(run).items() if (name, value) not in LATER.items()}
    return {**told, "network.encoder": identify_encoder(run.method.network.encoder)}


def short_hash(about: Any) -> str:
    """Digest plain values."""
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]


def checked(grid: Grid, data_dir: Path | None) -> Checked:
    """Put together the settings of all cells, and say what is wrong with any of them."""
    found = Checked(grid, [], {})
    for cell in grid.cells:
        try:
            run = cell.resolve(data_dir)
            _refuse_reads(cell, run)
            found.pairs.append((cell, run))
        except (ConfigError, DataError) as error:
            found.wrong.setdefault(str(error), []).append(cell.place)
    return found


def _refuse_reads(cell: RunSpec, run: RunSettings) -> None:
    """Refuse to read what was dropped where nothing is, or where it is not known beforehand."""
    plain = shares_scores(run) and isinstance(run.method, FreshConfig) and not run.method.tagging.has_tagger
    if cell.reads == "complement" and not plain:
        raise ConfigError("reads = 'complement' is for the method fresh with a scorer, without a tagger or folds.")


def shares_scores(run: RunSettings) -> bool:
    """Say whether a run cuts scores that others may cut too."""
    config = run.method
    return isinstance(config, FreshConfig) and config.folds == 1 and trains_support(config, None)


def shares_support(run: RunSettings) -> bool:
    """Say whether a run asks a support model, or is one: a network of whole documents that others may ask too."""
    return isinstance(run.method, FullTextConfig) or shares_scores(run)


def shares_gate(run: RunSettings) -> bool:
    """Say whether a run cuts a gate that others may cut too: one whose training does not end by how it is cut."""
    config = run.method
    return isinstance(config, GateConfig) and config.train.patience >= config.train.epochs - 1

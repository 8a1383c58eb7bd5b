"""What has to be done for a grid, and in which order: support models, scores, runs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fresh.attribution import scorer_settings
from fresh.errors import ConfigError, EncoderError, MissingExtraError
from fresh.experiments.grid import (
    Checked,
    Grid,
    RunSpec,
    checked,
    deciding,
    free,
    lasting,
    shares_gate,
    shares_scores,
    shares_support,
    short_hash,
)
from fresh.experiments.memory import Memory
from fresh.experiments.naming import apart
from fresh.experiments.refusal import Place, impossible
from fresh.experiments.sources import Sources
from fresh.experiments.store import RunStore
from fresh.methods.baselines import keep_annotated
from fresh.methods.config import FreshConfig
from fresh.methods.fresh import check_ready
from fresh.methods.rationales import check_rationales, split_folds
from fresh.nn.config import NetworkConfig
from fresh.nn.encoder import load_encoder
from fresh.pipeline import RunSettings
from fresh.progress import SILENT

Kind = Literal["support", "gate", "scores", "run"]
READ = ("documents", "data")
"""What decides on which documents are read, beside settings."""


@dataclass(frozen=True, slots=True)
class Task:
    """A piece of work that is done once, whoever needs it."""

    kind: Kind
    key: str
    cell: RunSpec
    """The run that it is for, or one of them."""
    needs: tuple[str, ...] = ()
    """Keys of what must be done before."""
    settings: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What decides on what comes out of it."""
    apart: str = field(default="", compare=False)
    """What tells it from others that would be called alike."""

    def __str__(self) -> str:
        cell = self.cell
        scorer = f" of {cell.settings['scorer']}" if "scorer" in cell.settings else ""
        shared = {"support": "support model", "gate": f"gate of {cell.method}", "scores": f"scores{scorer}"}
        return ", ".join(filter(None, (cell.corpus, shared.get(self.kind, cell.row), self.apart, f"seed {cell.seed}")))


def _plan(grid: Grid, data_dir: Path | None, runs: RunStore) -> list[Task]:
    """List all tasks of one grid."""
    return plan_all([checked(grid, data_dir)], data_dir, runs)[grid.name]


def plan_all(found: Sequence[Checked], data_dir: Path | None, runs: RunStore) -> dict[str, list[Task]]:
    """List all tasks of each grid, what is needed before what needs it; refuse grids of which any run cannot be.

    The plans are also written to the folder of the runs, for tables, and what was found in files, for later plans.
    """
    sources, memory, seen = Sources(data_dir), Memory(runs), _Seen()
    places: dict[str, Path] = {}
    for _, pairs, wrong in found:
        places |= memory.recall(pairs, sources)
        _check_all(pairs, wrong, sources, seen)
        if not wrong:
            _check_twins(pairs, wrong, sources)
    names = {grid.name: f"the grid {grid.name}" if len(found) > 1 else "the grid" for grid, _, _ in found}
    problems = [str(impossible(wrong, names[grid.name])) for grid, _, wrong in found if wrong]
    if problems:
        raise ConfigError("\n".join(problems))
    memory.keep(sources.known, places)
    return {grid.name: _planned(grid, pairs, sources, runs) for grid, pairs, _ in found}


def _planned(grid: Grid, pairs: Sequence[tuple[RunSpec, RunSettings]], sources: Sources, runs: RunStore) -> list[Task]:
    """List all tasks of a grid, each once, and write its plan.

    The corpus with the most words comes first, so that in the end nobody waits for a long task.
    """
    tasks: dict[str, Task] = {}
    n_words: dict[str, int] = {}
    told: list[dict[str, Any]] = []
    for cell, run in pairs:
        digest, n_words[cell.corpus] = sources.about(cell, run)
        key = cell.key(run, digest)
        for task in tasks_of(cell, run, digest):
            tasks.setdefault(task.key, task)
        about = {"row": cell.row, "corpus": cell.corpus, "seed": cell.seed}
        told.append({"key": key, **about, "settings": cell.told(run)})
    runs.write_plan(grid.name, grid.about, told, grid.figure)
    return sorted(tasks.values(), key=lambda task: -n_words[task.cell.corpus])


def tasks_of(cell: RunSpec, run: RunSettings, digest: str) -> Iterable[Task]:
    """List what one run needs, and the run."""
    needs: tuple[str, ...] = ()
    common, whole = _reading(cell, run), lasting(run)
    for kind, shares, key_of, own in SHARED:
        if shares(run):
            key = key_of(cell, run, digest)
            yield Task(kind, key, cell, needs, {**own(run, whole), **common})
            needs = (key,)
    yield Task("run", cell.key(run, digest), cell, needs, {"method": cell.method, **whole, **common})


def tell_apart(tasks: Sequence[Task]) -> list[Task]:
    """Give tasks that would be called alike what tells them apart."""
    alike: dict[str, list[Task]] = {}
    for task in tasks:
        alike.setdefault(str(task), []).append(task)
    found: dict[str, Task] = {}
    for same in alike.values():
        given = [{*task.cell.settings, *READ} for task in same]
        words = apart([task.settings for task in same], given)
        found |= {task.key: replace(task, apart=own) for task, own in zip(same, words, strict=True)}
    return [found[task.key] for task in tasks]


def _reading(cell: RunSpec, run: RunSettings) -> dict[str, Any]:
    """List what decides on which documents are read."""
    own = {"data": ", ".join(cell.data), **asdict(run.config.data)} if cell.data else {}
    return {"documents": cell.documents, **own}


def gate_key(cell: RunSpec, run: RunSettings, digest: str) -> str:
    """Name a gate by all that decides on it: how it is cut does not."""
    return "gate-" + short_hash([cell.corpus, digest, cell.documents, cell.method, _learnt(run, deciding(run))])


def _learnt(_run: RunSettings, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Take the settings that decide on a gate."""
    return {name: value for name, value in settings.items() if name != "discretizer"}


def support_key(cell: RunSpec, run: RunSettings, digest: str) -> str:
    """Name a support model by all that decides on it."""
    return "support-" + short_hash([cell.corpus, digest, cell.documents, _classifying(run, deciding(run))])


def _classifying(_run: RunSettings, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Take the settings that decide on a support model."""
    return {name: value for name, value in settings.items() if name.startswith(("network.", "train."))}


def scores_key(cell: RunSpec, run: RunSettings, digest: str) -> str:
    """Name the scores of all documents by all that decides on them."""
    assert isinstance(run.method, FreshConfig)
    return "scores-" + short_hash([support_key(cell, run, digest), run.method.scorer, _asked(run.method)])


def _asked(config: FreshConfig) -> dict[str, Any]:
    """Take the settings of the scorer."""
    settings = asdict(config.scoring)
    return {name: settings[name] for name in scorer_settings(config.scorer) if name in settings}


def _scoring(run: RunSettings, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Take the settings that decide on scores."""
    assert isinstance(run.method, FreshConfig)
    return {"scorer": run.method.scorer, **_asked(run.method), **_classifying(run, settings)}


class _Shared(NamedTuple):
    """Work that runs may share."""

    kind: Kind
    does: Callable[[RunSettings], bool]
    """Whether a run does."""
    key: Callable[[RunSpec, RunSettings, str], str]
    settings: Callable[[RunSettings, Mapping[str, Any]], dict[str, Any]]
    """Takes those of all settings of a run that decide on it."""


SHARED = (
    _Shared("support", shares_support, support_key, _classifying),
    _Shared("gate", shares_gate, gate_key, _learnt),
    _Shared("scores", shares_scores, scores_key, _scoring),
)
"""What runs may share; each needs the one before, if that is shared."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was looked at once, for all runs that ask for it."""

    depths: dict[str, int | str] = field(default_factory=dict)
    """How many layers encoders have, or why they cannot be had."""
    unread: dict[str, str] = field(default_factory=dict)
    """Why corpora cannot be read."""


def _check_all(
    pairs: Sequence[tuple[RunSpec, RunSettings]], wrong: dict[str, list[Place]], sources: Sources, seen: _Seen
) -> None:
    """Note runs that their corpora, or what is installed here, do not allow."""
    in_order = sorted(pairs, key=lambda pair: (pair[0].corpus, pair[0].seed))  # so that each corpus is read once
    for cell, run in in_order:
        try:
            _check_layers(run.method.network, seen.depths)
            _check_read(cell, run, sources, seen.unread)
            _check_one(cell, run, sources)
        except (ValueError, OSError, MissingExtraError) as error:
            wrong.setdefault(str(error), []).append(cell.place)


def _check_read(cell: RunSpec, run: RunSettings, sources: Sources, unread: dict[str, str]) -> None:
    """Refuse a run whose corpus cannot be read; that is tried once.

    :param unread: Why corpora cannot be read, of those that were looked at.
    """
    key = sources.key(cell, run)
    if key in unread:
        raise ConfigError(unread[key])
    try:
        sources.about(cell, run)
    except (ValueError, OSError) as error:
        unread[key] = str(error)
        raise


def _check_twins(pairs: Sequence[tuple[RunSpec, RunSettings]], wrong: dict[str, list[Place]], sources: Sources) -> None:
    """Note rows that would be one run, since they differ only in how fast it is."""
    firsts: dict[str, tuple[RunSpec, dict[str, Any]]] = {}
    for cell, run in pairs:
        own = free(run)
        first, others = firsts.setdefault(cell.key(run, sources.about(cell, run).digest), (cell, own))
        names = [name for name in own if own[name] != others[name]]
        if names:
            told = f"The rows {first.row} and {cell.row} differ only in {', '.join(names)}: that decides on how fast a "
            told += "run is, not on what comes out, so they would be one run. Leave one of them out."
            wrong.setdefault(told, []).append(cell.place)


def _check_layers(network: NetworkConfig, depths: dict[str, int | str]) -> None:
    """Refuse an encoder that cannot be had, or has fewer layers than are to learn.

    :param depths: How many layers encoders have, or why they cannot be had, of those that were looked at.
    """
    name, n_layers = network.encoder, network.layers
    if name not in depths:
        try:
            depths[name] = int(load_encoder(name).model.config.num_hidden_layers)
        except EncoderError as error:
            depths[name] = str(error)
    found = depths[name]
    if isinstance(found, str):
        raise ConfigError(found)
    if n_layers != "all" and n_layers > found:
        raise ConfigError(f"layers must be at most {found} for the encoder {name}, or all, got {n_layers}.")


def _check_one(cell: RunSpec, run: RunSettings, sources: Sources) -> None:
    """Refuse a run that asks for people's rationales where nobody made any, for too many folds, for what is missing."""
    config = run.method
    human = config.tagging.human if isinstance(config, FreshConfig) else getattr(config, "human", 0.0)
    if isinstance(config, FreshConfig):
        check_ready(config)
        if config.folds > 1:
            split_folds(sources.splits(cell, run).train, config.folds, config.train.seed)
    if cell.method == "human":
        keep_annotated(sources.splits(cell, run), SILENT)
    elif human:
        check_rationales(sources.splits(cell, run), human)

"""The tasks of a grid, in order: support models, gates, scores, runs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fresh.attribution import scorer_settings
from fresh.errors import ConfigError, EncoderError, MissingExtraError
from fresh.experiments.grid import (
    WHERE_SETTINGS_BELONG,
    CheckedGrid,
    Grid,
    RunLabel,
    RunSpec,
    distinguish,
    invalid_runs,
    key_settings,
    result_settings,
    shares_gate,
    shares_scores,
    shares_support,
    short_hash,
    speed_settings,
)
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
DATA_SETTINGS = ("documents", "data")
"""What decides which documents are read, besides settings."""


@dataclass(frozen=True, slots=True)
class Task:
    """A piece of work that is done once for all runs that need it."""

    kind: Kind
    key: str
    spec: RunSpec
    """The run that needs it, or one of them."""
    needs: tuple[str, ...] = ()
    """Keys of the tasks that must be done before."""
    settings: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The settings that affect its result."""
    detail: str = field(default="", compare=False)
    """What tells it from other tasks that have the same name without it."""

    def __str__(self) -> str:
        spec = self.spec
        scorer = f" of {spec.settings['scorer']}" if "scorer" in spec.settings else ""
        shared = {"support": "support model", "gate": f"gate of {spec.method}", "scores": f"scores{scorer}"}
        parts = (spec.corpus, shared.get(self.kind, spec.row), self.detail, f"seed {spec.seed}")
        return ", ".join(filter(None, parts))


def plan_all(grids: Sequence[CheckedGrid], data_dir: Path | None, store: RunStore) -> dict[str, list[Task]]:
    """List all tasks of each grid, each after the tasks that it needs; refuse grids with invalid runs.

    The plans are written to the folder of runs, for tables, and so is what was learned about files, for later plans.
    """
    sources = Sources(data_dir, store)
    checker = _RunChecker(sources)
    problems: list[str] = []
    for grid, runs, errors in grids:
        checker.check_all(runs, errors)
        if not errors:
            _check_duplicates(runs, errors, sources)
        if errors:
            problems.append(invalid_runs(errors, f"the grid {grid.name}" if len(grids) > 1 else "the grid"))
    if problems:
        raise ConfigError("\n".join([*problems, f"({WHERE_SETTINGS_BELONG})"]))
    sources.save_cache()
    return {grid.name: _plan(grid, runs, sources, store) for grid, runs, _ in grids}


def _plan(grid: Grid, runs: Sequence[tuple[RunSpec, RunSettings]], sources: Sources, store: RunStore) -> list[Task]:
    # A task that several runs need has one key: `setdefault` keeps the first, and the order of the grid.
    tasks: dict[str, Task] = {}
    n_words: dict[str, int] = {}
    planned: list[dict[str, Any]] = []
    for spec, run in runs:
        digest, n_words[spec.corpus] = sources.summary(spec, run)
        for task in tasks_of(spec, run, digest):
            tasks.setdefault(task.key, task)
        about = {"row": spec.row, "corpus": spec.corpus, "seed": spec.seed, "settings": spec.table_settings(run)}
        planned.append({"key": spec.key(run, digest), **about})
    store.write_plan(grid.name, grid.about, planned, grid.figure)
    # The corpus with the most words first, so that no worker is left alone with a long task in the end.
    return sorted(tasks.values(), key=lambda task: -n_words[task.spec.corpus])


def tasks_of(spec: RunSpec, run: RunSettings, digest: str) -> Iterable[Task]:
    """List the tasks that a run needs, and the run itself.

    :param digest: Digest of the corpus.
    """
    needs: tuple[str, ...] = ()
    data = {"data": ", ".join(spec.data), **asdict(run.config.data)} if spec.data else {}
    common, settings = {"documents": spec.documents, **data}, result_settings(run)
    for kind, is_shared, key_of, own_settings in SHARED:
        if is_shared(run):
            key = key_of(spec, run, digest)
            yield Task(kind, key, spec, needs, {**own_settings(run, settings), **common})
            needs = (key,)
    yield Task("run", spec.key(run, digest), spec, needs, {"method": spec.method, **settings, **common})


def label_tasks(tasks: Sequence[Task]) -> list[Task]:
    """Add a detail to tasks that would have the same name without it."""
    by_name: dict[str, list[Task]] = {}
    for task in tasks:
        by_name.setdefault(str(task), []).append(task)
    details: dict[str, str] = {}
    for group in by_name.values():
        own_names = [{*task.spec.settings, *DATA_SETTINGS} for task in group]
        texts = distinguish([task.settings for task in group], own_names)
        details |= {task.key: text for task, text in zip(group, texts, strict=True)}
    return [replace(task, detail=details[task.key]) for task in tasks]


def gate_key(spec: RunSpec, run: RunSettings, digest: str) -> str:
    """Compute the key of a gate: everything that affects it, which the way it is cut does not."""
    settings = _gate_settings(run, key_settings(run))
    return "gate-" + short_hash([spec.corpus, digest, spec.documents, spec.method, settings])


def _gate_settings(_run: RunSettings, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != "discretizer"}


def support_key(spec: RunSpec, run: RunSettings, digest: str) -> str:
    """Compute the key of a support model."""
    settings = _support_settings(run, key_settings(run))
    return "support-" + short_hash([spec.corpus, digest, spec.documents, settings])


def _support_settings(_run: RunSettings, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name.startswith(("network.", "train."))}


def scores_key(spec: RunSpec, run: RunSettings, digest: str) -> str:
    """Compute the key of the scores of all documents."""
    assert isinstance(run.method, FreshConfig)
    return "scores-" + short_hash([support_key(spec, run, digest), run.method.scorer, _scorer_settings(run.method)])


def _scorer_settings(config: FreshConfig) -> dict[str, Any]:
    settings = asdict(config.scoring)
    return {name: settings[name] for name in scorer_settings(config.scorer) if name in settings}


def _score_settings(run: RunSettings, settings: Mapping[str, Any]) -> dict[str, Any]:
    assert isinstance(run.method, FreshConfig)
    return {"scorer": run.method.scorer, **_scorer_settings(run.method), **_support_settings(run, settings)}


class _SharedWork(NamedTuple):
    """Work that runs may share."""

    kind: Kind
    is_shared: Callable[[RunSettings], bool]
    key_of: Callable[[RunSpec, RunSettings, str], str]
    own_settings: Callable[[RunSettings, Mapping[str, Any]], dict[str, Any]]
    """Selects, from all settings of a run, those that affect this work."""


SHARED = (
    _SharedWork("support", shares_support, support_key, _support_settings),
    _SharedWork("gate", shares_gate, gate_key, _gate_settings),
    _SharedWork("scores", shares_scores, scores_key, _score_settings),
)
"""Work that runs may share; each needs the one before it, if a run has that too."""


@dataclass(frozen=True, slots=True)
class _RunChecker:
    """Checks runs against their corpora and what is installed; looks at each corpus and each encoder once."""

    sources: Sources
    n_layers: dict[str, int | str] = field(default_factory=dict)
    """Layers of each encoder, or why it cannot be loaded."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """Why corpora cannot be read."""

    def check_all(self, runs: Sequence[tuple[RunSpec, RunSettings]], errors: dict[str, list[RunLabel]]) -> None:
        """Add to the errors of a grid."""
        for spec, run in sorted(runs, key=lambda pair: (pair[0].corpus, pair[0].seed)):  # reads each corpus once
            try:
                self._check_encoder(run.method.network)
                self._check_corpus(spec, run)
                self._check_method(spec, run)
            except (ValueError, OSError, MissingExtraError) as error:
                errors.setdefault(str(error), []).append(spec.label)

    def _check_encoder(self, network: NetworkConfig) -> None:
        name = network.encoder
        if name not in self.n_layers:
            try:
                self.n_layers[name] = int(load_encoder(name).model.config.num_hidden_layers)
            except EncoderError as error:
                self.n_layers[name] = str(error)
        n_layers = self.n_layers[name]
        if isinstance(n_layers, str):
            raise ConfigError(n_layers)
        n_trained = network.layers
        if n_trained != "all" and n_trained > n_layers:
            raise ConfigError(f"layers must be at most {n_layers} for the encoder {name}, or all, got {n_trained}.")

    def _check_corpus(self, spec: RunSpec, run: RunSettings) -> None:
        key = self.sources.key(spec, run)
        if key in self.unreadable:
            raise ConfigError(self.unreadable[key])
        try:
            self.sources.summary(spec, run)
        except (ValueError, OSError) as error:
            self.unreadable[key] = str(error)
            raise

    def _check_method(self, spec: RunSpec, run: RunSettings) -> None:
        """Refuse a run that needs human rationales that are not there, too many folds, or what is not installed."""
        config = run.method
        human = config.tagging.human if isinstance(config, FreshConfig) else getattr(config, "human", 0.0)
        if isinstance(config, FreshConfig):
            check_ready(config)
            if config.folds > 1:
                split_folds(self.sources.splits(spec, run).train, config.folds, config.train.seed)
        if spec.method == "human":
            keep_annotated(self.sources.splits(spec, run), SILENT)
        elif human:
            check_rationales(self.sources.splits(spec, run), human)


def _check_duplicates(
    runs: Sequence[tuple[RunSpec, RunSettings]], errors: dict[str, list[RunLabel]], sources: Sources
) -> None:
    """Refuse rows that differ only in settings that affect speed: they are one run."""
    firsts: dict[str, tuple[RunSpec, dict[str, Any]]] = {}
    for spec, run in runs:
        settings = speed_settings(run)
        key = spec.key(run, sources.summary(spec, run).digest)
        first, first_settings = firsts.setdefault(key, (spec, settings))
        names = [name for name in settings if settings[name] != first_settings[name]]
        if names:
            reason = (
                f"The rows {first.row} and {spec.row} differ only in {', '.join(names)}. That affects the speed of "
            )
            reason += "a run, not its result, so they are the same run. Remove one of them."
            errors.setdefault(reason, []).append(spec.label)

"""The tasks of a grid, in order: support models, gates, scores, runs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from fresh.attribution import TARGETED, scorer_settings
from fresh.attribution.support_model import SUPPORT
from fresh.config import flatten
from fresh.errors import ConfigError, MissingExtraError
from fresh.experiments.grid import (
    WHERE_SETTINGS_BELONG,
    CheckedGrid,
    RunSpec,
    describe_settings,
    has_independent_predictor,
    invalid_runs,
    key_settings,
    reader_config,
    result_settings,
    shares_gate,
    shares_scores,
    shares_support,
    short_hash,
)
from fresh.experiments.sources import Sources
from fresh.experiments.store import RunStore
from fresh.methods.baselines import keep_annotated
from fresh.methods.config import CutConfig, FreshConfig
from fresh.methods.fresh import check_ready
from fresh.methods.independent import NAME as READER
from fresh.methods.rationales import check_rationales, split_folds
from fresh.nn.encoder import load_encoder
from fresh.pipeline import RunSettings
from fresh.progress import SILENT
from fresh.training.config import FREE, LATER

Kind = Literal["support", "gate", "scores", "reader", "run"]


@dataclass(frozen=True, slots=True)
class Task:
    """Work that is done once for all runs that need it."""

    kind: Kind
    key: str
    spec: RunSpec  # a run that needs it
    needs: tuple[str, ...] = ()  # keys of the tasks that must be done first
    settings: Mapping[str, Any] = field(default_factory=dict, compare=False)  # the settings that affect its result
    detail: str = field(default="", compare=False)  # how it differs from other tasks that would have the same name

    def need(self, kind: Kind) -> str | None:
        """Return the key of the task of a kind that must be done first, if any."""
        return next((key for key in self.needs if key.startswith(f"{kind}-")), None)

    def __str__(self) -> str:
        spec = self.spec
        scorer = f" of {spec.settings['scorer']}" if "scorer" in spec.settings else ""
        shared = {"support": SUPPORT, "gate": f"gate of {spec.method}", "scores": f"scores{scorer}", "reader": READER}
        parts = (spec.corpus, shared.get(self.kind, spec.row), self.detail, f"seed {spec.seed}")
        return ", ".join(filter(None, parts))


def plan_all(grids: Sequence[CheckedGrid], data_dir: Path | None, store: RunStore) -> dict[str, list[Task]]:
    """List all tasks of each grid in their order, and write the plans; refuse grids with invalid runs."""
    sources = Sources(data_dir, store)
    checker = _RunChecker(sources)
    problems: list[str] = []
    for grid, runs, errors in grids:
        checker.check_all(runs, errors)
        if not errors:  # keys need valid runs
            _check_duplicates(runs, errors, sources)
        if errors:
            problems.append(invalid_runs(errors, f"the grid {grid.name}" if len(grids) > 1 else "the grid"))
    if problems:
        raise ConfigError("\n".join([*problems, f"({WHERE_SETTINGS_BELONG})"]))
    sources.save_cache()
    plans: dict[str, list[Task]] = {}
    n_words: dict[str, int] = {}
    for grid, runs, _ in grids:
        # A task that several runs need has one key; `setdefault` keeps the first, and so the order of the grid.
        tasks: dict[str, Task] = {}
        planned: list[dict[str, Any]] = []
        for spec, run in runs:
            digest, n_words[spec.corpus] = sources.summary(spec, run)
            for task in tasks_of(spec, run, digest):
                tasks.setdefault(task.key, task)
            about = {"row": spec.row, "corpus": spec.corpus, "seed": spec.seed, "settings": spec.table_settings(run)}
            planned.append({"key": spec.key(run, digest), **about})
        store.write_plan(grid.name, grid.about, planned, grid.figure)
        # The largest corpus first: otherwise one worker may be left with a long task while all others are idle.
        plans[grid.name] = sorted(tasks.values(), key=lambda task: -n_words[task.spec.corpus])
    return plans


def tasks_of(spec: RunSpec, run: RunSettings, digest: str) -> Iterable[Task]:
    """List the tasks that a run needs, and the run itself; `digest` is that of its corpus."""
    data = {"data": ", ".join(spec.data), **asdict(run.config.data)} if spec.data else {}
    common, settings, identity = {"documents": spec.documents, **data}, result_settings(run), key_settings(run)
    source: list[Any] = [spec.corpus, digest, spec.documents]
    # Each kind of work has a key of what affects it, and no more: with other settings equal, runs share it.
    needs: tuple[str, ...] = ()
    if shares_support(run):
        key = "support-" + short_hash([*source, _support_settings(identity)])
        yield Task("support", key, spec, needs, {**_support_settings(settings), **common})
        needs = (key,)
    if shares_scores(run):
        config = run.method
        assert isinstance(config, FreshConfig)
        known = asdict(config.scoring)
        scoring = {name: known[name] for name in scorer_settings(config.scorer) if name in known}
        keyed = {name: value for name, value in scoring.items() if (f"scoring.{name}", value) not in LATER.items()}
        # For an audit, test is scored for other classes too.
        scores_others = run.config.audit and config.scorer in TARGETED
        key = "scores-" + short_hash([*needs, config.scorer, keyed, *["audit"] * scores_others])
        about = {"scorer": config.scorer, **scoring, **_support_settings(settings)}
        yield Task("scores", key, spec, needs, {**about, **common})
        needs = (key,)
    if shares_gate(run):
        # The way to cut is no part of the key: one training serves all.
        settings_of_gate, identity = (
            {name: value for name, value in values.items() if name != "discretizer"} for values in (settings, identity)
        )
        key = "gate-" + short_hash([*source, spec.method, identity])
        yield Task("gate", key, spec, needs, {**settings_of_gate, **common})
        needs = (key,)
    if has_independent_predictor(run.method) or spec.is_audited(run):
        assert isinstance(run.method, CutConfig)
        config = reader_config(run.method)
        own = {**_support_settings(identity), "train.seed": config.train.seed}
        key = "reader-" + short_hash([*source, own, run.method.one_ratio])
        yield Task("reader", key, spec, (), {**_support_settings(settings), "ratio": run.method.one_ratio, **common})
        needs = (*needs, key)
    yield Task("run", spec.key(run, digest), spec, needs, {"method": spec.method, **settings, **common})


def _support_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name.startswith(("network.", "train."))}


def label_tasks(tasks: Sequence[Task]) -> list[Task]:
    """Add a detail to tasks that would have the same name without it."""
    by_name: dict[str, list[Task]] = {}
    for task in tasks:
        by_name.setdefault(str(task), []).append(task)
    labeled: list[Task] = []
    for task in tasks:
        group, own = by_name[str(task)], {*task.spec.settings, "documents", "data"}
        differing = [path for path, v in task.settings.items() if any(v != other.settings.get(path) for other in group)]
        named = {path.rpartition(".")[2]: task.settings[path] for path in differing}
        # Defaults are left out: two tasks that differ in a setting have it in at least one of their grids.
        shown = {name: value for name, value in named.items() if name in own and value not in (None, "")}
        labeled.append(replace(task, detail=", ".join(describe_settings(shown))))
    return labeled


@dataclass(frozen=True, slots=True)
class _RunChecker:
    sources: Sources
    known: dict[tuple[str, str], Any] = field(default_factory=dict)
    """The configuration of each encoder, and the summary of each corpus, or why it cannot be read."""

    def check_all(self, runs: Sequence[tuple[RunSpec, RunSettings]], errors: dict[str, list[RunSpec]]) -> None:
        # Sorted, so that each corpus is read once: only a few are kept in memory.
        for spec, run in sorted(runs, key=lambda pair: (pair[0].corpus, pair[0].seed)):
            try:
                self._check(spec, run)
            except (ValueError, OSError, MissingExtraError) as error:
                errors.setdefault(str(error), []).append(spec)

    def _once(self, kind: str, name: str, read: Callable[[], Any]) -> Any:
        # If it fails, the same error is raised each time.
        if (kind, name) not in self.known:
            try:
                self.known[kind, name] = read()
            except (ValueError, OSError) as error:
                self.known[kind, name] = error
        if isinstance(self.known[kind, name], Exception):
            raise self.known[kind, name]
        return self.known[kind, name]

    def _check(self, spec: RunSpec, run: RunSettings) -> None:
        # Too many layers, missing data, missing extras, too many folds, and missing human rationales are refused.
        config, network = run.method, run.method.network
        encoder = self._once("encoder", network.encoder, lambda: load_encoder(network.encoder).model.config)
        if network.layers != "all" and network.layers > encoder.num_hidden_layers:
            about = f"at most {encoder.num_hidden_layers} for the encoder {network.encoder}, got {network.layers}"
            raise ConfigError(f"layers must be all or {about}.")
        self._once("corpus", self.sources.key(spec, run), lambda: self.sources.summary(spec, run))
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
    runs: Sequence[tuple[RunSpec, RunSettings]], errors: dict[str, list[RunSpec]], sources: Sources
) -> None:
    # Rows that differ only in settings that affect speed are one run.
    firsts: dict[str, tuple[RunSpec, dict[str, Any]]] = {}
    for spec, run in runs:
        settings = {path.rpartition(".")[2]: value for path, value in flatten(asdict(run.method))}
        first, others = firsts.setdefault(spec.key(run, sources.summary(spec, run).digest), (spec, settings))
        names = ", ".join(name for name in FREE if settings.get(name) != others.get(name))
        if names:
            same = "That affects the speed of a run, not its result, so they are the same run. Remove one of them."
            reason = f"The rows {first.row} and {spec.row} differ only in {names}. {same}"
            errors.setdefault(reason, []).append(spec)

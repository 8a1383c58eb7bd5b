"""A search for good settings: many trainings, each judged on dev, in a study that goes on where it was broken off."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fresh._io import check_output_folder
from fresh._optional import optional_import
from fresh.config import (
    check_min,
    flatten,
    from_mapping,
    list_settings,
    raise_all,
    read_toml,
    suggest,
    union_types,
)
from fresh.data.splits import Splits
from fresh.errors import ConfigError, DataError
from fresh.evaluation.evaluation import explain_all
from fresh.methods.registry import find_config, train_method
from fresh.metrics.classification import macro_f1
from fresh.pipeline import RunSettings, read_usable_splits, resolve_settings, run_identity
from fresh.progress import Progress, Terminal
from fresh.training.distributed import process_group
from fresh.training.feature_cache import FeatureStore
from fresh.training.loop import RunContext

SPACES = {
    "lei": ("lambda_1=0.01:1:log", "lambda_2=0,0.5,1,2"),
    "bastings": ("lagrange_rate=0.001:0.1:log", "lambda_2=0,0.5,1,2"),
}
"""What is searched where nothing else is said; for lei, the paper's search."""
NOTE, TRIALS, BEST = "search.json", "trials.log", "best.toml"


@dataclass(frozen=True, slots=True)
class Span:
    """Values of a setting from which a search draws: a few, or all between two."""

    name: str
    choices: tuple[float, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False

    def draw(self, trial: Any) -> float:
        """Have a value drawn."""
        if self.choices:
            return float(trial.suggest_categorical(self.name, self.choices))
        return float(trial.suggest_float(self.name, self.low, self.high, log=self.log))


def read_span(text: str, method: str) -> Span:
    """Read ``name=low:high``, ``name=low:high:log`` or ``name=one,two,three``."""
    name, _, values = text.partition("=")
    known = {setting.name: setting for setting in list_settings(find_config(method))}
    if name not in known:
        raise ConfigError(suggest(name, f"a setting of the method {method}", known))
    if not {float, int} & {*union_types(known[name].kind)}:
        raise ConfigError(f"{name} has no numbers to draw from. Compare its values in the rows of a grid: fresh run.")
    if ":" in values and float not in union_types(known[name].kind):
        raise ConfigError(f"{name} has no values between two others. Write {name}=one,two,three, with numbers.")
    try:
        if ":" not in values:
            return Span(name, tuple(map(float, values.split(","))))
        low, high, *how = values.split(":")
        span = Span(name, (), float(low), float(high), how == ["log"])
    except ValueError:
        span = Span(name)
    if not span.low < span.high or (span.log and span.low <= 0) or values.count(":") > 1 + span.log:
        raise ConfigError(
            f"{text!r} cannot be searched. Write name=low:high, name=low:high:log or name=one,two,three, with numbers."
        )
    return span


def search(
    data: Any,
    *,
    out: str | Path,
    trials: int = 20,
    space: Sequence[str] = (),
    data_dir: str | Path | None = None,
    config: str | Path | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> dict[str, float]:
    """Train with settings that are drawn, judge each on dev, and write down the best.

    :param out: Folder of the study; a search that was broken off goes on there.
    :param trials: How many trainings there shall be in all.
    :param space: What is drawn, such as ``lambda_1=0.01:1:log``; the paper's search if not given.
    :return: The best settings.
    """
    optuna = optional_import("optuna", "search", "fresh search")
    progress = progress or Terminal()
    run = resolve_settings(data, data_dir, config, settings)
    raise_all(
        *check_min(1, trials=trials),
        None if process_group().size == 1 else "fresh search trains in one process. Start it alone.",
    )
    spans = _spans_of(space, run)
    splits = read_usable_splits(data, data_dir, run, progress)
    own = {name: value for name, value in run_identity(run, splits, None).items() if name != "train.epochs"}
    lasting = {"epochs": run.method.train.epochs, "patience": run.method.train.patience}
    wanted = {**own, **lasting, "space": [repr(span) for span in spans]}
    study = _open_study(optuna, Path(out), wanted)
    given = {**({} if config is None else dict(flatten(read_toml(Path(config))))), **settings}
    context = RunContext(progress=progress, feature_store=FeatureStore.from_config(run.method.train.engine))
    while len(finished(study)) < trials:
        told = _try_next(optuna, study, spans, splits, run, context)
        progress.say(f"Trial {len(finished(study))} of {trials}: {told}")
        _write_best(Path(out) / BEST, {**given, "method": run.config.method}, study)
    if not _has_best(study):
        raise ConfigError("No trial came to an end. Search other values, or lower the learning_rate.")
    return dict(study.best_params)


def _spans_of(space: Sequence[str], run: RunSettings) -> list[Span]:
    """Read what is searched, or take what is worth searching for a method."""
    method = run.config.method
    if not space and method not in SPACES:
        raise ConfigError(f"Say what is searched for the method {method}, such as space='learning_rate=1e-5:1e-3:log'.")
    spans = [read_span(text, method) for text in space or SPACES[method]]
    for span in spans:
        for edge in span.choices or (span.low, span.high):
            _with_values(run, {span.name: edge})  # what cannot be used is refused before any work
    return spans


def _open_study(optuna: Any, folder: Path, wanted: dict[str, Any]) -> Any:
    """Begin a study in a folder, or go on with the one that is there if it is the same."""
    note = folder / NOTE
    if note.is_file():
        found = json.loads(note.read_text(encoding="utf-8"))
        changed = ", ".join(sorted(key for key in {*found, *wanted} if found.get(key) != wanted.get(key)))
        if changed:
            raise ConfigError(f"{folder} holds a search that differs in: {changed}. Choose another folder.")
    else:
        check_output_folder(folder, "the search")
    folder.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps(wanted, indent=2), encoding="utf-8")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    journal = optuna.storages.journal.JournalFileBackend(str(folder / TRIALS))
    storage = optuna.storages.JournalStorage(journal)
    return optuna.create_study(study_name="fresh", storage=storage, direction="maximize", load_if_exists=True)


def _try_next(
    optuna: Any, study: Any, spans: Sequence[Span], splits: Splits, run: RunSettings, context: RunContext
) -> str:
    """Draw values, train with them, and say how well that does."""
    study.sampler = optuna.samplers.RandomSampler(seed=_drawn_from(run, len(finished(study))))
    trial = study.ask()
    values = {span.name: span.draw(trial) for span in spans}
    told = _judge(optuna, study, trial, splits, _with_values(run, values), context)
    return f"{', '.join(f'{name} {value:.4g}' for name, value in values.items())}: {told}"


def _with_values(run: RunSettings, values: Mapping[str, float]) -> RunSettings:
    """Change some settings of a run."""
    return RunSettings(run.config, from_mapping(type(run.method), {**asdict(run.method), **values}))


def _judge(optuna: Any, study: Any, trial: Any, splits: Splits, run: RunSettings, context: RunContext) -> str:
    """Train with the settings of a trial and tell the study how well it does on dev, or that it broke down."""
    try:
        model = train_method(run.config.method, splits, run.method, context, None).model
    except DataError:
        raise  # no other values would help
    except ValueError as error:
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
        return f"no result ({error})"
    explained = explain_all(model, [example.document for example in splits.dev], context.progress, "dev")
    given = [item.prediction.label for item in explained]
    score = macro_f1([example.label for example in splits.dev], given, model.labels)
    study.tell(trial, score)
    return f"dev macro-F1 {score:.3f} (best {study.best_value:.3f})"


def finished(study: Any) -> list[Any]:
    """List the trials that came to an end, one way or another."""
    return [trial for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()]


def _has_best(study: Any) -> bool:
    """Say whether any trial has a score."""
    return any(trial.value is not None for trial in finished(study))


def _write_best(path: Path, given: Mapping[str, Any], study: Any) -> None:
    """Write the settings that were given and the best of those that were drawn as a settings file, in one move."""
    if _has_best(study):
        values = {name.rpartition(".")[2]: value for name, value in given.items()} | study.best_params
        lines = [f"{name} = {json.dumps(value)}" for name, value in values.items() if value is not None]
        partial = path.with_suffix(".partial")
        partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
        partial.replace(path)


def _drawn_from(run: RunSettings, trial: int) -> int:
    """Make the seed of a trial's values, which are the same however often the search was broken off."""
    return int(np.random.SeedSequence((run.method.train.seed, trial)).generate_state(1)[0])

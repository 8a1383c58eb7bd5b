"""A search for good settings: many trials, each evaluated on dev, in an Optuna study that can be resumed."""

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fresh._io import check_output_folder, write_text
from fresh._optional import optional_import
from fresh.config import check_min, flatten, from_mapping, list_settings, raise_all, read_toml, suggest, union_types
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
    "lei": ("lambda_1=0.01:1:log", "lambda_2=0,0.5,1,2 * lambda_1"),
    "bastings": ("lagrange_rate=0.001:0.1:log", "lambda_2=0,0.5,1,2"),
}
"""Default search spaces; that of lei is the one in the code of the paper's authors."""
SEARCH_FILE, TRIALS_FILE, BEST_FILE = "search.json", "trials.log", "best.toml"


@dataclass(frozen=True, slots=True)
class Span:
    """The values that a search draws for a setting: choices or a range, perhaps times another setting."""

    # Folders of searches contain the repr of this class, so its name and its fields must stay.
    name: str
    choices: tuple[float, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    factor: str | None = field(default=None, repr=False)  # name of the setting that the drawn value is multiplied by

    def draw(self, trial: Any) -> float:
        """Draw a value with an Optuna trial."""
        if self.choices:
            return float(trial.suggest_categorical(self.name, self.choices))
        return float(trial.suggest_float(self.name, self.low, self.high, log=self.log))


def read_spans(space: Iterable[str], method: str) -> list[Span]:
    """Read what to draw: a text as in `read_span` for each setting, which may end with ``* other``."""
    parts = [text.partition("*") for text in space]
    spans = [replace(read_span(own, method), factor=factor.strip() if star else None) for own, star, factor in parts]
    drawn = [span.name for span in spans if span.factor is None]
    for place, span in enumerate(spans):
        if any(other.name == span.name for other in spans[:place]):
            raise ConfigError(f"{span.name} is drawn twice. Give all of its values at once.")
        if span.factor not in (None, *drawn):
            raise ConfigError(f"{span.name} is a multiple of {span.factor!r}, which is not drawn by itself. Draw it.")
    return spans


def scale(values: Mapping[str, float], spans: Sequence[Span]) -> dict[str, float]:
    """Multiply each value that was drawn as a multiple of another setting; to six digits, as tables show it."""
    factors = {span.name: values[span.factor] for span in spans if span.factor is not None}
    return {**values, **{name: float(f"{values[name] * factor:.6g}") for name, factor in factors.items()}}


def read_span(text: str, method: str) -> Span:
    """Read ``name=low:high``, ``name=low:high:log`` or ``name=one,two,three``."""
    name, _, values = (part.strip() for part in text.partition("="))
    known = {setting.name: setting for setting in list_settings(find_config(method))}
    if name not in known:
        raise ConfigError(suggest(name, f"a setting of the method {method}", known))
    kinds = union_types(known[name].kind)
    if not {float, int} & {*kinds}:
        raise ConfigError(f"{name} has no numbers to draw from. To compare its values, use a grid: fresh run.")
    if ":" in values and float not in kinds:
        raise ConfigError(f"{name} must be a whole number. Write {name}=one,two,three, with numbers.")
    try:
        if ":" not in values:
            span = Span(name, tuple(map(float, values.split(","))))
        else:
            low, high, *scale = values.split(":")
            span = Span(name, (), float(low), float(high), scale == ["log"])
    except ValueError:
        span = Span(name)
    is_range = span.low < span.high and (span.low > 0 or not span.log) and values.count(":") == 1 + span.log
    if not (span.choices or is_range) or not all(map(math.isfinite, (span.low, span.high, *span.choices))):
        forms = "name=low:high, name=low:high:log or name=one,two,three"
        raise ConfigError(f"{text!r} cannot be searched. Write {forms}, with finite numbers.")
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
    """Train with random settings, evaluate each model on dev, and write the best settings to a file.

    :param out: Folder of the search; to resume an interrupted search, use the same folder.
    :param trials: Total number of trials.
    :param space: What to draw, such as ``lambda_1=0.01:1:log``; by default the method's space in `SPACES`.
    :return: The best settings.
    """
    optuna = optional_import("optuna", "search", "fresh search")
    progress = progress or Terminal()
    run = resolve_settings(data, data_dir, config, settings)
    raise_all(
        *check_min(1, trials=trials),
        None if process_group().size == 1 else "fresh search trains in one process. Start a single process.",
    )
    spans = _read_space(space, run)
    splits = read_usable_splits(data, data_dir, run, progress)
    own = {name: value for name, value in run_identity(run, splits, None).items() if name != "train.epochs"}
    lasting = {"epochs": run.method.train.epochs, "patience": run.method.train.patience}
    drawn = [f"{span} * {span.factor}" if span.factor else repr(span) for span in spans]
    study = _open_study(optuna, Path(out), {**own, **lasting, "space": drawn})
    # Written with the best values, so that `fresh train --config best.toml` trains the same model.
    of_file = {} if config is None else read_toml(Path(config))
    fixed = {**dict(flatten(of_file)), **dict(flatten(settings)), "method": run.config.method}
    named = {name.rpartition(".")[2]: value for name, value in fixed.items()}
    context = RunContext(progress=progress, feature_store=FeatureStore(run.method.train.engine))
    while True:
        n_done, best = len(_finished_trials(study)), _best_values(study, spans)
        if best:  # before the first trial, too: an interrupted search may have ended before it wrote the file
            write_text(Path(out) / BEST_FILE, _to_toml({**named, **best}))
        if n_done >= trials:
            break
        progress.say(f"Trial {n_done + 1} of {trials}: {_run_trial(optuna, study, spans, splits, run, context)}")
    if not best:
        raise ConfigError("Every trial failed. Search other values, or a lower learning_rate.")
    return best


def _to_toml(values: Mapping[str, Any]) -> str:
    # TOML reads strings as JSON does, but it has no surrogate pairs, and refuses DEL.
    texts = {name: json.dumps(value, ensure_ascii=False) for name, value in values.items() if value is not None}
    return "".join(f"{name} = {text}\n" for name, text in texts.items()).replace("\x7f", "\\u007f")


def _read_space(space: Sequence[str], run: RunSettings) -> list[Span]:
    method = run.config.method
    if not space and method not in SPACES:
        example = "space='learning_rate=1e-5:1e-3:log'"
        raise ConfigError(f"The method {method} has no default search space. Set one, as in {example}.")
    spans = read_spans(space or SPACES[method], method)
    edges = {span.name: span.choices or (span.low, span.high) for span in spans}
    for span in spans:
        for edge, factor in itertools.product(edges[span.name], edges[span.factor] if span.factor else (1,)):
            _replace_settings(run, {span.name: edge * factor})  # refuses invalid values before the first trial
    return spans


def _open_study(optuna: Any, folder: Path, about: dict[str, Any]) -> Any:
    note = folder / SEARCH_FILE
    if note.is_file():
        known = json.loads(note.read_text(encoding="utf-8"))
        changed = ", ".join(sorted(key for key in {*known, *about} if known.get(key) != about.get(key)))
        if changed:
            raise ConfigError(f"{folder} holds a search that differs in: {changed}. Choose another folder.")
    else:
        check_output_folder(folder, "the search")
        folder.mkdir(parents=True, exist_ok=True)
        write_text(note, json.dumps(about, indent=2))
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    journal = optuna.storages.journal.JournalFileBackend(str(folder / TRIALS_FILE))
    storage = optuna.storages.JournalStorage(journal)
    return optuna.create_study(study_name="fresh", storage=storage, direction="maximize", load_if_exists=True)


def _run_trial(
    optuna: Any, study: Any, spans: Sequence[Span], splits: Splits, run: RunSettings, context: RunContext
) -> str:
    # Records the score on dev, or the failure, and describes it.
    # With a seed for each trial, an interrupted search draws the same values as an uninterrupted one.
    seed = np.random.SeedSequence((run.method.train.seed, len(_finished_trials(study)))).generate_state(1)[0]
    study.sampler = optuna.samplers.RandomSampler(seed=int(seed))
    trial = study.ask()
    values = scale({span.name: span.draw(trial) for span in spans}, spans)
    shown = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
    trial_run = _replace_settings(run, values)
    try:
        model = train_method(run.config.method, splits, trial_run.method, context, None).model
    except DataError:
        raise  # no other values would help
    # A training that diverges fails only its trial.
    except ValueError as error:
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
        return f"{shown}: no result ({error})"
    explanations = explain_all(model, [example.document for example in splits.dev], context.progress, "dev")
    predicted = [item.prediction.label for item in explanations]
    score = macro_f1([example.label for example in splits.dev], predicted, model.labels)
    study.tell(trial, score)
    return f"{shown}: dev macro-F1 {score:.3f} (best {study.best_value:.3f})"


def _replace_settings(run: RunSettings, values: Mapping[str, float]) -> RunSettings:
    return RunSettings(run.config, from_mapping(type(run.method), {**asdict(run.method), **values}))


def _finished_trials(study: Any) -> list[Any]:
    return [trial for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()]


def _best_values(study: Any, spans: Sequence[Span]) -> dict[str, float]:
    # Optuna raises an error of its own for the best of no trial with a result.
    has_best = any(trial.value is not None for trial in _finished_trials(study))
    return scale(study.best_params, spans) if has_best else {}

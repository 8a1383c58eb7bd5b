"""From data to a trained, evaluated and saved model: what `fresh train` and `fresh.train` do."""

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fresh._io import check_output, check_output_folder
from fresh.attribution import ScorerFactory
from fresh.audit import audit
from fresh.config import flatten, from_mapping, read_toml
from fresh.data import BadRows, Splits, dataset_digest, load_splits
from fresh.data.corpora import CORPORA, check_corpus_folder, find_corpus
from fresh.data.fingerprints import TrainingFingerprints
from fresh.errors import ConfigError, DataError
from fresh.evaluation.baselines import Baselines, majority_label, train_baselines
from fresh.evaluation.evaluation import Evaluation, evaluate
from fresh.evaluation.html_report import report_path, write_html_report
from fresh.evaluation.warnings import MIN_DOCUMENTS, corpus_warnings, drop_too_long_splits
from fresh.highlight import CONTROL_PICTURES
from fresh.methods.baselines import keep_annotated
from fresh.methods.config import FreshConfig, RunConfig
from fresh.methods.fresh import factory_name
from fresh.methods.registry import find_config, owns, split_settings, train_method
from fresh.nn.encoder import pin_revision
from fresh.persistence import check_writable, remove_folder
from fresh.progress import SILENT, Progress, Terminal
from fresh.rationalizer import Rationalizer
from fresh.reporting.report import Report
from fresh.text import plural
from fresh.training.checkpoint import read_scores
from fresh.training.config import FREE, LATER, ClassifierConfig
from fresh.training.distributed import process_group
from fresh.training.feature_cache import FeatureStore
from fresh.training.loop import RunContext

_RESUMABLE_CHANGES = ("epochs", "patience", *FREE)  # settings that may change when an interrupted training resumes
AUDIT_TRIALS = 1000  # changes of dropped words that the audit after training tries
_ADVICE_BELOW = 0.95  # share of the full text's macro-F1 below which a note says what else to try
CHECKPOINT_SECONDS = 5.0  # between two checkpoints, so that writing them never takes longer than training


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The settings of a training run, and those of its method."""

    config: RunConfig
    method: ClassifierConfig


def train(
    data: Any,
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    data_dir: str | Path | None = None,
    config: str | Path | None = None,
    scorer: str | ScorerFactory | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Rationalizer:
    """Train a classifier that shows the words its answers are computed from.

    :param data: A file or several, a folder, a pandas frame, a datasets.Dataset or DatasetDict, a list of
        (text, label) pairs or of dicts, Splits, or, with ``data_dir``, the name of a corpus.
    :param out: Folder to save the model in. To resume an interrupted training, repeat the same call.
    :param overwrite: Replace an existing model.
    :param data_dir: Folder that holds the files of a named corpus.
    :param config: Settings file (TOML). Keyword arguments override it.
    :param scorer: Name of a scorer, or a function or class that makes a custom scorer from the support model.
    :param progress: Shows the progress; by default bars in the terminal, ``SILENT`` for none.
    :param settings: Any other setting by its name, such as ``ratio=0.1, epochs=3``.
    :return: The model, with what was measured on the test documents in ``report``.
    """
    if isinstance(scorer, str):
        settings["scorer"] = scorer
    elif scorer is not None and not callable(scorer):
        raise TypeError(f"scorer must be a name, or a function or class that makes one, got {type(scorer).__name__}.")
    custom = scorer if callable(scorer) else None
    group = process_group()
    progress = (progress or Terminal()) if group.is_main else SILENT
    run = resolve_settings(data, data_dir, config, settings)
    if group.size > 1:
        progress.say(f"{group.size} processes share the work.")
    folder = None if out is None else Path(out)
    # All checks come before any work, since training may take hours.
    if folder is not None:
        check_writable(folder, overwrite)
        if report_path(folder).exists():
            check_output(report_path(folder), overwrite=overwrite)
    splits = read_usable_splits(data, data_dir, run, progress)
    if folder is not None and group.is_main:
        _start_or_resume(folder, overwrite, run_identity(run, splits, custom), progress)
    group.barrier()  # the other processes look for checkpoints in the folder that the first one makes
    partial = None if folder is None else partial_folder(folder)
    store = FeatureStore(run.method.train.engine)
    context = RunContext(progress=progress, folder=partial, feature_store=store, checkpoint_every=CHECKPOINT_SECONDS)
    for problem in corpus_warnings(splits, run.method):
        context.warn(problem)
    try:
        model, evaluation = _train_and_evaluate(splits, run, context, custom)
        if folder is not None and group.is_main:
            model.save_pretrained(folder, overwrite=overwrite)
            write_html_report(report_path(folder), model, evaluation, folder.name, "test documents")
            remove_folder(partial_folder(folder))
    finally:
        # An error in the first epoch leaves nothing to resume from.
        if partial is not None and group.is_main and not any(partial.glob("*.safetensors")):
            remove_folder(partial)
    return model


def _train_and_evaluate(
    splits: Splits, run: RunSettings, context: RunContext, scorer: ScorerFactory | None
) -> tuple[Rationalizer, Evaluation]:
    result = train_method(run.config.method, splits, run.method, context, scorer)
    model = result.model
    if run.config.baseline:
        masks = result.masks(), result.dev_masks()
        baselines = train_baselines(splits, model, masks, result.support, run.method, context)
        model = replace(model, reader=baselines.independent)
    else:
        baselines = Baselines(result.support, majority=majority_label(splits.train))
    evaluation = evaluate(model, splits.test, context.progress, baselines)
    notes = (*evaluation.report.notes, *context.notes, *_advice(evaluation.report, run.method, scorer))
    evaluation = replace(evaluation, report=replace(evaluation.report, notes=notes))
    if run.config.audit:
        others, seed = {"train": splits.train, "dev": splits.dev}, run.method.train.seed
        found = audit(model, splits.test, others, AUDIT_TRIALS, seed, context.progress, evaluation.explained)
        evaluation = found.add_to(evaluation)
    fingerprints = TrainingFingerprints.from_documents(example.document for example in (*splits.train, *splits.dev))
    return replace(model, report=evaluation.report, fingerprints=fingerprints), evaluation


def _advice(report: Report, method: Any, scorer: ScorerFactory | None) -> Iterator[str]:
    own = next((row for row in report.rows if row.own), None)
    full = next((row for row in report.rows if row.name.startswith("full text")), None)
    if own is None or full is None or not isinstance(method, FreshConfig) or method.scorer == "random":
        return
    best_case = own.macro_f1 if own.macro_f1_between is None else own.macro_f1_between[1]
    is_below = own.macro_f1 < _ADVICE_BELOW * full.macro_f1 and best_case < full.macro_f1
    if report.n_documents >= MIN_DOCUMENTS and is_below:
        is_default = scorer is None and not method.tagging.has_tagger and method.scorer != "integrated_gradients"
        better = "use a better scorer (scorer=integrated_gradients, which takes longer), or " if is_default else ""
        share = f"{own.macro_f1 / full.macro_f1:.0%} of the full text's macro-F1"
        yield f"Rationales have {share}. If that is too little, {better}keep more words (`ratio`)."


def resolve_settings(
    data: Any, data_dir: str | Path | None, config: str | Path | None, settings: Mapping[str, Any]
) -> RunSettings:
    """Combine settings: keyword arguments override the settings file, which overrides those of a corpus."""
    values: dict[str, Any] = {} if config is None else dict(flatten(read_toml(Path(config))))
    values |= dict(flatten(settings))
    name = str(values.get("method", "fresh"))
    method_values, run_values, problems = split_settings(name, values)
    method = find_config(name)
    if data_dir is not None:
        corpus, names = find_corpus(_corpus_name(data)), {path.rpartition(".")[2] for path in method_values}
        defaults = [setting for setting in ("ratio", "long") if setting not in names and owns(method, setting)]
        method_values |= {setting: getattr(corpus, setting) for setting in defaults}
    configs: list[Any] = []
    for kind, chosen in ((RunConfig, run_values), (method, method_values)):
        try:
            configs.append(from_mapping(kind, chosen))
        except ConfigError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError("\n".join(problems))
    return RunSettings(*configs)


def _corpus_name(data: Any) -> str:
    [name, *more] = [data] if isinstance(data, str) else list(data)
    if more or not isinstance(name, str):
        raise DataError(f"With data_dir, data must be the name of one corpus: {', '.join(CORPORA)}.")
    return name


def read_usable_splits(data: Any, data_dir: str | Path | None, run: RunSettings, progress: Progress) -> Splits:
    """Read the data and leave out what the method cannot use."""
    return drop_unusable(read_splits(data, data_dir, run, progress), run, progress)


def drop_unusable(splits: Splits, run: RunSettings, progress: Progress) -> Splits:
    """Leave out the documents that the method cannot use."""
    splits = drop_too_long_splits(splits, run.method.network, run.config.data.skip_bad, progress)
    return keep_annotated(splits, progress) if run.config.method == "human" else splits


def read_splits(data: Any, data_dir: str | Path | None, run: RunSettings, progress: Progress) -> Splits:
    """Read the data and show its sizes."""
    if data_dir is not None:
        splits = find_corpus(_corpus_name(data)).read(Path(data_dir))
    else:
        bad = BadRows()
        splits = load_splits(check_corpus_folder(data), run.config.data, run.method.train.seed, bad)
        if bad.count or bad.widened:
            progress.say(bad.summary())
    sizes = ", ".join(f"{len(getattr(splits, part)):,} {part}" for part in ("train", "dev", "test"))
    classes = f"{len(splits.labels)} classes: {', '.join(splits.labels)}"
    progress.say(f"{sizes} documents; {classes}.".translate(CONTROL_PICTURES))
    return splits


# Interrupted training: FOLDER.partial holds the checkpoints, and what identifies the run

_RUN_FILE = "run.json"
_ENCODER = "network.encoder"


def run_identity(run: RunSettings, splits: Splits, scorer: ScorerFactory | None) -> dict[str, Any]:
    """Return the settings and the data digest that two runs must share to be the same."""
    digest = dataset_digest(itertools.chain(splits.train, splits.dev, splits.test))
    # A linear schedule spreads the learning rate over all epochs, so their number must not change halfway.
    may_change = {*_RESUMABLE_CHANGES} - ({"epochs"} if run.method.train.schedule == "linear" else set())
    settings = {
        path: value
        for path, value in flatten(asdict(run.method))
        if path.rpartition(".")[2] not in may_change and (path, value) not in LATER.items()
    }
    settings[_ENCODER] = pin_revision(run.method.network.encoder)
    custom = {} if scorer is None else {"scorer": factory_name(scorer)}
    return {"method": run.config.method, **settings, **custom, "data": digest[:16]}


def partial_folder(folder: Path) -> Path:
    """Name the folder that keeps an unfinished training."""
    return folder.with_name(f"{folder.name}.partial")


def _start_or_resume(folder: Path, overwrite: bool, identity: Mapping[str, Any], progress: Progress) -> None:
    partial = partial_folder(folder)
    if (partial / _RUN_FILE).is_file():
        problem = _mismatch(folder, identity)
        if problem is None:
            progress.say(f"Resuming the interrupted training. {_describe_checkpoints(folder)}".rstrip())
            return
        if not overwrite:
            raise ConfigError(f"{partial} holds an interrupted training that {problem}")
    else:
        check_output_folder(partial, "the model")
    remove_folder(partial)
    partial.mkdir(parents=True)
    (partial / _RUN_FILE).write_text(json.dumps(identity), encoding="utf-8")


def _mismatch(folder: Path, identity: Mapping[str, Any]) -> str | None:
    try:
        existing = json.loads((partial_folder(folder) / _RUN_FILE).read_text(encoding="utf-8"))
        _describe_checkpoints(folder)
    except (ValueError, TypeError):
        return "is damaged. Choose another folder, or discard it: overwrite=True."
    if existing == identity:
        return None
    changed = {key for key in {*existing, *identity} if existing.get(key) != identity.get(key)}
    if "train.schedule" in changed:
        changed.discard("train.epochs")  # only one of the schedules records it
    # The encoder of a model from the hub includes its commit, which is needed to finish the training.
    values = {_ENCODER: f" (it was {existing.get(_ENCODER)})"}
    names = ", ".join(f"{name}{values.get(name, '')}" for name in sorted(changed))
    return f"differs in: {names}. Finish that one first, choose another folder, or discard it: overwrite=True."


def describe_unfinished(folder: Path) -> str:
    """Describe the checkpoints of an interrupted training, if any, and how to resume it."""
    checkpoints = _describe_checkpoints(folder)
    try:
        identity = json.loads((partial_folder(folder) / _RUN_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return checkpoints  # it cannot be resumed
    fewer = "" if "train.epochs" in identity else ", or give fewer `epochs` to finish with those that are done"
    return checkpoints and f"{checkpoints} To resume, repeat the same command{fewer}."


def _describe_checkpoints(folder: Path) -> str:
    networks: list[str] = []
    for path in sorted(partial_folder(folder).glob("*.safetensors"), key=lambda path: path.stat().st_mtime):
        scores = read_scores(path)
        name = path.stem.replace("_", " ")
        networks.append(f"{name}: {plural(len(scores), 'epoch')}, best dev macro-F1 {max(scores):.3f}")
    return f"Checkpoints: {'; '.join(networks)}." if networks else ""

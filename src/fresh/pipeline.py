"""From data to a trained, measured and saved model: what `fresh train` and `fresh.train` do."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open

from fresh.attribution.registry import ScorerFactory
from fresh.audit.audit import audit
from fresh.config import flatten, from_mapping, read_toml
from fresh.data.corpora import CORPORA, find_corpus
from fresh.data.fingerprints import TrainingFingerprints
from fresh.data.splits import BadRows, Splits, dataset_digest, load_splits
from fresh.errors import ConfigError, DataError
from fresh.evaluation.baselines import Baselines, most_frequent, train_baselines
from fresh.evaluation.evaluate import Evaluation, evaluate_whole
from fresh.evaluation.html_report import check_report, report_of, write_page
from fresh.evaluation.length_check import drop_too_long_splits
from fresh.evaluation.warnings import FEW
from fresh.highlight import CONTROL_PICTURES
from fresh.methods.config import FreshConfig, NetworksConfig
from fresh.methods.fresh import name_of_factory
from fresh.methods.human import keep_with_rationale
from fresh.methods.registry import find_method, owns, split_settings, train_method
from fresh.methods.run_config import RunConfig
from fresh.nn.encoder import pinned
from fresh.persistence import check_writable, remove_folder
from fresh.progress import SILENT, Progress, Terminal
from fresh.rationalizer import Rationalizer
from fresh.reporting.report import Report
from fresh.training.config import FREE, LATER
from fresh.training.distributed import process_group
from fresh.training.loop import RunContext

MAY_CHANGE = ("epochs", "patience", *FREE)
"""Settings that may change when a broken-off training goes on."""
TRIALS = 1000
"""Changes of dropped words that the audit after a training tries."""
ENOUGH = 0.95
"""Share of the full text's score below which a user is told what else to try."""
KEPT_EVERY = 5.0
"""Seconds between two states of a network that are kept, so that keeping never takes longer than training."""


class _Evaluated(NamedTuple):
    """A model with its report, and the explanations that were measured."""

    model: Rationalizer
    found: Evaluation


@dataclass(frozen=True, slots=True)
class RunSettings:
    """A training run: its settings, and those of its method."""

    config: RunConfig
    method: NetworksConfig


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
    """Train a classifier that shows the words its answers are made from.

    :param data: A file or several, a folder, a pandas frame, a datasets.Dataset or DatasetDict, a list of
        (text, label) pairs or of dicts, Splits, or, with ``data_dir``, the name of a corpus.
    :param out: Folder to save the model in; training that was broken off goes on from there.
    :param overwrite: Replace a model that is there already.
    :param data_dir: Folder that holds the files of a named corpus.
    :param config: Settings file (TOML); what is given here goes before it.
    :param scorer: Name of a scorer, or what makes a scorer of your own from the support model.
    :param progress: Shows how far it has come; bars in the terminal if not given, ``SILENT`` for nothing.
    :param settings: Any other setting by its name, such as ``ratio=0.1, epochs=3``.
    :return: The model, with what was measured on the test documents in ``report``.
    """
    if isinstance(scorer, str):
        settings["scorer"] = scorer
    elif scorer is not None and not callable(scorer):
        raise TypeError(
            f"scorer must be a name, or what makes a scorer from the support model, such as its class; "
            f"got a {type(scorer).__name__}."
        )
    members = process_group()
    progress = (progress or Terminal()) if members.is_main else SILENT
    run = resolve_settings(data, data_dir, config, settings)
    if members.size > 1:
        progress.say(f"{members.size} processes share the work.")
    folder = None if out is None else Path(out)
    if folder is not None:
        check_writable(folder, overwrite)
        check_report(report_of(folder), overwrite)
    splits = read_usable_splits(data, data_dir, run, progress)
    own = scorer if callable(scorer) else None
    if folder is not None and members.is_main:
        start_or_resume(folder, overwrite, run_identity(run, splits, own), progress)
    members.wait()
    partial = None if folder is None else partial_folder(folder)
    context = RunContext(
        progress=progress, folder=partial, feature_store=run.method.train.engine.feature_store(), every=KEPT_EVERY
    )
    try:
        model, found = _train_and_measure(splits, run, context, own)
        if folder is not None and members.is_main:
            model.save_pretrained(folder, overwrite=overwrite)
            write_page(report_of(folder), model, found, folder.name, "test documents")
            remove_folder(partial_folder(folder))
    finally:
        if partial is not None and members.is_main and not any(partial.glob("*.safetensors")):
            remove_folder(partial)
    return model


def _train_and_measure(
    splits: Splits, run: RunSettings, context: RunContext, scorer: ScorerFactory | None
) -> _Evaluated:
    """Train the model, and others beside it that read something else, and test them all."""
    trained = train_method(run.config.method, splits, run.method, context, scorer)
    model = trained.model
    if run.config.baseline:
        masks = trained.masks, trained.dev_masks
        beside = train_baselines(splits, model, masks, trained.support, run.method.classifier, context)
    else:
        beside = Baselines(trained.support, majority=most_frequent(splits.train))
    found = evaluate_whole(model, splits.test, context.progress, beside)
    notes = (*found.report.notes, *context.notes, *_advice(found.report, run.method, scorer))
    found = replace(found, report=replace(found.report, notes=notes))
    if run.config.audit:
        others = {"train": splits.train, "dev": splits.dev}
        seed = run.method.train.seed
        found = audit(model, splits.test, others, TRIALS, seed, context.progress, found.explained).beside(found)
    seen = TrainingFingerprints.of(example.document for example in (*splits.train, *splits.dev))
    return _Evaluated(replace(model, report=found.report, fingerprints=seen), found)


def _advice(report: Report, method: Any, scorer: ScorerFactory | None) -> Iterator[str]:
    """Say what may be tried where rationales have clearly less than the full text."""
    own = next((row for row in report.rows if row.own), None)
    full = next((row for row in report.rows if row.name.startswith("full text")), None)
    if own is None or full is None or not isinstance(method, FreshConfig) or method.scorer == "random":
        return
    best_case = own.macro_f1 if own.macro_f1_between is None else own.macro_f1_between[1]
    if report.n_documents >= FEW and own.macro_f1 < ENOUGH * full.macro_f1 and best_case < full.macro_f1:
        careful = scorer is None and not method.tagging.tags and method.scorer != "integrated_gradients"
        better = "choose words with more care (scorer=integrated_gradients, which takes longer), or " if careful else ""
        yield (
            f"Rationales have {own.macro_f1 / full.macro_f1:.0%} of the full text's macro-F1. If that is too little, "
            f"{better}keep more words (`ratio`)."
        )


def resolve_settings(
    data: Any, data_dir: str | Path | None, config: str | Path | None, settings: Mapping[str, Any]
) -> RunSettings:
    """Put settings together: those given, before those of the file, before those of a corpus, before the defaults."""
    values: dict[str, Any] = {} if config is None else dict(flatten(read_toml(Path(config))))
    values |= dict(flatten(settings))
    method = str(values.get("method", "fresh"))
    own, others, problems = split_settings(method, values, RunConfig)
    if data_dir is not None:
        corpus, given = find_corpus(_corpus_name(data)), {name.rpartition(".")[2] for name in own}
        own |= {
            name: getattr(corpus, name)
            for name in ("ratio", "long")
            if name not in given and owns(find_method(method).config, name)
        }
    made: list[Any] = []
    for kind, chosen in ((RunConfig, others), (find_method(method).config, own)):
        try:
            made.append(from_mapping(kind, chosen))
        except ConfigError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError("\n".join(problems))
    return RunSettings(*made)


def _corpus_name(data: Any) -> str:
    """Take the one name that stands for a corpus."""
    [name, *more] = [data] if isinstance(data, str) else list(data)
    if more or not isinstance(name, str):
        raise DataError(f"With a data folder, the data is the name of one corpus: {', '.join(CORPORA)}.")
    return name


def read_usable_splits(data: Any, data_dir: str | Path | None, run: RunSettings, progress: Progress) -> Splits:
    """Read the data and leave out what the method cannot use."""
    splits = read_splits(data, data_dir, run, progress)
    splits = drop_too_long_splits(splits, run.method.network, run.config.data.skip_bad, progress)
    return keep_with_rationale(splits, progress) if run.config.method == "human" else splits


def read_splits(data: Any, data_dir: str | Path | None, run: RunSettings, progress: Progress) -> Splits:
    """Read the data and say what it is."""
    if data_dir is not None:
        splits = find_corpus(_corpus_name(data)).read(Path(data_dir))
    else:
        bad = BadRows()
        splits = load_splits(check_corpus_folder(data), run.config.data, run.method.train.seed, bad)
        if bad.count or bad.widened:
            progress.say(bad.summary())
    sizes = ", ".join(f"{len(getattr(splits, part)):,} {part}" for part in ("train", "dev", "test"))
    progress.say(
        f"{sizes} documents; {len(splits.labels)} classes: {', '.join(splits.labels)}.".translate(CONTROL_PICTURES)
    )
    return splits


def check_corpus_folder(data: Any) -> Any:
    """Tell a corpus's name from a file that is missing."""
    names = [data] if isinstance(data, str) else data
    name = names[0] if isinstance(names, Sequence) and len(names) == 1 else None
    if isinstance(name, str) and name in CORPORA and not Path(name).exists():
        raise DataError(f"{name} is the name of a corpus. Say where its files are: data_dir=FOLDER.")
    return data


def run_identity(run: RunSettings, splits: Splits, scorer: ScorerFactory | None) -> dict[str, Any]:
    """Write down what makes a training run the same as another."""
    digest = dataset_digest(itertools.chain(splits.train, splits.dev, splits.test))
    may_change = {*MAY_CHANGE} - ({"epochs"} if run.method.train.schedule == "linear" else set())
    named = ((name, name.rpartition(".")[2], value) for name, value in flatten(asdict(run.method)))
    settings = {
        name: value for name, own, value in named if own not in may_change and (name, value) not in LATER.items()
    }
    settings["network.encoder"] = pinned(run.method.network.encoder)
    own = {} if scorer is None else {"scorer": name_of_factory(scorer)}
    return {"method": run.config.method, **settings, **own, "data": digest[:16]}


RUN_FILE = "run.json"
ENCODER = "network.encoder"


def partial_folder(folder: Path) -> Path:
    """Name the folder that keeps an unfinished training."""
    return folder.with_name(f"{folder.name}.partial")


def start_or_resume(folder: Path, overwrite: bool, wanted: Mapping[str, Any], progress: Progress) -> Path:
    """Make the folder for unfinished work, or go on with the one that is there if it is of the same run."""
    partial = partial_folder(folder)
    if (partial / RUN_FILE).is_file():
        problem = _mismatch(folder, wanted)
        if problem is None:
            progress.say(f"Going on with the training that was broken off. {_kept_of(folder)}".rstrip())
            return partial
        if not overwrite:
            raise ConfigError(f"{partial} holds a training that was broken off and {problem}")
    elif partial.exists() and (partial.is_file() or any(partial.iterdir())):
        raise ConfigError(
            f"{partial} is where unfinished training is kept, but it holds other files, which are not touched. "
            "Choose another folder for the model."
        )
    remove_folder(partial)
    partial.mkdir(parents=True)
    (partial / RUN_FILE).write_text(json.dumps(wanted), encoding="utf-8")
    return partial


def _mismatch(folder: Path, wanted: Mapping[str, Any]) -> str | None:
    """Say why what is kept cannot go on as the run that is wanted, if it cannot."""
    try:
        found = json.loads((partial_folder(folder) / RUN_FILE).read_text(encoding="utf-8"))
        _kept_of(folder)
    except (ValueError, SafetensorError, KeyError, TypeError):
        return "is damaged. Choose another folder, or discard it: overwrite=True."
    if found == wanted:
        return None
    changed = {key for key in {*found, *wanted} if found.get(key) != wanted.get(key)}
    if "train.schedule" in changed:
        changed.discard("train.epochs")  # which are noted for one of them only
    # The encoder's value is shown: for one of the hub it has a commit, which is needed to finish the training.
    values = {ENCODER: f" (it was {found.get(ENCODER)})"}
    names = ", ".join(f"{name}{values.get(name, '')}" for name in sorted(changed))
    return f"differs in: {names}. Finish that one first, choose another folder, or discard it: overwrite=True."


def describe_unfinished(folder: Path) -> str:
    """Say what is kept of a training that was broken off, if anything, and how to go on."""
    kept = _kept_of(folder)
    try:
        wanted = json.loads((partial_folder(folder) / RUN_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return kept  # nobody can go on from there
    fewer = "" if "train.epochs" in wanted else "; a smaller `epochs` then makes do with what is done"
    return kept and f"{kept} Give the same command again to go on from there{fewer}."


def _kept_of(folder: Path) -> str:
    """List what is kept of a training that was broken off."""
    kept: list[str] = []
    for path in sorted(partial_folder(folder).glob("*.safetensors"), key=lambda path: path.stat().st_mtime):
        with safe_open(path, "np") as file:
            scores = json.loads(file.metadata()["scores"])
        name = path.stem.replace("_", " ")
        kept.append(f"{name}: {len(scores)} epochs, best dev macro-F1 {max(scores):.3f}")
    return f"Kept: {'; '.join(kept)}." if kept else ""

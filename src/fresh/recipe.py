"""From data to a trained, measured and saved model: what `fresh train` and `fresh.train` do."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fresh.config import flatten, from_mapping, read_toml, to_mapping
from fresh.corpora import CORPORA, find_corpus
from fresh.data import BadRows, DataConfig, DataError, Splits, load_splits
from fresh.evaluate import evaluate
from fresh.lengths import fitting
from fresh.methods.fresh import FreshConfig, name_of_factory, train_and_mark
from fresh.model_folder import check_writable, drop_folder
from fresh.progress import SILENT, Progress, Terminal
from fresh.random_words import is_contiguous, train_on_random_words
from fresh.rationalizer import Rationalizer
from fresh.scorers import ScorerFactory
from fresh.team import team
from fresh.training import Watch
from fresh.unfinished import begin, partial_of

FREE = ("epochs", "patience", "device", "frozen", "frozen_gb", "frozen_folder", "recording")
"""Settings that may change when a broken-off training goes on."""
KEPT_EVERY = 5.0
"""Seconds between two states of a network that are kept, so that keeping never takes longer than training."""


@dataclass(frozen=True, slots=True)
class RunConfig:
    """All settings of a training run."""

    data: DataConfig = field(default_factory=DataConfig)
    method: FreshConfig = field(default_factory=FreshConfig)
    baseline: bool = True
    """Also train a predictor on random words, to compare with."""


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
    members = team()
    progress = (progress or Terminal()) if members.leads else SILENT
    run = resolve(data, data_dir, config, settings)
    if members.size > 1:
        progress.say(f"{members.size} processes share the work.")
    folder = None if out is None else Path(out)
    if folder is not None:
        check_writable(folder, overwrite)
    splits = fitting(read_splits(data, data_dir, run, progress), run.method.network, run.data.skip_bad, progress)
    own = scorer if callable(scorer) else None
    if folder is not None and members.leads:
        begin(folder, overwrite, identity(run, splits, own), progress)
    members.wait()
    partial = None if folder is None else partial_of(folder)
    watch = Watch(progress=progress, folder=partial, shelf=run.method.train.engine.shelf(), every=KEPT_EVERY)
    try:
        model = train_and_measure(splits, run, watch, own)
        if folder is not None and members.leads:
            model.save_pretrained(folder, overwrite=overwrite)
            drop_folder(partial_of(folder))
    finally:
        if partial is not None and members.leads and not any(partial.glob("*.safetensors")):
            drop_folder(partial)
    return model


def train_and_measure(splits: Splits, run: RunConfig, watch: Watch, scorer: ScorerFactory | None) -> Rationalizer:
    """Train the model, and one on random words beside it, and test both."""
    trained = train_and_mark(splits, run.method, watch, scorer)
    model = trained.model
    random = None
    if run.baseline:
        marked, dev_marked = (splits.train, trained.masks), (splits.dev, trained.dev_masks)
        contiguous, other = is_contiguous(model.extractor), watch.named("random words")
        random = train_on_random_words(marked, dev_marked, contiguous, run.method.classifier, other)
    report = evaluate(model, splits.test, watch.progress, random)
    return Rationalizer(model.extractor, model.predictor, model.settings, model.asks, report)


def resolve(
    data: Any, data_dir: str | Path | None, config: str | Path | None, settings: Mapping[str, Any]
) -> RunConfig:
    """Put settings together: those given, before those of the file, before those of a corpus, before the defaults."""
    values: dict[str, Any] = {} if config is None else dict(flatten(read_toml(Path(config))))
    given = {name.rpartition(".")[2] for name in (*values, *settings)}
    if data_dir is not None:
        corpus = find_corpus(corpus_name(data))
        values |= {name: getattr(corpus, name) for name in ("ratio", "long") if name not in given}
    return from_mapping(RunConfig, {**values, **settings})


def corpus_name(data: Any) -> str:
    """Take the one name that stands for a corpus."""
    [name, *more] = [data] if isinstance(data, str) else list(data)
    if more or not isinstance(name, str):
        raise DataError(f"With a data folder, the data is the name of one corpus: {', '.join(CORPORA)}.")
    return name


def read_splits(data: Any, data_dir: str | Path | None, run: RunConfig, progress: Progress) -> Splits:
    """Read the data and say what it is."""
    if data_dir is not None:
        splits = find_corpus(corpus_name(data)).read(Path(data_dir))
    else:
        bad = BadRows()
        splits = load_splits(named_corpus_needs_folder(data), run.data, run.method.train.seed, bad)
        if bad.count:
            progress.say(bad.summary())
    sizes = ", ".join(f"{len(getattr(splits, part)):,} {part}" for part in ("train", "dev", "test"))
    progress.say(f"{sizes} documents; {len(splits.labels)} classes: {', '.join(splits.labels)}.")
    return splits


def named_corpus_needs_folder(data: Any) -> Any:
    """Tell a corpus's name from a file that is missing."""
    names = [data] if isinstance(data, str) else data
    name = names[0] if isinstance(names, Sequence) and len(names) == 1 else None
    if isinstance(name, str) and name in CORPORA and not Path(name).exists():
        raise DataError(f"{name} is the name of a corpus. Say where its files are: --data-dir FOLDER.")
    return data


def identity(run: RunConfig, splits: Splits, scorer: ScorerFactory | None) -> dict[str, Any]:
    """Write down what makes a training run the same as another."""
    digest = hashlib.sha256()
    for part in (splits.train, splits.dev, splits.test):
        for example in part:
            words = (example.label, "", *example.document.words, "", *example.document.query, "\n")
            digest.update("\x00".join(words).encode("utf-8", "surrogatepass"))
    settings = {name: value for name, value in flatten(to_mapping(run.method)) if name.rpartition(".")[2] not in FREE}
    own = {} if scorer is None else {"scorer": name_of_factory(scorer)}
    return {**settings, **own, "data": digest.hexdigest()[:16]}

"""A worker trains shared models, scores documents, and trains and tests runs, one task after the other."""

import contextlib
import importlib.metadata
import platform
import time
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import torch

from fresh._io import describe_error
from fresh.attribution.support_model import SUPPORT, SupportModel
from fresh.data.splits import Splits
from fresh.document import Example, Explanation, Mask
from fresh.errors import DataError
from fresh.evaluation.evaluation import explain_all, share_unread
from fresh.evaluation.measures import AGREEMENT_MEASURES, agreement_figures
from fresh.experiments.artifacts import StoredScores, gate_context, is_trained, load_scores, save_scores, train_gate
from fresh.experiments.grid import RunSpec, has_independent_predictor, reader_config, result_settings
from fresh.experiments.plan import Task, tasks_of
from fresh.experiments.results import EXPLAIN_SECONDS
from fresh.experiments.sources import Sources
from fresh.experiments.store import TIMES, BusyError, RunStore
from fresh.methods.baselines import train_full_text
from fresh.methods.config import RATIO_DISCRETIZERS, FreshConfig, FullTextConfig, GateConfig
from fresh.methods.fresh import train_scored
from fresh.methods.independent import NAME as READER
from fresh.methods.independent import train_readers
from fresh.methods.rationales import cut_examples, has_rationale, score_and_cut
from fresh.methods.registry import MethodResult, train_method
from fresh.metrics.bootstrap import macro_f1_interval, number_labels, number_texts
from fresh.metrics.classification import accuracy, macro_f1
from fresh.metrics.plausibility import measure_agreement
from fresh.nn.device import is_out_of_memory
from fresh.persistence import remove_folder
from fresh.pipeline import RunSettings
from fresh.predictor import Predictor
from fresh.progress import SILENT, Progress
from fresh.rationale import Prediction
from fresh.selection.extractors import SaliencyExtractor, select_masks
from fresh.selection.tagger import Tagger
from fresh.training.config import TrainConfig
from fresh.training.feature_cache import FeatureStore
from fresh.training.loop import RunContext, inference_precision

CHECKPOINT_SECONDS = 60.0  # seconds between two checkpoints of a network; many networks that train at once share a disk
METRICS = (
    *("macro-F1", "macro-F1 low", "macro-F1 high", "accuracy", "kept", "kept by gate", "dev macro-F1", "unread"),
    *AGREEMENT_MEASURES,
    *("reader macro-F1", "reader agreement", "accuracy (runner-up)", "accuracy (random class)"),
)
"""Everything that is measured on a run, except durations."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a task ended."""

    status: Literal["done", "busy", "crowded", "failed"]
    """busy: another process works on it; crowded: the GPU, which it shares with other workers, was full."""
    error: str = ""
    seconds: float = 0.0
    where: str = ""  # the traceback, if it was not written yet


@dataclass(slots=True)
class Worker:
    """Does tasks, and keeps data and features in memory for the next ones."""

    store: RunStore
    data_dir: Path | None
    sources: Sources = field(init=False)
    feature_store: tuple[str, FeatureStore] | None = None
    """The digest of a corpus, and the output of frozen layers for its documents."""
    reader: tuple[str, Predictor] | None = None
    """The key of an independent reader, and the reader."""
    progress: Progress = SILENT

    def __post_init__(self) -> None:
        self.sources = Sources(self.data_dir)

    def perform(self, task: Task) -> Outcome:
        """Do a task, unless it is done already or another process works on it."""
        started = time.perf_counter()
        try:
            heartbeat = self.store.heartbeat(task.key)
            with self.store.claim(task.key), heartbeat as self.progress, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the report has them as notes
                has_worked = self._do(task)
                if has_worked and task.kind != "run":
                    self.store.add_seconds(task.key, time.perf_counter() - started)
        except BusyError:
            return Outcome("busy")
        except Exception as error:  # noqa: BLE001 - no error of one task may stop the others
            message = f"{type(error).__name__}: {describe_error(error)}"
            seconds = time.perf_counter() - started
            if is_out_of_memory(error):
                self.feature_store = self.reader = None  # they may be most of the memory that this process holds
                return Outcome("crowded", message, seconds, traceback.format_exc())
            if task.kind == "run":
                with contextlib.suppress(OSError):  # a full disk may be the reason; the outcome has the message too
                    self.store.save_failure(task.key, message, traceback.format_exc())
            return Outcome("failed", message, seconds)
        finally:
            torch.cuda.empty_cache()  # for the other workers on the GPU
        return Outcome("done", seconds=time.perf_counter() - started if has_worked else 0.0)

    def _do(self, task: Task) -> bool:
        # Returns whether there was anything to do.
        spec, run = task.spec, task.spec.resolve(self.data_dir)
        digest = self.sources.summary(spec, run).digest
        # Another process computed the key, perhaps on another machine: files may have changed since, or differ there.
        if task.key not in {planned.key for planned in tasks_of(spec, run, digest)}:
            raise DataError(f"The data of {spec.corpus} or its encoder changed during the experiment. Start it again.")
        if task.kind == "support":
            context = self._context(self.store.shared_folder(task.key), run, digest).with_name(SUPPORT)
            if is_trained(run.method.train, context):
                return False
            splits = self.sources.usable_splits(spec, run)
            SupportModel.train(splits.train, splits.dev, run.method, context)
            return True
        if task.kind == "run":
            if self.store.read_report(task.key) is not None:
                return False
            self.store.save_report(task.key, self._make_report(task, run, digest))
            remove_folder(self.store.run_folder(task.key) / "partial")
            gate = task.need("gate")
            if gate is not None and self._is_gate_used_up(spec, digest):
                self.store.remove_shared(gate)  # a network, which no other run needs
            return True
        if task.kind == "reader":
            config = reader_config(run.method)
            context = self._context(self.store.shared_folder(task.key), run, digest, whole=False).with_name(READER)
            if is_trained(config.train, context):
                return False
            train_readers(self.sources.usable_splits(spec, run), [config], context)
            return True
        return (self._do_gate if task.kind == "gate" else self._do_scores)(task, run, digest)

    def _do_gate(self, task: Task, run: RunSettings, digest: str) -> bool:
        assert isinstance(run.method, GateConfig)
        # Another process may have done all runs of this gate, and deleted it, since this task was planned.
        if self._is_gate_used_up(task.spec, digest):
            return False
        context = self._context(self.store.shared_folder(task.key), run, digest).with_name(task.spec.method)
        if all(is_trained(run.method.train, gate_context(cut, context)) for cut in RATIO_DISCRETIZERS):
            return False
        train_gate(self.sources.usable_splits(task.spec, run), run.method, context)
        return True

    def _is_gate_used_up(self, spec: RunSpec, digest: str) -> bool:
        # Whether every run is done that cuts the same gate.
        specs = [replace(spec, settings={**spec.settings, "discretizer": cut}) for cut in RATIO_DISCRETIZERS]
        return all(self.store.read_report(own.key(own.resolve(self.data_dir), digest)) is not None for own in specs)

    def _do_scores(self, task: Task, run: RunSettings, digest: str) -> bool:
        # If the training of the support model is not complete, it is resumed first.
        assert isinstance(run.method, FreshConfig)
        splits, folder = self.sources.usable_splits(task.spec, run), self.store.shared_folder(task.key)
        if load_scores(folder, splits) is not None:
            return False
        [key] = task.needs
        context = self._context(self.store.shared_folder(key), run, digest).with_name(SUPPORT)
        # Two processes must not train in one folder. A complete network is only read, which needs no lock.
        with contextlib.nullcontext() if is_trained(run.method.train, context) else self.store.claim(key):
            support = SupportModel.train(splits.train, splits.dev, run.method, context)
        save_scores(folder, splits, run.method, support, context, run.config.audit)
        return True

    def _context(self, folder: Path, run: RunSettings, digest: str, whole: bool = True) -> RunContext:
        # If a network reads whole documents, the features of its frozen layers stay in memory for the next tasks on the
        # same corpus, and only those, since they are large.
        if whole and (self.feature_store is None or self.feature_store[0] != digest):
            self.feature_store = digest, FeatureStore(run.method.train.engine)
        folder.mkdir(parents=True, exist_ok=True)
        return RunContext(
            progress=self.progress,
            folder=folder,
            feature_store=self.feature_store[1] if whole and self.feature_store is not None else None,
            checkpoint_every=CHECKPOINT_SECONDS,
            retention="best",
        )

    def _make_report(self, task: Task, run: RunSettings, digest: str) -> dict[str, Any]:
        started, spec = time.perf_counter(), task.spec
        splits, scores = self.sources.usable_splits(spec, run), None
        if (scores_key := task.need("scores")) is not None:
            scores = load_scores(self.store.shared_folder(scores_key), splits)
            if scores is None:
                raise ValueError("The scores of this run are missing or damaged. Retry failed runs: retry=True.")
        context, reader = self._run_context(task, run, digest), self._find_reader(task, run, splits, digest)
        if spec.reads == "complement":
            metrics, times = _measure_complement(splits, run, scores, context)
        else:
            result = train(splits, spec, run, scores, context, reader)
            metrics, times = measure(splits, result, run.method.train)
            if spec.is_audited(run):
                judge = None if has_independent_predictor(run.method) else reader
                metrics |= _audit(splits, result, judge, run.method.train)
        shared = [planned.key for planned in tasks_of(spec, run, digest) if planned.kind != "run"]
        return {
            "key": task.key,
            "corpus": spec.corpus,
            "row": spec.row,
            "seed": spec.seed,
            "reads": spec.reads,
            "settings": spec.table_settings(run),
            "all settings": {"method": spec.method, **result_settings(run)},
            "documents": [len(splits.train), len(splits.dev), len(splits.test)],
            "data": digest,
            "figures": metrics,
            "notes": [*(() if scores is None else scores.notes), *context.notes],
            "machine": {
                "card": torch.cuda.get_device_name() if torch.cuda.is_available() else "",
                "python": platform.python_version(),
                "processor": platform.machine(),
                **{name: importlib.metadata.version(name) for name in ("torch", "transformers", "numpy")},
            },
            TIMES: {
                **times,
                "seconds": time.perf_counter() - started,
                "shared seconds": sum(map(self.store.read_seconds, shared)),
                "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            },
        }

    def _find_reader(self, task: Task, run: RunSettings, splits: Splits, digest: str) -> Predictor | None:
        key = task.need("reader")
        if key is not None and (self.reader is None or self.reader[0] != key):
            config = reader_config(run.method)
            context = self._context(self.store.shared_folder(key), run, digest, whole=False).with_name(READER)
            if not is_trained(config.train, context):
                raise ValueError("The independent reader of this run is missing. Retry failed runs: retry=True.")
            [reader] = train_readers(splits, [config], context)  # only reads it
            self.reader = key, reader
        return None if key is None or self.reader is None else self.reader[1]

    def _run_context(self, task: Task, run: RunSettings, digest: str) -> RunContext:
        # Its own folder, or that of the shared network if it is trained already.
        method = task.spec.method
        tags = isinstance(run.method, FreshConfig) and run.method.tagging.has_tagger
        whole = method not in ("random", "human") and (tags or task.need("scores") is None)
        own = self._context(self.store.run_folder(task.key) / "partial", run, digest, whole)
        own = replace(own, retention="nothing")  # the report follows at once
        # A full-text run is its support model, and a gate is cut after training: neither is trained twice.
        if isinstance(run.method, FullTextConfig):
            shared = replace(own, name=SUPPORT, folder=self.store.shared_folder(*task.needs))
        elif (gate := task.need("gate")) is not None:
            assert isinstance(run.method, GateConfig)
            folder = self.store.shared_folder(gate)
            shared = gate_context(run.method.discretizer, replace(own, name=method, folder=folder))
        else:
            return own
        return shared if is_trained(run.method.train, shared) else own


def train(
    splits: Splits,
    spec: RunSpec,
    run: RunSettings,
    scores: StoredScores | None,
    context: RunContext,
    reader: Predictor | None = None,
) -> MethodResult:
    """Train the model of a run."""
    if scores is not None and isinstance(run.method, FreshConfig):
        own = reader if run.method.predictor == "independent" else None
        return train_scored(splits, run.method, scores, context, own)
    if isinstance(run.method, FullTextConfig):
        return train_full_text(splits, run.method, context, SUPPORT)
    return train_method(spec.method, splits, run.method, context, None)


def measure(splits: Splits, result: MethodResult, config: TrainConfig) -> tuple[dict[str, float], dict[str, float]]:
    """Measure a model on test and on dev, in the precision of its training, and list metrics and durations."""
    model, documents = result.model, [example.document for example in splits.test]
    scorer = model.extractor.scorer if isinstance(model.extractor, SaliencyExtractor) else None
    networks = [model.predictor.classifier, *([scorer.network] if isinstance(scorer, Tagger) else [])]
    with contextlib.ExitStack() as stack:
        for network in networks:
            stack.enter_context(inference_precision(network, config))
        started = time.perf_counter()
        explanations = explain_all(model, documents, SILENT, "")
        seconds = time.perf_counter() - started
        on_dev = model.predictor.predict([rationale for rationale, _ in cut_examples(splits.dev, result.dev_masks())])
        predictions, masks = [item.prediction for item in explanations], [item.mask for item in explanations]
        # With stored scores there is no support model here, but they know how many words it read.
        unread = scorer.share_unread(documents) if isinstance(scorer, StoredScores) else share_unread(model, documents)
    metrics = {
        **_score_predictions(splits, predictions, masks, on_dev),
        **agreement(splits.test, explanations),
        **({} if result.kept_by_gate is None else {"kept by gate": result.kept_by_gate}),
        "unread": unread,
    }
    return metrics, {EXPLAIN_SECONDS: seconds}


def _audit(splits: Splits, result: MethodResult, judge: Predictor | None, config: TrainConfig) -> dict[str, float]:
    # What an independent reader understands, and accuracy with words for other classes than the predicted one.
    figures: dict[str, float] = {}
    predictor, extractor = result.model.predictor, result.model.extractor

    def predict(reader: Predictor, masks: Sequence[Mask]) -> tuple[list[str], list[str]]:
        with inference_precision(reader.classifier, config):
            rationales = [rationale for rationale, _ in cut_examples(splits.test, masks)]
            return _labels(splits.test, reader.predict(rationales))

    if judge is not None:
        masks = extractor.extract([example.document for example in splits.test])
        (gold, read), (_, own) = predict(judge, masks), predict(predictor, masks)
        figures |= {"reader macro-F1": macro_f1(gold, read, splits.labels), "reader agreement": accuracy(own, read)}
    if isinstance(extractor, SaliencyExtractor) and isinstance(extractor.scorer, StoredScores):
        for name, saliencies in extractor.scorer.for_others.items():
            masks = select_masks(extractor.discretizer, saliencies)
            figures[f"accuracy ({name.split(maxsplit=1)[1]})"] = accuracy(*predict(predictor, masks))
    return figures


def _measure_complement(
    splits: Splits, run: RunSettings, scores: StoredScores | None, context: RunContext
) -> tuple[dict[str, float], dict[str, float]]:
    assert isinstance(run.method, FreshConfig)
    assert scores is not None
    scored = score_and_cut(splits, run.method, scores, context, None)
    test_masks = scored.extractor.extract([example.document for example in splits.test])
    # The words that were not selected are the complement of each mask, cut by the same code as any rationale.
    complements = [[~mask for mask in masks] for masks in (scored.masks(), scored.dev_masks(), test_masks)]
    train_part, dev_part, test_part = (
        cut_examples(part, masks)
        for part, masks in zip((splits.train, splits.dev, splits.test), complements, strict=True)
    )
    predictor = Predictor.train(train_part, dev_part, run.method, context.with_name("complement"))
    with inference_precision(predictor.classifier, run.method.train):
        on_dev, on_test = (predictor.predict([rationale for rationale, _ in part]) for part in (dev_part, test_part))
    return _score_predictions(splits, on_test, complements[2], on_dev), {}


def _score_predictions(
    splits: Splits, predictions: Sequence[Prediction], masks: Sequence[Mask], on_dev: Sequence[Prediction]
) -> dict[str, float]:
    # Not `GoldLabels.masked_row`, which resamples every class as well: 5.7 s against 0.06 s, on two busy cores, for
    # 2,000 test and 1,000 dev documents.
    labels, (gold, predicted) = splits.labels, _labels(splits.test, predictions)
    texts = number_texts(example.document.words for example in splits.test)
    numbers = number_labels(gold, labels), number_labels(predicted, labels)
    low, high = macro_f1_interval(*numbers, len(labels), texts=texts).bounds
    return {
        "macro-F1": macro_f1(gold, predicted, labels),
        "macro-F1 low": low,
        "macro-F1 high": high,
        "accuracy": accuracy(gold, predicted),
        "kept": sum(int(mask.kept.sum()) for mask in masks) / sum(map(len, masks)),
        "dev macro-F1": macro_f1(*_labels(splits.dev, on_dev), labels),
    }


def _labels(examples: Sequence[Example], predictions: Sequence[Prediction]) -> tuple[list[str], list[str]]:
    return [example.label for example in examples], [answer.label for answer in predictions]


def agreement(examples: Sequence[Example], explanations: Sequence[Explanation]) -> dict[str, float]:
    """Measure agreement with human rationales, on documents that have one."""
    pairs = [pair for pair in zip(examples, explanations, strict=True) if has_rationale(pair[0])]
    if not pairs:
        return {}
    return agreement_figures(measure_agreement([example for example, _ in pairs], [item for _, item in pairs]))

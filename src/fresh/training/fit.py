"""Trains classifiers: from texts and labels to the state that did best on dev."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from fresh.metrics.classification import macro_f1
from fresh.nn.batch import IntArray, TokenTable
from fresh.nn.batching import run_batches
from fresh.nn.classifier import Classifier
from fresh.nn.device import choose_device
from fresh.nn.encoder import load_encoder
from fresh.nn.network import Network
from fresh.nn.tokenizer import Text
from fresh.training.checkpoint import is_training_complete, load_finished
from fresh.training.config import ClassifierConfig, TrainConfig
from fresh.training.distributed import process_group
from fresh.training.feature_cache import CachedInputs, CachedTexts, FrozenFeatures
from fresh.training.feature_store import FeatureStore, readable
from fresh.training.loop import RunContext, TrainingJob, fit_side_by_side, fixed_seed, padding_of, uses_bf16
from fresh.training.step import Loss

Labelled = Sequence[tuple[Text, str]]

RANDOM_POOLER = (
    "The encoder {name} has no weights for its pooler, which pooling=start uses. They are sampled at random, and "
    "trained like the head. To do without a pooler, set pooling=mean."
)


@dataclass(frozen=True, slots=True)
class FitRequest:
    """What one classifier is trained on, and how."""

    train: Labelled
    dev: Labelled
    labels: Sequence[str]
    config: ClassifierConfig
    context: RunContext
    numbers: Callable[[int], IntArray] | None = None
    """Lists which texts of train an epoch reads; all if not given."""


@dataclass(frozen=True, slots=True)
class _FitResult:
    """A trained classifier, and what it was trained with."""

    classifier: Classifier
    seen: CachedTexts


def train_classifiers(lessons: Sequence[FitRequest]) -> list[_FitResult]:
    """Train networks from their pretrained state, side by side; the best dev macro-F1 wins."""
    if len(lessons) == 1 and (taught := _reopened(lessons[0])) is not None:
        return [taught]
    feature_store = lessons[0].context.feature_store or lessons[0].config.train.engine.feature_store()
    prepared = [prepare(lesson, feature_store) for lesson in lessons]
    fit_side_by_side([job for _, job in prepared])
    return [taught for taught, _ in prepared]


def build(labels: Sequence[str], config: ClassifierConfig) -> Classifier:
    """Make a network that has learnt nothing yet but what its encoder knows."""
    with fixed_seed(config.train.seed):  # also for the weights of a pooler that an encoder comes without
        encoder = load_encoder(config.network.encoder, config.network.pooling, config.train.attention_dropout)
        classifier = Classifier(encoder, labels, config.network)
    if classifier.has_random_pooler:
        warnings.warn(RANDOM_POOLER.format(name=encoder.name), stacklevel=2)
    return classifier.to(choose_device(config.train.device))


def _reopened(lesson: FitRequest) -> _FitResult | None:
    """Take a network as it is kept, if it is trained to its end and nothing else of its training is worth having."""
    train, kept = lesson.config.train, lesson.context.kept
    if not is_training_complete(kept, train.epochs, train.patience):
        return None
    classifier = build(lesson.labels, lesson.config)
    if classifier.halves is not None and classifier.halves.n_below > 0:
        return None
    load_finished(kept, classifier, train.epochs, train.patience)
    return _FitResult(classifier, CachedTexts([]))


def prepare(lesson: FitRequest, feature_store: FeatureStore) -> tuple[_FitResult, TrainingJob]:
    """Make a network, encode its texts and run its frozen layers, so that nothing but training is left to do."""
    classifier = build(lesson.labels, lesson.config)
    config, context = lesson.config.train, lesson.context
    table, dev_table = (classifier.words([text for text, _ in part]) for part in (lesson.train, lesson.dev))
    reading, dev_reading = (run_frozen(classifier, part, config, context, feature_store) for part in (table, dev_table))
    job = TrainingJob(
        classifier,
        table.lengths,
        _make_loss(classifier, reading, lesson),
        _make_validate(classifier, dev_table, dev_reading, lesson),
        config,
        context,
        reading.on,
        recordable=lesson.config.network.long != "chunk",
        numbers=lesson.numbers,
    )
    context.progress.say(describe(classifier, reading, job))
    parts = ((lesson.train, reading), (lesson.dev, dev_reading))
    seen = CachedTexts([([text for text, _ in part], found) for part, found in parts])
    return _FitResult(classifier, seen), job


def run_frozen(
    network: Network, table: TokenTable, config: TrainConfig, context: RunContext, feature_store: FeatureStore
) -> CachedInputs:
    """Run texts through the frozen layers of a network, if these can be run apart."""
    if network.halves is None:
        return CachedInputs(table.on(network.device, network.padding), None)
    dtype = torch.bfloat16 if uses_bf16(config, network.device) else torch.float32
    frozen = FrozenFeatures(network.halves, feature_store, network.device, network.padding, dtype, network.part)
    return frozen.read(table, context.progress, "frozen layers")


def _make_loss(classifier: Classifier, reading: CachedInputs, lesson: FitRequest) -> Loss:
    """Make the function that sums the losses of some training texts; a number below 0 stands for no text."""
    targets = torch.tensor([lesson.labels.index(label) for _, label in lesson.train], device=classifier.device)
    half = uses_bf16(lesson.config.train, classifier.device)

    def loss(numbers: Tensor, width: int, dense: bool) -> Tensor:
        chosen = numbers.clamp(min=0)
        batch = reading.take(chosen, width, dense)
        with torch.autocast(classifier.device.type, torch.bfloat16, enabled=half):
            logits = classifier(batch).logits
        answers = targets[chosen.to(targets.device, non_blocking=True)]
        losses = functional.cross_entropy(logits.float(), answers, reduction="none")
        return (losses * (numbers >= 0).to(losses.device, non_blocking=True)).sum()

    return loss


def _make_validate(
    classifier: Classifier, table: TokenTable, reading: CachedInputs, lesson: FitRequest
) -> Callable[[], float]:
    """Make the function that measures macro-F1 on the development texts; a team shares them out."""
    gold, members = [label for _, label in lesson.dev], process_group()
    mine = np.array(members.share(range(len(table))), dtype=np.int64)

    def validate() -> float:
        probabilities = _read_again(classifier, table, reading, mine)
        if not np.isfinite(probabilities).all():
            raise ValueError("Training diverged: probabilities are no longer numbers. Lower the learning_rate.")
        best = members.join(probabilities.argmax(1).tolist())
        return macro_f1(gold, [classifier.labels[number] for number in best], classifier.labels)

    return validate


def _read_again(
    classifier: Classifier, table: TokenTable, reading: CachedInputs, which: IntArray
) -> NDArray[np.float64]:
    """Say how probable each label is for some texts that were read before. Shape: (texts, labels)."""
    found = np.zeros((len(which), len(classifier.labels)))
    lengths = table.lengths[which]

    def work(places: IntArray) -> None:
        width = int(lengths[places].max())
        numbers = torch.from_numpy(which[places]).to(reading.on)
        batch = reading.take(numbers, width, bool((lengths[places] == width).all()))
        found[places] = classifier(batch).logits.double().softmax(-1).cpu().numpy()

    with torch.inference_mode():
        run_batches(lengths, classifier.device, work, classifier.part)
    return found


def describe(network: Network, reading: CachedInputs, job: TrainingJob) -> str:
    """Say what is trained, where frozen outputs are kept, and how much is filled up."""
    padding = f"{padding_of(job):.1%} padding"
    name = job.context.name
    if reading.states is None:
        why = "" if network.halves else " (this encoder's layers cannot be run apart)"
        return f"{name}: {len(job.lengths):,} texts, {padding}; every step runs all layers{why}."
    n_layers = 0 if network.halves is None else network.halves.n_below
    return (
        f"{name}: {len(job.lengths):,} texts, {padding}; {n_layers} frozen layers run once, "
        f"their output ({readable(reading.states.nbytes)}) is kept in {reading.place}."
    )

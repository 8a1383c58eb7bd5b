"""Trains classifiers: from texts and labels to the weights that did best on dev."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fresh.metrics.classification import macro_f1
from fresh.nn.batch import IntArray
from fresh.nn.batching import run_batches
from fresh.nn.classifier import Classifier, Output
from fresh.nn.device import choose_device
from fresh.nn.encoder import load_encoder
from fresh.nn.network import Network
from fresh.nn.tokenizer import Text
from fresh.training.checkpoint import is_training_complete, load_finished
from fresh.training.config import ClassifierConfig, TrainConfig
from fresh.training.distributed import process_group
from fresh.training.feature_cache import CachedInputs, CachedTexts, cache_inputs, format_bytes
from fresh.training.loop import RunContext, TrainingJob, fit_side_by_side, fixed_seed, uses_bf16
from fresh.training.step import Loss

Item = TypeVar("Item")

_RANDOM_POOLER = (
    "The encoder {name} has no weights for its pooler, which pooling=start uses. They are sampled at random, and "
    "trained like the head. To do without a pooler, set pooling=mean."
)


@dataclass(frozen=True, slots=True)
class TrainingPairs(Generic[Item]):
    """What a classifier is trained on: texts or rationales, with their labels."""

    train: Sequence[tuple[Item, str]]
    dev: Sequence[tuple[Item, str]]
    n_versions: int = 1
    """How many versions of the training items follow one another; each epoch reads the next version."""
    only: IntArray | None = None
    """The numbers of the training items to learn from; all by default."""

    def numbers(self, epoch: int) -> IntArray:
        """Return the numbers of the items that an epoch reads."""
        if self.only is not None:
            return self.only
        n_each = len(self.train) // self.n_versions
        return np.arange(n_each) + epoch % self.n_versions * n_each


def train_classifiers(
    data: Sequence[TrainingPairs[Text]], configs: Sequence[ClassifierConfig], context: RunContext
) -> list[tuple[Classifier, CachedTexts]]:
    """Train one classifier for each of several settings, such as seeds, side by side; the best dev macro-F1 wins.

    :return: For each, the classifier, and the texts that its frozen layers have read.
    """
    if len(configs) == 1 and (classifier := _load_trained(data[0], configs[0], context)) is not None:
        return [(classifier, CachedTexts())]
    context = replace(context, feature_store=context.store(configs[0].train))
    prepared = [prepare(*each, context) for each in zip(data, configs, strict=True)]
    fit_side_by_side([job for _, _, job in prepared])
    return [(classifier, texts) for classifier, texts, _ in prepared]


def build(labels: Sequence[str], config: ClassifierConfig) -> Classifier:
    """Make a classifier that knows nothing but what its encoder does."""
    with fixed_seed(config.train.seed):  # also for the weights of a pooler that an encoder comes without
        encoder = load_encoder(config.network.encoder, config.network.pooling, config.train.attention_dropout)
        classifier = Classifier(encoder, labels, config.network)
    if classifier.has_random_pooler:
        warnings.warn(_RANDOM_POOLER.format(name=encoder.name), stacklevel=2)
    return classifier.to(choose_device(config.train.device))


def _labels(data: TrainingPairs[Text]) -> list[str]:
    return sorted({label for _, label in data.train})


def _load_trained(data: TrainingPairs[Text], config: ClassifierConfig, context: RunContext) -> Classifier | None:
    """Load a classifier whose training has ended, unless what its frozen layers make of the texts is wanted too."""
    train, path = config.train, context.checkpoint_path
    if not is_training_complete(path, train.epochs, train.patience):
        return None
    classifier = build(_labels(data), config)
    # Scorers read training texts from the cache of the frozen layers, which a loaded network does not have.
    if classifier.split is not None:
        return None
    load_finished(path, classifier, train.epochs, train.patience)
    return classifier


def prepare(
    data: TrainingPairs[Text], config: ClassifierConfig, context: RunContext
) -> tuple[Classifier, CachedTexts, TrainingJob]:
    """Make a classifier and do all that comes before its first step: encode the texts, run the frozen layers."""
    classifier, train = build(_labels(data), config), config.train
    texts, dev_texts = ([text for text, _ in part] for part in (data.train, data.dev))
    inputs, dev_inputs = (encode(classifier, part, train, context) for part in (texts, dev_texts))
    targets = torch.tensor([classifier.labels.index(label) for _, label in data.train], device=classifier.device)

    def losses(batch: TextNumbers, output: Output) -> Tensor:
        # In 32 bits also where the network computes in 16: answers that are nearly alike must not tie.
        return functional.cross_entropy(output.logits.float(), targets[batch.numbers], reduction="none")

    job = TrainingJob(
        classifier,
        inputs.table.lengths,
        make_loss(classifier, inputs, losses, train),
        _make_validate(classifier, dev_inputs, [label for _, label in data.dev]),
        train,
        context,
        inputs.device,
        can_record=config.network.long != "chunk",
        texts_of_epoch=None if data.n_versions == 1 and data.only is None else data.numbers,
    )
    context.progress.say(describe(classifier, inputs, job))
    return classifier, CachedTexts([(texts, inputs), (dev_texts, dev_inputs)]), job


def encode(network: Network, texts: Sequence[Text], config: TrainConfig, context: RunContext) -> CachedInputs:
    """Encode texts that training reads many times, and run the frozen layers over them once."""
    dtype = torch.bfloat16 if uses_bf16(config, network.device) else torch.float32
    return cache_inputs(network, network.tokenizer(texts), context.store(config), dtype, context.progress)


class TextNumbers(NamedTuple):
    """Which texts a batch holds. Both tensors have the shape (texts,)."""

    numbers: Tensor
    counted: Tensor
    """False for what fills a batch of a fixed shape: there the first text is read, and counts for nothing."""
    width: int
    """Tokens of the longest text."""


def make_loss(
    network: Network, inputs: CachedInputs, losses: Callable[[TextNumbers, Any], Tensor], config: TrainConfig
) -> Loss:
    """Turn a function that computes the loss of each text into the loss of the training loop.

    :param losses: Gets the numbers of the texts, and the output of the network for them.
    """
    # Looked up once: a step without a cache then runs no line of it.
    read, device, bf16 = inputs.read, network.device, uses_bf16(config, network.device)

    def loss(numbers: Tensor, width: int, dense: bool) -> Tensor:
        known = numbers.clamp(min=0)
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            output = network(read(known, width, dense))
        counted = (numbers >= 0).to(device, non_blocking=True)
        each = losses(TextNumbers(known.to(device, non_blocking=True), counted, width), output)
        return (each * counted).sum()

    return loss


def _make_validate(classifier: Classifier, inputs: CachedInputs, gold: Sequence[str]) -> Callable[[], float]:
    """Make the function that measures dev macro-F1; several processes share the texts."""
    group = process_group()
    shard = np.array(group.shard(range(len(inputs.table))), dtype=np.int64)
    lengths = inputs.table.lengths[shard]

    def validate() -> float:
        probabilities = np.zeros((len(shard), len(classifier.labels)))

        def work(places: IntArray) -> None:
            logits = classifier(inputs.collate(shard[places])).logits
            probabilities[places] = logits.double().softmax(-1).cpu().numpy()

        with torch.inference_mode():
            run_batches(lengths, classifier.device, work, classifier.budget_share)
        if not np.isfinite(probabilities).all():
            raise ValueError("Training diverged: probabilities are not finite. Lower the learning_rate.")
        predicted = group.gather(probabilities.argmax(1).tolist())
        return macro_f1(gold, [classifier.labels[number] for number in predicted], classifier.labels)

    return validate


def describe(network: Network, inputs: CachedInputs, job: TrainingJob) -> str:
    """Say what is trained, how much of it is padding, and where the output of frozen layers is cached."""
    start = f"{job.context.name}: {len(job.lengths):,} texts, {job.padding:.1%} padding"
    if inputs.states is None or network.split is None:
        is_whole = network.n_frozen > 0 and network.split is None
        reason = " (the layers of this encoder cannot be run separately)" if is_whole else ""
        return f"{start}; every step runs all layers{reason}."
    size = format_bytes(inputs.states.nbytes)
    return f"{start}; {network.split.n_lower} frozen layers run once, their output ({size}) is kept in {inputs.place}."

"""Trains classifiers: from texts and labels to the weights that do best on dev."""

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
from fresh.nn.classifier import Classifier, Output
from fresh.nn.config import NetworkConfig
from fresh.nn.device import choose_device
from fresh.nn.encoder import Encoder, load_encoder
from fresh.nn.network import Network
from fresh.nn.tokenizer import Text
from fresh.training.checkpoint import load_finished
from fresh.training.config import ClassifierConfig, TrainConfig
from fresh.training.distributed import process_group
from fresh.training.feature_cache import CachedInputs, cache_inputs
from fresh.training.loop import RunContext, TrainingJob, fit, fixed_seed, uses_bf16
from fresh.training.step import Loss

Item = TypeVar("Item")
SomeNetwork = TypeVar("SomeNetwork", bound=Network)


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
) -> list[Classifier]:
    """Train one classifier for each of several settings, such as seeds, side by side; the best dev macro-F1 wins."""
    classifiers = [
        build(Classifier, sorted({label for _, label in pairs.train}), config)
        for pairs, config in zip(data, configs, strict=True)
    ]
    train = configs[0].train
    if len(configs) == 1 and load_finished(context.checkpoint_path, classifiers[0], train.epochs, train.patience):
        return classifiers
    context = replace(context, feature_store=context.store(train))
    fit(*(prepare(*each, context) for each in zip(classifiers, data, configs, strict=True)))
    return classifiers


def build(
    kind: Callable[[Encoder, Any, NetworkConfig], SomeNetwork], about: Any, config: ClassifierConfig
) -> SomeNetwork:
    """Make a network with a pretrained encoder and an untrained head."""
    with fixed_seed(config.train.seed):  # also for the weights of a pooler that the encoder's files do not have
        encoder = load_encoder(config.network.encoder, config.network.pooling, config.train.attention_dropout)
        network = kind(encoder, about, config.network)
    if isinstance(network, Classifier) and network.has_random_pooler:
        warnings.warn(
            f"The encoder {encoder.name} has no weights for its pooler, which pooling=start uses. They are sampled at "
            "random, and trained like the head. To do without a pooler, set pooling=mean.",
            stacklevel=2,
        )
    return network.to(choose_device(config.train.device))


def prepare(
    classifier: Classifier, data: TrainingPairs[Text], config: ClassifierConfig, context: RunContext
) -> TrainingJob:
    """Do all that comes before the first step of a classifier: tokenize the texts, run the frozen layers."""
    train = config.train
    inputs, dev_inputs = (
        encode(classifier, [text for text, _ in pairs], train, context)
        for pairs in (data.train, process_group().shard(data.dev))
    )
    targets = torch.tensor([classifier.labels.index(label) for _, label in data.train], device=classifier.device)

    counts = targets.bincount(minlength=len(classifier.labels))
    weights = len(targets) / (len(counts) * counts) if train.class_weight == "balanced" else None

    def losses(batch: TextNumbers, output: Output) -> Tensor:
        # In 32 bits even where the network computes in 16: answers that are nearly alike must not tie.
        return functional.cross_entropy(output.logits.float(), targets[batch.numbers], weights, reduction="none")

    loss = make_loss(classifier, inputs, losses, train)
    validate = _make_validate(classifier, dev_inputs, [label for _, label in data.dev])
    return TrainingJob(classifier, inputs, loss, validate, train, context, texts_of_epoch=data.numbers)


def encode(network: Network, texts: Sequence[Text], config: TrainConfig, context: RunContext) -> CachedInputs:
    """Tokenize texts that training reads many times, and run the frozen layers over them once."""
    dtype = torch.bfloat16 if uses_bf16(config, network.device) else torch.float32
    return cache_inputs(network, network.tokenizer(texts), context.store(config), dtype, context.progress)


class TextNumbers(NamedTuple):
    """The texts of a batch. Both tensors have the shape (texts,)."""

    numbers: Tensor
    counted: Tensor
    """False for what fills a batch of a fixed shape: there the first text is read, and counts for nothing."""
    width: int
    """Tokens of the longest text."""


def make_loss(
    network: Network, inputs: CachedInputs, losses: Callable[[TextNumbers, Any], Tensor], config: TrainConfig
) -> Loss:
    """Make the loss of the training loop from a function that computes the loss of each text.

    :param losses: Takes the numbers of the texts, and the output of the network for them.
    """
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
    """Make the function that measures dev macro-F1.

    :param inputs: This process's share of the texts.
    """

    def validate() -> float:
        probabilities = classifier.probabilities_of(inputs.table, collate=inputs.collate)
        if not np.isfinite(probabilities).all():
            raise ValueError("Training diverged: probabilities are not finite. Lower the learning_rate.")
        predicted = process_group().gather(probabilities.argmax(1).tolist())
        return macro_f1(gold, [classifier.labels[number] for number in predicted], classifier.labels)

    return validate

"""A gate and a reader trained together, for methods that choose words while they learn to classify."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fresh.attribution.support_model import text_of
from fresh.data.splits import Splits
from fresh.document import Document
from fresh.methods.gate_config import GateConfig
from fresh.methods.rationales import check_rationales, targets
from fresh.methods.result import MethodResult, settings_record
from fresh.methods.trial import DevEvaluator
from fresh.nn.batch import NO_WORD, Batch, Gather, IntArray
from fresh.nn.classifier import Classifier
from fresh.nn.heads import word_mask
from fresh.nn.token_classifier import Kind, TokenClassifier, WordValues
from fresh.nn.tokenizer import LongPolicy, WordTokenizer
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.extractors import SaliencyExtractor
from fresh.selection.tagger import Tagger, positive_weight, tag_losses
from fresh.selection.tagger import build_tagger as build_gate
from fresh.training.checkpoint import load_finished
from fresh.training.feature_cache import CachedInputs
from fresh.training.fit import build as build_reader
from fresh.training.fit import describe, run_frozen
from fresh.training.loop import RunContext, TrainingJob, fit, inference_precision, uses_bf16
from fresh.training.step import Loss, RunningMean

NOTHING, EVERYTHING = 0.1, 0.95
"""Share of the ratio, and of all words, below and above which a gate has collapsed."""


class JointModel(nn.Module):
    """A network that chooses words, and one that reads nothing else."""

    def __init__(self, gate: TokenClassifier, reader: Classifier, account: "RunningState") -> None:
        super().__init__()
        self.gate = gate
        self.reader = reader
        self.moving: Tensor
        self.register_buffer("moving", torch.zeros(account.n_numbers, device=gate.device))
        self.tally = RunningMean(lambda now: _follow(self.moving, account, now), gate.device)

    def train(self, mode: bool = True) -> Self:
        """Switch dropout on or off in both."""
        self.training = mode
        self.gate.train(mode)
        self.reader.train(mode)
        return self


@dataclass(frozen=True, slots=True)
class GateOutputs:
    """Some training texts as the gate sees them, and what is known of them."""

    numbers: Tensor
    """Which texts; those below 0 count for nothing."""
    outputs: Tensor
    """What the gate says of each word. Shape: (texts, words, outputs)."""
    n_words: Tensor
    answers: Tensor
    """The number of the right label. Shape: (texts,)."""
    reduce: Callable[[Tensor], Batch]
    """Puts the texts side by side with the words that are kept and no others."""

    @property
    def there(self) -> Tensor:
        """Where there are words. Shape: (texts, words)."""
        return word_mask(self.n_words, self.outputs.shape[1])

    def mean(self, values: Tensor) -> Tensor:
        """Average over the texts that count.

        :param values: One a text. Shape: (texts,).
        """
        count = self.numbers >= 0
        return torch.where(count, values, 0).sum() / count.sum().clamp(min=1)


Cost = Callable[[JointModel, GateOutputs], Tensor]
"""Computes the loss of each text, of gate and reader together. Shape: (texts,)."""


@dataclass(frozen=True, slots=True)
class RunningState:
    """Numbers that a gate keeps from step to step, such as a moving mean."""

    n_numbers: int
    step: Callable[[Tensor, Tensor], Tensor]
    """Says what they are after a step: the numbers before it, and the mean over its texts of what is tallied."""


def _follow(moving: Tensor, account: RunningState, now: Tensor) -> None:
    """Bring the numbers up to date."""
    moving.copy_(account.step(moving.clone(), now))


@dataclass(frozen=True, slots=True)
class GateObjective:
    """What tells one method with a gate from another."""

    name: str
    kind: Kind
    """What the gate says of each word."""
    cost: Cost
    account: RunningState


def train_joint(splits: Splits, config: GateConfig, scheme: GateObjective, context: RunContext) -> MethodResult:
    """Train a gate and a reader together, and see what they do."""
    model, extractor = learn_joint(splits, config, scheme, context)
    return finished(splits, model, extractor, config, context.named(scheme.name))


def learn_joint(
    splits: Splits, config: GateConfig, scheme: GateObjective, context: RunContext, others: Sequence[str] = ()
) -> tuple[JointModel, SaliencyExtractor]:
    """Train a gate and a reader together; the state wins that does best on dev when the gate is cut to its length.

    :param others: Other discretizers; the state that does best when the gate is cut by one of them is kept too.
    """
    check_rationales(splits, config.human)
    long: LongPolicy = "stagger" if config.network.long == "truncate" else config.network.long
    reads = replace(config.classifier, network=replace(config.network, long=long))
    model = JointModel(build_gate(scheme.kind, config.classifier), build_reader(splits.labels, reads), scheme.account)
    extractor = SaliencyExtractor(Tagger(model.gate), config.make_discretizer())
    if not others and load_finished(context.named(scheme.name).kept, model, config.train.epochs, config.train.patience):
        return model, extractor
    gate = model.gate
    feature_store = context.feature_store or config.train.engine.feature_store()
    texts = [text_of(example.document) for example in splits.train]
    table = gate.words(texts)
    reading = run_frozen(gate, table, config.train, context, feature_store)
    trial = DevEvaluator(extractor, Predictor(model.reader), splits)
    job = TrainingJob(
        model,
        table.lengths,
        _make_loss(model, reading, splits, config, scheme.cost),
        trial.anew,
        config.train,
        context.named(scheme.name),
        reading.on,
        recordable=model.reader.windows.size is None,  # windows are laid out anew where the texts are
        roundable=False,  # with 16 bits, a gate in eight learnt nothing (docs/log.md)
        others={name: partial(trial.again, replace(config, discretizer=name).make_discretizer()) for name in others},
    )
    context.progress.say(describe(gate, reading, job))
    fit(job)
    return model, extractor


def finished(
    splits: Splits, model: JointModel, extractor: SaliencyExtractor, config: GateConfig, context: RunContext
) -> MethodResult:
    """Put the model together, see which words it keeps, and whether its gate says anything."""
    documents, dev_documents = ([example.document for example in part] for part in (splits.train, splits.dev))
    with inference_precision(model.gate, config.train):
        share = _kept_share(model.gate, dev_documents)
    note = _collapse(share, config.one_ratio)
    if note is not None:
        context.note(note)
    asks = bool(splits.train[0].document.query)
    made = Rationalizer(extractor, Predictor(model.reader), settings_record(config, context.name), asks)
    masks, dev_masks = (partial(extractor.extract, part) for part in (documents, dev_documents))
    return MethodResult(made, masks, dev_masks, kept_by_gate=share)


def _kept_share(gate: TokenClassifier, documents: Sequence[Document]) -> float:
    """Compute which share of the words that a gate reads it is likely to keep, before it is cut to its length."""
    table = gate.words([text_of(document) for document in documents])
    likely: list[float] = []

    def work(_numbers: IntArray, batch: Batch) -> None:
        outputs, n_words = gate(batch)
        likely.append(float((gate.keep_logits(outputs).sigmoid() * word_mask(n_words, outputs.shape[1])).sum()))

    with torch.inference_mode():
        gate.work_through(table, work)
    return sum(likely) / max(1, int(table.n_read.sum()))


def _collapse(share: float, ratio: float) -> str | None:
    """Say so if a gate keeps next to nothing, or all, before it is cut to its length."""
    if NOTHING * ratio <= share <= max(EVERYTHING, ratio):
        return None
    what = "next to nothing" if share < NOTHING * ratio else "nearly everything"
    return (
        f"The gate has collapsed: before the cut it keeps {what} ({share:.1%} of the words of dev), so the cut decides "
        "which words are read. Try another seed, or other settings (fresh search)."
    )


def _make_loss(model: JointModel, reading: CachedInputs, splits: Splits, config: GateConfig, cost: Cost) -> Loss:
    """Make the function that sums the losses of some training texts; a number below 0 stands for no text."""
    gate, reader, device = model.gate, model.reader, model.gate.device
    half = uses_bf16(config.train, device)
    labels = torch.tensor([splits.labels.index(example.label) for example in splits.train], device=device)
    texts = [text_of(example.document) for example in splits.train]
    encode = None if reader.windows.size is None else reader.words.reduced(texts)
    people = _supervision(splits, config, gate)

    def loss(numbers: Tensor, width: int, dense: bool) -> Tensor:
        chosen = numbers.clamp(min=0)
        there = chosen.to(device)  # for a text that counts for nothing, the first is read

        def reduce(kept: Tensor) -> Batch:
            if encode is None:
                return _without(reading.pieces.batch(there, width, dense), kept, reader.words)
            table = encode(there.cpu().numpy(), kept.cpu().numpy())
            return Gather(table, device, reader.padding)(np.arange(len(table)))

        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            outputs, n_words = gate(reading.take(chosen, width, dense))
            losses = cost(model, GateOutputs(numbers.to(device), outputs, n_words, labels[there], reduce))
        if people is not None:
            losses = losses + people(there, outputs, n_words)
        return (losses * (numbers >= 0).to(device)).sum()

    return loss


def _without(batch: Batch, kept: Tensor, words: WordTokenizer) -> Batch:
    """Take the words out of texts that are not kept, and close the gaps.

    :param kept: One flag a word. Shape: (texts, words).
    """
    own = batch.word_of != NO_WORD
    place = batch.word_of.clamp(min=0)
    stays = batch.mask.bool() & (~own | kept.gather(1, place))
    order = torch.argsort((~stays).to(torch.int8), dim=1, stable=True)  # what stays comes first, in its order
    n_left = stays.sum(1, keepdim=True)
    if not (order.is_cuda and torch.cuda.is_current_stream_capturing()):  # a step that is recorded has a fixed width
        order = order[:, : int(n_left.max())]
    steps = torch.arange(order.shape[1], device=order.device)
    mask = steps < n_left
    far = n_left.clamp(min=words.n_positions)
    positions = torch.where(mask, steps * words.n_positions // far, 0) + words.first_position
    numbers = torch.where(own, (kept.long().cumsum(1) - 1).gather(1, place), NO_WORD)  # words are counted anew
    ids, types, owners = (
        torch.where(mask, values.gather(1, order), filling)
        for values, filling in ((batch.ids, words.tokenizer.pad_token_id or 0), (batch.types, 0), (numbers, NO_WORD))
    )
    return Batch(positions, mask.long(), False, owners, ids, types)


def _supervision(
    splits: Splits, config: GateConfig, gate: TokenClassifier
) -> Callable[[Tensor, Tensor, Tensor], Tensor] | None:
    """Make the loss of a gate against people's rationales, where there are any to learn from."""
    if not config.human:
        return None
    masks = targets(splits.train, None, config.human, config.train.seed)
    pairs = zip(masks, splits.train, strict=True)
    rows = [np.zeros(len(item.document.words)) if mask is None else mask.kept for mask, item in pairs]
    wanted = WordValues.of(rows, gate.device)
    known = torch.tensor([mask is not None for mask in masks], device=gate.device)
    weight = torch.tensor(positive_weight([mask for mask in masks if mask is not None]), device=gate.device)

    def losses(numbers: Tensor, outputs: Tensor, n_words: Tensor) -> Tensor:
        logits = gate.keep_logits(outputs)
        found = tag_losses(gate, logits, wanted.take(numbers, logits.shape[1]), n_words, weight)
        return found * known[numbers]

    return losses


def cross_entropies(reader: Classifier, batch: Batch, answers: Tensor) -> Tensor:
    """Compute how wrong the reader is about each text. Shape: (texts,)."""
    return functional.cross_entropy(reader(batch).logits.float(), answers, reduction="none")


def changes(kept: Tensor, n_words: Tensor) -> Tensor:
    """Add up how much words differ from the one before, over one less than there are. Shape: (texts,)."""
    both = word_mask(n_words, kept.shape[1])[:, 1:]
    return ((kept[:, 1:] - kept[:, :-1]).abs() * both).sum(1) / (n_words - 1).clamp(min=1)

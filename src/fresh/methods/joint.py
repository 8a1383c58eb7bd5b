"""A gate and a reader trained together, for methods that learn to choose words and to classify at the same time."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from fresh.attribution.support_model import text_of
from fresh.data.splits import Splits
from fresh.document import Document, Saliency
from fresh.methods.config import GateConfig
from fresh.methods.rationales import check_rationales, tagger_targets
from fresh.methods.registry import MethodResult, make_rationalizer
from fresh.metrics.classification import macro_f1
from fresh.nn.batch import NO_WORD, Batch, IntArray
from fresh.nn.classifier import Classifier
from fresh.nn.heads import word_mask
from fresh.nn.token_classifier import Kind, TokenClassifier
from fresh.nn.tokenizer import WordTokenizer
from fresh.predictor import Predictor, reading_every_word
from fresh.selection.discretizers import Discretizer
from fresh.selection.extractors import SaliencyExtractor, select_masks
from fresh.selection.tagger import Tagger, make_tag_losses
from fresh.training.checkpoint import load_finished
from fresh.training.distributed import process_group
from fresh.training.feature_cache import CachedInputs
from fresh.training.fit import TextNumbers, build, encode, make_loss
from fresh.training.loop import RunContext, TrainingJob, fit, inference_precision, uses_bf16
from fresh.training.step import RunningMean

# Share of the ratio, and of all words, below and above which a gate has collapsed.
_NOTHING, _EVERYTHING = 0.1, 0.95


@dataclass(frozen=True, slots=True)
class GateOutputs:
    """The gate's outputs for a batch of training texts. Tensors have the shape (texts,) unless stated otherwise."""

    outputs: Tensor  # (texts, words, outputs)
    n_words: Tensor
    labels: Tensor  # the numbers of the gold labels
    counted: Tensor  # False for a text that only fills the batch
    reduce: Callable[[Tensor], Batch]  # makes a batch of the kept words only, from flags of shape (texts, words)

    @property
    def is_word(self) -> Tensor:
        """Where there are words. Shape: (texts, words)."""
        return word_mask(self.n_words, self.outputs.shape[1])

    def mean(self, values: Tensor) -> Tensor:
        """Average over the texts that count."""
        return torch.where(self.counted, values, 0).sum() / self.counted.sum().clamp(min=1)


class JointModel(nn.Module, ABC):
    """A gate that chooses words, and a reader that reads only these; each method is a subclass."""

    name: ClassVar[str]
    kind: ClassVar[Kind]  # the outputs of the gate for each word
    n_moving: ClassVar[int]  # how many numbers the gate carries from step to step, such as a moving average

    def __init__(self, gate: TokenClassifier, reader: Classifier, config: GateConfig) -> None:
        super().__init__()
        self.gate = gate
        self.reader = reader
        self.config = config
        self.moving: Tensor  # a checkpoint saves buffers of this name
        self.register_buffer("moving", torch.zeros(self.n_moving, device=gate.device))
        self.running_mean = RunningMean(self.update_moving, gate.device)

    @abstractmethod
    def loss(self, gated: GateOutputs) -> Tensor:
        """Compute the loss of each text, of gate and reader together. Shape: (texts,)."""

    @abstractmethod
    def update_moving(self, mean: Tensor, /) -> None:
        """Update the numbers in `moving` at the end of a step, from the mean of `running_mean`."""


def train_joint(method: type[JointModel], splits: Splits, config: GateConfig, context: RunContext) -> MethodResult:
    """Train a gate and a reader together, make a rationalizer of them, and warn if the gate has collapsed."""
    model, extractor = fit_joint(method, splits, config, context)
    documents, dev_documents = ([example.document for example in part] for part in (splits.train, splits.dev))
    with inference_precision(model.gate, config.train):
        share = kept_share(model.gate, dev_documents)
    lowest, highest = _NOTHING * config.one_ratio, max(_EVERYTHING, config.one_ratio)
    if not lowest <= share <= highest:
        kept = "next to nothing" if share < lowest else "nearly everything"
        context.warn(
            f"The gate has collapsed: before the cut it keeps {kept} ({share:.1%} of the words of dev), so the cut "
            "decides which words are read. Try another seed, or other settings (fresh search)."
        )
    made = make_rationalizer(model.name, splits, config, extractor, Predictor(model.reader))
    masks, dev_masks = (partial(extractor.extract, part) for part in (documents, dev_documents))
    return MethodResult(made, masks, dev_masks, kept_by_gate=share)


def fit_joint(
    method: type[JointModel], splits: Splits, config: GateConfig, context: RunContext, others: Sequence[str] = ()
) -> tuple[JointModel, SaliencyExtractor]:
    """Train a gate and a reader together; the best epoch is the one with the best dev macro-F1 after the cut.

    :param others: Other discretizers. The state that is best when cut by one of them is saved too.
    """
    check_rationales(splits, config.human)
    train, context = config.train, context.with_name(method.name)
    reader = build(Classifier, splits.labels, reading_every_word(config))
    model = method(build(TokenClassifier, method.kind, config), reader, config)
    extractor = SaliencyExtractor(Tagger(model.gate), config.make_discretizer())
    # With other discretizers, `fit` also checks whether their states exist.
    if not others and load_finished(context.checkpoint_path, model, train.epochs, train.patience):
        return model, extractor
    inputs = encode(model.gate, [text_of(example.document) for example in splits.train], train, context)
    predictor, gold = Predictor(model.reader), [example.label for example in splits.dev]
    documents: Sequence[Document] = process_group().shard([example.document for example in splits.dev])
    saliencies: list[Saliency] = []

    def validate() -> float:
        saliencies[:] = extractor.score(documents)
        return measure(extractor.discretizer)

    def measure(discretizer: Discretizer) -> float:
        masks = select_masks(discretizer, saliencies)
        rationales = [document.cut(mask) for document, mask in zip(documents, masks, strict=True)]
        predicted = process_group().gather([item.label for item in predictor.predict(rationales)])
        return macro_f1(gold, predicted, splits.labels)

    job = TrainingJob(
        model,
        inputs,
        make_loss(model.gate, inputs, make_losses(model, inputs, splits), train),
        validate,
        train,
        context,
        # With 16-bit weights, one gate in eight learned nothing: macro-F1 of Lei et al. on SST, .684 against .811 with
        # exact ones, which cost a gate an eighth of its time.
        can_round=False,
        other_measures={
            name: partial(measure, replace(config, discretizer=name).make_discretizer()) for name in others
        },
    )
    fit(job)
    return model, extractor


def kept_share(gate: TokenClassifier, documents: Sequence[Document]) -> float:
    """Compute the share of words that a gate is expected to keep before the cut, of those that it reads."""
    table = gate.tokenizer([text_of(document) for document in documents])
    expected: list[float] = []

    def work(_numbers: IntArray, batch: Batch) -> None:
        outputs, n_words = gate(batch)
        expected.append(float((gate.keep_logits(outputs).sigmoid() * word_mask(n_words, outputs.shape[1])).sum()))

    with torch.inference_mode():
        gate.for_each_batch(table, work)
    return sum(expected) / max(1, int(table.n_read.sum()))


def make_losses(
    model: JointModel, inputs: CachedInputs, splits: Splits
) -> Callable[[TextNumbers, tuple[Tensor, Tensor]], Tensor]:
    """Make the function that computes the loss of each training text."""
    reader, device = model.reader, model.gate.device
    bf16 = uses_bf16(model.config.train, device)
    labels = torch.tensor([splits.labels.index(example.label) for example in splits.train], device=device)
    texts = [text_of(example.document) for example in splits.train]
    encode_kept = None if reader.windows.size is None else reader.tokenizer.encode_subsets(texts)
    targets = tagger_targets(splits.train, None, model.config.human, model.config.train.seed)
    pairs = [(example.document, mask) for example, mask in zip(splits.train, targets, strict=True)]
    human_losses = make_tag_losses(model.gate, pairs) if model.config.human else None

    def losses(batch: TextNumbers, output: tuple[Tensor, Tensor]) -> Tensor:
        outputs, n_words = output

        def reduce(kept: Tensor) -> Batch:
            if encode_kept is None:
                return drop_tokens(inputs.tokens.batch(batch.numbers, batch.width, False), kept, reader.tokenizer)
            return reader.collate(encode_kept(batch.numbers.cpu().numpy(), kept.cpu().numpy()))

        gated = GateOutputs(outputs, n_words, labels[batch.numbers], batch.counted, reduce)
        # Not inside the gate's forward pass, so autocast is turned on again for the reader.
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            each = model.loss(gated)
        return each if human_losses is None else each + human_losses(batch.numbers, outputs, n_words)

    return losses


def drop_tokens(batch: Batch, kept: Tensor, words: WordTokenizer) -> Batch:
    """Drop all but the kept words (shape: (texts, words)) from a batch, as `Document.cut` and the tokenizer would."""
    in_word = batch.word_of != NO_WORD
    word = batch.word_of.clamp(min=0)
    stays = batch.mask.bool() & (~in_word | kept.gather(1, word))
    # Tokens that stay come first, in their order.
    order = torch.argsort((~stays).to(torch.int8), dim=1, stable=True)
    n_left = stays.sum(1, keepdim=True)
    if not (order.is_cuda and torch.cuda.is_current_stream_capturing()):  # a CUDA graph has a fixed width
        order = order[:, : int(n_left.max())]
    steps = torch.arange(order.shape[1], device=order.device)
    mask = steps < n_left
    positions = torch.where(mask, steps * words.n_positions // n_left.clamp(min=words.n_positions), 0)
    renumbered = torch.where(in_word, (kept.long().cumsum(1) - 1).gather(1, word), NO_WORD)
    paddings = ((batch.ids, words.tokenizer.pad_token_id or 0), (batch.types, 0), (renumbered, NO_WORD))
    ids, types, word_of = (torch.where(mask, values.gather(1, order), padding) for values, padding in paddings)
    return Batch(ids, types, positions + words.first_position, word_of, mask.long(), dense=False)


def cross_entropies(reader: Classifier, batch: Batch, labels: Tensor) -> Tensor:
    """Compute the cross-entropy of each text. Shape: (texts,)."""
    return functional.cross_entropy(reader(batch).logits.float(), labels, reduction="none")


def mean_changes(keep: Tensor, n_words: Tensor) -> Tensor:
    """Average the probability that neighboring words differ. Shape: (texts,).

    :param keep: The probability that each word is kept; 0 or 1 for a sample. Shape: (texts, words).
    """
    before, after = keep[:, :-1], keep[:, 1:]
    differ = after * (1 - before) + before * (1 - after)
    return (differ * word_mask(n_words, keep.shape[1])[:, 1:]).sum(1) / (n_words - 1).clamp(min=1)
